"""Model 1 of IBM (Brown et al. 1993): which words of two languages translate each other.

It knows no text: a word is a number, and every position of a sentence may translate every position
of the other side.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_mt.text.units import Ints

_ITERATIONS = 6  # of expectation maximisation


def position_pairs(n_src: Ints, n_tgt: Ints) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """All pairs of positions of some sentence pairs with these lengths.

    Returns:
        Two arrays of (sum of n_src · n_tgt): positions of the source side and of the target side,
        numbered through all sentences; those of one target position stand together.
    """
    of_tgt = np.repeat(n_src, n_tgt)  # of each target position, its sentence's source positions
    first = np.repeat(np.cumsum(n_src) - n_src, n_tgt)
    tgt = np.repeat(np.arange(len(of_tgt), dtype=np.int32), of_tgt)
    starts = np.cumsum(of_tgt) - of_tgt
    src = first[tgt] + np.arange(len(tgt)) - starts[tgt]
    return src.astype(np.int32), tgt


def translation_probabilities(
    of_cell: NDArray[Any],
    n_words: int,
    positions: NDArray[np.int32],
    given: Ints,
    n_given: int,
    prior: NDArray[np.float32] | None = None,
) -> NDArray[np.float64]:
    """Probabilities of pairs of words, one of the two given.

    Args:
        of_cell: (n,) the pair of words of each pair of positions, below n_words.
        positions: (n,) the token that is to be explained by the others of its sentence.
        given: (n_words,) of each pair the word that explains, below n_given.
        prior: (n,) how likely a pair of positions is beforehand; None: all alike.
    """
    probs = np.ones(n_words)
    for _ in range(_ITERATIONS):
        likely = probs[of_cell]
        if prior is not None:
            likely *= prior
        likely /= np.maximum(np.bincount(positions, likely), 1e-30)[positions]
        counts = np.bincount(of_cell, likely, n_words)
        probs = counts / np.maximum(np.bincount(given, counts, n_given), 1e-30)[given]
    return probs
