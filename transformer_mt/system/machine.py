"""Cores and memory of this machine, or of the container, as far as this process may use them."""

import ctypes
import math
import multiprocessing
import os
import platform
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")  # where `proc` and `sys` are
TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8  # names of mallopt(3)
# Files of control groups, by version: limit, use, and the part of it that is file cache; quota and
# period, in microseconds.
_MEMORY = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
_CPU = {1: ("cpu.cfs_quota_us", "cpu.cfs_period_us"), 2: ("cpu.max",)}
_LARGEST_MMAP_THRESHOLD = 32 << 20  # that glibc accepts


def usable_cores() -> int:
    """Cores that this process may use; of a quota of processor time, such as that of a container,
    as many as it keeps busy."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        quotas = [math.ceil(quota) for quota in _core_quotas(ROOT)]
        return max(1, min([len(os.sched_getaffinity(0)), *quotas]))
    return os.cpu_count() or 1


def cpu_flags() -> set[str]:
    """Instruction-set flags of this CPU as Linux names them; empty where they cannot be read."""
    for line in _lines(ROOT / "proc/cpuinfo"):
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()


def keep_freed_memory(most: int) -> None:
    """Let glibc keep freed memory, at most so many bytes of it, instead of giving it back at once.

    To take it again costs page faults, which is most of the time of an operation on some megabytes.
    """
    if (libc := glibc()) is not None:
        libc.mallopt(MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
        libc.mallopt(TRIM_THRESHOLD, most)


def release_freed_memory() -> None:
    """Give all that is kept back to the kernel."""
    if (libc := glibc()) is not None:
        libc.malloc_trim(0)


def glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


def peak_memory_mib() -> float:
    """Largest resident size so far, in MiB, of this process and of its copies, added up."""
    pids = [os.getpid(), *(child.pid for child in multiprocessing.active_children())]
    peaks = [
        int(line.split()[1])
        for pid in pids
        for line in _lines(ROOT / f"proc/{pid}/status")  # Linux
        if line.startswith("VmHWM:")
    ]
    if peaks:
        return sum(peaks) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def total_memory_bytes() -> int:
    """Memory of the machine, or the lowest limit of a control group."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *(limit for limit, _ in _limits(ROOT))])


def available_memory_bytes(root: Path = ROOT) -> int:
    """Memory that this process may still take without driving anything out of memory.

    On Linux the kernel's available memory, or the rest of the limits of the control groups (version
    1 or 2) that the process is in, if that is less. Elsewhere half of all pages.
    """
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            left = [limit - used for limit, used in _limits(root)]
            return max(0, min([int(line.split()[1]) << 10, *left]))
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """Bytes allowed and bytes used of each control group with a limit that the process is in.

    File cache that is not in use does not count as used: the kernel gives it up first.
    """
    for directory, version in _control_groups(root, "memory"):
        limit, usage, cache = _MEMORY[version]
        bounds = _lines(directory / limit)
        if bounds and bounds[0] != "max":
            stat = dict(entry.split() for entry in _lines(directory / "memory.stat"))
            used = int(_lines(directory / usage)[0]) - int(stat.get(cache, 0))
            yield int(bounds[0]), used


def _core_quotas(root: Path) -> Iterator[float]:
    """Processor time per time of each control group with a quota that the process is in."""
    for directory, version in _control_groups(root, "cpu"):
        lines = [line for name in _CPU[version] for line in _lines(directory / name)]
        quota, _, period = " ".join(lines).partition(" ")
        if period and quota not in ("max", "-1"):
            yield int(quota) / int(period)


def _control_groups(root: Path, controller: str) -> Iterator[tuple[Path, int]]:
    """The folder of each control group that the process is in, innermost first; their version."""
    mounted = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        version, top = (1, mounted / controller) if controllers else (2, mounted)
        innermost = top / group.lstrip("/")
        # In a container the path may be the host's, and the top be the container's own group.
        for directory in [innermost, *innermost.parents]:
            if not directory.is_relative_to(top):
                break
            yield directory, version


def _lines(path: Path) -> list[str]:
    """Of a text file; none if it is not there."""
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
