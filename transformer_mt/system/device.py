"""The machine: device, precision, memory, seeds, stop signals. Nothing happens on import."""

import ctypes
import hashlib
import multiprocessing
import os
import platform
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch

from transformer_mt.errors import ConfigError


def choose_device() -> torch.device:
    """The first CUDA device, or the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def choose_precision(setting: str, device: torch.device) -> torch.dtype:
    """Resolve `train.precision`.

    Args:
        setting: `auto`, `fp32`, `bf16` or `fp16`; auto is bf16 where the hardware multiplies it
            natively (CUDA from Ampere on, a CPU with AMX or AVX512-BF16), else fp32.
    """
    named = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    if setting in named:
        return named[setting]
    if setting != "auto":
        raise ConfigError(f"precision {setting!r}: use auto, fp32, bf16 or fp16")
    if device.type == "cuda":
        native = torch.cuda.get_device_capability(device)[0] >= 8
    else:
        native = bool(cpu_flags() & {"amx_bf16", "avx512_bf16"})
    return torch.bfloat16 if native else torch.float32


def cpu_flags() -> set[str]:
    """Instruction-set flags of this CPU as Linux names them; empty where they cannot be read."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return set(line.partition(":")[2].split())
    except OSError:
        return set()
    return set()


def keep_memory() -> None:
    """Let glibc keep freed tensors instead of returning them to the kernel after each operation.

    A training step frees and takes the same few megabytes hundreds of times; by default each time
    costs the page faults again, half of the step. `release_memory` bounds what is kept.
    """
    libc = _glibc()
    if libc is None:
        return
    trim_threshold, mmap_threshold, arena_max = -1, -3, -8  # names of mallopt(3)
    libc.mallopt(arena_max, 1)  # backward runs in another thread: let it reuse the same heap
    libc.mallopt(mmap_threshold, 32 << 20)  # the largest value glibc accepts
    libc.mallopt(trim_threshold, 1 << 30)


def release_memory() -> None:
    """Give unused heap back to the kernel; cheap enough for once per validation."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return None
    return ctypes.CDLL(None)


def peak_memory_mib() -> float:
    """Largest resident size so far, in MiB; 0 where the system does not say.

    Of this process and its copies that help it now, added up; pages they share count in each.
    """
    pids = [os.getpid(), *(child.pid for child in multiprocessing.active_children())]
    peaks = [
        int(line.split()[1])
        for pid in pids
        for line in _lines(Path(f"/proc/{pid}/status"))  # Linux
        if line.startswith("VmHWM:")
    ]
    if peaks:
        return sum(peaks) / 2**10
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def available_memory_bytes(root: Path = Path("/")) -> int:
    """Memory that this process may still take without driving anything out of memory.

    On Linux what the kernel calls available, or what is left to the control groups (version 1 or 2)
    that the process is in, if that is less. Elsewhere the free pages, or half of all pages, where
    the system tells; else 2 GiB.

    Args:
        root: where `proc` and `sys` are.
    """
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return max(0, min([int(line.split()[1]) << 10, *_left_to_cgroups(root)]))
    known = getattr(os, "sysconf_names", {})
    if "SC_AVPHYS_PAGES" in known:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if "SC_PHYS_PAGES" in known:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return 2 << 30


def _left_to_cgroups(root: Path) -> Iterator[int]:
    """Bytes left to each control group with a limit that the process is in.

    File cache that is not in use counts as left: the kernel gives it up first.
    """
    mounted = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, group = line.split(":", 2)
        if not controllers:  # version 2
            top, limit, usage, cache = mounted, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top, cache = mounted / "memory", "total_inactive_file"
            limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        innermost = top / group.lstrip("/")
        # In a container the path may be the host's, and the top be the container's own group.
        for directory in [innermost, *innermost.parents]:
            if not directory.is_relative_to(top):
                break
            bounds = _lines(directory / limit)
            if bounds and bounds[0] != "max":
                stat = dict(entry.split() for entry in _lines(directory / "memory.stat"))
                used = int(_lines(directory / usage)[0]) - int(stat.get(cache, 0))
                yield int(bounds[0]) - used


def _lines(path: Path) -> list[str]:
    """Of a text file; none if it is not there."""
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def seed_all(*parts: object) -> None:
    """Seed torch as a pure function of `parts`, the same in every process."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    torch.manual_seed(int.from_bytes(digest[:8], "little") >> 1)


class StopRequest:
    """Remembers that SIGINT or SIGTERM came; a second one ends the process at once."""

    def __init__(self) -> None:
        self.signal_name: str | None = None

    def __bool__(self) -> bool:
        return self.signal_name is not None

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.signal_name = signal.Signals(number).name


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Within the block SIGINT and SIGTERM only set a flag, so that an update can be finished."""
    request = StopRequest()
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(number, request._handle) for number in numbers]
    try:
        yield request
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)
