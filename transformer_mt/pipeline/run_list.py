"""Runs side by side: their states, and what differs between them.

Comes in: run directories, finished or not, also copied from elsewhere. Goes out: plain values and
tables. This file trains, translates and changes nothing.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import compress
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from transformer_mt.config.experiment import Config, load_config
from transformer_mt.config.yaml_text import flattened
from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.errors import DataError, TmtError
from transformer_mt.evaluation.metrics import Scorer, SystemScores, fit_comparison
from transformer_mt.evaluation.system_names import name_systems
from transformer_mt.evaluation.test_sets import EvaluationSet, read_test_sets
from transformer_mt.messages.catalogue import tr
from transformer_mt.pipeline.records import read_metrics
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.rendering.cells import align_columns, clip
from transformer_mt.rendering.progress import Stages
from transformer_mt.system.state import Damaged, read_json

_NOT_COMPARED = ("name", "data.root", "data.cache", "data.offline", "data.workers")
_RESOLVED = ("precision", "max_tokens")  # auto in a run, and then something else in its model
_LONGEST_VALUE = 40  # columns of a setting in a table
_MINUTES, _DEV = tr("min"), tr("dev BLEU")
_COLUMNS = (
    tr("run"), tr("pair"), tr("state"), _MINUTES, _DEV, tr("test"), "BLEU", "chrF", tr("last"),
)  # fmt: skip
_LEAST_IMPORTANT = (tr("last"), "chrF", _MINUTES, tr("pair"), _DEV)  # left out first, in this order


@dataclass(frozen=True)
class RunState:
    """A line of the list of runs."""

    run: str
    languages: str
    state: str  # finished; or the last update, and the number of all; or a problem
    minutes: float | None  # of training
    dev: dict[str, float]  # the best BLEU and chrF, and the lowest loss
    tests: dict[str, dict[str, float]]  # test set → metric → score
    changed: str  # the day of the last record, UTC
    update: int = 0  # the last one
    max_updates: int | None = None  # None: the configuration cannot be read
    finished: bool = False  # there is a model of the last update

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def run_states(directory: Path) -> list[RunState]:
    """The runs in a folder, the newest first; one that cannot be read has its problem as state.

    Raises:
        TmtError: there is none.
    """
    runs = list(runs_in(directory))
    if not runs and Run(directory).config_path.is_file():
        shown = directory.parent if directory.name else directory.absolute().parent
        raise TmtError(tr("{}: is one run; its folder lists it: tmt runs {}", directory, shown))
    if not runs:
        raise TmtError(tr("{}: no runs here; train one with: tmt train tiny", directory))
    newest_first = sorted(runs, key=changed_at, reverse=True)
    return [state_of(run, read_metrics(run.metrics_path)) for run in newest_first]


def runs_in(directory: Path) -> Iterator[Run]:
    """Folders with the configuration of a run; a model directory has one as well."""
    paths = directory.glob("*/config.yaml")
    return (Run(path.parent) for path in paths if not path.with_name("metadata.json").is_file())


def changed_at(run: Run) -> float:
    """When the last record was written, in seconds since 1970. Raises: OSError."""
    path = run.metrics_path if run.metrics_path.exists() else run.config_path
    return path.stat().st_mtime


def state_of(run: Run, records: Sequence[Mapping[str, Any]]) -> RunState:
    """The state of a run with these records, as `read_metrics` has them. Raises: OSError."""
    day = datetime.fromtimestamp(changed_at(run), UTC).date().isoformat()
    name = run.directory.name
    try:
        cfg, metadata = load_config(run.config_path), _metadata(run)
        tests = _test_scores(run, metadata)
    except TmtError as error:
        return RunState(name, "", tr("damaged: {}", error), None, {}, {}, day)
    update = max((record["update"] for record in records), default=0)
    is_finished = update <= _trained_updates(metadata)
    minutes = [record["minutes"] for record in records if record.get("minutes") is not None]
    return RunState(
        run=name,
        languages=cfg.languages.pair,
        state=tr("finished") if is_finished else tr("{:,} of {:,}", update, cfg.train.max_updates),
        minutes=max(minutes, default=None),
        dev=_best(records),
        tests=tests,
        changed=day,
        update=update,
        max_updates=cfg.train.max_updates,
        finished=is_finished,
    )


def _best(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric, choose in (("bleu", max), ("chrf", max), ("loss", min)):
        values = [record.get(metric) for record in records if record["event"] == "validation"]
        known = [value for value in values if value is not None]
        if known:
            found[metric] = choose(known)
    return found


def _metadata(run: Run) -> dict[str, Any]:
    """Of the model directory; empty without one. Its files are not read: this is a list."""
    try:
        return read_json(run.model_dir / "metadata.json") or {}
    except Damaged as error:
        raise DataError(str(error)) from error


def _trained_updates(metadata: Mapping[str, Any]) -> float:
    """The updates of the model; as many as there are, where it does not say; −1: no model."""
    if not metadata:
        return -1
    trained = metadata.get("trained")
    known = trained.get("updates") if isinstance(trained, dict) else None
    return known if isinstance(known, int) else math.inf


def _test_scores(run: Run, metadata: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Raises: DataError: what stands there is no score."""
    try:
        return {
            test: {metric: float(score["score"]) for metric, score in scores.items()}
            for test, scores in metadata.get("scores", {}).items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        path = run.model_dir / "metadata.json"
        raise DataError(tr("{}: damaged: {}", path, f"scores: {error}")) from error


def format_states(states: Sequence[RunState], width: int | None = None) -> str:
    """A line for each run, and one more for each further test set.

    Args:
        width: columns of a terminal: the least important columns are left out; None: no limit.
    """
    rows = [list(_COLUMNS)]
    for state in states:
        first = [state.run, state.languages, state.state, _number(state.minutes, 1)]
        first += [_number(state.dev.get("bleu"), 2)]
        for i, (test, scores) in enumerate(list(state.tests.items()) or [("", {})]):
            numbers = [_number(scores.get(metric), 2) for metric in ("bleu", "chrf")]
            head = first if i == 0 else [""] * len(first)
            rows.append([*head, test, *numbers, state.changed if i == 0 else ""])
    return fit_table(rows, width, numbers=(_MINUTES, _DEV, "BLEU", "chrF"))


def fit_table(
    rows: Sequence[Sequence[str]], width: int | None, *, numbers: Sequence[str] = ()
) -> str:
    """Aligned columns under their names; in a narrow terminal the least important are left out.

    Cells are clipped where even that is not enough.

    Args:
        numbers: names of columns that are aligned to the right.
    """
    for dropped in range(len(_LEAST_IMPORTANT) + 1):
        kept = [name not in _LEAST_IMPORTANT[:dropped] for name in rows[0]]
        left = [list(compress(row, kept)) for row in rows]
        right = [i for i, name in enumerate(left[0]) if name in numbers]
        text = align_columns(left, numbers=right)
        if width is None or max(map(cell_len, text.split("\n"))) <= width:
            return text
    assert width is not None
    n_clipped = len(left[0]) - len(right)
    taken = sum(max(cell_len(row[i]) for row in left) for i in right) + 2 * (len(left[0]) - 1)
    room = max(4, (width - taken) // n_clipped)
    return align_columns(
        [[c if i in right else clip(c, room) for i, c in enumerate(row)] for row in left],
        numbers=right,
    )


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


@dataclass(frozen=True)
class RunComparison:
    """Two or more runs; the first is the baseline.

    Attributes:
        settings: key → the value of each run, where they differ.
        dev: run → the best values on its dev set.
        scores: test set → run → metric → score, of test sets with the same references.
        notes: test sets that cannot be compared, and why.
    """

    runs: list[str]
    settings: dict[str, list[Any]]
    dev: dict[str, dict[str, float]]
    scores: dict[str, SystemScores]
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        scores = {
            test: {
                run: {metric: score.to_json() for metric, score in own.items()}
                for run, own in systems.items()
            }
            for test, systems in self.scores.items()
        }
        return {**vars(self), "scores": scores}


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
        name: _best(read_metrics(run.metrics_path)) for name, run in zip(names, runs, strict=True)
    }
    return RunComparison(names, _differences(configs), dev, scores, notes)


def _updates(run: Run) -> int:
    """The last one of its metrics."""
    return max((record["update"] for record in read_metrics(run.metrics_path)), default=0)


def _trained_config(run: Run) -> Config:
    """With the settings that the model was trained with: others may have come without effect."""
    cfg, of_model = load_config(run.config_path), run.model_dir / "config.yaml"
    with suppress(DataError):  # there is a model, but a damaged one
        if of_model.is_file() and _updates(run) <= _trained_updates(_metadata(run)):
            kept = {name: getattr(cfg.train, name) for name in _RESOLVED}
            trained = load_config(of_model).train.model_copy(update=kept)
            cfg = cfg.model_copy(update={"train": trained})
    return cfg


_Finished = tuple[EvaluationSet, list[str]]  # a test set with the translations of a run


def _finished_tests(run: Run, cfg: Config) -> dict[str, _Finished]:
    """The test sets that a run has translated with the weights of its last update, by name."""
    metadata: dict[str, Any] = {}
    with suppress(DataError):  # a damaged model
        metadata = _metadata(run)
    if not run.clean_dir.is_dir() or (metadata and _trained_updates(metadata) < _updates(run)):
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
        best.append([label, *(_number(found.dev[run].get(key), digits) for run in found.runs)])
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
