"""Batches: nothing is lost, whatever the lengths and the number of threads."""

import random

import pytest
import torch

from transformer_mt.inference.engine import Request, batches_by_length, deal
from transformer_mt.inference.options import SearchOptions
from transformer_mt.inference.translator import Translator


@pytest.mark.parametrize("seed", range(20))
def test_batches_hold_everything_once_and_keep_their_limit(seed: int) -> None:
    generator = random.Random(seed)
    lengths = [generator.randint(1, 90) for _ in range(generator.randint(1, 200))]
    limit = generator.randint(20, 500)
    batches = list(batches_by_length(lengths, limit))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= limit


@pytest.mark.parametrize("n_parts", range(5))
def test_parts_hold_everything_once_and_are_alike(n_parts: int) -> None:
    indices = list(range(23))
    parts = deal(indices, n_parts)
    assert len(parts) == max(1, n_parts)
    assert sorted(i for part in parts for i in part) == indices
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert max(map(sum, parts)) - min(map(sum, parts)) <= max(indices)


def test_nothing_to_do() -> None:
    assert list(batches_by_length([], 10)) == []


@pytest.mark.parametrize(
    "options",
    [SearchOptions(beam=1), SearchOptions(beam=3, n_best=2), SearchOptions(diverse=True, n_best=2)],
    ids=["greedy", "beam", "diverse"],
)
def test_threads_change_nothing(
    translator: Translator, texts: list[str], options: SearchOptions
) -> None:
    requests = [Request(ids) for ids in translator.src_tokenizer.encode(texts)]
    before = torch.get_num_threads()
    found = {}
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found[threads] = translator.engine.search(requests, options)
    finally:
        torch.set_num_threads(before)
    for one, three in zip(found[1], found[3], strict=True):
        assert [h.ids for h in one] == [h.ids for h in three]
        assert [h.score for h in one] == pytest.approx([h.score for h in three], abs=1e-4)


def test_no_request_no_hypothesis(translator: Translator) -> None:
    assert translator.engine.search([], SearchOptions()) == []
