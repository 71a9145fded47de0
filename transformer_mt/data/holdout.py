"""Training candidates → pairs held out of them for dev and test, with no side left in train.

Comes in: the candidates and their fates so far. Goes out: changed fates. This file does not know
the text of a pair, only the keys of its sides.
"""

import numpy as np

from transformer_mt.data.candidates import FATES, HELD_OUT, TRAIN, Candidates
from transformer_mt.errors import DataError

MIN_TO_HOLD_OUT = 100  # pairs


def hold_out(train: Candidates, fate: np.ndarray, roles: list[str]) -> dict[str, int]:
    """Move pairs to the missing parts, and drop what shares a side with them; changes `fate`.

    Pairs that cost train least go first: those whose two sides occur once cost nothing else.

    Returns:
        The number of pairs held out, by role.
    Raises:
        DataError: there are too few pairs, or they have too many sides in common.
    """
    if not roles:
        return {}
    usable = np.flatnonzero(fate == TRAIN)
    give = f"give more data, or {' and '.join(f'data.{role}' for role in roles)}"
    if len(usable) < MIN_TO_HOLD_OUT:
        raise DataError(
            f"train: {len(usable)} usable pairs; to hold out {' and '.join(roles)} there must be "
            f"{MIN_TO_HOLD_OUT}: {give}"
        )
    src_keys, tgt_keys = np.asarray(train.src_keys), np.asarray(train.tgt_keys)
    size = min(max(len(usable) // 100, 50), 1000, len(usable) // 10 // len(roles))
    chosen = _cheapest(src_keys[usable], tgt_keys[usable], size * len(roles))
    if len(chosen) < len(roles):
        raise DataError(
            "train: sources and targets repeat so often that nothing can be held out without "
            f"losing more than a tenth of the rest: {give}"
        )
    held = usable[chosen]
    shared = np.isin(src_keys, src_keys[held]) | np.isin(tgt_keys, tgt_keys[held])
    fate[shared & (fate == TRAIN)] = FATES.index("overlap")
    shares = np.array_split(held, len(roles))
    for role, indices in zip(roles, shares, strict=True):
        fate[indices] = FATES.index(HELD_OUT[role])
    return {role: len(indices) for role, indices in zip(roles, shares, strict=True)}


def _cheapest(src_keys: np.ndarray, tgt_keys: np.ndarray, size: int) -> list[int]:
    """Up to `size` pairs without a side in common, for which at most a tenth of the others goes."""
    cost = _occurrences(src_keys) + _occurrences(tgt_keys) - 2  # others sharing a side, at most
    budget = len(cost) // 10
    chosen: list[int] = []
    taken_src, taken_tgt = set(), set()
    for index in np.lexsort((src_keys, cost)).tolist():
        if len(chosen) == size or cost[index] > budget:
            break
        if src_keys[index] not in taken_src and tgt_keys[index] not in taken_tgt:
            taken_src.add(src_keys[index])
            taken_tgt.add(tgt_keys[index])
            chosen.append(index)
            budget -= cost[index]
    return chosen


def _occurrences(keys: np.ndarray) -> np.ndarray:
    _, position, count = np.unique(keys, return_inverse=True, return_counts=True)
    return count[position]
