"""`tmt plan` against what training then does."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from transformer_mt.config.experiment import Config, TrainConfig
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.pipeline.train import train_experiment
from transformer_mt.profiling.plan import make_plan, time_of_updates
from transformer_mt.rendering.progress import Stages
from transformer_mt.system.terminal import columns_of

N_UPDATES = 6


@pytest.fixture(scope="module")
def cfg(experiment: Callable[..., Config]) -> Config:
    """Two sources, one of them seen more often; sub-words drawn anew."""
    train = {"max_tokens": 300, "tokens_per_update": 500, "precision": "fp32", "log_every": 1,
             "max_updates": N_UPDATES, "validate_every": 4}  # fmt: skip
    sources = ["a", {"path": "b", "weight": 2.5}]
    decode = {"beam": 1, "max_length_ratio": 0.1}
    return experiment(sources, {"sampling": 0.1}, train=train, decode=decode)


def test_training_does_what_was_planned(
    cfg: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    plan = make_plan(cfg, processes=1, budget_s=0.2)
    assert list(Path().iterdir()) == [], "a plan leaves nothing behind"

    run = Run(tmp_path / "run")
    metadata = train_experiment(cfg, run, fresh=False, say=print)
    records = [json.loads(line) for line in run.metrics_path.read_text().splitlines()]
    last = [record for record in records if record["event"] == "train"][-1]
    assert plan.updates == metadata["trained"]["updates"] == N_UPDATES
    assert plan.epochs == pytest.approx(last["epoch"], rel=1e-6)
    assert plan.updates_per_epoch == round(N_UPDATES / last["epoch"])
    assert plan.hours > plan.training_hours > 0
    assert plan.preparation_minutes > 0

    again = make_plan(cfg, run, processes=1, budget_s=0.2)
    assert (again.corpus, again.preparation_minutes) == ("prepared", 0)
    for key in ("pairs_per_epoch", "src_tokens_per_epoch", "tgt_tokens_per_epoch", "updates"):
        assert getattr(again, key) == getattr(plan, key), key


def test_a_plan_can_be_read_by_people_and_programs(
    cfg: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: list[str] = []

    class Told(Stages):
        def begin(self, stage: str, total: float | None = None) -> None:
            stages.append(stage)

    plan = make_plan(cfg, Run(tmp_path), processes=2, budget_s=0.2, stages=Told())
    assert [stage.split()[0] for stage in stages] == [
        *["reading"] * 4, "preparing", "measuring", "looking"
    ]  # fmt: skip
    assert max(map(columns_of, plan.render().split("\n"))) <= 80
    text, values = " ".join(plan.render().split()), json.loads(json.dumps(asdict(plan)))
    assert values["processes"] == 2 and "2 × " in text
    assert [source["pairs"] for source in values["sources"]] == [120, 60, 20, 20]
    assert f"{values['tgt_tokens_per_epoch']:,} target tokens" in text
    assert "weight 2.5" in text and "preparation about" in text
    assert values["sources"][0]["mib"] > 0
    assert "--set model.d_model=128" in text, "advice can be typed"


@pytest.mark.parametrize(
    ("settings", "expected", "why"),
    [
        ({"max_updates": 100, "validate_every": 50}, (100, 220.0), "100 × 2 s + 2 × 10 s"),
        ({"max_updates": 100, "validate_every": 30}, (100, 240.0), "the last update, too"),
        ({"max_updates": 100, "validate_every": 50, "max_minutes": 9.0}, (100, 220.0), "in time"),
        ({"max_updates": 300, "validate_every": 50, "max_minutes": 5.5}, (150, 330.0), "half"),
        ({"max_updates": 300, "validate_every": 50, "max_minutes": 0.001}, (1, 0.06), "just one"),
    ],
)
def test_the_clock_counts_validations(
    settings: dict[str, float], expected: tuple[int, float], why: str
) -> None:
    train = TrainConfig.model_validate(settings)
    updates, seconds = time_of_updates(train, update_s=2.0, validation_s=10.0)
    assert (updates, seconds) == (expected[0], pytest.approx(expected[1])), why
