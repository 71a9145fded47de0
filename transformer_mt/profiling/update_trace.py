"""`tmt train CONFIG --profile N`: a Chrome trace of some updates, and where their time goes.

Comes in: torch's profiler, and the moments at which updates are done. Goes out: a file that
https://ui.perfetto.dev and chrome://tracing show, and a table. Training names the spans `data`,
`optimizer`, `communication` and `validation`; this file does not know what happens in them.
"""

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import writing
from transformer_mt.system.terminal import Say

WARM_UP = 4  # updates before the first that is recorded
GPU_WARM_UP = 100  # in which training records its operations for most shapes

COMPUTING = ("products", "attention", "loss", "optimizer", "other")
SPANS = ("data", "optimizer", "communication", "validation")  # of the training's own
# The kind of an operation by its name, else that of the operation it is a part of. Attention's
# products are batched ones where no fused kernel does them.
_NAMES = (
    ("loss", re.compile(r"_OutputLoss")),
    ("attention", re.compile(r"attention|softmax|bmm", re.IGNORECASE)),
    ("products", re.compile(r"aten::(mm|addmm|linear)\b|\b(Mm|Addmm)Backward")),
)
# The kind of a kernel by its name, where training has replayed a recording of many operations.
_KERNELS = (
    ("attention", re.compile(r"attention|fmha|sdpa|flash", re.IGNORECASE)),
    ("loss", re.compile(r"softmax", re.IGNORECASE)),
    ("products", re.compile(r"gemm|gemv|nvjet|cutlass|splitk", re.IGNORECASE)),
)
_WHOLE = {*SPANS, "loss"}  # everything within them is a part of them
_STEP = "ProfilerStep"
_ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}

Event = dict[str, Any]  # of a Chrome trace; `ts` and `dur` in µs


@dataclass(frozen=True)
class UpdateTimes:
    """Milliseconds of an update by kind, mean of `updates`; together they are all of it."""

    updates: int
    device: str  # whose time the kinds of `COMPUTING` are
    ms: dict[str, float]

    def render(self) -> str:
        whole = sum(self.ms.values())
        shown = [
            ("data", self.ms["data"]),
            ("host", self.ms["host"]),
            ("kernels", sum(self.ms[kind] for kind in COMPUTING)),
            *((f"  {kind}", self.ms[kind]) for kind in COMPUTING),
            ("communication", self.ms["communication"]),
            *([("validation", self.ms["validation"])] if self.ms["validation"] else []),
        ]
        head = tr(
            "[profile] {} updates of the first process, {:.1f} ms each on {}:",
            self.updates,
            whole,
            self.device,
        )
        lines = [f"  {name:<15} {ms:>9.1f} ms  {ms / whole:>6.1%}" for name, ms in shown]
        return "\n".join([head, *lines])


class UpdateTrace:
    """Records updates of a training that calls `watch` after each; use it around the training.

    Args:
        path: of the trace; its name ends with `.json.gz`.
        n_updates: to record, after `WARM_UP` or `GPU_WARM_UP` others.
    """

    def __init__(self, path: Path, n_updates: int, say: Say) -> None:
        self._path, self._say = path, say
        self._n_before = GPU_WARM_UP if torch.cuda.is_available() else WARM_UP
        self._n_seen, self._n_needed = 0, self._n_before + n_updates
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        # The step before the first call of `watch` has the preparation, too.
        plan = schedule(wait=self._n_before - 1, warmup=1, active=n_updates, repeat=1)
        self._profile = profile(activities=activities, schedule=plan, on_trace_ready=self._finish)

    def __enter__(self) -> "UpdateTrace":
        self._profile.start()
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        if self._n_seen < self._n_needed:
            self._profile.stop()  # which gives what there is to `_finish`
        if self._n_seen <= self._n_before and failure is None:
            text = tr(
                "[profile] nothing was recorded: {} updates were done, but it begins after {}",
                self._n_seen,
                self._n_before,
            )
            self._say(text)

    def watch(self, _update: int) -> None:
        """An update is done."""
        if self._n_seen < self._n_needed:
            self._n_seen += 1
            self._profile.step()

    def _finish(self, recorded: profile) -> None:
        if self._n_seen <= self._n_before:
            return
        with writing(self._path) as staged:
            recorded.export_chrome_trace(str(staged))
            events = json.loads(gzip.decompress(staged.read_bytes()))["traceEvents"]
        self._say(update_times(events, self._n_seen - self._n_before).render())
        self._say(tr("  trace: {} (https://ui.perfetto.dev shows it)", self._path))


