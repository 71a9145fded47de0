"""Batches: nothing is lost, whatever the lengths and who searches them."""

import gc
import random
from multiprocessing import active_children

import pytest
import torch

from transformer_mt.config.model import ModelConfig
from transformer_mt.errors import TmtError
from transformer_mt.model.architectures import new_model
from transformer_mt.search.engine import Engine, Request, batches_by_length, deal_sorted
from transformer_mt.search.options import SearchOptions
from transformer_mt.search.sampling import SamplingOptions
from transformer_mt.translation.translator import Translator


@pytest.mark.parametrize("seed", range(20))
def test_batches_hold_everything_once_and_keep_their_limit(seed: int) -> None:
    generator = random.Random(seed)
    lengths = [generator.randint(1, 90) for _ in range(generator.randint(1, 200))]
    limit = generator.randint(20, 500)
    batches = list(batches_by_length(lengths, limit))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= limit


@pytest.mark.parametrize("n_indices", [1, 2, 7, 23])
@pytest.mark.parametrize("n_parts", [0, 1, 2, 4, 50])
def test_parts_hold_everything_once_and_are_alike(n_indices: int, n_parts: int) -> None:
    indices = list(range(n_indices))
    parts = deal_sorted(indices, n_parts)
    assert len(parts) == min(n_indices, max(1, n_parts)) and all(parts)
    assert sorted(i for part in parts for i in part) == indices
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert max(map(sum, parts)) - min(map(sum, parts)) <= max(indices)


@pytest.mark.parametrize("copies", [True, False], ids=["processes", "threads"])
@pytest.mark.parametrize(
    "options",
    [SearchOptions(beam=1), SearchOptions(beam=3, n_best=2), SearchOptions(diverse=True, n_best=2)],
    ids=["greedy", "beam", "diverse"],
)
def test_side_by_side_changes_nothing(
    translator: Translator,
    texts: list[str],
    options: SearchOptions,
    copies: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("transformer_mt.search.engine.may_fork", lambda: copies)
    made = Engine([translator.model], translator.tgt_tokenizer.silent_ids)
    requests = 4 * [Request(ids) for ids in translator.src_tokenizer.encode(texts)]
    before = torch.get_num_threads()
    found = {}
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found[threads] = made.search(requests, options)
            assert len(active_children()) == (threads if copies and threads > 1 else 0)
    finally:
        torch.set_num_threads(before)
    for one, other in zip(found[1], found[3], strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)
    del made
    gc.collect()
    assert not active_children(), "they end with the engine"


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(beam=1),
        SearchOptions(beam=3),
        SearchOptions(beam=1, diverse=True, n_best=2),
        SearchOptions(sampling=SamplingOptions(top_k=5, top_p=0.9), n_best=2),
    ],
    ids=["greedy", "beam", "diverse", "sampling"],
)
def test_weights_that_are_no_numbers_are_told(options: SearchOptions) -> None:
    cfg = ModelConfig(
        d_model=16, heads=2, ffn=16, encoder_layers=1, decoder_layers=1, tie_embeddings="decoder"
    )
    model = new_model(cfg, 30, 30).eval()
    with torch.no_grad():
        model.output.weight[7] = torch.nan
    with pytest.raises(TmtError, match="the scores of this model are not numbers"):
        Engine([model], []).search([Request([5, 6]), Request([7])], options)


def test_no_request_no_hypothesis(translator: Translator) -> None:
    assert translator.engine.search([], SearchOptions()) == []
