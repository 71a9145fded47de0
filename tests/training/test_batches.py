"""The plan of updates: complete, bounded, even, and a pure function of lengths, seed and epoch."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from encoded import caption_lengths, encoded_side, side_of

from transformer_mt.encoding.encoded_corpus import EncodedCorpus, Indices
from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, PAD_ID
from transformer_mt.profiling.timed_updates import padding_share
from transformer_mt.training import batches as batching
from transformer_mt.training.batches import UpdatePlan, deal, plan_updates
from transformer_mt.training.padding import GPU_MULTIPLE, collate, collated


def make_plan(src: Indices, tgt: Indices, **changes: Any) -> UpdatePlan:
    settings = {"max_tokens": 1000, "tokens_per_update": 3000, "seed": 1, "epoch": 0, **changes}
    return plan_updates(src, tgt, **settings)


@pytest.mark.parametrize("n", [1, 2, 17, 3000])
@pytest.mark.parametrize("max_tokens", [1, 100, 1000, 10**6])
@pytest.mark.parametrize("tokens_per_update", [1, 3000])
def test_every_sentence_comes_exactly_once(n: int, max_tokens: int, tokens_per_update: int) -> None:
    lengths = caption_lengths(n)
    plan = make_plan(*lengths, max_tokens=max_tokens, tokens_per_update=tokens_per_update)
    batches = [batch.tolist() for u in range(len(plan)) for batch in plan.update(u)]
    assert sorted(i for batch in batches for i in batch) == list(range(n))
    assert all(batches) and all(plan.update(u) for u in range(len(plan))), "none is empty"
    assert [batch.tolist() for batch in plan.batches()] == batches


@pytest.mark.parametrize("max_tokens", [100, 1000, 4096])
def test_large_batches_have_few_sizes(max_tokens: int) -> None:
    src, tgt = caption_lengths(30_000)
    sizes = set(map(len, make_plan(src, tgt, max_tokens=max_tokens).batches()))
    few = {digits << zeros for digits in range(8) for zeros in range(10)}
    assert len(sizes - few) <= 1, "the last batch may have any size"
    assert len(sizes) > 3


@pytest.mark.parametrize("max_tokens", [1, 30, 200, 4096])
def test_no_batch_exceeds_max_tokens(max_tokens: int) -> None:
    """Padding counted; only a single sentence that is longer itself may."""
    src, tgt = caption_lengths(2000)
    src[5], tgt[6] = 150, 300
    plan = make_plan(src, tgt, max_tokens=max_tokens)
    cells = [len(b) * max(src[b].max(), tgt[b].max()) for b in plan.batches()]
    too_many = [len(b) for b, n in zip(plan.batches(), cells, strict=True) if n > max_tokens]
    assert set(too_many) == ({1} if max_tokens < 300 else set())
    assert max_tokens < 300 or np.mean(cells) > 0.6 * max_tokens, "as large as they may be"


def test_tokens_per_update_hold_on_average() -> None:
    src, tgt = caption_lengths(20_000)
    for tokens_per_update, max_tokens in ((3000, 1000), (25_000, 4096), (900, 4096)):
        plan = make_plan(src, tgt, max_tokens=max_tokens, tokens_per_update=tokens_per_update)
        tokens = [sum(int(tgt[b].sum()) for b in plan.update(u)) for u in range(len(plan))]
        assert sum(tokens) == tgt.sum()
        assert np.mean(tokens) == pytest.approx(tokens_per_update, rel=0.1)
        # A batch that straddles two updates goes to one of them, whole.
        largest = max(int(tgt[b].sum()) for b in plan.batches())
        assert all(abs(n - tokens_per_update) <= largest for n in tokens[:-1])


def test_a_plan_is_a_function_of_seed_and_epoch() -> None:
    lengths = caption_lengths(2000)

    def order(seed: int, epoch: int) -> list[list[int]]:
        return [b.tolist() for b in make_plan(*lengths, seed=seed, epoch=epoch).batches()]

    np.random.seed(3)
    first = order(1, 4)
    np.random.seed(4)
    assert order(1, 4) == first
    assert order(1, 5) != first
    assert order(2, 4) != first
    assert order(5, 1) != order(1, 5), "seed and epoch are not added up"


def test_epochs_compose_batches_anew_and_in_another_order() -> None:
    src, tgt = caption_lengths(5000)
    first, second = (make_plan(src, tgt, epoch=epoch) for epoch in (0, 1))
    sets = [{frozenset(b.tolist()) for b in plan.batches()} for plan in (first, second)]
    assert len(sets[0] & sets[1]) < 0.1 * len(sets[0])
    for plan in (first, second):
        longest = np.array([tgt[b].max() for b in plan.batches()], dtype=float)
        correlation = np.corrcoef(longest, np.arange(len(longest)))[0, 1]
        assert abs(correlation) < 0.2, "short sentences must not come first"


def test_little_padding_on_lengths_like_captions() -> None:
    src, tgt = caption_lengths(29_000)
    plan = make_plan(src, tgt, max_tokens=4096)
    assert padding_share(plan, side_of(src)) < 0.1
    assert padding_share(plan, side_of(tgt)) < 0.1


@pytest.mark.parametrize("n", [29_000, 300_000])
def test_large_batches_mix_few_source_lengths_where_a_gpu_pads(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    src, tgt = caption_lengths(n)
    paddings = []
    for step in (1, batching.STEP):
        monkeypatch.setattr(batching, "STEP", step)
        plan = make_plan(src, tgt, max_tokens=16384, tokens_per_update=25_000)
        paddings.append([padding_share(plan, side_of(side), GPU_MULTIPLE) for side in (src, tgt)])
    (src_before, tgt_before), (src_after, tgt_after) = paddings
    assert src_after < 0.85 * src_before and tgt_after < tgt_before + 0.01


@pytest.mark.parametrize("dtype", [np.uint16, np.int32])
def test_collate_equals_a_loop_over_rows(dtype: type) -> None:
    random = np.random.default_rng(0)
    high = 60_000 if dtype == np.uint16 else 900_000
    sides = [
        [random.integers(4, high, length).tolist() for length in random.integers(0, 12, 50)]
        for _ in range(2)
    ]
    corpus = EncodedCorpus(encoded_side(sides[0], dtype), encoded_side(sides[1], dtype))
    for indices in ([7], [3, 3], [49, 0, 12, 30], list(range(50))):
        batch = collate(corpus, np.array(indices))
        srcs = [[*sides[0][i], EOS_ID] for i in indices]
        tgt_ins = [[BOS_ID, *sides[1][i]] for i in indices]
        tgt_outs = [[*sides[1][i], EOS_ID] for i in indices]
        for found, rows in ((batch.src, srcs), (batch.tgt_in, tgt_ins), (batch.tgt_out, tgt_outs)):
            longest = max(map(len, rows))
            assert found.tolist() == [row + [PAD_ID] * (longest - len(row)) for row in rows]
            assert str(found.dtype) == "torch.int64"


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 64])
def test_dealing_gives_every_sentence_to_one_process(size: int, even: bool) -> None:
    random = np.random.default_rng(size)
    for n_batches in (1, 2, 3, 5, 8, 13):
        batches = [random.permutation(1000)[: random.integers(1, 40)] for _ in range(n_batches)]
        dealt = [part for rank in range(size) for part in deal(batches, rank, size, even=even)]
        for b, batch in enumerate(batches):
            found = np.concatenate([part.rows for part in dealt if part.batch == b])
            assert sorted(found) == sorted(batch), (n_batches, b)
        assert len({(part.batch, part.part) for part in dealt}) == len(dealt)


@pytest.mark.parametrize(
    ("n_batches", "size", "one_part", "even", "why"),
    [
        (4, 2, 20, 20, "two whole batches each"),
        (3, 2, 15, 15, "one whole and half of the third"),
        (1, 4, 3, 3, "a quarter of 10 sentences, rounded up"),
        (5, 4, 13, 13, "one whole and a quarter of the fifth"),
        (3, 4, 10, 8, "two batches whole for two, or three quarters of a batch for each"),
        (3, 8, 5, 5, "eight for three batches: a half, or an eighth and a quarter, rounded up"),
    ],
)
def test_no_process_has_much_more_to_do(
    n_batches: int, size: int, one_part: int, even: int, why: str
) -> None:
    batches = [np.arange(10) + 10 * b for b in range(n_batches)]
    for is_even, most in ((False, one_part), (True, even)):
        dealt = [deal(batches, rank, size, even=is_even) for rank in range(size)]
        assert max(sum(len(part.rows) for part in own) for own in dealt) == most, why
        n_rounds = n_batches // size
        assert max(len(own) for own in dealt) <= n_rounds + (2 if is_even else 1)


def test_rounds_go_forth_and_back() -> None:
    batches = [np.full(1, b) for b in range(9)]  # sorted by what there is to do, as in a plan
    whole = [[part.batch for part in deal(batches, rank, 2, even=True)][:4] for rank in range(2)]
    assert whole == [[0, 3, 4, 7], [1, 2, 5, 6]]


def slowest(plan: UpdatePlan, src: Indices, tgt: Indices, size: int, *, even: bool) -> float:
    """What the process with most to do has to do, divided by the mean, over all updates."""
    most = mean = 0.0
    for u in range(len(plan)):
        dealt = [deal(plan.update(u), rank, size, even=even) for rank in range(size)]
        loads = [sum(len(i) * int(src[i].max() + tgt[i].max()) for _, _, i in own) for own in dealt]
        most, mean = most + max(loads), mean + sum(loads) / size
    return most / mean


@pytest.mark.parametrize("tokens_per_update", [3000, 4096, 8192, 25_000])
def test_processes_have_as_much_to_do_as_each_other(
    tokens_per_update: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = caption_lengths(29_000)
    sizes = {"max_tokens": 4096, "tokens_per_update": tokens_per_update}
    plan = make_plan(*lengths, **sizes)
    by_work = slowest(plan, *lengths, 2, even=True)
    assert by_work < 1.025
    assert slowest(plan, *lengths, 4, even=True) < 1.05
    assert slowest(plan, *lengths, 8, even=True) < 1.08
    monkeypatch.setattr(batching, "BATCHES_SORTED", 1)
    at_random = slowest(make_plan(*lengths, **sizes), *lengths, 2, even=True)
    assert by_work - 1 < 0.6 * (at_random - 1)


def test_a_thread_that_pads_ahead_gives_the_same_batches() -> None:
    """In the same order, also where the caller leaves before the end."""
    random = np.random.default_rng(3)
    rows = [random.integers(4, 20, length).tolist() for length in random.integers(2, 9, 40)]
    corpus = EncodedCorpus(encoded_side(rows), encoded_side(rows[::-1]))
    parts, cpu = np.array_split(np.arange(40), 7), torch.device("cpu")
    thread = ThreadPoolExecutor(1)
    plain, ahead = (list(collated(corpus, parts, cpu, by)) for by in (None, thread))
    assert len(ahead) == len(plain) == 7
    for one, other in zip(plain, ahead, strict=True):
        assert all(vars(one)[name].equal(ids) for name, ids in vars(other).items())
        assert one.real.equal((one.tgt_out != PAD_ID).flatten().nonzero().squeeze(1))
    assert next(collated(corpus, parts, cpu, thread)).src.equal(plain[0].src)
