"""Rules against brute force: of everything a toy model can write, what the rule allows."""

import dataclasses
from collections.abc import Callable
from functools import partial

import pytest
import torch
from toy_model import EOS, GNMT, NO_PENALTY, ToyModel, contains, every_hypothesis, toy_task

from transformer_mt.search.beam_search import Hypothesis, beam_search, step_by_step_search
from transformer_mt.search.token_rules import TokenRules

LIMIT = 5
WIDE = 2 * 3**LIMIT


def has_no_repeated(n: int) -> Callable[[Hypothesis], bool]:
    def allowed(h: Hypothesis) -> bool:
        ngrams = [tuple(h.ids[i : i + n]) for i in range(len(h.ids) - n + 1)]
        return len(ngrams) == len(set(ngrams))

    return allowed


RULES = [
    ({"min_length": 3}, lambda h: len(h.ids) >= 3),
    ({"never": [2]}, lambda h: 2 not in h.ids),
    ({"banned": [[2, 3]]}, lambda h: not contains(h.ids, [2, 3])),
    ({"banned": [[3], [2, 2, 2]]}, lambda h: 3 not in h.ids and not contains(h.ids, [2, 2, 2])),
    ({"no_repeat_ngram": 1}, has_no_repeated(1)),
    ({"no_repeat_ngram": 2}, has_no_repeated(2)),
    ({"prefixes": [[3, 2]]}, lambda h: h.ids[:2] == [3, 2]),
    ({"prefixes": [[2, 2]], "no_repeat_ngram": 1}, lambda h: h.ids in ([2, 2], [2, 2, 3])),
    (
        {"min_length": 2, "banned": [[2, 2]], "no_repeat_ngram": 2},
        lambda h: len(h.ids) >= 2 and not contains(h.ids, [2, 2]) and has_no_repeated(2)(h),
    ),
]


@pytest.mark.parametrize(
    ("settings", "allowed"), RULES, ids=[str(settings) for settings, _ in RULES]
)
@pytest.mark.parametrize("seed", range(3))
def test_search_finds_the_best_that_a_rule_allows(
    settings: dict, allowed: Callable[[Hypothesis], bool], seed: int
) -> None:
    model = ToyModel(1, seed)
    (found,) = beam_search(toy_task(model, [LIMIT], GNMT, **settings), beam=WIDE, n_best=4)
    expected = [h for h in every_hypothesis(model, 0, LIMIT, GNMT) if allowed(h)][:4]
    assert [h.ids for h in found] == [h.ids for h in expected]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.score == pytest.approx(theirs.score, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_repetition_penalty_makes_written_tokens_less_probable(seed: int) -> None:
    model = ToyModel(1, seed)
    task = toy_task(model, [LIMIT], repetition_penalty=1.7)
    (found,) = beam_search(task, beam=WIDE, n_best=3)

    def penalised(hypothesis: Hypothesis) -> float:
        ids = [*hypothesis.ids, *[EOS] * hypothesis.complete]
        return sum(
            model.next_log_probs(0, tuple(ids[:i]))[token].item() * (1.7 if token in ids[:i] else 1)
            for i, token in enumerate(ids)
        )

    everything = every_hypothesis(model, 0, LIMIT, NO_PENALTY)
    expected = sorted(everything, key=lambda h: -penalised(h))[:3]
    assert [h.ids for h in found] == [h.ids for h in expected]
    assert [h.log_prob for h in found] == pytest.approx([penalised(h) for h in expected], abs=1e-4)


def test_each_sentence_keeps_its_own_prefix_when_others_leave() -> None:
    prefixes = [[2, 2, 2, 2], [3], [], [3, 3, 2]]
    for beam in (1, 3):
        found = beam_search(toy_task(ToyModel(4), [9] * 4, prefixes=prefixes), beam=beam)
        for (best,), prefix in zip(found, prefixes, strict=True):
            assert best.ids[: len(prefix)] == prefix


@pytest.mark.parametrize("settings", [settings for settings, _ in RULES], ids=str)
def test_rules_hold_in_greedy_search_too(settings: dict) -> None:
    (greedy,) = step_by_step_search(toy_task(ToyModel(1, 5), [LIMIT], **settings))
    ((beam,),) = beam_search(toy_task(ToyModel(1, 5), [LIMIT], **settings), beam=1)
    assert (greedy.ids, greedy.complete) == (beam.ids, beam.complete)
    assert greedy.score == pytest.approx(beam.score, abs=1e-5)


def test_a_rule_that_forbids_everything_leaves_the_end() -> None:
    """Each token once, then only EOS is left."""
    (greedy,) = step_by_step_search(toy_task(ToyModel(1), [50], no_repeat_ngram=1))
    assert len(greedy.ids) <= 2 and greedy.complete


def test_a_least_length_that_other_rules_do_not_allow() -> None:
    task = partial(toy_task, ToyModel(1), [50], min_length=9, no_repeat_ngram=1)
    (greedy,) = step_by_step_search(task())
    ((beam,),) = beam_search(task(), beam=1)
    for found in (greedy, beam):
        assert sorted(found.ids) == [2, 3] and found.complete and found.score > -torch.inf


def test_scores_are_untouched_where_no_rule_applies() -> None:
    log_probs = torch.randn(2, 3, 7)
    before = log_probs.clone()
    history = torch.randint(2, 7, (2, 3, 4))
    rules = TokenRules(eos_id=1)
    rules.apply(log_probs, history, [0, 1])
    assert log_probs.equal(before)
    dataclasses.replace(rules, banned=[[5, 6]]).apply(log_probs, torch.full((2, 3, 4), 2), [0, 1])
    assert log_probs.equal(before)
