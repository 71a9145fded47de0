"""One trial: a command with one fault in it, what it leaves behind, and the same command again.

Comes in: a case, the state before it, what it leaves undisturbed, a fault. Goes out: what was
wrong. Commands run in forks of this process, which has torch loaded already and must have only one
thread. This file does not know which faults are tried.
"""

import ctypes
import errno
import json
import mmap
import os
import re
import shutil
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path

from cases import Case, Snapshot, snapshot

KINDS = ("write", "create", "rename", "remove", "fsync")  # as in inject.c
FAULTS = ("ENOSPC", "EIO", "EROFS", "SIGKILL")
FAILED = 2  # exit status of a command that has said why
TIMEOUT_S = 60.0

_ROOM = (1 << KINDS.index("write")) | (1 << KINDS.index("create"))
_AFTER = {"ENOSPC": _ROOM, "EROFS": (1 << len(KINDS)) - 1}  # a full disk stays full


class Shared(ctypes.Structure):
    """The same fields, in the same order, as `struct shared` of inject.c."""

    _fields_ = (
        ("counts", ctypes.c_long * len(KINDS)),
        ("fired", ctypes.c_long),
        ("kind", ctypes.c_long),
        ("n", ctypes.c_long),
        ("error", ctypes.c_long),
        ("after", ctypes.c_long),
        ("half", ctypes.c_long),
        ("path", ctypes.c_char * 1024),
    )


@dataclass(frozen=True)
class Fault:
    """The n-th call of a kind fails, n from 1.

    SIGKILL comes before the call. After one call is before the next: nothing else changes files.
    """

    kind: str
    n: int
    name: str  # one of FAULTS

    def __str__(self) -> str:
        return f"{self.kind}:{self.n}:{self.name}"


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit status (-9: SIGKILL, None: not in time), what it said."""

    status: int | None
    said: str
    counts: dict[str, int]
    fired: bool
    path: str  # what the first call that failed was to change, below the folder


@dataclass(frozen=True)
class Wrong:
    """One thing that is wrong after a trial."""

    what: str  # the same words for the same trouble
    detail: str
    at: str = ""  # what the call that failed was to change


@dataclass(frozen=True)
class Undisturbed:
    """A case without faults: what is there before and afterwards."""

    case: Case
    state_dir: Path
    before: Snapshot
    after: Snapshot
    counts: dict[str, int]


def run_command(
    argv: list[str], folder: Path, library: Path | None = None, fault: Fault | None = None
) -> Ended:
    """`tmt ARGV` in `folder`, in a fork of this process.

    Args:
        library: inject.c, compiled; None: nothing is counted.
    """
    memory = mmap.mmap(-1, ctypes.sizeof(Shared))  # shared with the fork
    shared = Shared.from_buffer(memory)
    shared.kind = -1
    if fault is not None:
        shared.kind, shared.n = KINDS.index(fault.kind), fault.n
        shared.error = 0 if fault.name == "SIGKILL" else getattr(errno, fault.name)
        shared.after = _AFTER.get(fault.name, 0)
        shared.half = fault.kind == "write" and fault.name in ("SIGKILL", "ENOSPC")
    said_path = folder.with_name(f"{folder.name}.said")
    pid = os.fork()
    if pid == 0:
        _be_the_command(argv, folder, said_path, library, shared)
    status = _wait(pid)
    counts = dict(zip(KINDS, shared.counts, strict=True))
    path = shared.path.decode(errors="replace").removeprefix(f"{folder.resolve()}/")
    said = said_path.read_text(encoding="utf-8", errors="replace")
    said_path.unlink()
    return Ended(status, said, counts, shared.fired > 0, path)


def _be_the_command(
    argv: list[str], folder: Path, said_path: Path, library: Path | None, shared: Shared
) -> None:
    """Does not return."""
    code = 1
    try:
        os.setsid()
        said = os.open(said_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.chdir(folder)
        sys.argv = ["tmt", *argv]
        from transformer_mt.cli.main import main

        if library is not None:
            watch = ctypes.CDLL(str(library)).watch
            if number := watch(str(folder.resolve()).encode(), ctypes.byref(shared)):
                raise OSError(number, f"no seccomp filter: {os.strerror(number)}")
        main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(bool(error.code))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(pid: int) -> int | None:
    """The exit status of a fork and of nobody else; whatever it started is ended, too."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        late = time.monotonic() > deadline
        if ended or late:
            break
        time.sleep(0.005)
    if late:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return None
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status)


