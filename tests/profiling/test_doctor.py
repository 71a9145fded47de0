"""`tmt doctor`: each fact follows from the machine; advice appears exactly when it is due."""

import json
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from transformer_mt.profiling import doctor
from transformer_mt.profiling.doctor import GIB, MachineFact, examine_machine, render


def test_examine_machine_looks_at_everything() -> None:
    facts = {fact.name: fact for fact in examine_machine()}
    assert {"Python", "CPU", "memory", "precision auto", "disk"} < set(facts)
    assert any(name.startswith("CUDA") for name in facts)
    assert torch.__version__ in facts["Python"].value
    assert f"{torch.get_num_threads()} threads" in facts["CPU"].value
    assert str(Path.cwd()) in facts["disk"].value
    assert all(fact.advice for fact in facts.values() if fact.verdict == "problem")
    assert json.loads(json.dumps([vars(fact) for fact in facts.values()]))


def test_render_aligns_and_counts() -> None:
    facts = [
        MachineFact("CPU", "2 cores"),
        MachineFact("allocator", "glibc", "note", "install it"),
        MachineFact("disk", "0.1 GiB", "problem", "make room"),
    ]
    assert render(facts).splitlines() == [
        "ok       CPU        2 cores",
        "note     allocator  glibc",
        "                    → install it",
        "problem  disk       0.1 GiB",
        "                    → make room",
        "problems: 1",
    ]
    assert render([]) == "problems: 0"


def cpu(threads: int, flags: set[str], setting: str | None = None) -> dict[str, Any]:
    return {"usable_cores": 4, "torch.get_num_threads": threads, "cpu_flags": flags,
            "os.environ.get": setting}  # fmt: skip


def system(name: str, release: str = "6.1") -> dict[str, Any]:
    return {"platform.system": name, "platform.release": release}


def precision(chosen: torch.dtype, fp32: float, bf16: float) -> dict[str, Any]:
    speeds = {torch.float32: fp32, torch.bfloat16: bf16}
    return {"product_gflops": lambda _, dtype, __: speeds[dtype], "choose_precision": chosen}


def disk(free: float, writable: bool = True) -> dict[str, Any]:
    usage = SimpleNamespace(free=int(free * GIB))
    return {"shutil.disk_usage": usage, "os.access": writable}


BF16, FP32 = torch.bfloat16, torch.float32
AMX = {"amx_bf16", "avx512_bf16", "fma"}
FACTS = [  # machine, start of the value, verdict, part of the advice
    ("_cpu", cpu(4, AMX), "4 usable cores, 4 threads, bf16: amx_bf16, avx512_bf16", "ok", ""),
    ("_cpu", cpu(4, {"avx2"}, "4"), "4 usable cores, 4 threads, bf16: not native", "ok", ""),
    ("_cpu", cpu(2, AMX), "4 usable cores, 2", "ok", ""),  # a thread for two hyper-threaded cores
    ("_cpu", cpu(1, AMX, "1"), "4 usable cores, 1", "note", "OMP_NUM_THREADS=1 leaves cores idle"),
    ("_cpu", cpu(16, AMX), "4 usable cores, 16", "problem", "down: set OMP_NUM_THREADS=4"),
    ("_precision", precision(BF16, 100, 500), "bf16: 5.0 × as fast as fp32", "ok", ""),
    ("_precision", precision(FP32, 100, 50), "fp32: 2.0 × as fast as bf16", "ok", ""),
    ("_precision", precision(BF16, 100, 90), "bf16: 0.9 × as fast as fp32", "ok", ""),  # noise?
    ("_precision", precision(BF16, 100, 50), "bf16: 0.5 × ", "note", "train.precision=fp32"),
    ("_precision", precision(FP32, 100, 500), "fp32: 0.2 × ", "note", "train.precision=bf16"),
    ("_system", system("Linux"), "Linux (tested on Linux; written for macOS", "ok", ""),
    ("_system", system("Linux", "5.15.1-microsoft-standard-WSL2"), "Linux within Windows (WSL)",
     "note", "/mnt/c is slow"),
    ("_system", system("Darwin", "23.1"), "macOS (", "note", "not tested here; trains and transl"),
    ("_system", system("FreeBSD"), "FreeBSD (", "note", "tmt is made for Linux"),
    ("_disk", disk(50), "50.0 GiB free in here", "ok", ""),
    ("_disk", disk(3), "3.0 GiB", "note", "0.8 GiB: make room"),
    ("_disk", disk(0.5), "0.5 GiB", "problem", "0.8 GiB: make room"),
    ("_disk", disk(50, writable=False), "50.0 GiB", "problem", "nothing can be written here"),
    ("_memory", {"total_memory_bytes": 16 * GIB}, "16.0 GiB", "ok", ""),
    ("_memory", {"total_memory_bytes": 2 * GIB}, "2.0 GiB", "note", "little for training"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "machine", "start", "verdict", "advice"), FACTS)
def test_facts_follow_from_the_machine(
    name: str, machine: dict[str, Any], start: str, verdict: str, advice: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    arguments = {"_precision": [torch.device("cpu")], "_disk": [Path("here")]}.get(name, [])
    with monkeypatch.context() as patch:
        for place, value in machine.items():
            answer = value if callable(value) else lambda *_, value=value: value
            patch.setattr(f"transformer_mt.profiling.doctor.{place}", answer)
        fact = getattr(doctor, name)(*arguments)
    assert fact.value.startswith(start)
    assert (fact.verdict, bool(fact.advice)) == (verdict, verdict != "ok")
    assert advice in fact.advice


@pytest.mark.parametrize(("driver", "verdict"), [(None, "ok"), ("/usr/bin/nvidia-smi", "note")])
def test_cuda_devices_are_listed_and_a_driver_without_torch_is_noted(
    driver: str | None, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: driver)
    properties = SimpleNamespace(name="Card", total_memory=80 * GIB, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)
    n_devices = 2
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_devices)
    card = "Card, 80 GiB, capability 9.0"
    monkeypatch.setattr(doctor, "reason_without", lambda _: "")
    cards = [MachineFact(f"CUDA {index}", card) for index in (0, 1)]
    assert list(doctor._cuda()) == [*cards, MachineFact("kernels", "of tmt")]
    monkeypatch.setattr(doctor, "reason_without", lambda _: "no compiler")
    assert list(doctor._cuda())[-1] == MachineFact("kernels", "torch's", "note", "no compiler")
    n_devices = 0
    (fact,) = doctor._cuda()
    assert (fact.value, fact.verdict) == ("no device: everything runs on the CPU", verdict)


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
        "ruff; extra == 'dev'", "deepl; extra == 'test-serve'",
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


@pytest.mark.parametrize("given, verdict", [("libjemalloc.so.2", "ok"), ("", "note")])
def test_the_allocator_of_training_is_told(
    monkeypatch: pytest.MonkeyPatch, given: str, verdict: str
) -> None:
    monkeypatch.setattr(doctor.platform, "system", lambda: "Linux")
    monkeypatch.setenv("LD_PRELOAD", given)
    fact = next(fact for fact in examine_machine() if fact.name == "allocator")
    assert (fact.value, fact.verdict) == (given or "glibc", verdict)
    assert bool(fact.advice) is (verdict == "note")
