"""The log of a training: records in a file, aligned lines, and one live line on a terminal."""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.errors import TmtError, describe
from transformer_mt.messages.catalogue import tr
from transformer_mt.pipeline.records import read_metrics
from transformer_mt.pipeline.time_left import TimeLeft, TrainingClock
from transformer_mt.pipeline.tracking import Tracker
from transformer_mt.rendering.cells import clip
from transformer_mt.rendering.progress import error_console
from transformer_mt.system.output import write_text
from transformer_mt.system.terminal import folded, is_quiet, visible
from transformer_mt.training.trainer import SilentLog

PIPED_WIDTH = 120  # columns of a sample sentence where there is no terminal
_LABEL, _BAR_WIDTH = tr("training"), 12
_REFRESH_S = 0.1  # at least, between two states of the live line

Watch = Callable[[int], None]  # called with the number of each update that is done


def ignore_update(_update: int) -> None:
    """The `Watch` of a training that nobody watches."""


class TrainingLog(SilentLog):
    """Writes `metrics.jsonl` and the console, which is standard error, and tells the trackers.

    On a terminal, "train" records appear in the live line alone, and no line is wider than the
    terminal; elsewhere every record is a line, in full. Records after `resume_update` are dropped
    first, so that no update is told twice. A disk that is full does not end a training: the file is
    written once there is room again.
    """

    def __init__(
        self,
        metrics_path: Path,
        *,
        resume_update: int,
        resume_minutes: float = 0.0,
        train: TrainConfig,
        trackers: Sequence[Tracker] = (),
        watch: Watch = ignore_update,
        console: Console | None = None,
    ) -> None:
        if metrics_path.is_file():
            metrics_path.read_bytes()  # or what cannot be read would be taken for nothing, and lost
        self.records = [r for r in read_metrics(metrics_path) if r["update"] <= resume_update]
        self._path = metrics_path
        self._n_unwritten = 0
        self._write_all()
        self._console = console or error_console()
        self._trackers = trackers
        self._watch = watch
        self._tell_trackers(self.records)
        self._max_updates = train.max_updates
        self._clock = TrainingClock(train, resume_update, resume_minutes)
        # Without a thread: a process with threads cannot be copied, and the search of a validation
        # works with copies.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._shown_at = -math.inf

    def __enter__(self) -> "TrainingLog":
        if self._console.is_terminal and not is_quiet():
            self._live.start()
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        self._live.stop()
        if self._n_unwritten:
            self.say(tr("{}: {} records could not be written", self._path, self._n_unwritten))
        for tracker in self._trackers:
            tracker.end(failed=failure is not None)

    def say(self, message: str) -> None:
        text = visible(message)
        if self._console.is_terminal:
            text = folded(text, self._console.width)
        self._console.print(text, markup=False)

    def advance(self, update: int) -> None:
        now = time.monotonic()
        if self._live.is_started and now - self._shown_at >= _REFRESH_S:
            self._shown_at = now
            self._live.update(self._live_line(update), refresh=True)
        self._watch(update)

    def record(self, event: str, update: int, values: Mapping[str, Any]) -> None:
        if values.get("minutes") is not None:
            self._clock.set(values["minutes"])
            if event == "train" and (left := self._clock.left(update, self.records)):
                values = {**values, "eta_minutes": left.minutes}
        record = {"event": event, "update": update, **{k: _finite(v) for k, v in values.items()}}
        self.records.append(record)
        self._write_last()
        if not is_quiet():
            self._show(record)
        self._tell_trackers([record])

    def _tell_trackers(self, records: Sequence[Mapping[str, Any]]) -> None:
        for tracker in self._trackers:
            tracker.follow(records)

    def _show(self, record: Mapping[str, Any]) -> None:
        """As a line, if the live line does not show it; then the samples of a validation."""
        terminal, width = self._console.is_terminal, self._console.width
        if not terminal:
            self.say(format_record(record))
        elif record["event"] != "train":
            self.say(format_record(record, width))
        for line in format_samples(record.get("samples", ()), width if terminal else PIPED_WIDTH):
            self.say(line)

    def _live_line(self, update: int) -> Table:
        left, minutes = self._clock.left(update, self.records), self._clock.minutes()
        done = minutes / max(1e-9, minutes + left.minutes) if left else 0.0
        room = self._console.width - len(_LABEL) - _BAR_WIDTH - 3
        line = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
        for width in (len(_LABEL), _BAR_WIDTH, room):
            line.add_column(width=width, no_wrap=True, overflow="crop")
        text = format_status(update, self._max_updates, left, self.records, room)
        line.add_row(_LABEL, ProgressBar(total=1.0, completed=done, width=_BAR_WIDTH), text)
        return line

    def _write_all(self) -> None:
        write_text(self._path, "".join(json.dumps(record) + "\n" for record in self.records))

    def _write_last(self) -> None:
        """Append the last record; after a failure, which may have left half a line, write all."""
        try:
            if self._n_unwritten:
                self._write_all()
                self.say(tr("{}: written again, nothing is missing", self._path))
            else:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(self.records[-1]) + "\n")
            self._n_unwritten = 0
        except (OSError, TmtError) as error:
            if not self._n_unwritten:
                self.say(
                    tr(
                        "a record cannot be written: {}; training goes on, and the "
                        "records are written as soon as they can be",
                        describe(error),
                    )
                )
            self._n_unwritten += 1


