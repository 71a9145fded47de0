"""Environment variables: those that libraries read when they are loaded, and those of ranks.

`DEFAULTS` are set before torch is loaded, where the user has set nothing. The `Place` of a process
among those that train together comes from `torchrun`, or from the launcher of tmt.
"""

import ctypes.util
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from transformer_mt.errors import TrainingError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.machine import usable_cores

DEFAULTS = {
    # Threads that spin while they wait take the cores from threads that have work.
    "OMP_WAIT_POLICY": "PASSIVE",
    # NumPy's products are small, and its threads spin, too.
    "OPENBLAS_NUM_THREADS": "1",
    # glibc asks for large pages, a fault for 2 MiB instead of 4 KiB, in processes that start later:
    # those that train.
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}

# Memory allocators that hand out again what was freed last, which is still in the cache: glibc's
# takes fresh memory between the tensors of other shapes. The names that the linker knows.
_ALLOCATORS = ("tcmalloc_minimal", "tcmalloc", "jemalloc", "mimalloc")

MEETING_FILE = "store"  # in the meeting folder
_MEETING_PREFIX = "tmt-ranks-"
_MEETING = "TMT_LAUNCHED"  # the private folder through which the ranks of one machine meet
_MET: set[Path] = set()  # found private; a training may outlive what lies in /tmp


@dataclass(frozen=True)
class Place:
    """This process among those that train together."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    meeting_dir: Path | None  # of ranks that tmt itself has started; None: of torchrun


def is_rank() -> bool:
    """Is this one of the processes that tmt or `torchrun` has started to train together?"""
    return "WORLD_SIZE" in os.environ and "RANK" in os.environ


def own_place() -> Place | None:
    """Where the environment says that this process belongs; None: it trains alone."""
    size = _number("WORLD_SIZE", "1", least=1)
    if size == 1:
        return None
    rank = _number("RANK", "", below=size)
    local_size = _number("LOCAL_WORLD_SIZE", "1", least=1, below=size + 1)
    local_rank = _number("LOCAL_RANK", "0", below=local_size if local_size > 1 else size)
    own_dir = own_meeting_dir()
    if own_dir is None:
        if not os.environ.get("MASTER_ADDR"):
            raise TrainingError(
                tr("MASTER_ADDR is not set, but WORLD_SIZE is {}: {}", size, _ADVICE)
            )
        _number("MASTER_PORT", "", below=2**16)
    return Place(rank, size, local_rank, local_size, own_dir)


def torchrun_agent() -> str | None:
    """What names the torchrun that starts this process, and may start it again; None: none does."""
    if (run := os.environ.get("TORCHELASTIC_RUN_ID")) is None:
        return None
    with suppress(OSError, IndexError):
        status = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="utf-8")
        return f"{run} {os.getppid()} {status.rpartition(')')[2].split()[19]}"  # since when it runs
    return f"{run} {os.getppid()}"


def place_variables(rank: int, size: int, meeting: Path) -> dict[str, str]:
    """Variables that tell a process that it is one of `size`, which share the cores."""
    threads = str(max(1, usable_cores() // size))
    return {
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        _MEETING: str(meeting),
    }


def allocator_variables() -> dict[str, str]:
    """What lets a process that trains use a quick memory allocator, if Linux has one installed.

    Nothing where the user preloads a library already. docs/lab/micro-batches.md has what it brings.
    """
    if sys.platform != "linux" or "LD_PRELOAD" in os.environ:
        return {}
    found = next(filter(None, map(ctypes.util.find_library, _ALLOCATORS)), None)
    return {"LD_PRELOAD": found} if found else {}


def own_meeting_dir() -> Path | None:
    """The folder where the ranks meet, if it is one that only this user can enter."""
    path = Path(os.environ.get(_MEETING, ""))
    if path in _MET:
        return path
    if not path.name.startswith(_MEETING_PREFIX):
        return None
    with suppress(OSError):
        found = path.lstat()
        mode = found.st_mode & ~stat.S_ISGID  # which folders inherit
        if mode == stat.S_IFDIR | 0o700 and found.st_uid == os.getuid():
            _MET.add(path)
            return path
    return None


@contextmanager
def meeting_dir() -> Iterator[Path]:
    """A folder for this user only, in which the ranks of this machine meet."""
    with tempfile.TemporaryDirectory(prefix=_MEETING_PREFIX, ignore_cleanup_errors=True) as name:
        yield Path(name)


_ADVICE = tr(
    "torchrun sets the variables of all processes; to train without it, unset WORLD_SIZE, RANK, "
    "LOCAL_RANK and LOCAL_WORLD_SIZE"
)


def _number(name: str, default: str, *, least: int = 0, below: int = 10**6) -> int:
    """A variable as a number in [least, below)."""
    text = os.environ.get(name, default)
    # Not all that `int` reads: no signs, underscores or digits of other scripts.
    if re.fullmatch("[0-9]{1,9}", text) and least <= int(text) < below:
        return int(text)
    found = repr(text) if text else tr("not set")
    expected = tr("{} is {}, expected a number from {} to {}", name, found, least, below - 1)
    if name != "WORLD_SIZE":
        expected = tr("{} with the WORLD_SIZE that is set", expected)
    raise TrainingError(f"{expected}: {_ADVICE}")
