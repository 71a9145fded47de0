"""Lines whose sides stand the wrong way round, told by what the other lines look like.

Comes in: the units of both sides, block by block. Goes out: which lines look swapped. Where one
side is Chinese and the other is not, the script decides; else the words, learned from the first
lines of the source, most of which stand as they should. This file does not know any other language.
"""

import numpy as np
from numpy.typing import NDArray

from transformer_mt.config.data import Languages
from transformer_mt.corpus.diagnostics.line_units import (
    FIRST_CHARACTER,
    FIRST_WORD,
    N_UNITS,
    LineUnits,
)
from transformer_mt.text.languages import is_chinese

# Log-odds that both sides must reach, and the most that one unit can say. Tuned so that names and
# numbers alone, which both sides share, are never enough.
_THRESHOLD, _MOST = 4.0, 2.5
_CHARACTER, _WORD = 2.0, -2.0  # what the script says: Chinese sentences quote words of others


class SwapFinder:
    """Knows from which side a unit usually is."""

    def __init__(self, blocks: list[tuple[LineUnits, LineUnits]], languages: Languages) -> None:
        """Learn from the first blocks, unless the script decides."""
        units = np.arange(N_UNITS)
        weights = np.zeros(N_UNITS)
        chinese = [is_chinese(code) for code in (languages.src, languages.tgt)]
        if chinese[0] != chinese[1] and "ja" not in (languages.src, languages.tgt):
            weights[units >= FIRST_CHARACTER] = _CHARACTER
            weights[(units >= FIRST_WORD) & (units < FIRST_CHARACTER)] = _WORD
            self.source_like = weights if chinese[0] else -weights
        else:
            counts = [_counts([block[side] for block in blocks]) for side in (0, 1)]
            shares = [(count + 0.5) / (count.sum() + 0.5 * N_UNITS) for count in counts]
            weights = np.log(shares[0] / shares[1]).clip(-_MOST, _MOST)
            weights[counts[0] + counts[1] < 5] = 0
            self.source_like = weights

    def look(self, block: tuple[LineUnits, LineUnits]) -> NDArray[np.int64]:
        """Positions in the block of the lines that look swapped."""
        src, tgt = (
            np.bincount(side.owners, self.source_like[side.units], minlength=len(side.lengths))
            for side in block
        )
        return np.flatnonzero((src <= -_THRESHOLD) & (tgt >= _THRESHOLD))


def _counts(parts: list[LineUnits]) -> NDArray[np.int64]:
    return np.sum([np.bincount(part.units, minlength=N_UNITS) for part in parts], axis=0)
