"""The log of a training: aligned lines, a progress bar on a terminal, records in a file."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from transformer_mt.errors import TmtError, TrainingError, describe
from transformer_mt.system.output import write_text
from transformer_mt.system.state import read_records
from transformer_mt.system.terminal import is_quiet, visible
from transformer_mt.training.trainer import SilentLog


class TrainingLog(SilentLog):
    """Writes `metrics.jsonl`, TensorBoard's events and the console, which is standard error.

    Records after `resume_update` are dropped first, so that no update is told twice. A disk that is
    full does not end a training: the file is written once there is room again.
    """

    def __init__(
        self,
        metrics_path: Path,
        *,
        resume_update: int,
        max_updates: int,
        tensorboard_dir: Path | None = None,
        console: Console | None = None,
    ) -> None:
        self.records = [r for r in read_metrics(metrics_path) if r["update"] <= resume_update]
        self._path = metrics_path
        self._n_unwritten = 0
        self._write_all()
        self._console = console or Console(stderr=True, soft_wrap=True, highlight=False)
        self._tensorboard = _open_tensorboard(tensorboard_dir) if tensorboard_dir else None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal or is_quiet(),
            transient=True,
        )
        self._task = self._progress.add_task("updates", total=max_updates, completed=resume_update)

    def __enter__(self) -> "TrainingLog":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        if self._n_unwritten:
            self.say(f"{self._path}: {self._n_unwritten} records could not be written")
        if self._tensorboard is not None:
            self._tensorboard.close()

    def say(self, message: str) -> None:
        self._console.print(visible(message), markup=False)

    def advance(self, update: int) -> None:
        self._progress.update(self._task, completed=update)

    def record(self, event: str, update: int, values: Mapping[str, float]) -> None:
        # JSON has null for NaN and infinity.
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        record = {"event": event, "update": update, **finite}
        self.records.append(record)
        self._write_last()
        if not is_quiet():
            self.say(format_record(record))
        if self._tensorboard is not None:
            for name, value in values.items():
                self._tensorboard.add_scalar(f"{event}/{name}", value, update)

    def _write_all(self) -> None:
        write_text(self._path, "".join(json.dumps(record) + "\n" for record in self.records))

    def _write_last(self) -> None:
        """Append the last record; after a failure, which may have left half a line, write all."""
        try:
            if self._n_unwritten:
                self._write_all()
                self.say(f"{self._path}: written again, nothing is missing")
            else:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(self.records[-1]) + "\n")
            self._n_unwritten = 0
        except (OSError, TmtError) as error:
            if not self._n_unwritten:
                self.say(
                    f"a record cannot be written: {describe(error)}; training goes on, and the "
                    "records are written as soon as they can be"
                )
            self._n_unwritten += 1


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Records of a run so far; lines that are damaged, or cut short by a crash, are left out."""
    return [
        record
        for record in read_records(path)
        if isinstance(record.get("event"), str)
        and isinstance(record.get("update"), int)
        and all(isinstance(v, int | float | None) for k, v in record.items() if k != "event")
    ]


_FORMATS = {
    "loss": ("loss", "7.3f"),
    "ppl": ("ppl", "9.2f"),
    "lr": ("lr", ".2e"),
    "grad_norm": ("norm", "6.2f"),
    "tgt_tokens_per_s": ("tgt tok/s", "7.0f"),
    "bleu": ("BLEU", "6.2f"),
    "chrf": ("chrF", "6.2f"),
    "best_bleu": ("best", "6.2f"),
    "epoch": ("epoch", "6.2f"),
    "minutes": ("min", "6.1f"),
    "validation_s": ("took", "4.1f s"),
    "eta_minutes": ("left", "5.0f min"),
}


def format_record(record: Mapping[str, Any]) -> str:
    """`update   400 · loss   5.123 · ppl    99.10 …`, columns of fixed width."""
    head = "update" if record["event"] == "train" else "  dev "
    parts = [f"{head} {record['update']:7d}"]
    for key, value in record.items():
        name, _, direction = key.partition(".")  # bleu.zh-en, where one model does both
        if name in _FORMATS and value is not None and math.isfinite(value):
            label, form = _FORMATS[name]
            label = f"{label} {direction}".rstrip()
            number, _, unit = form.partition(" ")
            parts.append(f"{label} {value:{number}}{' ' + unit if unit else ''}")
    return " · ".join(parts)


def _open_tensorboard(directory: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError as error:
        raise TrainingError(
            "train.tensorboard needs an extra package: pip install 'transformer-mt[track]'"
        ) from error
    return SummaryWriter(str(directory))
