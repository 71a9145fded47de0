"""What this machine can do, measured where possible: facts, a verdict on each, and advice."""

import os
import platform
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import torch
from rich.cells import cell_len

from transformer_mt.kernels.choice import reason_without
from transformer_mt.messages.catalogue import tr
from transformer_mt.profiling.flops import product_gflops
from transformer_mt.rendering.cells import fit
from transformer_mt.system.device import choose_device, choose_precision
from transformer_mt.system.machine import cpu_flags, total_memory_bytes, usable_cores
from transformer_mt.system.processes.environment import allocator_variables

GIB = 2**30
Verdict = Literal["ok", "note", "problem"]
_VERDICTS = {"ok": tr("ok"), "note": tr("note"), "problem": tr("problem")}
_NAMES = {
    "system": tr("system"),
    "memory": tr("memory"),
    "allocator": tr("allocator"),
    "packages": tr("packages"),
    "disk": tr("disk"),
}
_OF_DEVELOPERS = ("dev", "fuzz", "test-exports", "test-serve")  # extras
_WSL = tr("Linux within Windows (WSL)")


@dataclass(frozen=True)
class MachineFact:
    """One fact about the machine; `advice` is empty where there is nothing to do."""

    name: str
    value: str
    verdict: Verdict = "ok"
    advice: str = ""


def examine_machine() -> list[MachineFact]:
    """Look at the machine; under a second."""
    software = tr(
        "{}, torch {}, {}", platform.python_version(), torch.__version__, platform.platform()
    )
    device = choose_device()
    facts = [MachineFact("Python", software), _system(), _cpu(), _memory(), *_allocator(), *_cuda()]
    return [*facts, _precision(device), *_packages(), _disk(Path.cwd())]


def render(facts: Sequence[MachineFact]) -> str:
    """Aligned lines for a terminal, advice below its fact, and the number of problems."""
    names = [_NAMES.get(fact.name, fact.name) for fact in facts]
    width = max(map(cell_len, names), default=0)
    lines = []
    for fact, name in zip(facts, names, strict=True):
        lines.append(f"{fit(_VERDICTS[fact.verdict], 7)}  {fit(name, width)}  {fact.value}")
        if fact.advice:
            lines.append(f"{'':<{width + 9}}  → {fact.advice}")
    lines.append(tr("problems: {}", sum(fact.verdict == "problem" for fact in facts)))
    return "\n".join(lines)


def _judge(name: str, value: str, *, note: str = "", problem: str = "") -> MachineFact:
    """Fine, unless there is something to note, or a problem."""
    verdict: Verdict = "problem" if problem else "note" if note else "ok"
    return MachineFact(name, value, verdict, problem or note)


def _system() -> MachineFact:
    """Whether tmt is tested on systems of this kind."""
    names = {"Linux": "Linux", "Darwin": "macOS"}
    name = names.get(platform.system(), platform.system() or "unknown")
    if "microsoft" in platform.release().lower():
        name = _WSL
    tested = tr("tested on Linux; written for macOS, too, on the CPU; Windows: within WSL")
    note = {
        "Linux": "",
        "macOS": tr("not tested here; trains and translates on the CPU, without Apple's GPU"),
        _WSL: tr("keep runs in WSL's own files: /mnt/c is slow"),
    }.get(name, tr("not tested here: tmt is made for Linux"))
    return _judge("system", f"{name} ({tested})", note=note)


def _cpu() -> MachineFact:
    cores = usable_cores()
    threads, setting = torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")
    native = [flag for flag in ("amx_bf16", "avx512_bf16") if flag in cpu_flags()]
    value = tr(
        "{} usable cores, {} threads, bf16: {}",
        cores,
        threads,
        ", ".join(native) or tr("not native"),
    )
    crowded = tr("threads without a core slow the others down: set OMP_NUM_THREADS={}", cores)
    idle = tr("OMP_NUM_THREADS={} leaves cores idle: unset it to train faster", setting)
    problem = crowded if threads > cores else ""
    return _judge("CPU", value, problem=problem, note=idle if setting and threads < cores else "")


