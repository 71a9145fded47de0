"""Loops: hypotheses that repeat one phrase to the end, so that further search is useless.

Comes in: ids of sources, and of the hypotheses so far. Goes out: the rows that loop. This file
knows ids and torch: no text, no Transformer, no search.

Once a model loops, each repetition makes the next one more probable, up to the length limit.
Source: Holtzman et al. 2020, figure 4.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

LONGEST_UNIT = 12  # tokens of the repeated phrase
FEWEST_TIMES = 5  # occurrences of the phrase in a row
FEWEST_TOKENS = 32  # repeated tokens
LONGEST_SOURCE_UNIT = 40  # tokens; a source may repeat a sentence, whose translation is shorter
TOKENS_PER_SOURCE_TOKEN = 2  # repeated tokens allowed for each repeated source token
EVERY = 8  # steps between two checks


class LoopWatch:
    """Looks for loops in the hypotheses of a batch of sentences."""

    def __init__(self, given: Sequence[Sequence[Sequence[int]]]) -> None:
        """Args: given: for each sentence, sequences of ids, whose repetitions excuse its own."""
        self._given = given
        self._excused: dict[int, int] = {}

    def stuck(self, written: Tensor, sentences: Sequence[int]) -> list[int]:
        """Rows that end with a loop, unless their source repeats itself as well.

        Args:
            written: (B, t) int64, a hypothesis of each sentence, without BOS.
            sentences: the index in `given` of each row.
        """
        n_written = written.size(1)
        if n_written <= FEWEST_TOKENS or n_written % EVERY:
            return []
        repeated = torch.stack([_repeated(written, unit) for unit in range(1, LONGEST_UNIT + 1)])
        least = torch.arange(1, LONGEST_UNIT + 1, device=written.device) * (FEWEST_TIMES - 1)
        longest = repeated.masked_fill(repeated < least[:, None], 0).amax(dim=0).tolist()
        return [
            row
            for row, (n_tokens, sentence) in enumerate(zip(longest, sentences, strict=True))
            if n_tokens >= FEWEST_TOKENS and n_tokens >= FEWEST_TOKENS + self._excuse(sentence)
        ]

    def _excuse(self, sentence: int) -> int:
        """Tokens that a sentence may repeat because its source or prefix does; cached."""
        if sentence not in self._excused:
            most = sum(map(most_repeated, self._given[sentence]))
            self._excused[sentence] = TOKENS_PER_SOURCE_TOKEN * most
        return self._excused[sentence]


def _repeated(written: Tensor, unit: int) -> Tensor:
    """(B, t) → (B,): length of the suffix whose tokens equal those `unit` positions before."""
    same = written[:, unit:] == written[:, :-unit]
    return same.flip(1).cumprod(dim=1).sum(dim=1)


def most_repeated(ids: Sequence[int]) -> int:
    """The longest run of tokens that equal the token one unit before, over all units."""
    most = 0
    for unit in range(1, min(LONGEST_SOURCE_UNIT, len(ids) - 1) + 1):
        run = 0
        for before, id_ in zip(ids, ids[unit:], strict=False):
            run = run + 1 if before == id_ else 0
            most = max(most, run)
    return most
