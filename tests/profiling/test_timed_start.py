"""A configuration and minutes: what is chosen, what stays, and what a second start takes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pairs_of_text import write_sides
from torch import Tensor

from transformer_mt.config.advice import apply_advice
from transformer_mt.config.experiment import Config, load_config, load_experiment
from transformer_mt.config.recipes import Budget, training_that_ends
from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling import timed_start
from transformer_mt.profiling.timed_start import (
    _update_seconds,
    configuration_for_minutes,
    measure_budget,
)
from transformer_mt.system.processes.distributed import ALONE
from transformer_mt.training import muon
from transformer_mt.training.checkpoint import CheckpointStore, Progress
from transformer_mt.training.muon import orthogonalise

SPEED = 7_000  # target tokens in a second, of a machine that is not measured
OWN = """
name: own-zh-en
languages: {src: zh, tgt: en}
data: {root: ., train: [my], dev: [], test: {}}
model: {d_model: 64, heads: 2, ffn: 128, encoder_layers: 2, decoder_layers: 1, dropout: 0.25}
train: {max_updates: 30, cooldown_updates: 10, warmup_updates: 5, validate_every: 10, average: 2}
decode: {beam: 3}
"""
Start = Callable[..., tuple[Path, Config, list[str]]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Choose, as `tmt train own.yaml --minutes M` does: file, configuration, what was said."""
    monkeypatch.chdir(tmp_path)
    write_sides(tmp_path / "my", build_demo().train[:400])
    Path("own.yaml").write_text(OWN, encoding="utf-8")
    monkeypatch.setattr(
        timed_start,
        "measure_budget",
        lambda cfg, minutes, *_: Budget(minutes, 60 * minutes * SPEED),
    )

    def choose(minutes: float, *overrides: str, **options: bool) -> tuple[Path, Config, list[str]]:
        said: list[str] = []
        settings = [*overrides, f"train.max_minutes={minutes}"]
        made = configuration_for_minutes(
            "own.yaml", settings, minutes, processes=1, say=said.append, **options
        )
        reverse = options.get("reverse", False)
        return Path(made), load_experiment(made, settings, reverse=reverse), said

    return choose


def test_size_and_schedule_are_chosen_and_nothing_else(start: Start) -> None:
    path, cfg, said = start(4)
    own = load_config(Path("own.yaml"))
    assert path == Path("runs/own-zh-en/start.yaml")
    assert (cfg.data, cfg.tokenizer, cfg.decode, cfg.name) == (
        own.data, own.tokenizer, own.decode, own.name
    )  # fmt: skip
    assert (cfg.model.d_model, cfg.model.architecture, cfg.model.norm) == (128, "modern", "pre")
    assert (cfg.train.max_minutes, cfg.train.cooldown_updates) == (4, "auto")
    updates = 60 * 4 * SPEED / cfg.train.tokens_per_update
    assert cfg.train.warmup_updates < updates / 5 and cfg.train.max_updates > 50 * updates
    assert cfg.train.validate_every < updates / 7
    assert f"about {60 * 4 * SPEED:,} target tokens" in said[0]
    told = {line.split(":")[0].strip() for line in said[1:]}
    assert {"model.d_model", "model.dropout", "train.lr"} <= told
    assert "model.encoder_layers: 4" in path.read_text(encoding="utf-8").partition("\nname:")[0]


def test_settings_of_the_command_line_stay(start: Start) -> None:
    _, cfg, said = start(4, "model.dropout=0.15", "train.lr=1e-3", "seed=7")
    assert (cfg.model.dropout, cfg.train.lr, cfg.seed) == (0.15, 1e-3, 7)
    assert not any("dropout" in line or "train.lr" in line for line in said)


def test_the_other_direction_is_read_the_right_way_round(start: Start) -> None:
    path, cfg, _ = start(4, reverse=True)
    assert path == Path("runs/own-en-zh/start.yaml")
    assert cfg == load_experiment(path, ["train.max_minutes=4"], reverse=True)
    assert (cfg.languages.src, cfg.languages.tgt) == ("en", "zh")
    assert cfg.data.train[0].direction == "zh-en"


