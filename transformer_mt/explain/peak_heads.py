"""Heads in which one piece looks most at one word: does the pronoun find its noun?

Comes in: `AttentionMaps`, a row, the columns of the word. Goes out: layers, heads and weights.
"""

from collections.abc import Sequence

import numpy as np

from transformer_mt.translation.attention_maps import AttentionMaps, Kind


def peak_heads(
    maps: AttentionMaps, row: int, columns: Sequence[int], *, kind: Kind = "encoder"
) -> list[tuple[int, int, float]]:
    """The heads whose largest weight in a row lies on one of the columns.

    Args:
        row: index of the query, for example of the pronoun.
        columns: indices of the pieces of the word, for example of the noun.
    Returns:
        (layer, head, weight) of each of these heads; layer and head from 1, weight summed over the
        columns, largest first.
    """
    rows = maps.weights(kind)[:, :, row]  # (L, H, columns)
    weights = rows[:, :, list(columns)].sum(axis=-1)  # (L, H)
    hits = np.argwhere(np.isin(rows.argmax(axis=-1), list(columns)))
    found = [(int(i) + 1, int(j) + 1, float(weights[i, j])) for i, j in hits]
    return sorted(found, key=lambda entry: -entry[2])
