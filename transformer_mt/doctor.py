"""What this machine can do, measured where possible, as a list of findings.

Nothing comes in. Goes out: findings with a verdict and, where something can be better, advice.
This file reads the machine and changes nothing; it does not know configurations or corpora.
"""

import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

GIB = 2**30


@dataclass(frozen=True)
class Finding:
    """One fact about the machine; `advice` is empty where there is nothing to do."""

    name: str
    value: str
    verdict: Literal["ok", "note", "problem"] = "ok"
    advice: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def examine() -> list[Finding]:
    """Look at the machine; takes the time to import torch and under a second more."""
    from transformer_mt.runtime import choose_device

    device = choose_device()
    findings = [_python(), _torch(), _cpu(), _threads(), _memory(), *_cuda()]
    findings += [*_precision(device), _compiler(), *_packages(), _disk(Path.cwd())]
    return findings


def render(findings: Sequence[Finding]) -> str:
    """Aligned lines for a terminal, advice below what it is about, and a last line that sums up."""
    width = max((len(finding.name) for finding in findings), default=0)
    lines = []
    for finding in findings:
        lines.append(f"{finding.verdict:<7}  {finding.name:<{width}}  {finding.value}".rstrip())
        if finding.advice:
            lines.append(f"{'':7}  {'':{width}}  → {finding.advice}")
    n_problems = sum(finding.verdict == "problem" for finding in findings)
    summary = f"{n_problems} problem{'s' * (n_problems != 1)}" if n_problems else "no problems"
    return "\n".join([*lines, "", f"{summary} found"])


def _python() -> Finding:
    value = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < (3, 10):
        return Finding("Python", value, "problem", "tmt needs Python 3.10 or newer")
    return Finding("Python", value)


def _torch() -> Finding:
    import torch

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA in this build"
    return Finding("torch", f"{torch.__version__} ({build})")


def _cpu() -> Finding:
    from transformer_mt.runtime import cpu_flags

    native = [
        name
        for name, flag in (("AMX", "amx_bf16"), ("AVX512-BF16", "avx512_bf16"))
        if flag in cpu_flags()
    ]
    bf16 = f"native bf16: {' and '.join(native)}" if native else "no native bf16 known"
    return Finding("CPU", f"{_usable_cores()} cores usable of {os.cpu_count()}, {bf16}")


def _usable_cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _threads() -> Finding:
    import torch

    n_threads, n_cores = torch.get_num_threads(), _usable_cores()
    setting = os.environ.get("OMP_NUM_THREADS")
    value = f"{n_threads}" + (f" (OMP_NUM_THREADS={setting})" if setting else "")
    if n_threads > n_cores:
        advice = (
            f"more threads than usable cores wait for each other: set OMP_NUM_THREADS={n_cores}"
        )
        return Finding("threads", value, "problem", advice)
    if setting and n_threads < n_cores:
        advice = f"OMP_NUM_THREADS keeps torch from using all {n_cores} cores; unset it to train"
        return Finding("threads", value, "note", advice)
    return Finding("threads", value)


def _memory() -> Finding:
    total = _total_memory()
    if total is None:
        return Finding("memory", "unknown on this system")
    value = f"{total / GIB:.1f} GiB"
    if total < 4 * GIB:
        advice = "lower train.max_tokens and model.d_model, as configs/tiny.yaml does"
        return Finding("memory", value, "note", advice)
    return Finding("memory", value)


