"""Search against brute force: every hypothesis of a toy model is listed and scored."""

import math

import pytest
import torch
from torch import Tensor
from toy_model import BOS, EOS, ToyModel, every_hypothesis

from transformer_mt.search import beam_search as search_module
from transformer_mt.search.beam_search import (
    Hypothesis,
    LengthPenalty,
    SearchTask,
    beam_search,
    best_continuations,
    most_probable,
    step_by_step_search,
)
from transformer_mt.search.token_rules import TokenRules

NO_RULES = TokenRules(eos_id=EOS)
NO_PENALTY = LengthPenalty()


def search(
    model: ToyModel,
    limits: list[int],
    beam: int,
    *,
    penalty: LengthPenalty = NO_PENALTY,
    rules: TokenRules = NO_RULES,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    task = SearchTask(model, limits, rules, BOS, penalty)
    return beam_search(task, beam=beam, n_best=n_best)


def greedy_search(model: ToyModel, limits: list[int]) -> list[Hypothesis]:
    return step_by_step_search(SearchTask(model, limits, NO_RULES, BOS, NO_PENALTY))


PENALTIES = [
    NO_PENALTY,
    LengthPenalty("gnmt", 0.6),
    LengthPenalty("gnmt", 1.5),
    LengthPenalty("average", 1.0),
]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_what_exhaustive_search_finds(penalty: LengthPenalty, seed: int) -> None:
    limits = [4, 2, 5, 1, 3]
    beam = 2 * 3**4  # wider than the number of live prefixes: nothing is ever pruned
    model = ToyModel(len(limits), seed)
    found = search(model, limits, beam, penalty=penalty, n_best=5)
    for sentence, limit in enumerate(limits):
        expected = every_hypothesis(model, sentence, limit, penalty)[:5]
        assert [h.ids for h in found[sentence]] == [h.ids for h in expected]
        for mine, theirs in zip(found[sentence], expected, strict=True):
            assert mine.score == pytest.approx(theirs.score, abs=1e-4)
            assert mine.complete == theirs.complete


@pytest.mark.parametrize("seed", range(6))
def test_beam_one_is_greedy(seed: int) -> None:
    limits = [7, 3, 9, 1, 5, 12, 4, 8]
    greedy = greedy_search(ToyModel(8, seed), limits)
    beams = search(ToyModel(8, seed), limits, 1)
    assert len({len(h.ids) for h in greedy}) > 1, "the sentences must differ for this to tell much"
    for one, (other,) in zip(greedy, beams, strict=True):
        assert one.ids == other.ids
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)


def test_sentences_do_not_influence_each_other() -> None:
    limits = [6, 6, 6, 6]
    together = search(ToyModel(4), limits, 3, penalty=LengthPenalty("gnmt", 0.6))
    for sentence in range(4):
        alone = ToyModel(1)
        alone.sentences = [sentence]
        (hypotheses,) = search(alone, [6], 3, penalty=LengthPenalty("gnmt", 0.6))
        assert hypotheses[0].ids == together[sentence][0].ids


def test_a_wider_beam_never_scores_worse_without_pruning_luck() -> None:
    """The best hypothesis of a beam is at most as probable as the true best one."""
    for seed in range(5):
        model = ToyModel(3, seed)
        found = search(model, [5, 5, 5], 2)
        for sentence in range(3):
            best = every_hypothesis(model, sentence, 5, NO_PENALTY)[0]
            assert found[sentence][0].log_prob <= best.log_prob + 1e-5


def test_length_limit_is_kept_and_said() -> None:
    class NeverEnds(ToyModel):
        def next_log_probs(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
            return torch.tensor([-math.inf, -1e4, 0.0, -1.0])

    (greedy,) = greedy_search(NeverEnds(1, 1), [6])
    assert greedy.ids == [2] * 6 and not greedy.complete
    ((best,),) = search(NeverEnds(1, 2), [6], 2)
    assert best.ids == [2] * 6 and not best.complete


def test_search_stops_when_nothing_can_improve() -> None:
    class EndsAtOnce(ToyModel):
        def next_log_probs(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
            return torch.tensor([-math.inf, -0.001, -8.0, -8.0])

    model = EndsAtOnce(2, 4)
    found = search(model, [50, 50], 4, penalty=LengthPenalty("gnmt", 0.6))
    assert [hypotheses[0].ids for hypotheses in found] == [[], []]
    assert model.steps < 5


def test_paper_length_penalty() -> None:
    assert LengthPenalty("gnmt", 0.6)(7) == pytest.approx(2**0.6)
    assert LengthPenalty("gnmt", 0.0)(123) == 1.0


def test_average_penalty_of_one_is_the_mean_log_probability() -> None:
    ((best,),) = search(ToyModel(1), [6], 3, penalty=LengthPenalty("average", 1.0))
    assert best.score == pytest.approx(best.log_prob / (len(best.ids) + best.complete))


@pytest.mark.parametrize("vocab_size", [4, 63, 64, 65, 200, 1000])
@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("small", [0, search_module.SMALL], ids=["in blocks", "at once"])
def test_best_continuations_are_those_of_a_full_sort(
    monkeypatch: pytest.MonkeyPatch, vocab_size: int, beam: int, small: int
) -> None:
    monkeypatch.setattr(search_module, "SMALL", small)
    generator = torch.Generator().manual_seed(vocab_size + beam)
    log_probs = torch.randn(3, beam, vocab_size, generator=generator)
    log_probs[0, 0, 1:] = -math.inf  # rules leave only few
    scores = torch.randn(3, beam, generator=generator)
    scores[1, 1:] = -math.inf  # dead beams
    found = best_continuations(scores, log_probs, 2 * beam)
    totals = (log_probs + scores[..., None]).flatten(1)
    expected = totals.topk(min(2 * beam, totals.size(1)), dim=1)
    assert found.scores.equal(expected.values)
    real = found.scores > -math.inf
    flat = found.parents * vocab_size + found.tokens
    assert flat[real].equal(expected.indices[real])
    assert found.tokens.max() < vocab_size


@pytest.mark.parametrize("vocab_size", [4, 63, 64, 65, 200, 1000])
@pytest.mark.parametrize("small", [0, search_module.SMALL], ids=["in blocks", "at once"])
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


def test_n_best_beyond_the_beam_is_refused() -> None:
    with pytest.raises(ValueError, match="n_best 3 must be between 1 and the beam, 2"):
        search(ToyModel(1), [3], 2, n_best=3)
