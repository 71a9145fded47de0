"""A list of runs, with their states.

Comes in: run directories, finished or not, also copied from elsewhere. Goes out: plain values and
tables. This file trains, translates and changes nothing.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import compress
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from transformer_mt.config.experiment import load_config
from transformer_mt.errors import DataError, TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.pipeline.records import read_metrics
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.rendering.cells import align_columns, clip
from transformer_mt.system.state import Damaged, read_json

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
        cfg, metadata = load_config(run.config_path), model_metadata(run)
        tests = _test_scores(run, metadata)
    except TmtError as error:
        return RunState(name, "", tr("damaged: {}", error), None, {}, {}, day)
    update = last_update(records)
    is_finished = update <= trained_updates(metadata)
    minutes = [record["minutes"] for record in records if record.get("minutes") is not None]
    return RunState(
        run=name,
        languages=cfg.languages.pair,
        state=tr("finished") if is_finished else tr("{:,} of {:,}", update, cfg.train.max_updates),
        minutes=max(minutes, default=None),
        dev=best_on_dev(records),
        tests=tests,
        changed=day,
        update=update,
        max_updates=cfg.train.max_updates,
        finished=is_finished,
    )


def last_update(records: Sequence[Mapping[str, Any]]) -> int:
    return max((record["update"] for record in records), default=0)


def best_on_dev(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The best BLEU and chrF, and the lowest loss, of all validations."""
    found: dict[str, float] = {}
    for metric, choose in (("bleu", max), ("chrf", max), ("loss", min)):
        values = [record.get(metric) for record in records if record["event"] == "validation"]
        known = [value for value in values if value is not None]
        if known:
            found[metric] = choose(known)
    return found


def model_metadata(run: Run) -> dict[str, Any]:
    """Of the model directory; empty without one. Its files are not read: this is a list."""
    try:
        return read_json(run.model_dir / "metadata.json") or {}
    except Damaged as error:
        raise DataError(str(error)) from error


def trained_updates(metadata: Mapping[str, Any]) -> float:
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
        first = [state.run, state.languages, state.state, shown_number(state.minutes, 1)]
        first += [shown_number(state.dev.get("bleu"), 2)]
        for i, (test, scores) in enumerate(list(state.tests.items()) or [("", {})]):
            numbers = [shown_number(scores.get(metric), 2) for metric in ("bleu", "chrf")]
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


def shown_number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
