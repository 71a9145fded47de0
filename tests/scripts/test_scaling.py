"""The arithmetic of `scripts/figures/scaling.py`: limits that follow by hand, and its counts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scaling
import scaling_data as data
import scaling_model as model
import torch

from transformer_mt.config.experiment import TrainConfig
from transformer_mt.training.batches import UpdatePlan, deal, plan_updates
from transformer_mt.training.optimizer import MasterOptimizer

SMALL = (
    {"d_model": 16, "heads": 2, "ffn": 32, "encoder_layers": 1, "decoder_layers": 2},
    100,
    0.25,
)
LENGTHS = model.make_lengths(20_000)
INFINITE = float("inf")
# Nothing takes time but what grows with the tokens.
IDEAL = model.Assumptions(
    gpu=model.Gpu(1e12, INFINITE, INFINITE), within=INFINITE, between=INFINITE, fixed_s=0.0,
    host_s=0.0, latency_s=0.0, network_latency_s=0.0, agree_s=0.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def cost() -> Any:
    return model.Cost(*SMALL)


def plan_of(tokens_per_update: int = 25_000) -> UpdatePlan:
    return plan_updates(
        *LENGTHS, max_tokens=4096, tokens_per_update=tokens_per_update, seed=1, epoch=0
    )


def update_of(cost: Any, n: int, a: Any, tokens: int = 25_000) -> Any:
    return model.combine(cost, model.compute(cost, LENGTHS, plan_of(tokens), n, a), n, a)


def test_one_gpu_waits_for_nobody_and_sends_nothing(cost: Any) -> None:
    slow = model.Assumptions(within=1.0, between=1.0)
    alone = update_of(cost, 1, slow)
    assert alone.sending_s == alone.waiting_s == 0
    assert alone == update_of(cost, 1, model.Assumptions())


@pytest.mark.parametrize("n", [2, 5, 8, 16, 64])
def test_without_costs_only_the_dealing_counts(cost: Any, n: int) -> None:
    """An update then takes as long as the process with the most products."""
    update = update_of(cost, n, IDEAL)
    assert update.sending_s == update.optimizer_s == 0
    assert update.overhead_s == pytest.approx(0, abs=1e-12)
    slowest_s = []
    for u in range(model.N_UPDATES):
        batches = plan_of().update(u)
        flops = [
            sum(
                cost.flops(int(LENGTHS.src[row]), int(LENGTHS.tgt[row]))
                for part in deal(batches, rank, n, even=False)
                for row in part.rows
            )
            for rank in range(n)
        ]
        slowest_s.append(max(flops) / (1e12 * 0.25))
    assert update.total_s == pytest.approx(np.mean(slowest_s))
    assert update.waiting_s > 0


def test_large_updates_are_dealt_evenly(cost: Any) -> None:
    shares = [
        (update := update_of(cost, 8, IDEAL, tokens)).waiting_s / update.total_s
        for tokens in (25_000, 100_000, 400_000)
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < shares[0] / 2


@pytest.mark.parametrize("n", [2, 8, 16, 64])
@pytest.mark.parametrize("faster", ["within", "between", "link_share"])
def test_more_bandwidth_is_never_slower(cost: Any, n: int, faster: str) -> None:
    a = model.Assumptions(within=1e8, between=1e7)
    seconds = [
        update_of(cost, n, replace(a, **{faster: getattr(a, faster) * factor})).total_s
        for factor in (0.1, 1, 10, 1000)
    ]
    assert seconds == sorted(seconds, reverse=True)
    assert (seconds[0] > seconds[-1]) == (faster != "between" or n > 8)


def test_half_the_bytes_take_less_time(cost: Any) -> None:
    a = model.Assumptions(between=1e6)
    sent = [update_of(cost, 16, replace(a, gradient_bytes=width)).sending_s for width in (4, 2)]
    assert 0.4 < sent[1] / sent[0] < 0.6


@pytest.mark.parametrize(
    ("n", "seconds", "why"),
    [
        (1, 0, "nobody to send to"),
        (2, 2 * 1 / 2 * 8, "2(n − 1)/n of the bytes, one byte a second"),
        (8, 2 * 7 / 8 * 8, "the same ring with eight"),
        (16, 2 * 7 / 8 * 8 + 2 * 1 / 2 * 8 / 4, "and between two machines, four times as fast"),
    ],
)
def test_rings_by_hand(n: int, seconds: float, why: str) -> None:
    a = replace(IDEAL, within=1.0, between=4.0, link_share=1.0)
    assert model.all_reduce_s(8.0, n, a) == pytest.approx(seconds), why


def test_latency_counts_for_every_message() -> None:
    a = replace(IDEAL, latency_s=1.0, network_latency_s=100.0)
    bucket = model.BUCKET_BYTES
    assert model.all_reduce_s(bucket, 8, a) == 2 * 7
    assert model.all_reduce_s(3 * bucket, 16, a) == 3 * 2 * (7 + 100)


def test_recordings_hide_nothing_that_is_sent(cost: Any) -> None:
    a = replace(model.Assumptions(within=1e9), agree_s=0.0)
    expected = model.all_reduce_s(4 * cost.parameters, 4, a)
    assert update_of(cost, 4, a).sending_s == pytest.approx(expected)


def tensors_of(thing: object) -> Iterator[torch.Tensor]:
    """All tensors that an object, its attributes, lists and dictionaries hold."""
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from tensors_of(value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from tensors_of(value)
    elif type(thing).__module__.startswith(("transformer_mt.training", "torch.optim")):
        yield from tensors_of(vars(thing))


def test_the_state_of_training_by_tensors() -> None:
    """Bytes per parameter are those of the tensors that the optimizer holds in bf16."""
    adam = MasterOptimizer(torch.nn.Linear(64, 32, bias=False), TrainConfig(), torch.bfloat16)
    storages = [tensor.untyped_storage() for tensor in tensors_of(adam)]
    held = {storage.data_ptr(): storage.nbytes() for storage in storages}
    assert sum(held.values()) == pytest.approx(model.STATE_BYTES * 64 * 32, abs=64)


def test_a_micro_batch_has_a_time_of_its_own_and_an_update_too(cost: Any) -> None:
    free = update_of(cost, 1, IDEAL)
    batches = np.mean([len(plan_of().update(u)) for u in range(model.N_UPDATES)])
    slow = update_of(cost, 1, replace(IDEAL, fixed_s=7.0, host_s=100.0))
    assert slow.total_s - free.total_s == pytest.approx(100 + 7 * batches)


def test_tokens_and_parts_add_up(cost: Any) -> None:
    update = update_of(cost, 16, model.Assumptions())
    assert sum(update.parts().values()) == pytest.approx(update.total_s)
    assert set(update.parts()) == set(scaling.PARTS)
    assert update.tgt_tokens == pytest.approx(25_000, rel=0.05)
    assert all(seconds >= 0 for seconds in update.parts().values())


def test_planning_memory_does_not_depend_on_the_corpus() -> None:
    """Per entry, so that it may be multiplied; the rows stay, of the block and in its plan."""
    small, large = (data.measure_planning(model.make_lengths(n)) for n in (20_000, 80_000))
    assert small.peak_bytes == pytest.approx(large.peak_bytes, rel=0.1)
    assert 16 <= large.kept_bytes < 18


def test_twice_the_pairs_are_twice_the_text_and_twice_the_work_on_duplicates() -> None:
    one, two = (
        {what: amount for what, amount, _ in data.data_rows(n, LENGTHS, 1e6)} for n in (1e9, 2e9)
    )

    def ratio(what: str) -> float:
        return float(two[what].split()[0]) / float(one[what].split()[0])

    assert ratio("disk: token ids") == pytest.approx(2, rel=0.02)
    assert ratio("looking for duplicates: bytes read and written") == pytest.approx(2, rel=0.05)


def test_tables_are_markdown() -> None:
    assert scaling.table(("a", "b"), [("x", "1")]) == "| a | b |\n| --- | ---: |\n| x | 1 |"
