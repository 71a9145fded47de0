"""What differs between runs: settings, scores on dev, and finished translations, with significance.

Comes in: run directories, finished or not, also copied from elsewhere. Goes out: plain values and
tables. This file trains, translates and changes nothing.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from transformer_mt.config.experiment import Config, load_config
from transformer_mt.config.yaml_text import flattened
from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.errors import DataError, TmtError
from transformer_mt.evaluation.metrics import Scorer, SystemScores, fit_comparison, scores_to_json
from transformer_mt.evaluation.system_names import name_systems
from transformer_mt.evaluation.test_sets import EvaluationSet, read_dev_sets, read_test_sets
from transformer_mt.messages.catalogue import tr
from transformer_mt.pipeline.records import read_metrics
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.pipeline.run_list import (
    best_on_dev,
    last_update,
    model_metadata,
    shown_number,
    trained_updates,
)
from transformer_mt.rendering.cells import align_columns, clip
from transformer_mt.rendering.progress import Stages

_NOT_COMPARED = ("name", "data.root", "data.cache", "data.offline", "data.workers")
_RESOLVED = ("precision", "max_tokens")  # auto in a run, and then something else in its model
_LONGEST_VALUE = 40  # columns of a setting in a table


@dataclass(frozen=True)
class RunComparison:
    """Two or more runs; the first is the baseline.

    Attributes:
        settings: key → the value of each run, where they differ.
        dev: run → the best values on its dev set.
        scores: test set → run → metric → score, of test sets with the same references.
        notes: sets that cannot be compared, and why.
    """

    runs: list[str]
    settings: dict[str, list[Any]]
    dev: dict[str, dict[str, float]]
    scores: dict[str, SystemScores]
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "scores": scores_to_json(self.scores)}


def compare_runs(
    directories: Sequence[Path], *, n_samples: int = 1000, stages: Stages | None = None
) -> RunComparison:
    """What differs between runs: settings, and scores of the translations that they keep.

    Args:
        n_samples: of the bootstrap.
        stages: told of the test sets as they are scored.
    Raises:
        TmtError: fewer than two, or one that is no run.
    """
    if len(directories) < 2:
        raise TmtError(tr("name two runs or more: tmt compare runs/one runs/two"))
    runs = [Run(path) for path in directories]
    for run in runs:
        run.insist()
    names = [system.name for system in name_systems([(run.directory, True) for run in runs])]
    configs = [_trained_config(run) for run in runs]
    scores: dict[str, SystemScores] = {}
    notes: list[str] = []
    tests = [_finished_tests(run, cfg) for run, cfg in zip(runs, configs, strict=True)]
    for name in dict.fromkeys(name for found in tests for name in found):
        common = [found[name] for found in tests if name in found]
        if problem := _why_not_comparable(common, len(runs)):
            notes.append(f"{name}: {problem}")
            continue
        if stages:
            stages.begin(tr("comparing on {}", name))
        test = common[0][0]
        outputs = {run: hyps for run, (_, hyps) in zip(names, common, strict=True)}
        scores[name] = Scorer(test.tgt).compare(outputs, test.refs, n=n_samples)
    dev = {
        name: best_on_dev(read_metrics(run.metrics_path))
        for name, run in zip(names, runs, strict=True)
    }
    if len({*map(_dev_references, runs, configs)} - {None}) > 1:
        notes.append(tr("dev: the runs have other sentences; their best values say little"))
    return RunComparison(names, _differences(configs), dev, scores, notes)


def _dev_references(run: Run, cfg: Config) -> tuple[str, ...] | None:
    """None: the run has no text."""
    if not (run.clean_dir / "dev.tgt").is_file():
        return None
    return tuple(ref for test in read_dev_sets(run.clean_dir, cfg.languages) for ref in test.refs)


def _trained_config(run: Run) -> Config:
    """With the settings that the model was trained with: others may have come without effect."""
    cfg, of_model = load_config(run.config_path), run.model_dir / "config.yaml"
    with suppress(DataError):  # there is a model, but a damaged one
        n_updates = last_update(read_metrics(run.metrics_path))
        if of_model.is_file() and n_updates <= trained_updates(model_metadata(run)):
            kept = {name: getattr(cfg.train, name) for name in _RESOLVED}
            trained = load_config(of_model).train.model_copy(update=kept)
            cfg = cfg.model_copy(update={"train": trained})
    return cfg


_Finished = tuple[EvaluationSet, list[str]]  # a test set with the translations of a run


def _finished_tests(run: Run, cfg: Config) -> dict[str, _Finished]:
    """The test sets that a run has translated with the weights of its last update, by name."""
    metadata: dict[str, Any] = {}
    with suppress(DataError):  # a damaged model
        metadata = model_metadata(run)
    n_updates = last_update(read_metrics(run.metrics_path))
    if not run.clean_dir.is_dir() or (metadata and trained_updates(metadata) < n_updates):
        return {}
    found = {}
    for test in read_test_sets(run.clean_dir, cfg.languages):
        path = run.translations_dir / f"{test.name}.txt"
        if path.is_file():
            found[test.name] = test, list(split_lines(path))
    return found


def _why_not_comparable(found: Sequence[_Finished], n_runs: int) -> str:
    if len(found) < n_runs:
        return tr("not translated by every run")
    tests = [(test.refs, test.tgt) for test, _ in found]
    if any(test != tests[0] for test in tests):
        return tr("the runs have other sentences under this name")
    if any(len(hyps) != len(test.refs) for test, hyps in found):
        return tr("the translations of a run are not of this test set; train it again to the end")
    return ""


def _differences(configs: Sequence[Config]) -> dict[str, list[Any]]:
    """Keys whose values differ, as in the file: `train.lr`."""
    flat = [dict(flattened(cfg.model_dump(mode="json"))) for cfg in configs]
    keys = dict.fromkeys(key for tree in flat for key in tree)
    found = {key: [tree.get(key) for tree in flat] for key in keys if key not in _NOT_COMPARED}
    return {key: values for key, values in found.items() if values != [values[0]] * len(values)}


def format_run_comparison(found: RunComparison, width: int | None = None) -> str:
    """Settings, one key per line; the best of dev; then the scores with their significance.

    Args:
        width: columns of a terminal, in which values are clipped; None: no limit.
    """
    rows = [[tr("setting"), *found.runs]]
    rows += [[key, *map(_value, values)] for key, values in found.settings.items()]
    parts = [_clipped_table(rows, width) if found.settings else tr("the settings are the same")]
    best = [[tr("best on dev"), *found.runs]]
    for key, label, digits in (("loss", tr("loss"), 3), ("bleu", "BLEU", 2), ("chrf", "chrF", 2)):
        best.append([label, *(shown_number(found.dev[run].get(key), digits) for run in found.runs)])
    parts.append(_clipped_table(best, width))
    if found.scores:
        parts.append(fit_comparison(found.scores, width))
    return "\n\n".join([*parts, *found.notes])


def _clipped_table(rows: Sequence[Sequence[str]], width: int | None) -> str:
    """The first column in full, the others clipped alike."""
    if width is not None:
        taken = max(cell_len(row[0]) for row in rows)
        room = max(4, (width - taken) // (len(rows[0]) - 1) - 2)
        rows = [[row[0], *(clip(cell, room) for cell in row[1:])] for row in rows]
    return align_columns(rows)


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clip(text, _LONGEST_VALUE)
