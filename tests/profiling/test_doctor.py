"""`tmt doctor`: each finding follows from the machine; advice appears exactly when it is due."""

import json
import os
from collections import namedtuple
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from transformer_mt.profiling import doctor
from transformer_mt.profiling.doctor import GIB, Finding, examine, render

_CPU = torch.device("cpu")
_Usage = namedtuple("_Usage", ["total", "used", "free"])


def test_examine_looks_at_everything() -> None:
    findings = {finding.name: finding for finding in examine()}
    assert {"Python", "CPU", "memory", "precision auto", "C++ compiler", "disk"} < set(findings)
    assert any(name.startswith("CUDA") for name in findings)
    assert torch.__version__ in findings["Python"].value
    assert f"{torch.get_num_threads()} threads" in findings["CPU"].value
    assert str(Path.cwd()) in findings["disk"].value
    assert all(finding.advice for finding in findings.values() if finding.verdict == "problem")
    assert json.loads(json.dumps([finding.to_json() for finding in findings.values()]))


def test_render_aligns_and_counts() -> None:
    findings = [
        Finding("CPU", "2 cores"),
        Finding("C++ compiler", "none", "note", "install g++"),
        Finding("disk", "0.1 GiB", "problem", "make room"),
    ]
    assert render(findings).splitlines() == [
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
    monkeypatch.setattr(doctor.sys, "platform", "linux")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if setting:
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
    finding = doctor._cpu()
    assert finding.value.startswith(f"4 usable cores, {threads} threads")
    assert finding.verdict == verdict
    assert finding.advice.endswith(advice) and bool(finding.advice) == bool(advice)


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
    finding = doctor._precision(_CPU)
    assert finding.value.startswith(start)
    assert finding.value.endswith(f"(matrix product, GFLOP/s: bf16 {bf16}, fp32 {fp32})")
    assert finding.verdict == ("note" if advice else "ok")
    assert finding.advice.endswith(advice)


def test_cuda_devices_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(name="Card", total_memory=80 * GIB, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)
    assert list(doctor._cuda()) == [
        Finding("CUDA 0", "Card, 80 GiB, capability 9.0"),
        Finding("CUDA 1", "Card, 80 GiB, capability 9.0"),
    ]


@pytest.mark.parametrize(("driver", "verdict"), [(None, "ok"), ("/usr/bin/nvidia-smi", "note")])
def test_a_driver_without_a_fitting_torch_is_noted(
    driver: str | None, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: driver)
    (finding,) = doctor._cuda()
    assert (finding.value, finding.verdict) == ("no device: everything runs on the CPU", verdict)


def test_the_compiler_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    present = {"g++": "/usr/bin/g++", "mine": "/opt/mine"}
    monkeypatch.setattr(doctor.shutil, "which", present.get)
    monkeypatch.delenv("CXX", raising=False)
    assert doctor._compiler() == Finding("C++ compiler", "/usr/bin/g++")
    monkeypatch.setenv("CXX", "mine")
    assert doctor._compiler().value == "/opt/mine"
    present.clear()
    finding = doctor._compiler()
    assert (finding.value, finding.verdict) == ("none", "note")
    assert "install g++" in finding.advice


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
    assert fine == Finding("extra fine", "good 3")
    assert (track.value, track.verdict) == ("bad missing", "note")
    assert track.advice == "if you want it: pip install 'transformer-mt[track]'"
    installed.clear()
    (finding,) = doctor._packages()
    assert (finding.value, finding.verdict) == ("tmt runs uninstalled", "note")


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
    finding = doctor._disk(tmp_path)
    assert finding.value == f"{free:.1f} GiB free in {tmp_path}"
    assert finding.verdict == verdict
    assert advice in finding.advice and bool(finding.advice) == bool(advice)


@pytest.mark.parametrize(
    ("pages", "verdict"), [(16 * GIB // 4096, "ok"), (2 * GIB // 4096, "note")]
)
def test_little_memory_is_noted(pages: int, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": pages}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__, raising=False)
    monkeypatch.setattr(Path, "exists", lambda path: False)
    finding = doctor._memory()
    assert finding.value == f"{pages * 4096 / GIB:.1f} GiB"
    assert finding.verdict == verdict


def test_the_limit_of_a_container_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 16 * GIB // 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__, raising=False)
    monkeypatch.setattr(Path, "exists", lambda path: True)
    for text, shown in ((f"{3 * GIB}\n", "3.0 GiB"), ("max\n", "16.0 GiB")):
        monkeypatch.setattr(Path, "read_text", lambda path, text=text: text)
        assert doctor._memory().value == shown
