"""The runs of a folder, watched: their states, and what is new in their metrics.

The files are read, and nothing is changed. A run that vanishes is gone from the list.
"""

import asyncio
import json
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool

from transformer_mt.errors import OUTSIDE
from transformer_mt.pipeline.records import is_metric
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.pipeline.run_list import changed_at, runs_in, state_of
from transformer_mt.system.state import GrowingRecords
from transformer_mt.text.normalise import well_formed

POLL_S = 1.0  # seconds between two looks at the files
BEAT_S = 15.0  # seconds of silence after which a stream shows that it lives
MOST_RECORDS = 4000  # of a curve that a page begins with: more than a screen has columns


class WatchedRun:
    """A run as it was at the last look.

    Attributes:
        told: its `RunState`, and when its last record was written, in seconds since 1970.
        version: another one whenever something has changed.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.metrics = GrowingRecords(run.metrics_path)
        self.told: dict[str, Any] = {}
        self.version = 0
        self._seen: list[float] = []

    def look(self) -> None:
        """Read what is new. Raises: one of `OUTSIDE`: the run has gone."""
        has_grown = self.metrics.read()
        paths = (self.run.config_path, self.run.model_dir / "metadata.json", self.run.report_path)
        seen = list(map(_changed, paths))
        if has_grown or seen != self._seen:
            self._seen = seen
            self.version += 1
            state = state_of(self.run, self.records())
            self.told = {
                **plain(state.to_json()),
                "modified": changed_at(self.run),
                "report": self.run.report_path.is_file(),
            }

    def records(self, start: int = 0) -> list[dict[str, Any]]:
        """From a line of `metrics.records` on."""
        return [plain(one) for one in self.metrics.records[start:] if is_metric(one)]


class Watch:
    """The runs of a folder; however many ask, the files are looked at once in `POLL_S`."""

    def __init__(self, directory: Path) -> None:
        self.lock = threading.RLock()
        self._directory = directory
        self._runs: dict[str, WatchedRun] = {}
        self._looked_at = -math.inf

    def runs(self) -> dict[str, WatchedRun]:
        """The runs by name, the newest first; to be read under the `lock`."""
        with self.lock:
            if time.monotonic() - self._looked_at >= POLL_S / 2:
                with suppress(*OUTSIDE):
                    self._look()
                self._looked_at = time.monotonic()
            return self._runs

    def _look(self) -> None:
        found = []
        for run in runs_in(self._directory):
            name = well_formed(run.directory.name)
            watched = self._runs.get(name) or WatchedRun(run)
            with suppress(*OUTSIDE):
                watched.look()
                found.append((name, watched))
        found.sort(key=lambda one: one[1].told["modified"], reverse=True)
        self._runs = dict(found)

    def states(self) -> list[dict[str, Any]]:
        with self.lock:
            return [{**one.told, "run": name} for name, one in self.runs().items()]


class EventStream:
    """What one page is told: the list of runs, and the records of the runs that it shows."""

    def __init__(self, watch: Watch, names: Collection[str]) -> None:
        self._watch, self._names = watch, names
        self._states: list[dict[str, Any]] | None = None
        self._sent: dict[str, tuple[GrowingRecords, int, int]] = {}

    def news(self) -> str:
        """Events since the last call, in the form of `text/event-stream`."""
        with self._watch.lock:
            return "".join(
                f"event: {name}\ndata: {json.dumps(value)}\n\n" for name, value in self._events()
            )

    def _events(self) -> Iterator[tuple[str, Any]]:
        runs, states = self._watch.runs(), self._watch.states()
        if states != self._states:
            self._states = states
            yield "runs", states
        for name in self._names:
            if name not in runs:
                continue
            metrics = runs[name].metrics
            known, n_begun, n_sent = self._sent.get(name, (None, 0, 0))
            is_fresh = known is not metrics or n_begun != metrics.n_begun
            records = runs[name].records(0 if is_fresh else n_sent)
            self._sent[name] = metrics, metrics.n_begun, len(metrics.records)
            if is_fresh or records:
                told = _thinned(records) if is_fresh else records
                yield "metrics", {"run": name, "fresh": is_fresh, "records": told}

    async def events(self, is_ending: Callable[[], bool]) -> AsyncIterator[str]:
        spoke_at = time.monotonic()
        while not is_ending():
            text = await run_in_threadpool(self.news)
            if text or time.monotonic() - spoke_at > BEAT_S:
                spoke_at = time.monotonic()
                yield text or ":\n\n"
            await asyncio.sleep(POLL_S)


def plain(value: Any) -> Any:
    """JSON has null for NaN and infinity."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _thinned(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every validation, and of the others at most about `MOST_RECORDS`."""
    step = 1 + len(records) // MOST_RECORDS
    return [one for i, one in enumerate(records) if i % step == 0 or one["event"] == "validation"]


def _changed(path: Path) -> float:
    """When, in seconds since 1970; 0: it is not there, or cannot be looked at."""
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