def try_fault(whole: Undisturbed, fault: Fault, folder: Path, library: Path) -> list[Wrong]:
    """Run a case with a fault, look, run it again, look. `folder` stays as it is then."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole.state_dir, folder)
    ended = run_command(whole.case.argv, folder, library, fault)
    if not ended.fired:
        return [Wrong("not reached", f"{ended.counts}")]
    between = snapshot(folder)
    found = [*_of_the_end(ended, fault), *_of_the_state(whole, between, folder)]
    if ended.status == 0 and (missing := _differing(whole.case, between, whole.after)):
        found.append(Wrong("exit status 0, but the result is not whole", ", ".join(missing)))
    if fault.name in ("ENOSPC", "EIO") and fault.kind != "remove" and ended.status:
        left = [path for path in between if _is_temporary(path)]
        if left:
            found.append(Wrong("temporary files left by a command that could remove them", left[0]))
    again = run_command(whole.case.argv, folder)
    found += _of_the_next_run(whole, ended, between, again, snapshot(folder))
    return [replace(wrong, at=ended.path) for wrong in found]


def _of_the_end(ended: Ended, fault: Fault) -> list[Wrong]:
    """Exit status and words."""
    if fault.name == "SIGKILL":
        return [] if ended.status == -signal.SIGKILL else [Wrong("not killed", str(ended.status))]
    if ended.status is None:
        return [Wrong("hangs", _last_line(ended.said))]
    if "Traceback" in ended.said:
        name = _last_line(ended.said).split(":")[0]
        return [Wrong(f"traceback ({name}), exit status {ended.status}", _last_line(ended.said))]
    if ended.status == 0:
        return []
    n_lines = len(re.findall("^tmt: ", ended.said, re.MULTILINE))
    if ended.status != FAILED:
        return [Wrong(f"exit status {ended.status}", _last_line(ended.said))]
    return [] if n_lines == 1 else [Wrong(f"{n_lines} lines with tmt:", _last_line(ended.said))]


def _of_the_state(whole: Undisturbed, between: Snapshot, folder: Path) -> list[Wrong]:
    """Every unit is old or new; nothing else has changed; every checkpoint can be read."""
    found = []
    units = {unit for path in (*whole.before, *whole.after, *between)
             if (unit := _unit_of(whole.case, path))}  # fmt: skip
    for unit in sorted(units):
        old, new, now = (_part(s, unit) for s in (whole.before, whole.after, between))
        if now not in (old, new):
            how = "neither old nor new" if now else "lost: neither the old nor the new one is there"
            found.append(Wrong(f"{unit}: {how}", _first_difference(now, new)))
    for path, content in whole.before.items():
        if not _unit_of(whole.case, path) and not _is_free(whole.case, path):
            now = between.get(path)
            if now != content:
                found.append(Wrong("another file changed", path))
    for path in between:
        known = path in whole.before or path in whole.after or _is_free(whole.case, path)
        if not known and not _is_temporary(path) and not _unit_of(whole.case, path):
            found.append(Wrong("an unknown file", path))
    return found + [
        Wrong("a checkpoint that is not whole", problem)
        for progress in sorted(folder.glob("run/checkpoints/[0-9]*"))
        if (problem := _damage(progress))
    ]


def _damage(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint; its optimizer may be gone, when it is kept for averaging."""
    path = checkpoint.relative_to(checkpoint.parents[2])
    try:
        digests = json.loads((checkpoint / "progress.json").read_text("utf-8"))["files"]
        for name, digest in digests.items():
            file = checkpoint / name
            if name.startswith("optimizer") and not file.exists():
                continue
            if sha256(file.read_bytes()).hexdigest() != digest:
                return f"{path / name}: truncated or altered"
    except (OSError, ValueError, KeyError) as error:
        return f"{path}: {type(error).__name__}: {error}".replace(str(checkpoint), str(path))
    return None


def _of_the_next_run(
    whole: Undisturbed, ended: Ended, between: Snapshot, again: Ended, after: Snapshot
) -> list[Wrong]:
    """The same command without faults: it succeeds, or there is nothing left to do."""
    found = []
    done = not _differing(whole.case, between, whole.after)
    why = any(words in again.said for words in ("exists", "is a model already"))
    refused = done and again.status == FAILED and why
    if again.status != 0 and not refused:
        said = _last_line(again.said)
        found.append(Wrong(f"the next run fails, exit status {again.status}", said))
    else:
        # A log whose file could not be written misses what was not written.
        logs = ("run/metrics.jsonl",) if ended.status == 0 else ()
        for path in sorted(whole.after):
            if after.get(path) != whole.after[path] and path not in logs:
                how = "differs" if path in after else "is missing"
                found.append(Wrong(f"after the next run, {path} {how}", path))
    left = sorted(set(after) - set(whole.after))
    if left and again.status is not None and again.status in (0, FAILED):
        found.append(Wrong("left over after the next run", left[0]))
    return found


def _differing(case: Case, one: Snapshot, other: Snapshot) -> list[str]:
    """Paths of results that differ; what is free or spare counts for nothing."""
    paths = {path for path in (*one, *other) if _unit_of(case, path) not in (None, *case.spare)}
    return sorted(path for path in paths if one.get(path) != other.get(path))


def _unit_of(case: Case, path: str) -> str | None:
    """The unit that a path belongs to, by its own name."""
    parts = path.split("/")
    for unit in case.units:
        head = "/".join(parts[: unit.count("/") + 1])
        if fnmatch(head, unit) and not _is_temporary(head) and head.count("/") == unit.count("/"):
            return head
    return None


def _part(whole: Snapshot, unit: str) -> Snapshot:
    return {p: c for p, c in whole.items() if p == unit or p.startswith(f"{unit}/")}


def _first_difference(now: Snapshot, new: Snapshot) -> str:
    return next((p for p in sorted({*now, *new}) if now.get(p) != new.get(p)), "")


def _is_free(case: Case, path: str) -> bool:
    return any(path == free or path.startswith(f"{free}/") for free in case.free)


def _is_temporary(path: str) -> bool:
    """As `files.writing` names what is not finished."""
    return any(part.startswith(".") for part in path.split("/"))


def _last_line(text: str) -> str:
    return text.strip().split("\n")[-1]
