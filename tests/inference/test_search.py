"""Search against brute force: every hypothesis of a toy model is listed and scored."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from transformer_mt.inference.search import (
    Hypothesis,
    beam_search,
    greedy_search,
    length_penalty,
)

VOCAB, BOS, EOS = 4, 0, 1


class ToyModel:
    """Log-probabilities that depend on the sentence and on the whole prefix, at random."""

    def __init__(self, n_sentences: int, beam: int, seed: int = 0) -> None:
        self.beam = beam
        self.seed = seed
        self.sentences = list(range(n_sentences))
        self.prefixes: list[tuple[int, ...]] = [() for _ in range(n_sentences * beam)]
        self.steps = 0

    def next_log_probs(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, sentence, *prefix)) % 2**31)
        logits = 2 * torch.randn(VOCAB, generator=generator)
        logits[BOS] = -math.inf
        return logits.log_softmax(0)

    def step(self, tokens: Tensor) -> Tensor:
        self.steps += 1
        new = tokens.tolist()
        self.prefixes = [
            prefix if token == BOS else (*prefix, token)
            for prefix, token in zip(self.prefixes, new, strict=True)
        ]
        return torch.stack(
            [
                self.next_log_probs(self.sentences[row // self.beam], prefix)
                for row, prefix in enumerate(self.prefixes)
            ]
        )

    def select_rows(self, rows: Tensor) -> None:
        self.prefixes = [self.prefixes[row] for row in rows.tolist()]

    def select_sentences(self, sentences: Tensor) -> None:
        self.sentences = [self.sentences[i] for i in sentences.tolist()]


def every_hypothesis(
    model: ToyModel, sentence: int, max_length: int, alpha: float
) -> list[Hypothesis]:
    """All that can be written within the limit, best first."""
    words = [token for token in range(VOCAB) if token not in (BOS, EOS)]
    found = []
    for length in range(1, max_length + 1):
        for body in itertools.product(words, repeat=length - 1):
            lasts = [EOS] if length < max_length else [EOS, *words]
            for last in lasts:
                ids = [*body, last]
                log_prob = sum(
                    model.next_log_probs(sentence, tuple(ids[:i]))[token].item()
                    for i, token in enumerate(ids)
                )
                complete = last == EOS
                score = log_prob / length_penalty(length, alpha)
                found.append(Hypothesis(ids[:-1] if complete else ids, log_prob, score, complete))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_what_exhaustive_search_finds(alpha: float, seed: int) -> None:
    limits = [4, 2, 5, 1, 3]
    beam = 2 * 3**4  # wider than the number of live prefixes: nothing is ever pruned
    model = ToyModel(len(limits), beam, seed)
    found = beam_search(model, limits, beam=beam, bos_id=BOS, eos_id=EOS, alpha=alpha, n_best=5)
    for sentence, limit in enumerate(limits):
        expected = every_hypothesis(model, sentence, limit, alpha)[:5]
        assert [h.ids for h in found[sentence]] == [h.ids for h in expected]
        for mine, theirs in zip(found[sentence], expected, strict=True):
            assert mine.score == pytest.approx(theirs.score, abs=1e-4)
            assert mine.complete == theirs.complete


@pytest.mark.parametrize("seed", range(6))
def test_beam_one_is_greedy(seed: int) -> None:
    limits = [7, 3, 9, 1, 5, 12, 4, 8]
    greedy = greedy_search(ToyModel(8, 1, seed), limits, bos_id=BOS, eos_id=EOS)
    beams = beam_search(ToyModel(8, 1, seed), limits, beam=1, bos_id=BOS, eos_id=EOS)
    assert len({len(h.ids) for h in greedy}) > 1, "the sentences must differ for this to tell much"
    for one, (other,) in zip(greedy, beams, strict=True):
        assert one.ids == other.ids
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)


def test_sentences_do_not_influence_each_other() -> None:
    limits = [6, 6, 6, 6]
    together = beam_search(ToyModel(4, 3), limits, beam=3, bos_id=BOS, eos_id=EOS, alpha=0.6)
    for sentence in range(4):
        alone = ToyModel(1, 3)
        alone.sentences = [sentence]
        (hypotheses,) = beam_search(alone, [6], beam=3, bos_id=BOS, eos_id=EOS, alpha=0.6)
        assert hypotheses[0].ids == together[sentence][0].ids


def test_a_wider_beam_never_scores_worse_without_pruning_luck() -> None:
    """The best hypothesis of a beam is at most as probable as the true best one."""
    for seed in range(5):
        model = ToyModel(3, 2, seed)
        found = beam_search(model, [5, 5, 5], beam=2, bos_id=BOS, eos_id=EOS)
        for sentence in range(3):
            best = every_hypothesis(model, sentence, 5, 0.0)[0]
            assert found[sentence][0].log_prob <= best.log_prob + 1e-5


def test_length_limit_is_kept_and_said() -> None:
    class NeverEnds(ToyModel):
        def next_log_probs(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
            return torch.tensor([-math.inf, -1e4, 0.0, -1.0])

    (greedy,) = greedy_search(NeverEnds(1, 1), [6], bos_id=BOS, eos_id=EOS)
    assert greedy.ids == [2] * 6 and not greedy.complete
    ((best,),) = beam_search(NeverEnds(1, 2), [6], beam=2, bos_id=BOS, eos_id=EOS)
    assert best.ids == [2] * 6 and not best.complete


def test_search_stops_when_nothing_can_improve() -> None:
    class EndsAtOnce(ToyModel):
        def next_log_probs(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
            return torch.tensor([-math.inf, -0.001, -8.0, -8.0])

    model = EndsAtOnce(2, 4)
    found = beam_search(model, [50, 50], beam=4, bos_id=BOS, eos_id=EOS, alpha=0.6)
    assert [hypotheses[0].ids for hypotheses in found] == [[], []]
    assert model.steps < 5


def test_paper_length_penalty() -> None:
    assert length_penalty(7, 0.6) == pytest.approx(2**0.6)
    assert length_penalty(123, 0.0) == 1.0


def test_n_best_beyond_the_beam_is_refused() -> None:
    with pytest.raises(ValueError, match="n_best 3 must be between 1 and the beam, 2"):
        beam_search(ToyModel(1, 2), [3], beam=2, bos_id=BOS, eos_id=EOS, n_best=3)