def _memory() -> MachineFact:
    """RAM, or the limit of the container where that is lower."""
    total = total_memory_bytes()
    little = tr("little for training: lower train.max_tokens and model.d_model")
    return _judge("memory", f"{total / GIB:.1f} GiB", note=little if total < 4 * GIB else "")


def _allocator() -> Iterator[MachineFact]:
    """The memory allocator that processes which train will have, on Linux."""
    if platform.system() != "Linux":
        return
    preloaded = os.environ.get("LD_PRELOAD") or allocator_variables().get("LD_PRELOAD", "")
    slow = tr("small models train 1.2 times as fast with tcmalloc: install libtcmalloc-minimal4")
    yield _judge("allocator", preloaded or "glibc", note="" if preloaded else slow)


def _cuda() -> Iterator[MachineFact]:
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        about = tr(
            "{:.0f} GiB, capability {}.{}", device.total_memory / GIB, device.major, device.minor
        )
        yield MachineFact(f"CUDA {index}", f"{device.name}, {about}")
    if torch.cuda.is_available():
        reason = reason_without(torch.device("cuda"))
        yield _judge(tr("kernels"), tr("torch's") if reason else tr("of tmt"), note=reason)
    else:
        driver = tr("there is an NVIDIA driver: install a torch build that fits it")
        value = tr("no device: everything runs on the CPU")
        yield _judge("CUDA", value, note=driver if shutil.which("nvidia-smi") else "")


def _precision(device: torch.device) -> MachineFact:
    """What `precision: auto` means here, and whether a measurement agrees."""
    width = 4096 if device.type == "cuda" else 768
    kinds = {"bf16": torch.bfloat16, "fp32": torch.float32}
    speeds = {name: product_gflops(device, dtype, width) for name, dtype in kinds.items()}
    is_fp32 = choose_precision("auto", device) == torch.float32
    chosen, other = ("fp32", "bf16") if is_fp32 else ("bf16", "fp32")
    measured = ", ".join(f"{name} {speed:.0f}" for name, speed in speeds.items())
    ratio = speeds[chosen] / speeds[other]
    value = tr(
        "{}: {:.1f} × as fast as {} (matrix product, GFLOP/s: {})", chosen, ratio, other, measured
    )
    slower = tr("{} is faster here: try --set train.precision={}", other, other)
    return _judge(tr("precision auto"), value, note=slower if ratio < 0.75 else "")  # above: noise


def _packages() -> Iterator[MachineFact]:
    """Versions of the packages in pyproject.toml: the core, and each extra of users."""
    if _version("transformer-mt") is None:
        yield _judge(
            "packages", tr("tmt runs uninstalled"), note=tr("pip install -e . checks them")
        )
        return
    groups: dict[str, dict[str, str | None]] = {}
    for requirement in metadata.requires("transformer-mt") or []:
        name = re.split(r"[^\w.-]", requirement)[0]
        extra = re.search(r"extra == .([\w-]+)", requirement)
        groups.setdefault(extra[1] if extra else "", {})[name] = _version(name)
    for extra_name in _OF_DEVELOPERS:
        groups.pop(extra_name, None)
    for extra_name, found in groups.items():
        missing = None in found.values()
        value = ", ".join(f"{name} {version or tr('missing')}" for name, version in found.items())
        if extra_name:
            advice = tr("if you want it: pip install 'transformer-mt[{}]'", extra_name)
            yield _judge(tr("extra {}", extra_name), value, note=advice if missing else "")
        else:
            advice = tr("pip install those that are missing")
            yield _judge("packages", value, problem=advice if missing else "")


def _version(package: str) -> str | None:
    """None: it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _disk(folder: Path) -> MachineFact:
    free = shutil.disk_usage(folder).free
    value = tr("{:.1f} GiB free in {}", free / GIB, folder)
    if not os.access(folder, os.W_OK):
        return _judge("disk", value, problem=tr("nothing can be written here: use --run-dir"))
    full = tr("a checkpoint of the base model takes about 0.8 GiB: make room, or use --run-dir")
    problem, note = (full if free < limit * GIB else "" for limit in (1, 5))
    return _judge("disk", value, problem=problem, note=note)
