"""For torch: device, precision, memory, seeds, stop signals. Nothing happens on import."""

import hashlib
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch

from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.machine import (
    ARENA_MAX,
    cpu_flags,
    glibc,
    keep_freed_memory,
    peak_memory_mib,
    release_freed_memory,
    usable_cores,
)

_PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


_ONE_REQUEST_S = 10.0  # in which SIGTERM counts once
_VISIBLE = "CUDA_VISIBLE_DEVICES"


def use_device(choice: str) -> None:
    """Let this process, and those that it starts, see only the chosen devices.

    Must be called before CUDA is used.

    Args:
        choice: `auto`, `cpu`, `cuda` for all GPUs, or `cuda:1` for one, counted as torch does.
    Raises:
        TmtError: no device is called so, or this machine has none such.
    """
    if choice == "auto":
        return
    if choice == "cpu":
        os.environ[_VISIBLE] = ""
        return
    if not (found := re.fullmatch(r"cuda(?::([0-9]{1,4}))?", choice)):
        raise TmtError(
            tr("--device {}: expected auto, cpu, cuda, or one GPU such as cuda:1", choice)
        )
    if found[1] is not None:
        number, visible = int(found[1]), os.environ.get(_VISIBLE)
        others = None if visible is None else [name for name in visible.split(",") if name.strip()]
        if others is not None and number >= len(others):
            raise TmtError(
                tr("--device {}: {}={} leaves {} GPUs", choice, _VISIBLE, visible, len(others))
            )
        os.environ[_VISIBLE] = str(number) if others is None else others[number].strip()
    if not torch.cuda.is_available():
        text = tr(
            "--device {}: PyTorch finds no such GPU here; `tmt doctor` shows what there is, "
            "--device cpu does without",
            choice,
        )
        raise TmtError(text)


def choose_device() -> torch.device:
    """The first CUDA device, or the CPU."""
    if not torch.cuda.is_available():
        if torch.get_num_threads() > (cores := usable_cores()):  # a quota, of which torch knows not
            torch.set_num_threads(cores)
        return torch.device("cpu")
    # cuDNN makes a plan of its attention for each new shape, which takes longer than an update.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device("cuda")


def choose_precision(setting: str, device: torch.device) -> torch.dtype:
    """Resolve `train.precision`: auto is bf16 where the hardware multiplies it natively, else fp32.

    That is CUDA from Ampere on, and a CPU with AMX or AVX512-BF16.
    """
    if setting in _PRECISIONS:
        return _PRECISIONS[setting]
    if setting != "auto":
        raise ConfigError(tr("precision {!r}: use auto, fp32, bf16 or fp16", setting))
    if device.type == "cuda":
        native = torch.cuda.get_device_capability(device)[0] >= 8
    else:
        native = bool(cpu_flags() & {"amx_bf16", "avx512_bf16"})
    return torch.bfloat16 if native else torch.float32


def search_precision(setting: str, device: torch.device) -> tuple[torch.dtype, bool]:
    """Resolve the precision of a search: that of the parameters, and whether products are int8.

    Raises:
        ConfigError: see `choose_precision`; or int8 where it is not exact or not faster.
    """
    if setting != "int8":
        return choose_precision(setting, device), False
    # Without VNNI, sums of two products of bytes do not fit into their 16 bits.
    if device.type != "cpu" or not cpu_flags() & {"avx512_vnni", "avx_vnni"}:
        name = device.type.upper()
        raise ConfigError(
            tr("precision int8: needs a CPU with VNNI, this {} has none; use auto", name)
        )
    return choose_precision("auto", device), True


def precision_name(dtype: torch.dtype) -> str:
    """The value of `train.precision` that means a dtype."""
    return next(name for name, named in _PRECISIONS.items() if named == dtype)


def keep_memory() -> None:
    """Let glibc keep freed tensors instead of returning them to the kernel after each operation.

    A training step frees and takes the same few megabytes hundreds of times; by default each time
    costs the page faults again, half of the step. `release_memory` bounds the kept memory.
    """
    if (libc := glibc()) is not None:
        libc.mallopt(ARENA_MAX, 1)  # backward runs in another thread: let it reuse the same heap
    keep_freed_memory(1 << 30)


def release_memory() -> None:
    """Give unused heap back to the kernel; cheap enough for once per validation."""
    release_freed_memory()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def peak_memory_on(device: torch.device) -> float:
    """The most MiB so far that tensors of this process took on a GPU; of a CPU all that it took."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return peak_memory_mib()


def seed_all(*parts: object) -> None:
    """Seed torch as a pure function of `parts`, the same in every process.

    Of devices, those that this process uses: for each other kind `torch.manual_seed` writes down
    the stack of calls, 0.5 ms in all.
    """
    digest = hashlib.sha256(repr(parts).encode()).digest()
    seed = int.from_bytes(digest[:8], "little") >> 1
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


class StopRequest:
    """Remembers that SIGINT or SIGTERM came; a second one ends the process at once.

    A service manager and the launcher may both send SIGTERM: within seconds that is one request.
    """

    def __init__(self) -> None:
        self.signal_name: str | None = None
        self._since = 0.0

    def __bool__(self) -> bool:
        return self.signal_name is not None

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self and number == signal.SIGTERM and now - self._since < _ONE_REQUEST_S:
            return
        if self:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.signal_name, self._since = signal.Signals(number).name, now


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
