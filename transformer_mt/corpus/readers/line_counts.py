"""The shapes of lines → where two texts stop running side by side.

Comes in: the lines of two files, or shapes taken from them. Goes out: how badly they fit, and the
first line without a partner. This file does not know any language: lengths, digits and end marks
must do.
"""

import re
from collections.abc import Iterable

import numpy as np

_DIGIT = re.compile("[0-9]")
_MAX_SURPLUS = 50  # more missing lines than this have no one place to look at


def line_shapes(lines: Iterable[str]) -> np.ndarray:
    """(n, 4) properties that translation keeps: characters, digits, ends in ?, ends in !"""
    rows = (
        (
            len(line),
            len(_DIGIT.findall(line)),
            line.endswith(("?", "？")),
            line.endswith(("!", "！")),
        )
        for line in lines
    )
    return np.fromiter(rows, dtype=np.dtype((np.float32, 4)))


def first_suspect(longer: np.ndarray, shorter: np.ndarray) -> int | None:
    """The first line of the longer file that has no partner, judged by the lines' shapes alone.

    The surplus lines may be anywhere, so the path over (line of the shorter file, surplus lines
    passed so far) with the least cost is found, one vectorised step per surplus line.

    Args:
        longer: (n, 4) from `line_shapes`.
        shorter: (m, 4) the same of the other file, m < n.
    Returns:
        A line number counted from 1; None when there is nothing, or too much, to tell from.
    """
    n_surplus = len(longer) - len(shorter)
    if not 0 < n_surplus <= _MAX_SURPLUS or len(shorter) == 0:
        return None
    costs = [misfit(longer[shift:], shorter) for shift in range(n_surplus + 1)]
    best, entries = costs[0], []
    for shift in range(1, n_surplus + 1):
        entry = best - costs[shift]  # cost of passing the next surplus line here
        entries.append(entry)
        best = costs[shift] + np.minimum.accumulate(entry)
    position = len(shorter)
    for entry in reversed(entries):
        position = int(np.argmin(entry[: position + 1]))
    return position + 1


def misfit(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(m + 1,) summed cost of pairing the first 0 … m lines of two arrays of shapes as they stand.

    Source: Gale and Church 1993, section 3: lengths differ with a variance that grows with length.
    """
    size = min(len(one), len(other))
    one, other = one[:size], other[:size]
    scale = (one[:, 0].sum() + 1) / (other[:, 0].sum() + 1)
    expected = scale * other[:, 0]
    cost = np.abs(one[:, 0] - expected) / np.sqrt(one[:, 0] + expected + 1)
    cost = cost + np.abs(one[:, 1:] - other[:, 1:]).clip(max=3).sum(axis=1)
    return np.concatenate([[0.0], np.cumsum(cost, dtype=np.float64)])