def test_a_training_that_has_begun_keeps_its_settings(start: Start) -> None:
    path, first, _ = start(4)
    CheckpointStore(path.parent / "checkpoints", {}).save(Progress(update=1), {}, {}, keep_last=1)
    again, cfg, said = start(40)
    assert again == path and said == [f"settings of the first start: {path}"]
    assert (cfg.train.max_minutes, cfg.train.validate_every) == (40, first.train.validate_every)
    _, fresh, _ = start(40, fresh=True)
    assert fresh.train.validate_every > first.train.validate_every
    path.unlink()
    plain, _, _ = start(40)
    assert plain == Path("own.yaml"), "it began without minutes"


@pytest.mark.parametrize(
    "setting", ["seed=7", "data.clean.empty=1", "tokenizer.vocab_size=900", "data.workers=1"]
)
def test_what_the_user_changes_later_is_not_passed_over(start: Start, setting: str) -> None:
    path, _, _ = start(4)
    CheckpointStore(path.parent / "checkpoints", {}).save(Progress(update=1), {}, {}, keep_last=1)
    if setting == "data.workers=1":  # where, not what
        assert start(4, setting)[0] == path
        return
    with pytest.raises(ConfigError, match=setting.partition("=")[0][:9]):
        start(4, setting)


@pytest.mark.parametrize("post", [True, False])
def test_a_model_that_keeps_post_norm_has_the_long_warm_up_of_the_paper(
    start: Start, monkeypatch: pytest.MonkeyPatch, post: bool
) -> None:
    """It diverges with a short one."""
    monkeypatch.setattr(timed_start, "measure_budget", lambda _, m, *__: Budget(m, 1e9))
    monkeypatch.setattr(timed_start, "_size_of", lambda *_: (2_000_000, 40_000_000))
    _, cfg, _ = start(60, *(["model.norm=post"] if post else []))
    if post:
        assert (cfg.train.lr, cfg.train.warmup_updates, cfg.model.norm) == ("paper", 4000, "post")
    else:
        assert cfg.model.modern and cfg.train.lr != "paper"


def test_a_folder_that_is_not_free_is_refused_before_the_work(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_start, "measure_budget", lambda *_: pytest.fail("timed"))
    Path("runs/own-zh-en").mkdir(parents=True)
    Path("runs/own-zh-en/thesis.txt").write_text("mine")
    with pytest.raises(TmtError, match=r"is not a run of tmt, and holds thesis.txt"):
        start(4)
    Path("runs/own-zh-en/thesis.txt").unlink()
    with (
        Run(Path("runs/own-zh-en")).held(),
        pytest.raises(TmtError, match="another tmt train is at work here"),
    ):
        start(4, fresh=True)


def test_only_transformers_have_settings_for_minutes(start: Start) -> None:
    with pytest.raises(ConfigError, match="for Transformers"):
        start(4, "model.architecture=rnn")


def test_processes_of_another_program_do_not_each_choose(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    torchrun = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    for name, value in torchrun.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="another program"):
        start(4)
    assert not Path("runs").exists()


