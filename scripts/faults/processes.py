"""The processes of a command, as /proc shows them: which there are, what each is for, what is left.

Comes in: the id of a process. Goes out: ids of others. Linux only.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from transformer_mt.system.processes.child_python import TMT


@dataclass(frozen=True)
class Process:
    """`started` tells it from another one that gets the same id later."""

    pid: int
    started: str
    command: tuple[str, ...]

    def is_alive(self) -> bool:
        """Neither gone nor a zombie that nobody has waited for yet."""
        fields = _status_fields(self.pid)
        return fields is not None and fields[19] == self.started and fields[0] not in "ZX"


def process_of(pid: int) -> Process | None:
    """None: it has gone."""
    fields = _status_fields(pid)
    if fields is None or fields[0] in "ZX":
        return None
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return None
    return Process(pid, fields[19], tuple(command.split("\0")))


def _status_fields(pid: int) -> list[str] | None:
    """Of /proc/PID/stat, from the state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None


def children(pid: int) -> list[Process]:
    """Of all threads: each has its own."""
    found = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            pids = listed.read_text().split()
        except OSError:
            continue
        found += [child for number in pids if (child := process_of(int(number)))]
    return found


def family(pid: int) -> list[Process]:
    """A process and everything that it has started, and so on."""
    own = process_of(pid)
    rest = [one for child in children(pid) for one in family(child.pid)]
    return rest if own is None else [own, *rest]


def wait_for_end(processes: list[Process], timeout_s: float) -> list[Process]:
    """Those that are still there after so many seconds."""
    deadline = time.monotonic() + timeout_s
    while (left := [one for one in processes if one.is_alive()]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def ranks(pid: int) -> list[Process]:
    """Processes that share the work of a launcher, which starts `transformer_mt/__main__.py`."""
    return [child for child in children(pid) if str(TMT) in child.command]


def spawned(pid: int) -> list[Process]:
    """Fresh Python processes for a part of the work."""
    return [child for child in children(pid) if "--multiprocessing-fork" in child.command]


def copies(pid: int) -> list[Process]:
    """Forks, which have the command line of their parent."""
    own = process_of(pid)
    return [child for child in children(pid) if own and child.command == own.command]


def alone(pid: int) -> list[Process]:
    own = process_of(pid)
    return [] if own is None else [own]
