"""Units of both sides of a corpus → the pairs that stand the wrong way round.

Where one side is Chinese and the other is not, the script decides; else the words, learned from
pairs most of which stand as they should. This file does not know any other language.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from transformer_mt.config.data import Languages
from transformer_mt.corpus.diagnostics.line_units import (
    FIRST_CHARACTER,
    FIRST_WORD,
    N_UNITS,
    LineUnits,
)
from transformer_mt.system.arrays import Floats, Ints
from transformer_mt.text.languages import is_chinese

_MIN_COUNT = 5  # occurrences of a unit below which it tells nothing
# Nats that both sides must reach, and the most that one unit can say: names and numbers, which both
# sides share, are never enough.
_THRESHOLD, _MOST = 4.0, 2.5
_CHARACTER, _WORD = 2.0, -2.0  # nats of a script: Chinese sentences quote words of others


def side_odds(src_counts: Ints, tgt_counts: Ints) -> Floats:
    """(V,) log-odds that a unit is of the source, given (V,) how often it occurs on each side."""
    shares = [(counts + 0.5) / (counts.sum() + 1) for counts in (src_counts, tgt_counts)]
    odds = np.log(shares[0] / shares[1]).clip(-_MOST, _MOST)
    return np.where(src_counts + tgt_counts >= _MIN_COUNT, odds, 0).astype(np.float32)


def look_swapped(
    odds: Floats, src: tuple[Ints, Ints], tgt: tuple[Ints, Ints], n_pairs: int
) -> NDArray[np.bool_]:
    """(n_pairs,) whether each side looks like the other one's language.

    Args:
        odds: (V,) from `side_odds`.
        src, tgt: units of all texts of a side, and the index of the text of each.
    """
    like_src, like_tgt = (
        np.bincount(owners, weights=odds[units], minlength=n_pairs) for units, owners in (src, tgt)
    )
    return (like_src <= -_THRESHOLD) & (like_tgt >= _THRESHOLD)


class SwapFinder:
    """Knows for each unit the side that it is usually on."""

    def __init__(self, blocks: Sequence[tuple[LineUnits, LineUnits]], languages: Languages) -> None:
        """Learn from the first blocks, unless the script decides."""
        chinese = [is_chinese(code) for code in (languages.src, languages.tgt)]
        if chinese[0] != chinese[1] and "ja" not in (languages.src, languages.tgt):
            odds = np.zeros(N_UNITS, dtype=np.float32)
            odds[FIRST_WORD:FIRST_CHARACTER] = _WORD
            odds[FIRST_CHARACTER:] = _CHARACTER
            self.odds = odds if chinese[0] else -odds
        else:
            self.odds = side_odds(*(
                np.bincount(np.concatenate([part.units for part in side]), minlength=N_UNITS)
                for side in zip(*blocks, strict=True)
            ))  # fmt: skip

    def look(self, block: tuple[LineUnits, LineUnits]) -> Ints:
        """Positions in the block of the lines that look swapped."""
        src, tgt = ((side.units, side.owners) for side in block)
        return np.flatnonzero(look_swapped(self.odds, src, tgt, len(block[0].lengths)))
