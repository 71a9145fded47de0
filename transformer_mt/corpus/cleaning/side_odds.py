"""On which side of a corpus its units stand → which pairs stand the wrong way round.

Comes in: the units of both sides of many pairs, most of which stand as they should. Goes out: the
odds of each unit, and which pairs look swapped. Languages of one script are told apart by their
words alone. This file does not know any language, nor any text.
"""

import numpy as np
from numpy.typing import NDArray

from transformer_mt.corpus.cleaning.lexical_units import BIGRAM, N_SLOTS, Units

Odds = NDArray[np.float32]

_MIN_COUNT = 5  # occurrences of a unit below which it tells nothing
_MOST = 2.5  # nats that one unit can say, so that no word is enough alone
_THRESHOLD = 4.0  # nats that both sides must reach: names and numbers, which both share, are none


def side_odds(src: NDArray[np.int64], tgt: NDArray[np.int64]) -> Odds:
    """(N_SLOTS,) log-odds that a unit is of the source.

    Args:
        src, tgt: (N_SLOTS,) how often each unit occurs on that side.
    """
    shares = [(counts + 0.5) / (counts.sum() + 1) for counts in (src, tgt)]
    odds = np.log(shares[0] / shares[1]).clip(-_MOST, _MOST)
    return np.where(src + tgt >= _MIN_COUNT, odds, 0).astype(np.float32)


def count_units(units: Units) -> NDArray[np.int64]:
    """(N_SLOTS,) how often each unit occurs."""
    return np.bincount(units.slots, minlength=N_SLOTS)


def look_swapped(odds: Odds, src: Units, tgt: Units, n_pairs: int) -> NDArray[np.bool_]:
    """(n_pairs,) whether each side looks like the other one's language."""
    like_src, like_tgt = (_sums(odds, units, n_pairs) for units in (src, tgt))
    return (like_src <= -_THRESHOLD) & (like_tgt >= _THRESHOLD)


def _sums(odds: Odds, units: Units, n_pairs: int) -> NDArray[np.float64]:
    """(n_pairs,) what the words, numbers and characters of each text say together."""
    plain = units.kinds != BIGRAM  # two characters together say what each of them says
    weights = odds[units.slots[plain]]
    sums = np.bincount(units.texts[plain], weights=weights, minlength=n_pairs)
    return sums.astype(np.float64)