def update_times(events: Iterable[Event], n_updates: int) -> UpdateTimes:
    """Where the time of the first steps of a trace goes; one more may hold the end of a training.

    On a GPU the time of a kernel counts for the operation that has started it, or by its name if a
    recording has; what a copy or the network does beside kernels is hidden and counts nothing;
    while the GPU has nothing to do, the host's `data` and `communication` count, and all else is
    `host`. On a CPU operations take the place of kernels, and `host` is the time between them.
    """
    spans = [event for event in events if event.get("ph") == "X" and "dur" in event]
    steps = [e for e in spans if e["name"].startswith(_STEP) and e["cat"] == "user_annotation"]
    steps = sorted(steps, key=lambda step: float(step["ts"]))[:n_updates]
    kernels = [event for event in spans if event["cat"] in _ON_DEVICE]
    threads: dict[Any, list[Event]] = {}
    for event in spans:
        if event["cat"] in ("cpu_op", "user_annotation") and not event["name"].startswith(_STEP):
            threads.setdefault(event["tid"], []).append(event)
    kinds: dict[Any, str] = {}  # of operations, by the id that their kernels have
    own = [segment for tid in threads for segment in _segments(threads[tid], kinds, tid)]
    main = [(start, end, kind) for start, end, kind, tid in own if tid == steps[0]["tid"]]

    layered = [(e["ts"], e["ts"] + e["dur"], (9, "host")) for e in steps]
    if kernels:
        layered += [_layered_kernel(kernel, kinds) for kernel in kernels]
        main = [segment for segment in main if segment[2] in SPANS and segment[2] != "optimizer"]
    layered += [(start, end, (2, kind)) for start, end, kind in main]
    totals = _uppermost(layered)
    ms = {kind: totals[kind] / 1000 / len(steps) for kind in ("host", *COMPUTING, *SPANS)}
    return UpdateTimes(len(steps), "cuda" if kernels else "cpu", ms)


def _segments(
    spans: Sequence[Event], kinds: dict[Any, str], tid: object
) -> Iterator[tuple[float, float, str, object]]:
    """The time of one thread in pieces, (start, end, kind of the innermost span, thread)."""
    stack: list[tuple[float, str]] = []  # (end, kind) of the open spans
    now = 0.0
    for span in [*sorted(spans, key=lambda e: (e["ts"], -e["dur"])), None]:
        start = float("inf") if span is None else span["ts"]
        while stack and stack[-1][0] <= start:
            end, kind = stack.pop()
            yield now, max(now, end), kind, tid
            now = max(now, end)
        if stack:
            yield now, start, stack[-1][1], tid
        if span is not None:
            kind = _kind(span["name"], stack[-1][1] if stack else "other")
            kinds[span.get("args", {}).get("External id")] = kind
            stack.append((start + span["dur"], kind))
            now = start


def _kind(name: str, around: str) -> str:
    if name in SPANS:
        return name
    if around in _WHOLE:
        return around
    return next((kind for kind, pattern in _NAMES if pattern.search(name)), around)


def _layered_kernel(kernel: Event, kinds: dict[Any, str]) -> tuple[float, float, tuple[int, str]]:
    kind = kinds.get(kernel.get("args", {}).get("External id"), "other")
    if kind == "other":
        kind = next((k for k, pattern in _KERNELS if pattern.search(kernel["name"])), kind)
    if "nccl" in kernel["name"].lower():
        kind = "communication"
    layer = 0 if kernel["cat"] == "kernel" and kind != "communication" else 1
    return kernel["ts"], kernel["ts"] + kernel["dur"], (layer, kind)


def _uppermost(parts: Iterable[tuple[float, float, tuple[int, str]]]) -> dict[str, float]:
    """The time of each kind, where at any moment the part of the lowest number counts alone.

    What lies outside of all steps, which are the parts of number 9, does not count.
    """
    edges = [(at, sign, key) for start, end, key in parts for at, sign in ((start, 1), (end, -1))]
    running: Counter[tuple[int, str]] = Counter()
    totals: dict[str, float] = defaultdict(float)
    last = 0.0
    for at, sign, key in sorted(edges):
        if running[9, "host"]:
            totals[min(key for key, n in running.items() if n)[1]] += at - last
        running[key] += sign
        last = at
    return totals
