"""Stages of a command that takes its time: a bar on a terminal, else a line for each stage.

Nothing runs beside the work: a process with threads cannot be copied, and search works with copies.
A bar moves when the work says that it went on.
"""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from transformer_mt.rendering.cells import clip
from transformer_mt.system.terminal import is_screen, visible

_BAR_WIDTH = 20
_OTHER_COLUMNS = 36  # columns of the bar, the share, the time left, and spaces between them
_REFRESH_S = 0.1  # at least, between two states of the bar


class Stages:
    """Stages that nobody is shown."""

    def begin(self, stage: str, total: float | None = None) -> None:
        """The next stage, and its amount of work, in any unit, if that is known."""

    def advance(self, amount: float = 1) -> None:
        """A part of the work of the stage is done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """No bar is left behind."""


def error_console() -> Console:
    """Standard error."""
    live = is_screen(sys.stderr)
    return Console(stderr=True, force_terminal=live, soft_wrap=True, highlight=False)


class ShownStages(Stages):
    """Stages on standard error."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or error_console()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(_BAR_WIDTH),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            auto_refresh=False,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._shown_at = 0.0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def begin(self, stage: str, total: float | None = None) -> None:
        stage = visible(stage)
        if not self._console.is_terminal:
            self._console.print(stage, markup=False)
            return
        if self._task is not None:
            self._progress.remove_task(self._task)
        shown = clip(stage, self._console.width - _OTHER_COLUMNS)
        self._task = self._progress.add_task(shown, total=total)
        self._progress.refresh()

    def advance(self, amount: float = 1) -> None:
        if self._task is None:
            return
        self._progress.advance(self._task, amount)
        now = time.monotonic()
        if now - self._shown_at >= _REFRESH_S:
            self._shown_at = now
            self._progress.refresh()
