"""Runs one command until enough updates have been seen, and ends it.

Comes in: a command and the file in which it tells its updates. Goes out: how long each update
took, what it held, when the first one was done, and the memory of all processes of the command at
its largest. Two kinds of lines are read: those of `update_log.py`, and tmt's own metrics. This file
knows no toolkit.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLL_S = 0.1
MEMORY_EVERY_S = 1.0
LONGEST_WAIT_S = 900.0  # for one update, the first included
GOODBYE_S = 60.0  # between asking a process to stop and ending it


class RunFailed(Exception):
    """The command ended by itself, or made no update for too long; the text says which."""


@dataclass(frozen=True)
class Update:
    seconds: float  # from the end of the update before; of the first of a log, not known: 0
    tgt: float  # real target tokens, EOS counted
    src: float | None = None  # likewise; None: not told


@dataclass(frozen=True)
class Window:
    """What to measure: after `warmup` updates, at least `seconds` and at least `updates`."""

    warmup: int
    seconds: float
    updates: int

    def of(self, updates: Sequence[Update]) -> list[Update] | None:
        """The measured ones among all that were made so far; None: not enough yet."""
        after = list(updates[self.warmup :])
        enough = sum(update.seconds for update in after) >= self.seconds
        return after if enough and len(after) >= self.updates else None


@dataclass(frozen=True)
class Observed:
    updates: list[Update]  # those of the window
    first_update_s: float  # from the start of the process to the end of its first update
    peak_rss_mib: float  # all processes of the command together; 0 where the system does not say


def observe(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    updates_path: Path,
    output_path: Path,
    window: Window,
) -> Observed:
    """Run `command` until `window` is full.

    Args:
        updates_path: where the command tells its updates; removed first.
        output_path: receives what it prints.
    Raises:
        RunFailed: see there.
    """
    updates_path.unlink(missing_ok=True)
    with output_path.open("wb") as output:
        started = time.monotonic()
        process = subprocess.Popen(
            command, env=dict(environment), stdout=output, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            return _observe(process, started, updates_path, output_path, window)
        finally:
            end(process)


def _observe(
    process: "subprocess.Popen[bytes]",
    started: float,
    updates_path: Path,
    output_path: Path,
    window: Window,
) -> Observed:
    first, peak = 0.0, 0.0
    updates: list[Update] = []
    told, last_told, last_memory = 0, started, started
    while True:
        time.sleep(POLL_S)
        now = time.monotonic()
        size = updates_path.stat().st_size if updates_path.exists() else 0
        if size != told:  # a look at the size costs nothing beside what is measured
            told, last_told, updates = size, now, read_updates(updates_path)
        if updates and not first:
            first = now - started
        measured = window.of(updates)
        if measured or now - last_memory >= MEMORY_EVERY_S:
            peak, last_memory = max(peak, memory_mib(process.pid)), now
        if measured:
            return Observed(measured, first, peak)
        if process.poll() is not None:
            code = process.returncode
            how = f"ended by itself with exit status {code} after {len(updates)} updates"
        elif now - last_told > LONGEST_WAIT_S:
            how = f"made no update in {LONGEST_WAIT_S:.0f} s"
        else:
            continue
        raise RunFailed(f"{how}; what it said last:\n{_tail(output_path)}")


def end(process: "subprocess.Popen[bytes]") -> None:
    """Stop a process and all below it: ask, wait, then end what is left."""
    family = list(descendants(process.pid))
    process.terminate()
    try:
        process.wait(GOODBYE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid in family:
        _kill_if_there(pid)


def _kill_if_there(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def read_updates(path: Path) -> list[Update]:
    """All updates told so far; a last line that is still being written is left for later."""
    if not path.is_file():
        return []
    complete = path.read_text(encoding="utf-8").rpartition("\n")[0]
    return list(parse_updates(json.loads(line) for line in complete.split("\n") if line))


def parse_updates(records: Iterator[dict[str, Any]]) -> Iterator[Update]:
    """Durations and tokens from the two kinds of records; other events are passed over.

    tmt tells the end of each update on a clock of its own, and its tokens per second: so many
    tokens were in it as this speed makes in the time since the update before.
    """
    before: float | None = None
    for record in records:
        if "time" in record:
            end_s, tgt, src = record["time"], record["tgt"], record["src"]
        elif record["event"] == "train":
            end_s, tgt, src = 60 * record["minutes"], None, None
        else:
            continue
        seconds = 0.0 if before is None else end_s - before
        if tgt is None:
            tgt = record["tgt_tokens_per_s"] * seconds
        yield Update(seconds, tgt, src)
        before = end_s


def memory_mib(pid: int) -> float:
    """The largest resident sizes so far of a process and all below it, added up, in MiB.

    Pages that several of them share are counted in each.
    """
    total = 0
    for member in [pid, *descendants(pid)]:
        for line in _read(Path("/proc", str(member), "status")).split("\n"):
            if line.startswith("VmHWM:"):
                total += int(line.split()[1])
    return total / 2**10


def descendants(pid: int) -> Iterator[int]:
    """Children of a process, their children, and so on; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").glob("[0-9]*"):
        # "pid (name) state parent …"; the name may hold anything, also brackets.
        fields = _read(directory / "stat").rpartition(")")[2].split()
        if fields:
            children.setdefault(int(fields[1]), []).append(int(directory.name))
    waiting = list(children.get(pid, ()))
    while waiting:
        child = waiting.pop()
        yield child
        waiting += children.get(child, ())


def _read(path: Path) -> str:
    """A file of /proc; empty if its process has gone."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _tail(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")[-1500:].strip()
