"""Training pairs → some of them held out for dev and test, with no side left in train.

Comes in: the decisions so far. Goes out: changed fates. This file does not know the text of a pair,
only the keys of its sides.
"""

import numpy as np
from numpy.typing import NDArray

from transformer_mt.corpus.cleaning.decide import FATES, HELD_OUT, TRAIN, Decisions
from transformer_mt.corpus.cleaning.score_store import Hashes
from transformer_mt.errors import DataError

MIN_TO_HOLD_OUT = 100  # pairs
POOL = 200_000  # random pairs, from which the cheapest are held out


def hold_out(decision: Decisions, roles: list[str], seed: int) -> dict[str, int]:
    """Move pairs to the missing parts, and drop the pairs that share a side with them.

    The cost of a pair is the number of other pairs that share a side with it. The cheapest go
    first.

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
    pool = decision.draw_rows(POOL, seed)
    src_keys, tgt_keys = decision.corpus.integers_at(pool, "src_key", "tgt_key")
    costs = _occurrences(decision, "src_key", src_keys)
    costs += _occurrences(decision, "tgt_key", tgt_keys)
    chosen = _cheapest(src_keys, tgt_keys, costs - 2, size * len(roles), budget=n_usable // 10)
    if len(chosen) < len(roles):
        raise DataError(
            "train: sources and targets repeat so often that nothing can be held out without "
            f"losing more than a tenth of the rest: {give}"
        )
    for shard, shared in decision.sharing_a_side((src_keys[chosen], tgt_keys[chosen])):
        decision.drop(shard, "overlap", shared)
    shares = np.array_split(pool[chosen], len(roles))
    for role, rows in zip(roles, shares, strict=True):
        decision.fate[rows] = FATES.index(HELD_OUT[role])
    return {role: len(rows) for role, rows in zip(roles, shares, strict=True)}


def _cheapest(
    src_keys: Hashes, tgt_keys: Hashes, costs: NDArray[np.int64], size: int, *, budget: int
) -> list[int]:
    """Up to `size` positions without a side in common, that cost at most `budget` other pairs.

    Args:
        costs: (n,) upper bounds of how many other pairs share a side with each. The order of pairs
            of equal cost stays, which is random.
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


def _occurrences(decision: Decisions, column_name: str, keys: Hashes) -> NDArray[np.int64]:
    """(n,) how many pairs of train have each key in that column."""
    unique, position = np.unique(keys, return_inverse=True)
    counts = np.zeros(len(unique) + 1, dtype=np.int64)
    for shard, (column,) in decision.corpus.each(column_name):
        alive = column[decision.fate[shard.rows] == TRAIN]
        found = np.searchsorted(unique, alive).clip(max=len(unique) - 1)
        found[unique[found] != alive] = len(unique)
        counts += np.bincount(found, minlength=len(counts))
    return counts[position]