def _finite(value: Any) -> Any:
    """JSON has null for NaN and infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


_FORMATS = {
    "loss": (tr("loss"), "7.3f"),
    "ppl": ("ppl", "9.2f"),
    "lr": ("lr", ".2e"),
    "grad_norm": ("norm", "6.2f"),
    "tgt_tokens_per_s": (tr("tgt tok/s"), "7.0f"),
    "bleu": ("BLEU", "6.2f"),
    "chrf": ("chrF", "6.2f"),
    "best_bleu": (tr("best"), "6.2f"),
    "epoch": (tr("epoch"), "6.2f"),
    "minutes": (tr("min"), "6.1f"),
    "validation_s": (tr("took"), "4.1f s"),
    "eta_minutes": (tr("left"), f"5.0f {tr('min')}"),
}
# The most important ones first, where there is no room for all.
_ON_VALIDATION = ("loss", "bleu", "chrf", "minutes")
_IN_STATUS = ("loss", "tgt_tokens_per_s", "epoch", "lr", "ppl", "grad_norm")
_SEPARATOR = " · "


def format_record(record: Mapping[str, Any], width: int | None = None) -> str:
    """`update   400 · loss   5.123 · ppl    99.10 …`, columns of fixed width.

    Args:
        width: columns of a terminal: the least important values are left out; None: without limit.
    """
    head = tr("update") if record["event"] == "train" else tr("  dev ")
    parts = [f"{head} {record['update']:7d}"]
    keys = list(record)
    if width is not None:
        keys = [key for key in _ON_VALIDATION if key in record]
        keys += [key for key in record if key not in _ON_VALIDATION]
    parts += [part for key in keys if (part := _format_value(key, record[key]))]
    return _SEPARATOR.join(parts) if width is None else _joined(parts, width)


def _format_value(key: str, value: Any) -> str:
    name, _, direction = key.partition(".")  # bleu.zh-en, where one model does both
    if name not in _FORMATS or value is None or not math.isfinite(value):
        return ""
    label, form = _FORMATS[name]
    label = f"{label} {direction}".rstrip()
    number, _, unit = form.partition(" ")
    return f"{label} {value:{number}}{' ' + unit if unit else ''}"


def _joined(parts: Sequence[str], width: int) -> str:
    """As many of the first parts as fit."""
    text = parts[0]
    for part in parts[1:]:
        if cell_len(longer := text + _SEPARATOR + part) > width:
            break
        text = longer
    return clip(text, width)


def format_status(
    update: int,
    max_updates: int,
    left: TimeLeft | None,
    records: Sequence[Mapping[str, Any]],
    width: int,
) -> str:
    """The state of a training in at most `width` columns, the most important things first."""
    total = f"/{max_updates}" if left is None or left.limit == "max_updates" else ""
    parts = [tr("update {}{}", update, total)]
    if left:
        why = tr(" by patience") if left.limit == "patience" else ""
        parts.append(tr("{} left{}", format_minutes(left.minutes), why))
    last = next((record for record in reversed(records) if record["event"] == "train"), None)
    values = [" ".join(_format_value(key, (last or {}).get(key)).split()) for key in _IN_STATUS]
    scores = [r["bleu"] for r in records if r["event"] == "validation" and r.get("bleu")]
    if scores:
        values.insert(1, f"BLEU {max(scores):.2f}")  # the best on dev
    return _joined([*parts, *filter(None, values)], width)


def format_minutes(minutes: float) -> str:
    """A duration with the precision that matters: `40 s`, `12 min`, `3.5 h`, `2.1 days`."""
    if minutes < 1:
        return tr("{:.0f} s", 60 * minutes)
    if minutes < 90:
        return tr("{:.0f} min", minutes)
    hours = minutes / 60
    return tr("{:.1f} h", hours) if hours < 48 else tr("{:.1f} days", hours / 24)


def format_samples(samples: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """Source, translation and reference of sample sentences, a line each, clipped to `width`."""
    labels = ((tr("src"), "src"), (tr("out"), "hyp"), (tr("ref"), "ref"))
    return [
        f"    {label}  {clip(sample.get(key, ''), width - 9)}"
        for sample in samples
        for label, key in labels
    ]
