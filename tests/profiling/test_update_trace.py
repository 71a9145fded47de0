"""Where the time of recorded updates goes: traces written by hand, for a CPU and for a GPU."""

import re
import time
from typing import Any

import pytest
import torch

from transformer_mt.profiling.update_trace import UpdateTrace, update_times

MAIN, BACKWARD = 7, 8  # threads


def span(name: str, start: float, end: float, **more: Any) -> dict[str, Any]:
    """An operation of the main thread, in ms, unless `more` says otherwise."""
    event = {"ph": "X", "name": name, "cat": "cpu_op", "tid": MAIN, "pid": 1, **more}
    return {**event, "ts": 1000 * start, "dur": 1000 * (end - start)}


def note(name: str, start: float, end: float) -> dict[str, Any]:
    return span(name, start, end, cat="user_annotation")


CPU = [
    span("aten::mm", -5, -1),  # before the first step
    note("ProfilerStep#5", 0, 50),
    note("data", 1, 3),
    span("aten::index", 2, 3),
    span("aten::linear", 4, 10),
    span("aten::addmm", 5, 9),
    span("aten::matmul", 10, 14),
    span("aten::bmm", 11, 14),
    span("_OutputLoss", 15, 20),
    span("aten::mm", 16, 19),
    span("autograd::engine::evaluate_function: AddmmBackward0", 20, 26),
    span("AddmmBackward0", 21, 26),
    note("communication", 23, 25),  # a hook that sends
    note("optimizer", 30, 40),
    note("communication", 31, 34),
    span("Optimizer.step#Adam.step", 35, 38),
    note("validation", 44, 48),
    span("aten::mm", 45, 47),
    note("ProfilerStep#6", 50, 100),
    span("aten::relu", 60, 70),
    span("aten::mm", 60, 80, tid=BACKWARD),  # beside, of another thread
]


def test_on_a_cpu_operations_count_and_the_time_between_them_is_the_host() -> None:
    times = update_times(CPU, 2)
    assert (times.updates, times.device) == (2, "cpu")
    assert {kind: 2 * ms for kind, ms in times.ms.items()} == pytest.approx(
        {
            "data": 2,
            "products": 6 + 4,  # without what hooks send
            "attention": 3,
            "loss": 5,
            "communication": 2 + 3,
            "optimizer": 7,
            "validation": 4,
            "other": 1 + 10,
            "host": 100 - 2 - 10 - 3 - 5 - 5 - 7 - 4 - 11,
        }
    )


def kernel(name: str, start: float, end: float, of: int, **more: Any) -> dict[str, Any]:
    event = {"cat": "kernel", "tid": 20, "args": {"External id": of}, **more}
    return span(name, start, end, **event)


def started(name: str, start: float, end: float, by: int, **more: Any) -> dict[str, Any]:
    return span(name, start, end, args={"External id": by}, **more)


GPU = [
    note("ProfilerStep#5", 0, 50),
    note("data", 1, 4),
    kernel("Memcpy HtoD", 3, 6, of=0, cat="gpu_memcpy"),
    started("aten::addmm", 4, 5, by=1),
    kernel("gemm", 5, 15, of=1),
    started("aten::scaled_dot_product_attention", 5, 6, by=2),
    kernel("flash_fwd", 15, 20, of=2),
    note("data", 16, 22),  # waits beside the GPU's work, and two ms longer
    started("autograd::engine::evaluate_function: MmBackward0", 24, 26, by=3, tid=BACKWARD),
    kernel("gemm", 25, 33, of=3),
    kernel("ncclDevKernel_AllReduce", 28, 37, of=4, tid=21),
    note("optimizer", 37, 45),
    started("Optimizer.step#Adam.step", 38, 39, by=5),
    kernel("multi_tensor_apply", 40, 44, of=5),
]


def test_on_a_gpu_kernels_count_for_the_operations_that_started_them() -> None:
    times = update_times(GPU, 1)
    assert (times.updates, times.device) == (1, "cuda")
    assert times.ms == pytest.approx(
        {
            "data": 2 + 2,  # 1 … 3 on the host, 20 … 22
            "other": 2,  # the copy, before the first product
            "products": 10 + 8,
            "attention": 5,
            "loss": 0,
            "communication": 4,  # not hidden by the product
            "optimizer": 4,
            "validation": 0,
            "host": 50 - 4 - 2 - 18 - 5 - 4 - 4,
        }
    )
    text = times.render()
    assert "1 updates of the first process, 50.0 ms each on cuda" in text
    assert "kernels              29.0 ms   58.0%" in text
    assert "validation" not in text, "there was none"


@pytest.mark.parametrize("n_updates", [0, 2, 3, 4])
def test_a_training_that_ends_too_soon_is_told(tmp_path: Any, n_updates: int) -> None:
    said: list[str] = []
    with UpdateTrace(tmp_path / "trace.json.gz", 3, said.append) as trace:
        for update in range(n_updates):
            trace.watch(update)
    text = f"nothing was recorded: {n_updates} updates were done, but it begins after 4"
    assert said == [f"[profile] {text}"]
    assert not list(tmp_path.iterdir())


def test_what_follows_the_last_update_is_none(tmp_path: Any) -> None:
    """Validation and tests of a training that ends while it is traced."""
    said: list[str] = []
    with UpdateTrace(tmp_path / "trace.json.gz", 30, said.append) as trace:
        for update in range(9):
            torch.ones(9) + 1
            trace.watch(update)
        time.sleep(0.5)
    (update_ms,) = re.findall(r"5 updates of the first process, ([0-9.]+) ms each", said[0])
    assert float(update_ms) < 50