def test_measured_updates_compute_with_no_subnormal_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are many times as slow, and in a training there are none."""
    n_subnormal: list[int] = []

    def counted(matrices: Tensor) -> Tensor:
        gram = (matrices @ matrices.mT).float().abs()
        n_subnormal.append(int(((gram > 0) & (gram < torch.finfo(torch.float32).tiny)).sum()))
        return orthogonalise(matrices)

    monkeypatch.setattr(muon, "orthogonalise", counted)
    named = load_config(Path("configs/multi30k-en-de.yaml"))
    advice = training_that_ends(
        10_000, 150_000, languages=named.languages, device="cpu", budget=Budget(9, 2.5e6)
    )
    small = named.model_copy(
        update={"tokenizer": named.tokenizer.model_copy(update={"vocab_size": 1000})}
    )
    cfg = apply_advice(small, advice, on_defaults=False)
    train = cfg.train.model_copy(update={"precision": "fp32"})
    (seconds,) = _update_seconds(cfg.model_copy(update={"train": train}), ALONE, [200])
    assert seconds > 0
    assert len(n_subnormal) >= 9 and not any(n_subnormal)


@pytest.mark.parametrize(
    ("n_pairs", "tgt_tokens", "minutes", "per_update"),
    [
        (29_000, 460_000, 0.5, 500),
        (29_000, 460_000, 4.4, 1900),
        (29_000, 460_000, 9.4, 3000),
        (5_000, 45_000, 9.4, 1500),
    ],
)
def test_the_expected_speed_is_that_of_the_updates_that_are_chosen(
    monkeypatch: pytest.MonkeyPatch,
    n_pairs: int,
    tgt_tokens: int,
    minutes: float,
    per_update: int,
) -> None:
    """An update takes 0.06 s, and 60 µs for each token."""
    monkeypatch.setattr(timed_start, "in_new_processes", lambda *_: [0.12, 0.24])
    cfg = load_config(Path("configs/multi30k-en-de.yaml"))
    budget = measure_budget(cfg, minutes, 2, n_pairs, tgt_tokens)
    advice = training_that_ends(
        n_pairs, tgt_tokens, languages=cfg.languages, device="cpu", budget=budget
    )
    chosen = {a.key: a.value for a in advice}["train.tokens_per_update"]
    seconds = 0.06 + 60e-6 * max(1000, chosen)
    assert chosen == per_update
    assert budget.tokens == pytest.approx(60 * minutes * 0.8 * chosen / seconds, rel=0.02)


@pytest.mark.parametrize("n_pairs", [29_000, 5_000_000])
@pytest.mark.parametrize("minutes", [1, 10, 240])
def test_on_a_gpu_the_expected_speed_is_that_of_the_model_that_is_chosen(
    monkeypatch: pytest.MonkeyPatch, n_pairs: int, minutes: float
) -> None:
    """An update takes 20 ms, and for each token and parameter of the layers 0.02 ps."""

    def seconds_of(cfg: Config, size: int) -> float:
        return 0.02 + 2e-14 * size * cfg.model.matrix_parameters

    def timed(work: Any, *_: object) -> list[float]:
        return [seconds_of(work.args[0], size) for size in work.keywords["sizes"]]

    monkeypatch.setattr(timed_start, "in_new_processes", timed)
    monkeypatch.setattr(timed_start, "kind_of_device", lambda: "cuda")
    cfg = load_config(Path("configs/multi30k-en-de.yaml"))
    tgt_tokens = 16 * n_pairs
    budget = measure_budget(cfg, minutes, 1, n_pairs, tgt_tokens)
    advice = training_that_ends(
        n_pairs, tgt_tokens, languages=cfg.languages, device="cuda", budget=budget
    )
    chosen = apply_advice(cfg, advice, on_defaults=False)
    speed = chosen.train.tokens_per_update / seconds_of(chosen, chosen.train.tokens_per_update)
    in_all = 60 * minutes * 0.8 * speed / chosen.train.tokens_per_update  # updates
    assert 8 * chosen.train.validate_every == pytest.approx(in_all, rel=0.05, abs=4)
    assert chosen.model.d_model == (128 if n_pairs < 100_000 or minutes <= 10 else 512)


def test_the_speed_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """In small updates, which are soon measured."""
    monkeypatch.setattr(timed_start, "_SIZES", (200, 400))
    cfg = load_config(Path("configs/tiny.yaml"))
    budget = measure_budget(cfg, 2, 1, 29_000, 460_000)
    assert budget.minutes == 2 and 120 * 50 < budget.tokens < 120 * 10**6
