"""Runs side by side: every state a run can be in, and honest comparisons."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from written_run import REFS, write_run

from transformer_mt.config.experiment import Config
from transformer_mt.errors import TmtError
from transformer_mt.pipeline.run_comparison import compare_runs, format_run_comparison
from transformer_mt.pipeline.run_list import format_states, run_states
from transformer_mt.rendering.progress import Stages


def changed(cfg: Config, **train: Any) -> Config:
    return cfg.model_copy(update={"train": cfg.train.model_copy(update=train)})


SCORES = {"toy": {"bleu": {"score": 31.234}, "chrf": {"score": 52.5}},
          "news": {"bleu": {"score": 20.0}}}  # fmt: skip


@pytest.fixture
def runs(toy_config: Config, tmp_path: Path) -> Path:
    """A finished run, one in training and one whose configuration is damaged."""
    write_run(tmp_path / "done", toy_config, hyps=REFS, model={"scores": SCORES})
    write_run(tmp_path / "going", toy_config)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.yaml").write_text("name: [")
    (tmp_path / "no-run").mkdir()
    for age, name in ((300, "done/metrics.jsonl"), (200, "going/metrics.jsonl")):
        os.utime(tmp_path / name, (10**9 - age, 10**9 - age))
    return tmp_path


def test_every_run_has_a_line_the_newest_first(runs: Path) -> None:
    broken, going, done = run_states(runs)
    assert broken.run == "broken" and broken.state.startswith("damaged: ")
    assert (going.run, going.state, going.tests) == ("going", "80 of 100,000", {})
    assert (done.state, done.minutes, done.languages) == ("finished", 8.0, "zh-en")
    assert done.dev == {"bleu": 12.5, "chrf": 25.0, "loss": pytest.approx(3.2)}
    assert done.tests == {"toy": {"bleu": 31.234, "chrf": 52.5}, "news": {"bleu": 20.0}}
    assert done.changed == "2001-09-09"
    json.dumps([state.to_json() for state in (broken, going, done)])
    text = format_states([going, done])
    lines = [line.split() for line in text.split("\n")]
    assert lines[2] == "done zh-en finished 8.0 12.50 toy 31.23 52.50 2001-09-09".split()
    assert lines[3] == ["news", "20.00", "–"], "a further test set has a line"


def test_a_run_is_no_folder_of_runs(runs: Path) -> None:
    shutil.copy(runs / "done/config.yaml", runs / "done/model/config.yaml")
    with pytest.raises(TmtError) as refused:
        run_states(runs / "done")
    told = f"{runs / 'done'}: is one run; its folder lists it: tmt runs {runs}"
    assert str(refused.value) == told


def test_translations_of_an_older_model_are_not_compared(
    toy_config: Config, tmp_path: Path
) -> None:
    """A finished run that goes on: its model is of update 40, its metrics go on to 80."""
    a = write_run(tmp_path / "a", toy_config, hyps=REFS)
    old = {"scores": SCORES, "trained": {"updates": 40}}
    b = write_run(tmp_path / "b", toy_config, hyps=REFS, model=old)
    found = compare_runs([a, b], n_samples=10)
    assert found.scores == {} and found.notes == ["toy: not translated by every run"]
    (b / "model" / "metadata.json").write_text("{")
    assert compare_runs([a, b], n_samples=10).scores.keys() == {"toy"}, "a damaged model ends none"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_list_fits_the_terminal(runs: Path, toy_config: Config, width: int) -> None:
    model = {"scores": SCORES}
    write_run(runs / ("a-very-long-name-of-a-run-" * 3), toy_config, model=model)
    text = format_states(run_states(runs), width)
    assert max(map(cell_len, text.split("\n"))) <= width
    assert "31.23" in text and "done" in text and "finished" in text


def test_a_run_that_is_trained_on_is_not_finished(toy_config: Config, tmp_path: Path) -> None:
    for updates, is_finished in ((80, True), (40, False)):
        model = {"trained": {"updates": updates}}
        write_run(tmp_path / str(updates) / "run", toy_config, model=model)
        (state,) = run_states(tmp_path / str(updates))
        assert state.finished == is_finished and (state.state == "finished") == is_finished


def test_no_runs_is_said(tmp_path: Path) -> None:
    with pytest.raises(TmtError, match=r"no runs here; train one with: tmt train tiny"):
        run_states(tmp_path / "runs")


def test_runs_are_compared_with_the_first(toy_config: Config, tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", toy_config, hyps=REFS)
    worse = [ref.replace("old house", "x") for ref in REFS]
    b = write_run(tmp_path / "b", changed(toy_config, lr=0.005, patience=None), hyps=worse)
    stages: list[str] = []

    class Told(Stages):
        def begin(self, stage: str, total: float | None = None) -> None:
            stages.append(stage)

    found = compare_runs([a, b], n_samples=100, stages=Told())
    assert found.settings == {"train.lr": ["paper", 0.005], "train.patience": [10, None]}
    assert found.dev["b"]["bleu"] == 12.5 and stages == ["comparing on toy"]
    bleu = found.scores["toy"]["b"]["bleu"]
    assert bleu.difference is not None and bleu.difference < 0
    assert bleu.p_value is not None and bleu.p_value < 0.05
    plain = json.loads(json.dumps(found.to_json()))
    assert plain["scores"]["toy"]["b"]["bleu"]["difference"] == bleu.difference
    text = format_run_comparison(found, 80)
    assert "train.lr" in text and "0.005" in text and "12.50" in text


@pytest.mark.parametrize(
    ("hyps", "refs", "note"),
    [
        (None, REFS, "toy: not translated by every run"),
        (REFS, ["other"] * 12, "toy: the runs have other sentences under this name"),
        (REFS[:3], REFS, "toy: the translations of a run are not of this test set"),
    ],
)
def test_what_cannot_be_compared_is_said(
    hyps: list[str] | None, refs: list[str], note: str, toy_config: Config, tmp_path: Path
) -> None:
    a = write_run(tmp_path / "a", toy_config, hyps=REFS)
    b = write_run(tmp_path / "b", toy_config, hyps=hyps, refs=refs)
    found = compare_runs([a, b], n_samples=10)
    assert found.scores == {} and found.notes[0].startswith(note)
    assert "the settings are the same" in format_run_comparison(found)


def test_dev_sets_of_other_sentences_are_told(toy_config: Config, tmp_path: Path) -> None:
    paths = [write_run(tmp_path / name, toy_config) for name in "ab"]
    for path, line in zip(paths, ("one\n", "one\n"), strict=True):
        for side in ("src", "tgt"):
            (path / f"data/clean/dev.{side}").write_text(line)
    assert not any("dev" in note for note in compare_runs(paths).notes)
    (paths[1] / "data/clean/dev.tgt").write_text("another\n")
    assert any(note.startswith("dev: the runs have other") for note in compare_runs(paths).notes)


def test_settings_of_long_values_fit_the_terminal(toy_config: Config, tmp_path: Path) -> None:
    names = [f"run-{i}-with-a-long-name" for i in range(4)]
    paths = [
        write_run(tmp_path / name, changed(toy_config, adam_betas=[0.9, 0.98 + i / 1000]))
        for i, name in enumerate(names)
    ]
    lines = format_run_comparison(compare_runs(paths), 80).split("\n")
    assert max(map(cell_len, lines)) <= 80


def test_one_run_is_no_comparison(toy_config: Config, tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", toy_config)
    with pytest.raises(TmtError, match="name two runs or more"):
        compare_runs([a])
    with pytest.raises(TmtError, match=r"not a run: config.yaml is missing; tmt runs lists"):
        compare_runs([a, tmp_path])
