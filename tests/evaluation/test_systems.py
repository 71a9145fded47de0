"""Translating with somebody watching gives the same translations."""

from collections.abc import Sequence

import pytest

from transformer_mt.evaluation import systems
from transformer_mt.evaluation.systems import WatchedEngine
from transformer_mt.rendering.progress import Stages
from transformer_mt.search import engine as engine_module
from transformer_mt.search.beam_search import Hypothesis
from transformer_mt.search.engine import Engine, Request, batches_by_length
from transformer_mt.search.options import SearchOptions
from transformer_mt.translation.translator import Translator


class Counted(Stages):
    def __init__(self) -> None:
        self.amounts: list[float] = []

    def advance(self, amount: float = 1) -> None:
        self.amounts.append(amount)


def test_a_watched_engine_searches_the_same_batches(
    translator: Translator, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (engine_module, systems):
        monkeypatch.setattr(module, "BATCH_TOKENS", 120)
    batches: list[list[Request]] = []
    plain = translator.engine
    assert isinstance(plain, Engine)
    search_batch = plain.search_batch

    def recorded(batch: list[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        batches.append(batch)
        return search_batch(batch, options)

    monkeypatch.setattr(plain, "search_batch", recorded)
    before = translator.translate(texts, beam=2)
    alone, batches = batches, []
    monkeypatch.setattr(
        plain, "search_batch", lambda *call: batches.append(call[0]) or search_batch(*call)
    )
    stages = Counted()
    after = translator.with_engine(WatchedEngine(plain, stages)).translate(texts, beam=2)
    assert [t.text for t in after] == [t.text for t in before]
    assert len(stages.amounts) > 2 and sum(stages.amounts) == len({*texts})
    assert sorted(map(len, batches)) == sorted(map(len, alone))


def test_nothing_to_search_is_no_batch(translator: Translator) -> None:
    watched = WatchedEngine(translator.engine, Counted())
    assert watched.search([], SearchOptions.resolve(translator.cfg.decode)) == []


class Recording:
    """A search that knows no batches."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def search(self, requests: Sequence[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        self.asked += [len(request.src) for request in requests]
        return [[Hypothesis([len(request.src)], 0.0, 0.0, True)] for request in requests]


def test_results_come_in_the_order_of_the_requests() -> None:
    lengths = [3, 900, 5, 800, 1, 700]
    inner = Recording()
    options = SearchOptions(beam=5)
    found = WatchedEngine(inner, Stages()).search([Request([9] * n) for n in lengths], options)
    assert [hypotheses[0].ids for hypotheses in found] == [[n] for n in lengths]
    assert inner.asked == sorted(lengths, reverse=True), "as an engine alone would"
    assert len(list(batches_by_length(lengths, 1))) == len(lengths)
