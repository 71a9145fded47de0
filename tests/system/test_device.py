"""The machine: precision, seeds, stop signals."""

import os
import signal
import subprocess
import sys

import pytest
import torch

from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.system import device as runtime
from transformer_mt.system.device import (
    choose_precision,
    keep_memory,
    peak_memory_on,
    release_memory,
    search_precision,
    seed_all,
    stop_on_signals,
    use_device,
)
from transformer_mt.system.machine import peak_memory_mib

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("setting", "flags", "expected"),
    [
        ("fp32", {"amx_bf16"}, torch.float32),
        ("bf16", set(), torch.bfloat16),
        ("fp16", set(), torch.float16),
        ("auto", {"sse2", "amx_bf16"}, torch.bfloat16),
        ("auto", {"avx512_bf16"}, torch.bfloat16),
        ("auto", {"sse2", "avx512f", "bf16"}, torch.float32),
        ("auto", set(), torch.float32),
    ],
)
def test_precision(
    setting: str, flags: set[str], expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "cpu_flags", lambda: flags)
    assert choose_precision(setting, CPU) == expected


def test_int8_for_search_needs_vnni(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other operations are in what `auto` means; training does not know int8."""
    for flags, dtype in (({"avx_vnni"}, torch.float32),
                         ({"avx512_vnni", "avx512_bf16"}, torch.bfloat16)):  # fmt: skip
        monkeypatch.setattr(runtime, "cpu_flags", lambda flags=flags: flags)
        assert search_precision("int8", CPU) == (dtype, True)
        assert search_precision("auto", CPU) == (dtype, False)
        with pytest.raises(
            ConfigError, match="needs a CPU with VNNI, this CUDA has none; use auto"
        ):
            search_precision("int8", torch.device("cuda"))
    monkeypatch.setattr(runtime, "cpu_flags", lambda: {"avx2", "avx512f"})
    with pytest.raises(ConfigError, match=r"precision int8: .* this CPU has none"):
        search_precision("int8", CPU)
    with pytest.raises(ConfigError, match="use auto, fp32, bf16 or fp16"):
        choose_precision("int8", CPU)


@pytest.mark.parametrize(
    ("capability", "expected"), [((7, 5), torch.float32), ((8, 0), torch.bfloat16)]
)
def test_precision_of_cuda_devices(
    capability: tuple[int, int], expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert choose_precision("auto", torch.device("cuda")) == expected


def test_unknown_precision() -> None:
    with pytest.raises(ConfigError, match="precision 'half': use auto, fp32, bf16 or fp16"):
        choose_precision("half", CPU)


@pytest.mark.parametrize(
    ("choice", "before", "after"),
    [
        ("auto", None, None),
        ("auto", "3", "3"),
        ("cpu", "0,1", ""),
        ("cuda", None, None),
        ("cuda", "2,3", "2,3"),
        ("cuda:1", None, "1"),
        ("cuda:1", "4,GPU-7", "GPU-7"),
        ("cuda:0", "6", "6"),
    ],
)
def test_only_the_chosen_devices_are_seen(
    choice: str, before: str | None, after: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if before is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    use_device(choice)
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == after


@pytest.mark.parametrize(
    ("choice", "before", "available", "message"),
    [
        ("gpu", None, True, "--device gpu: expected auto, cpu, cuda, or one GPU such as cuda:1"),
        ("cuda:x", None, True, "--device cuda:x: expected auto"),
        ("CPU", None, True, "--device CPU: expected auto, cpu"),
        ("cuda", None, False, "--device cuda: PyTorch finds no such GPU here; `tmt doctor`"),
        ("cuda:7", None, False, "--device cuda:7: PyTorch finds no such GPU here"),
        ("cuda:1", "5", True, "--device cuda:1: CUDA_VISIBLE_DEVICES=5 leaves 1 GPUs"),
    ],
)
def test_a_device_that_is_not_there(
    choice: str, before: str | None, available: bool, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before or "")
    if before is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    with pytest.raises(TmtError) as caught:
        use_device(choice)
    assert str(caught.value).startswith(message)


def test_seed_is_a_function_of_all_parts() -> None:
    draws = {}
    for parts in [(1, 2), (1, 3), (2, 1), (12,), ("1", 2), (1, 2, 3), (1, "initial weights")]:
        seed_all(*parts)
        draws[parts] = torch.rand(4)
        seed_all(*parts)
        assert torch.rand(4).equal(draws[parts])
    assert len({tuple(draw.tolist()) for draw in draws.values()}) == len(draws)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_only_sets_a_flag(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(ValueError, match="bug"), stop_on_signals() as stop:
        assert not stop
        os.kill(os.getpid(), number)
        assert stop.signal_name == number.name
        raise ValueError("bug")
    assert signal.getsignal(number) is before, "after an error too"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_process(number: signal.Signals) -> None:
    """SIGTERM of a service manager and of the launcher come at once, and are one request."""
    code = (
        "import os, signal, time\n"
        "from transformer_mt.system.device import stop_on_signals\n"
        "with stop_on_signals() as stop:\n"
        "    for _ in range(2):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        print(bool(stop), flush=True)\n"
        "    past = time.monotonic() + 11\n"
        "    time.monotonic = lambda: past\n"
        f"    os.kill(os.getpid(), {number.value})\n"
        "    print('still here')\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout == "True\n" * 2
    assert found.returncode == -number


def test_memory_functions_work_here() -> None:
    keep_memory()
    before = peak_memory_mib()
    block = torch.ones(30 << 20, dtype=torch.uint8)
    del block
    release_memory()
    assert before > 10
    assert peak_memory_mib() > before - 2  # the system counts each thread's pages now and then


def test_the_memory_of_a_gpu_is_that_of_its_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3 << 30)
    monkeypatch.setattr(runtime, "peak_memory_mib", lambda: 100.0)
    assert peak_memory_on(torch.device("cuda", 0)) == 3 * 1024
    assert peak_memory_on(CPU) == 100.0
