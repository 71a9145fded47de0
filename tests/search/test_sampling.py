"""Sampling draws from the model's distribution, and from the part of it that is asked for."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from toy_model import EOS, ToyModel, toy_task

from transformer_mt.search.beam_search import Hypothesis, most_probable, step_by_step_search
from transformer_mt.search.sampling import Sampler, SamplingOptions, candidate_probs

PROBS = torch.tensor([[0.05, 0.4, 0.25, 0.3]])
CPU = torch.device("cpu")

TABLE = [
    (SamplingOptions(), [0.05, 0.4, 0.25, 0.3], "as the model says"),
    (SamplingOptions(top_k=2), [0, 0.4, 0, 0.3], "the two most probable"),
    (SamplingOptions(top_k=9), [0.05, 0.4, 0.25, 0.3], "more than there are"),
    (SamplingOptions(top_p=0.4), [0, 0.4, 0, 0], "one is enough"),
    (SamplingOptions(top_p=0.41), [0, 0.4, 0, 0.3], "one is not enough"),
    (SamplingOptions(top_p=0.0001), [0, 0.4, 0, 0], "at least one"),
    (SamplingOptions(temperature=0.5), [0.05**2, 0.4**2, 0.25**2, 0.3**2], "p^(1/T)"),
    (SamplingOptions(top_k=3, top_p=0.8), [0, 0.4, 0.25, 0.3], "0.4 + 0.3 of 0.95 is < 0.8"),
]


@pytest.mark.parametrize(("sampling", "expected", "why"), TABLE)
def test_candidates(sampling: SamplingOptions, expected: list[float], why: str) -> None:
    probs = candidate_probs(PROBS.log(), sampling)[0]
    wanted = torch.tensor(expected)
    torch.testing.assert_close(probs / probs.sum(), wanted / wanted.sum(), msg=why)


def test_draws_follow_the_distribution() -> None:
    draws = Sampler(SamplingOptions(seed=3), CPU)(PROBS.log().expand(20_000, -1))
    shares = torch.bincount(draws, minlength=4) / len(draws)
    assert (shares - PROBS[0]).abs().max() < 0.02


def searched(choose: Callable[[Tensor], Tensor]) -> list[Hypothesis]:
    return step_by_step_search(toy_task(ToyModel(20), [8] * 20), choose)


def drawn(**options: float) -> list[list[int]]:
    return [h.ids for h in searched(Sampler(SamplingOptions(**options), CPU))]


def test_a_seed_repeats_its_draws_and_another_does_not() -> None:
    assert drawn(seed=1) == drawn(seed=1) != drawn(seed=2)
    assert drawn(top_k=1) == [h.ids for h in searched(most_probable)], "one candidate is greedy"


def test_log_probabilities_are_those_of_the_model_at_any_temperature() -> None:
    hypotheses = searched(Sampler(SamplingOptions(temperature=3.0), CPU))
    for sentence, found in enumerate(hypotheses):
        log_prob = ToyModel(20).log_prob(sentence, [*found.ids, *[EOS] * found.complete])
        assert found.log_prob == pytest.approx(log_prob, abs=1e-4)