def _total_memory() -> int | None:
    """Bytes of RAM, or of the container's limit where that is lower."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdecimal() else total


def _cuda() -> Iterator[Finding]:
    import torch

    if not torch.cuda.is_available():
        advice = ""
        if shutil.which("nvidia-smi"):
            advice = "there is an NVIDIA driver: install a torch build with CUDA that fits it"
        yield Finding("CUDA", "no device: everything runs on the CPU", "note", advice)
        return
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        memory = f"{device.total_memory / GIB:.1f} GiB"
        capability = f"compute capability {device.major}.{device.minor}"
        yield Finding(f"CUDA {index}", f"{device.name}, {memory}, {capability}")


def _precision(device: "torch.device") -> Iterator[Finding]:
    """How fast each precision multiplies here, and whether `auto` takes the faster one."""
    import torch

    from transformer_mt.runtime import choose_precision

    fp32, bf16 = (_gflops(device, dtype) for dtype in (torch.float32, torch.bfloat16))
    ratio = bf16 / fp32
    yield Finding(
        "matrix product",
        f"bf16 {bf16:.0f}, fp32 {fp32:.0f} GFLOP/s on {device.type}: bf16 is {ratio:.1f} × as fast",
    )
    chosen = "bf16" if choose_precision("auto", device) == torch.bfloat16 else "fp32"
    other = "fp32" if chosen == "bf16" else "bf16"
    lost = 1 / ratio if chosen == "bf16" else ratio
    if lost > 1.3:  # less may be noise
        advice = f"measured, {other} is {lost:.1f} × as fast: try --set train.precision={other}"
        yield Finding("precision: auto", chosen, "note", advice)
    else:
        yield Finding("precision: auto", chosen)


def _gflops(device: "torch.device", dtype: "torch.dtype", budget_s: float = 0.1) -> float:
    """Speed of one square matrix product, the best of those that fit into the budget."""
    import torch

    width = 4096 if device.type == "cuda" else 768
    a = torch.ones(width, width, dtype=dtype, device=device)
    best_s, ends = float("inf"), 0.0
    for attempt in range(1000):
        start = time.perf_counter()
        a @ a
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        now = time.perf_counter()
        best_s = min(best_s, now - start)
        # The first product also pays for the set-up, and may be slow enough for all of the budget.
        ends = ends or now + budget_s
        if attempt and now >= ends:
            break
    return 2e-9 * width**3 / best_s


def _compiler() -> Finding:
    names = (os.environ.get("CXX", ""), "c++", "g++", "clang++", "cl")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found:
        return Finding("C++ compiler", found)
    advice = "training works without one, but is not compiled: install g++ or clang++ for speed"
    return Finding("C++ compiler", "none", "note", advice)


def _packages() -> Iterator[Finding]:
    """Versions of what pyproject.toml names: the core dependencies, then each extra."""
    try:
        requirements = metadata.requires("transformer-mt") or []
    except metadata.PackageNotFoundError:
        advice = "install it: pip install -e ."
        yield Finding("transformer-mt", "not installed, only importable", "note", advice)
        return
    groups: dict[str, dict[str, str | None]] = {}
    for requirement in requirements:
        name = re.split(r"[^\w.-]", requirement)[0]
        extra = re.search(r"extra == ['\"](.+?)['\"]", requirement)
        groups.setdefault(extra[1] if extra else "", {})[name] = _version(name)
    for extra_name, versions in groups.items():
        missing = [name for name, version in versions.items() if version is None]
        title = f"extra: {extra_name}" if extra_name else "packages"
        value = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
        if not missing:
            yield Finding(title, value)
        elif extra_name:
            advice = f"only if you want it: pip install 'transformer-mt[{extra_name}]'"
            yield Finding(title, value, "note", advice)
        else:
            yield Finding(title, value, "problem", f"pip install {' '.join(missing)}")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    value = f"{free / GIB:.1f} GiB free in {folder}"
    if not os.access(folder, os.W_OK):
        return Finding("disk", value, "problem", "this folder cannot be written: use another one")
    if free < GIB:
        advice = "one checkpoint of the base model takes about 0.8 GiB: make room"
        return Finding("disk", value, "problem", advice)
    if free < 5 * GIB:
        advice = "enough for a few checkpoints only: lower train.keep_last, or use --run-dir"
        return Finding("disk", value, "note", advice)
    return Finding("disk", value)
