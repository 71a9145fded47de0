"""`tmt doctor`: each fact follows from the machine; advice appears exactly when it is due."""

import json
import os
from collections import namedtuple
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from transformer_mt.profiling import doctor
from transformer_mt.profiling.doctor import GIB, MachineFact, examine_machine, render

_CPU = torch.device("cpu")
_Usage = namedtuple("_Usage", ["total", "used", "free"])


def test_examine_machine_looks_at_everything() -> None:
    facts = {fact.name: fact for fact in examine_machine()}
    assert {"Python", "CPU", "memory", "precision auto", "C++ compiler", "disk"} < set(facts)
    assert any(name.startswith("CUDA") for name in facts)
    assert torch.__version__ in facts["Python"].value
    assert f"{torch.get_num_threads()} threads" in facts["CPU"].value
    assert str(Path.cwd()) in facts["disk"].value
    assert all(fact.advice for fact in facts.values() if fact.verdict == "problem")
    assert json.loads(json.dumps([vars(fact) for fact in facts.values()]))


def test_render_aligns_and_counts() -> None:
    facts = [
        MachineFact("CPU", "2 cores"),
        MachineFact("C++ compiler", "none", "note", "install g++"),
        MachineFact("disk", "0.1 GiB", "problem", "make room"),
    ]
    assert render(facts).splitlines() == [
        "ok       CPU           2 cores",
        "note     C++ compiler  none",
        "                       → install g++",
        "problem  disk          0.1 GiB",
        "                       → make room",
        "problems: 1",
    ]
    assert render([]) == "problems: 0"


@pytest.mark.parametrize(
    ("threads", "setting", "verdict", "advice"),
    [
        (4, None, "ok", ""),
        (4, "4", "ok", ""),
        (2, None, "ok", ""),  # one thread for each of two hyper-threaded cores
        (1, "1", "note", "OMP_NUM_THREADS=1 leaves cores idle: unset it to train faster"),
        (16, None, "problem", "slow the others down: set OMP_NUM_THREADS=4"),
    ],
)
def test_threads_are_compared_with_usable_cores(
    threads: int, setting: str | None, verdict: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "usable_cores", lambda: 4)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if setting:
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
    fact = doctor._cpu()
    assert fact.value.startswith(f"4 usable cores, {threads} threads")
    assert fact.verdict == verdict
    assert fact.advice.endswith(advice) and bool(fact.advice) == bool(advice)


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ({"amx_bf16", "avx512_bf16", "fma"}, "bf16: amx_bf16, avx512_bf16"),
        ({"avx2"}, "bf16: not native"),
    ],
)
def test_native_bf16_is_named(flags: set[str], shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "cpu_flags", lambda: flags)
    assert doctor._cpu().value.endswith(shown)


@pytest.mark.parametrize(
    ("chosen", "fp32", "bf16", "start", "advice"),
    [
        (torch.bfloat16, 100, 500, "bf16: 5.0 × as fast as fp32", ""),
        (torch.float32, 100, 50, "fp32: 2.0 × as fast as bf16", ""),
        (torch.bfloat16, 100, 90, "bf16: 0.9 × as fast as fp32", ""),  # may be noise
        (torch.bfloat16, 100, 50, "bf16: 0.5 × as fast", "try --set train.precision=fp32"),
        (torch.float32, 100, 500, "fp32: 0.2 × as fast", "try --set train.precision=bf16"),
    ],
)
def test_precision_is_questioned_when_the_measurement_disagrees(
    chosen: torch.dtype,
    fp32: float,
    bf16: float,
    start: str,
    advice: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    speeds = {torch.float32: fp32, torch.bfloat16: bf16}
    monkeypatch.setattr(doctor, "product_gflops", lambda device, dtype, width: speeds[dtype])
    monkeypatch.setattr(doctor, "choose_precision", lambda setting, device: chosen)
    fact = doctor._precision(_CPU)
    assert fact.value.startswith(start)
    assert fact.value.endswith(f"(matrix product, GFLOP/s: bf16 {bf16}, fp32 {fp32})")
    assert fact.verdict == ("note" if advice else "ok")
    assert fact.advice.endswith(advice)


def test_cuda_devices_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(name="Card", total_memory=80 * GIB, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)
    assert list(doctor._cuda()) == [
        MachineFact("CUDA 0", "Card, 80 GiB, capability 9.0"),
        MachineFact("CUDA 1", "Card, 80 GiB, capability 9.0"),
    ]


@pytest.mark.parametrize(("driver", "verdict"), [(None, "ok"), ("/usr/bin/nvidia-smi", "note")])
def test_a_driver_without_a_fitting_torch_is_noted(
    driver: str | None, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: driver)
    (fact,) = doctor._cuda()
    assert (fact.value, fact.verdict) == ("no device: everything runs on the CPU", verdict)


def test_the_compiler_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    present = {"g++": "/usr/bin/g++", "mine": "/opt/mine"}
    monkeypatch.setattr(doctor.shutil, "which", present.get)
    monkeypatch.delenv("CXX", raising=False)
    assert doctor._compiler() == MachineFact("C++ compiler", "/usr/bin/g++")
    monkeypatch.setenv("CXX", "mine")
    assert doctor._compiler().value == "/opt/mine"
    present.clear()
    fact = doctor._compiler()
    assert (fact.value, fact.verdict) == ("none", "note")
    assert "install g++" in fact.advice


def test_missing_packages_are_a_problem_and_missing_extras_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed = {"transformer-mt": "1", "torch": "2.5", "good": "3"}

    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    requirements = [
        "torch>=2.5", "absent[x]>=1", "good ; extra == 'fine'", 'bad>=1; extra == "track"',
        "ruff; extra == 'dev'",
    ]  # fmt: skip
    monkeypatch.setattr(doctor.metadata, "version", version)
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: requirements)
    core, fine, track = doctor._packages()
    assert (core.value, core.verdict) == ("torch 2.5, absent missing", "problem")
    assert fine == MachineFact("extra fine", "good 3")
    assert (track.value, track.verdict) == ("bad missing", "note")
    assert track.advice == "if you want it: pip install 'transformer-mt[track]'"
    installed.clear()
    (fact,) = doctor._packages()
    assert (fact.value, fact.verdict) == ("tmt runs uninstalled", "note")


@pytest.mark.parametrize(
    ("free", "writable", "verdict", "advice"),
    [
        (50, True, "ok", ""),
        (3, True, "note", "0.8 GiB: make room"),
        (0.5, True, "problem", "0.8 GiB: make room"),
        (50, False, "problem", "nothing can be written here"),
    ],
)
def test_disk_space(
    free: float,
    writable: bool,
    verdict: str,
    advice: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usage = _Usage(100 * GIB, 0, int(free * GIB))
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: usage)
    monkeypatch.setattr(os, "access", lambda folder, mode: writable)
    fact = doctor._disk(tmp_path)
    assert fact.value == f"{free:.1f} GiB free in {tmp_path}"
    assert fact.verdict == verdict
    assert advice in fact.advice and bool(fact.advice) == bool(advice)


@pytest.mark.parametrize(
    ("total", "value", "verdict"),
    [(16 * GIB, "16.0 GiB", "ok"), (2 * GIB, "2.0 GiB", "note"),
     (None, "unknown on this system", "ok")],
)  # fmt: skip
def test_little_memory_is_noted(
    total: int | None, value: str, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "total_memory_bytes", lambda: total)
    fact = doctor._memory()
    assert (fact.value, fact.verdict) == (value, verdict)
