"""Search against brute force: every hypothesis of a toy model is listed and scored."""

import math

import pytest
import torch
from torch import Tensor
from toy_model import EOS, GNMT, NO_PENALTY, ToyModel, every_hypothesis, toy_task

from transformer_mt.search import beam_search as search_module
from transformer_mt.search.beam_search import (
    LengthPenalty,
    beam_search,
    best_continuations,
    most_probable,
    step_by_step_search,
)

PENALTIES = [NO_PENALTY, GNMT, LengthPenalty("gnmt", 1.5), LengthPenalty("average", 1.0)]
IN_BLOCKS_OR_AT_ONCE = pytest.mark.parametrize("small", [0, search_module.SMALL])


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_what_exhaustive_search_finds(penalty: LengthPenalty, seed: int) -> None:
    limits = [4, 2, 5, 1, 3]
    beam = 2 * 3**4  # wider than the number of live prefixes: nothing is ever pruned
    model = ToyModel(len(limits), seed)
    found = beam_search(toy_task(model, limits, penalty), beam=beam, n_best=5)
    for sentence, limit in enumerate(limits):
        expected = every_hypothesis(model, sentence, limit, penalty)[:5]
        assert [h.ids for h in found[sentence]] == [h.ids for h in expected]
        for mine, theirs in zip(found[sentence], expected, strict=True):
            assert mine.score == pytest.approx(theirs.score, abs=1e-4)
            assert mine.complete == theirs.complete


@pytest.mark.parametrize("seed", range(6))
def test_beam_one_is_greedy(seed: int) -> None:
    limits = [7, 3, 9, 1, 5, 12, 4, 8]
    greedy = step_by_step_search(toy_task(ToyModel(8, seed), limits))
    beams = beam_search(toy_task(ToyModel(8, seed), limits), beam=1)
    assert len({len(h.ids) for h in greedy}) > 1, "the sentences must differ for this to tell much"
    for one, (other,) in zip(greedy, beams, strict=True):
        assert one.ids == other.ids
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)


def test_sentences_do_not_influence_each_other() -> None:
    together = beam_search(toy_task(ToyModel(4), [6, 6, 6, 6], GNMT), beam=3)
    for sentence in range(4):
        alone = ToyModel(1)
        alone.sentences = [sentence]
        (hypotheses,) = beam_search(toy_task(alone, [6], GNMT), beam=3)
        assert hypotheses[0].ids == together[sentence][0].ids
        ids = [*hypotheses[0].ids, *[EOS] * hypotheses[0].complete]
        log_prob = ToyModel(4).log_prob(sentence, ids)
        assert hypotheses[0].log_prob == pytest.approx(log_prob, abs=1e-4)


def test_length_limit_is_kept_and_said() -> None:
    class NeverEnds(ToyModel):
        def next_log_probs(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
            return torch.tensor([-math.inf, -1e4, 0.0, -1.0])

    (greedy,) = step_by_step_search(toy_task(NeverEnds(1), [6]))
    ((best,),) = beam_search(toy_task(NeverEnds(1), [6]), beam=2)
    for found in (greedy, best):
        assert found.ids == [2] * 6 and not found.complete


def test_search_stops_when_nothing_can_improve() -> None:
    class EndsAtOnce(ToyModel):
        def next_log_probs(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
            return torch.tensor([-math.inf, -0.001, -8.0, -8.0])

    model = EndsAtOnce(2, 4)
    found = beam_search(toy_task(model, [50, 50], GNMT), beam=4)
    assert [hypotheses[0].ids for hypotheses in found] == [[], []]
    assert model.steps < 5


def test_length_penalties() -> None:
    assert GNMT(7) == pytest.approx(2**0.6), "the paper's"
    assert NO_PENALTY(123) == 1.0
    ((best,),) = beam_search(toy_task(ToyModel(1), [6], LengthPenalty("average", 1.0)), beam=3)
    assert best.score == pytest.approx(best.log_prob / (len(best.ids) + best.complete))


@pytest.mark.parametrize("vocab_size", [4, 63, 64, 65, 200, 1000])
@pytest.mark.parametrize("beam", [1, 2, 5])
@IN_BLOCKS_OR_AT_ONCE
def test_best_continuations_are_those_of_a_full_sort(
    monkeypatch: pytest.MonkeyPatch, vocab_size: int, beam: int, small: int
) -> None:
    monkeypatch.setattr(search_module, "SMALL", small)
    generator = torch.Generator().manual_seed(vocab_size + beam)
    log_probs = torch.randn(3, beam, vocab_size, generator=generator)
    log_probs[0, 0, 1:] = -math.inf  # rules leave only few
    scores = torch.randn(3, beam, generator=generator)
    scores[1, 1:], scores[2] = -math.inf, -math.inf  # dead beams
    found = best_continuations(scores, log_probs, 2 * beam)
    totals = (log_probs + scores[..., None]).flatten(1)
    expected = totals.topk(min(2 * beam, totals.size(1)), dim=1)
    assert found.scores.equal(expected.values)
    real = found.scores > -math.inf
    flat = found.parents * vocab_size + found.tokens
    assert flat[real].equal(expected.indices[real])
    assert found.parents.max() < beam and found.tokens.max() < vocab_size


@pytest.mark.parametrize("vocab_size", [4, 63, 64, 65, 200, 1000])
@IN_BLOCKS_OR_AT_ONCE
def test_the_most_probable_is_the_first_of_the_largest(
    monkeypatch: pytest.MonkeyPatch, vocab_size: int, small: int
) -> None:
    monkeypatch.setattr(search_module, "SMALL", small)
    generator = torch.Generator().manual_seed(vocab_size)
    log_probs = -torch.randint(30, (500, vocab_size), generator=generator).float()  # many are equal
    log_probs[0] = -math.inf
    log_probs[1, :-1] = -math.inf  # rules leave only the last
    expected = [row.index(max(row)) for row in log_probs.tolist()]
    assert most_probable(log_probs).tolist() == expected
