"""What counts as a loop while it is written, and that search ends there and nowhere else."""

import math
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from toy_model import NO_PENALTY, ToyModel, toy_task

from transformer_mt.search.beam_search import Hypothesis, beam_search, step_by_step_search
from transformer_mt.search.loop_detection import (
    EVERY,
    FEWEST_TIMES,
    FEWEST_TOKENS,
    LONGEST_UNIT,
    LoopWatch,
    most_repeated,
)

Search = Callable[[ToyModel, LoopWatch | None], list[Hypothesis]]

LIMIT = 100
STUCK_AT = math.ceil((1 + FEWEST_TOKENS) / EVERY) * EVERY  # tokens, of which all but one repeat


def is_stuck(written: list[int], *given: list[int]) -> bool:
    return LoopWatch([given]).stuck(torch.tensor([written]), [0]) == [0]


def ends_in_a_loop(written: list[int], allowed: int) -> bool:
    """The definition, spelled out."""
    for unit in range(1, LONGEST_UNIT + 1):
        n = 0
        while n + unit < len(written) and written[-1 - n] == written[-1 - n - unit]:
            n += 1
        if n >= max(allowed, unit * (FEWEST_TIMES - 1)):
            return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_the_loop_at_the_end_is_found(seed: int) -> None:
    rng = random.Random(seed)
    unit = rng.choices(range(10, 15), k=rng.randint(1, LONGEST_UNIT + 3))
    loop = unit * rng.randint(1, 90 // len(unit))
    written = [*rng.choices(range(10, 99), k=rng.randint(0, 20)), *loop]
    written = [7] * (-len(written) % EVERY) + written  # looked at every so many tokens
    assert is_stuck(written) == ends_in_a_loop(written, FEWEST_TOKENS)
    assert not is_stuck([*written, *range(200, 200 + EVERY)]), "no loop any more"


def test_rows_are_told_apart_and_sentences_by_their_number() -> None:
    looping, other = [5] * 40, list(range(10, 50))
    watch = LoopWatch([[other], [looping], [other]])
    written = torch.tensor([other, looping, looping, looping])
    assert watch.stuck(written, [0, 2, 1, 0]) == [1, 3]


def test_a_source_that_repeats_itself_excuses_as_many_tokens_again() -> None:
    source = [*[8, 9] * 10, 6]  # of 21 tokens 18 repeat
    assert most_repeated(source) == 18 and most_repeated([]) == most_repeated([1]) == 0
    assert most_repeated([*range(100, 130)] * 4) == 90, "a sentence may be longer in the source"
    most = FEWEST_TOKENS + 2 * 18  # 68; looked at after 64 and 72
    assert is_stuck([5] * 40) and not is_stuck([5] * 40, source)
    assert not is_stuck([5] * (most - 4), source)
    assert is_stuck([5] * (most + 4), source)
    assert not is_stuck([5] * (most + 4), source, [4] * 30), "a prefix counts as well"


class Looping(ToyModel):
    """Its first sentence never ends; the others are those of a toy model."""

    def next_log_probs(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        if sentence == 0:
            return torch.tensor([-math.inf, -50.0, -0.01, -6.0])
        return super().next_log_probs(sentence, prefix)


def by_beam(model: ToyModel, loops: LoopWatch | None) -> list[Hypothesis]:
    found = beam_search(toy_task(model, [LIMIT] * 4, NO_PENALTY, loops), beam=3)
    return [best for best, *_ in found]


def by_steps(model: ToyModel, loops: LoopWatch | None) -> list[Hypothesis]:
    return step_by_step_search(toy_task(model, [LIMIT] * 4, NO_PENALTY, loops))


@pytest.mark.parametrize("search", [by_beam, by_steps])
def test_search_ends_a_loop_and_leaves_the_rest(search: Search) -> None:
    without = search(Looping(4), None)
    watched = Looping(4)
    found = search(watched, LoopWatch([[[8, 9]]] * 4))
    assert found[1:] == without[1:] and all(hypothesis.complete for hypothesis in found[1:])
    assert without[0].ids == [2] * LIMIT and not without[0].complete
    assert not found[0].complete and set(found[0].ids) == {2}
    assert STUCK_AT <= len(found[0].ids) <= STUCK_AT + 1
    assert watched.steps <= STUCK_AT + 1
    assert found[0].log_prob == pytest.approx(-0.01 * len(found[0].ids), rel=1e-3)
    excused = LoopWatch([[[9] * 40]] * 4)
    assert search(Looping(4), excused) == without


def test_a_sentence_that_waits_to_leave_is_not_ended_again() -> None:
    """Ended rows leave in groups; what they are made to write meanwhile is no part of them."""

    class OneEndsEarly(ToyModel):
        def next_log_probs(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
            ends = sentence == 0 and len(prefix) >= 3
            return torch.tensor([-math.inf, 0.0 if ends else -50.0, -0.1 * (1 + sentence), -9.0])

    loops = LoopWatch([[[9] * 20]] * 8 + [[[8]]])
    found = step_by_step_search(toy_task(OneEndsEarly(9), [LIMIT] * 9, NO_PENALTY, loops))
    assert found[0].ids == [2] * 3 and found[0].complete
    assert found[8].ids == [2] * STUCK_AT and not found[8].complete
    assert [len(h.ids) for h in found[1:8]] == [72] * 7  # 32 + 2 × 19, at the next look
