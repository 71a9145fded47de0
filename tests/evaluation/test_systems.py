"""Translating with somebody watching gives the same translations."""

from collections.abc import Sequence

import pytest
import torch

from transformer_mt.evaluation import systems
from transformer_mt.evaluation.metrics import Score, fit_comparison, fit_scores, format_table
from transformer_mt.evaluation.systems import WatchedEngine
from transformer_mt.rendering.progress import Stages
from transformer_mt.search import engine as engine_module
from transformer_mt.search.beam_search import Hypothesis
from transformer_mt.search.engine import Engine, Request, batches_by_length
from transformer_mt.search.options import SearchOptions
from transformer_mt.system.terminal import columns_of
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


def test_on_a_gpu_too(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "device", torch.device("cuda"))
    engine, sizes = Engine([translator.model], []), list[int]()

    def recorded(batch: list[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        sizes.append(len(batch))
        return [[Hypothesis([], 0.0, 0.0, True)] for _ in batch]

    monkeypatch.setattr(engine, "search_batch", recorded)
    for searching in (engine, WatchedEngine(engine, Stages())):
        searching.search([Request([9] * 99)] * 100, SearchOptions(beam=5))
    assert sizes == [65, 35, 65, 35]


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


SIGNATURE = "nrefs:1|bs:1000|seed:12345|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0"


def score(value: float, **more: float) -> Score:
    return Score("chrF2", value, SIGNATURE, value - 1, value + 1, **more)


def test_scores_fit_a_terminal_and_keep_their_signature() -> None:
    scores = {"test2016": {"chrf": score(55.5)}}
    assert fit_scores(scores, None) == fit_scores(scores, 200) == format_table(scores)
    text = fit_scores(scores, 80)
    assert max(map(columns_of, text.split("\n"))) <= 80
    assert "55.50" in text and SIGNATURE in text.replace("\n    ", "")


def test_compared_systems_fit_a_terminal() -> None:
    """Long names lose their beginnings, unless two would be the same."""
    names = [f"multi30k-en-de-with-a-long-name-{i}" for i in (1, 2)]
    both = {
        names[0]: {"chrf": score(50)},
        names[1]: {"chrf": score(51, difference=1, p_value=0.01)},
    }
    text = fit_comparison({"test2016": both}, 80)
    assert max(map(columns_of, text.split("\n"))) <= 80
    assert "name-1" in text and "name-2" in text and names[0] not in text
    alike = {
        f"{i}-and-the-rest-of-a-long-name-of-a-run": own for i, own in enumerate(both.values())
    }
    assert all(name in fit_comparison({"test2016": alike}, 80) for name in alike)
