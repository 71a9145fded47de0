"""Required phrases against brute force: of everything a toy model can write, what contains them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from toy_model import GNMT, ToyModel, contains, every_hypothesis, toy_task

from transformer_mt.search.beam_search import Hypothesis, LengthPenalty, beam_search
from transformer_mt.search.constrained_search import constrained_beam_search, tokens_begun

LIMIT = 6
PHRASES = [
    [[2]],
    [[2], [3]],
    [[2, 3], [3, 2]],  # may overlap: 2 3 2
    [[2, 2, 3]],  # 2 2 2 3: a beginning that slides on
    [[2, 3, 2]],
    [[3, 3, 3], [2]],
]


def search(model: ToyModel, required: list[list[list[int]]], beam: int) -> list[list[Hypothesis]]:
    task = toy_task(model, [LIMIT] * len(required), GNMT)
    return constrained_beam_search(task, required=required, beam=beam)


@pytest.mark.parametrize("phrases", PHRASES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_the_best_that_contains_all(phrases: list[list[int]], seed: int) -> None:
    model = ToyModel(1, seed)
    ((found,),) = search(model, [phrases], 3**LIMIT)
    expected = next(
        h
        for h in every_hypothesis(model, 0, LIMIT, GNMT)
        if h.complete and all(contains(h.ids, phrase) for phrase in phrases)
    )
    assert found.ids == expected.ids
    assert found.score == pytest.approx(expected.score, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 2, 4, 8])
def test_every_phrase_is_there_however_narrow_the_beam(beam: int) -> None:
    required = [*PHRASES, [[3]], [[2, 3, 3]]]
    found = search(ToyModel(len(required)), required, beam)
    for (best,), phrases in zip(found, required, strict=True):
        if beam > sum(map(len, phrases)):
            assert best.complete
            assert all(contains(best.ids, phrase) for phrase in phrases)


class Talkative(ToyModel):
    """Rather writes on than ends, and never a 3 unless it must."""

    def next_log_probs(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        ends = -0.5 if prefix and prefix[-1] == 3 else -3.0
        return torch.tensor([-math.inf, ends, -0.1, -7.0])


def test_what_ends_well_is_kept_though_others_are_more_probable() -> None:
    """Prefixes without the phrase may not end, and grow; they must not crowd out what did."""
    task = toy_task(Talkative(1), [30], LengthPenalty("average", 1.0))
    (found,) = constrained_beam_search(task, required=[[[3, 3]]], beam=4, n_best=2)
    assert all(h.complete and contains(h.ids, [3, 3]) for h in found)


class EndsLate(ToyModel):
    """May end at any place, but hardly before it has written five tokens."""

    def next_log_probs(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        return torch.tensor([-math.inf, -3.0 if len(prefix) < 5 else -0.1, -3.5, -0.1])


def test_as_many_poor_endings_as_the_beam_do_not_end_the_search() -> None:
    task = toy_task(EndsLate(1), [LIMIT], GNMT)
    ((found,),) = constrained_beam_search(task, required=[[[2]]], beam=4)
    assert len(found.ids) == 5 and found.log_prob == pytest.approx(-4.0)  # 3 3 3 3 2, in any order


def test_without_phrases_it_is_beam_search() -> None:
    found = search(ToyModel(5), [[]] * 5, 3)
    plain = beam_search(toy_task(ToyModel(5), [LIMIT] * 5, GNMT), beam=3)
    assert sum(a[0].ids == b[0].ids for a, b in zip(found, plain, strict=True)) >= 4


def test_what_does_not_fit_is_said_to_be_cut() -> None:
    ((found,),) = search(ToyModel(1), [[[2] * (LIMIT + 3)]], 12)
    assert found.ids == [2] * LIMIT and not found.complete


def test_sentences_do_not_influence_each_other() -> None:
    together = search(ToyModel(4), PHRASES[:4], 5)
    for sentence in range(4):
        alone = ToyModel(1)
        alone.sentences = [sentence]
        ((best,),) = search(alone, [PHRASES[sentence]], 5)
        assert best.ids == together[sentence][0].ids


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.lists(st.integers(0, 2)))
def test_a_phrase_knows_how_much_of_it_stands_last(ids: list[int], written: list[int]) -> None:
    n = 0
    for end, token in enumerate(written, 1):
        n = tokens_begun(ids, n, token)
        ends = [k for k in range(len(ids) + 1) if written[:end][end - k :] == ids[:k] and k <= end]
        assert n == max(ends)
        if n == len(ids):
            return
