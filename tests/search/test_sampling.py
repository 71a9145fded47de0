"""Sampling draws from the model's distribution, and from the part of it that is asked for."""

import pytest
import torch
from toy_model import BOS, EOS, ToyModel

from transformer_mt.search.beam_search import LengthPenalty, step_by_step_search
from transformer_mt.search.sampling import Sampler, Sampling, candidate_probs
from transformer_mt.search.token_rules import TokenRules

PROBS = torch.tensor([[0.05, 0.4, 0.25, 0.3]])
CPU = torch.device("cpu")

TABLE = [
    (Sampling(), [0.05, 0.4, 0.25, 0.3], "as the model says"),
    (Sampling(top_k=2), [0, 0.4, 0, 0.3], "the two most probable"),
    (Sampling(top_k=9), [0.05, 0.4, 0.25, 0.3], "more than there are"),
    (Sampling(top_p=0.4), [0, 0.4, 0, 0], "one is enough"),
    (Sampling(top_p=0.41), [0, 0.4, 0, 0.3], "one is not enough"),
    (Sampling(top_p=0.0001), [0, 0.4, 0, 0], "at least one"),
    (Sampling(temperature=0.5), [0.05**2, 0.4**2, 0.25**2, 0.3**2], "p^(1/T)"),
    (Sampling(top_k=3, top_p=0.8), [0, 0.4, 0.25, 0.3], "0.4 + 0.3 of 0.95 is less than 0.8"),
]


@pytest.mark.parametrize(("sampling", "expected", "why"), TABLE)
def test_candidates(sampling: Sampling, expected: list[float], why: str) -> None:
    probs = candidate_probs(PROBS.log(), sampling)[0]
    wanted = torch.tensor(expected)
    torch.testing.assert_close(probs / probs.sum(), wanted / wanted.sum(), msg=why)


def test_draws_follow_the_distribution() -> None:
    draws = Sampler(Sampling(seed=3), CPU)(PROBS.log().expand(20_000, -1))
    shares = torch.bincount(draws, minlength=4) / len(draws)
    assert (shares - PROBS[0]).abs().max() < 0.02


def translate(sampling: Sampling) -> list[list[int]]:
    rules = TokenRules(eos_id=EOS)
    found = step_by_step_search(
        ToyModel(20), [8] * 20, rules, bos_id=BOS, penalty=LengthPenalty(),
        choose=Sampler(sampling, CPU),
    )  # fmt: skip
    return [hypothesis.ids for hypothesis in found]


def test_a_seed_repeats_its_draws_and_another_does_not() -> None:
    assert translate(Sampling(seed=1)) == translate(Sampling(seed=1))
    assert translate(Sampling(seed=1)) != translate(Sampling(seed=2))


def test_one_candidate_is_greedy_search() -> None:
    greedy = step_by_step_search(
        ToyModel(20), [8] * 20, TokenRules(eos_id=EOS), bos_id=BOS, penalty=LengthPenalty()
    )
    assert translate(Sampling(top_k=1)) == [hypothesis.ids for hypothesis in greedy]


def test_log_probabilities_are_those_of_the_model_at_any_temperature() -> None:
    model = ToyModel(1)
    (found,) = step_by_step_search(
        model, [8], TokenRules(eos_id=EOS), bos_id=BOS, penalty=LengthPenalty(),
        choose=Sampler(Sampling(temperature=3.0), CPU),
    )  # fmt: skip
    ids = [*found.ids, *[EOS] * found.complete]
    log_prob = sum(
        model.next_log_probs(0, tuple(ids[:i]))[token].item() for i, token in enumerate(ids)
    )
    assert found.log_prob == pytest.approx(log_prob, abs=1e-4)
