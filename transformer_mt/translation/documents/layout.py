"""Lines of a text as one line, and one line as so many lines again.

Comes in: lines, or a text and a number of lines. This file knows characters only: a space where
lines meet, but not in Chinese and Japanese.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence

from transformer_mt.text.scripts import HAN

# Chinese and Japanese: no space where lines meet; a line may end between any two characters, but
# not before closing marks or after opening ones.
_LETTER = rf"{HAN}\u3041-\u30ff\uff66-\uff9d"
_CLOSING = "，。！？；：、”’」』）》】…"
_OPENING = "“‘「『（《【"
_MEETS_UNSPACED = re.compile(f"[{_LETTER}{_CLOSING}][{_LETTER}{_OPENING}]")
_LINE_MAY_END = re.compile(rf"\s+|(?<=[{_LETTER}{_CLOSING}])(?=[{_LETTER}{_OPENING}])")


def joint_of(last: str, first: str) -> str:
    """The space between the last character of a line and the first one of the next; or nothing."""
    return "" if _MEETS_UNSPACED.fullmatch(last + first) else " "


def wrap(text: str, n_lines: int, fixed: Sequence[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Lay a text out on exactly so many lines of about equal length.

    Lines end at spaces or between Chinese characters. With more lines than places for their ends,
    the last ones are empty.

    Args:
        fixed: spans in which no line ends, in order.
    Returns:
        (start, end) of each line.
    """
    places = [match.span() for match in _LINE_MAY_END.finditer(text)] if n_lines > 1 else []
    if fixed:
        starts = [start for start, _ in fixed]
        before = [bisect_left(starts, end) - 1 for _, end in places]  # the fixed span at its left
        places = [
            (start, end)
            for (start, end), i in zip(places, before, strict=True)
            if i < 0 or fixed[i][1] <= start
        ]
    middles = [start + end for start, end in places]  # doubled
    lines, line_start, used = [], 0, 0
    for line in range(1, n_lines):
        if used == len(places):
            break
        wanted = 2 * len(text) * line // n_lines
        i = bisect_left(middles, wanted)
        if i > 0 and (i == len(places) or wanted - middles[i - 1] < middles[i] - wanted):
            i -= 1
        i = min(max(i, used), max(len(places) - (n_lines - line), used))  # leave one per line
        lines.append((line_start, places[i][0]))
        line_start, used = places[i][1], i + 1
    lines.append((line_start, len(text)))
    return lines + [(len(text), len(text))] * (n_lines - len(lines))
