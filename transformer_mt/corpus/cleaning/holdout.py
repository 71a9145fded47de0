"""Training pairs → some of them held out for dev and test, with no side left in train.

Comes in: the scored corpus and the fates so far. Goes out: changed fates. This file does not know
the text of a pair, only the keys of its sides.
"""

import numpy as np
from numpy.typing import NDArray

from transformer_mt.corpus.cleaning.decide import (
    FATES,
    HELD_OUT,
    TRAIN,
    Decision,
    draw_rows,
    sharing_a_side,
)
from transformer_mt.corpus.cleaning.score_store import Hashes, ScoredCorpus
from transformer_mt.errors import DataError

MIN_TO_HOLD_OUT = 100  # pairs
POOL = 200_000  # pairs at random that the cheapest are looked for in


def hold_out(
    corpus: ScoredCorpus, decision: Decision, roles: list[str], seed: int
) -> dict[str, int]:
    """Move pairs to the missing parts, and drop what shares a side with them.

    Pairs that cost train least go first: those whose two sides occur once cost nothing else.

    Returns:
        The number of pairs held out, by role.
    Raises:
        DataError: there are too few pairs, or they have too many sides in common.
    """
    if not roles:
        return {}
    n_usable = decision.count("train")
    give = f"give more data, or {' and '.join(f'data.{role}' for role in roles)}"
    if n_usable < MIN_TO_HOLD_OUT:
        raise DataError(
            f"train: {n_usable} usable pairs; to hold out {' and '.join(roles)} there must be "
            f"{MIN_TO_HOLD_OUT}: {give}"
        )
    size = min(max(n_usable // 100, 50), 1000, n_usable // 10 // len(roles))
    pool = draw_rows(corpus, decision.fate, POOL, seed)
    src_keys, tgt_keys = _keys_at(corpus, pool)
    costs = _occurrences(corpus, decision, src_keys, 0) + _occurrences(
        corpus, decision, tgt_keys, 1
    )
    chosen = _cheapest(src_keys, tgt_keys, costs - 2, size * len(roles), budget=n_usable // 10)
    if len(chosen) < len(roles):
        raise DataError(
            "train: sources and targets repeat so often that nothing can be held out without "
            f"losing more than a tenth of the rest: {give}"
        )
    overlap = FATES.index("overlap")
    for shard, shared in sharing_a_side(corpus, (src_keys[chosen], tgt_keys[chosen])):
        fate = decision.fate[shard.rows]
        fate[shared & (fate == TRAIN)] = overlap
    shares = np.array_split(pool[chosen], len(roles))
    for role, rows in zip(roles, shares, strict=True):
        decision.fate[rows] = FATES.index(HELD_OUT[role])
    return {role: len(rows) for role, rows in zip(roles, shares, strict=True)}


def _cheapest(
    src_keys: Hashes, tgt_keys: Hashes, costs: NDArray[np.int64], size: int, *, budget: int
) -> list[int]:
    """Up to `size` positions without a side in common, that cost at most `budget` other pairs.

    Args:
        costs: for each, how many other pairs share a side with it, at most. Ties are taken in the
            order they come in, which is at random.
    """
    chosen: list[int] = []
    taken_src, taken_tgt = set(), set()
    for position in np.argsort(costs, kind="stable").tolist():
        if len(chosen) == size or costs[position] > budget:
            break
        if src_keys[position] not in taken_src and tgt_keys[position] not in taken_tgt:
            taken_src.add(src_keys[position])
            taken_tgt.add(tgt_keys[position])
            chosen.append(position)
            budget -= costs[position]
    return chosen


def _keys_at(corpus: ScoredCorpus, rows: NDArray[np.int64]) -> tuple[Hashes, Hashes]:
    keys = np.zeros((2, len(rows)), dtype=np.uint64)
    for shard, columns in corpus.each("src_key", "tgt_key"):
        inside = np.flatnonzero((rows >= shard.start) & (rows < shard.start + shard.size))
        for side, column in enumerate(columns):
            keys[side, inside] = column[rows[inside] - shard.start]
    return keys[0], keys[1]


def _occurrences(
    corpus: ScoredCorpus, decision: Decision, keys: Hashes, side: int
) -> NDArray[np.int64]:
    """(n,) how many pairs of train have each key on that side."""
    unique, position = np.unique(keys, return_inverse=True)
    counts = np.zeros(len(unique) + 1, dtype=np.int64)
    for shard, (column,) in corpus.each(("src_key", "tgt_key")[side]):
        alive = column[decision.fate[shard.rows] == TRAIN]
        found = np.searchsorted(unique, alive).clip(max=len(unique) - 1)
        found[unique[found] != alive] = len(unique)
        counts += np.bincount(found, minlength=len(counts))
    return counts[position]
