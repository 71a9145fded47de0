"""Lines of a text as one line, and one line as so many lines again, by characters alone.

A space stands where lines meet, but not in Chinese and Japanese.
"""

import re
from bisect import bisect_left

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
    if last in ("", " ") or first == " " or _MEETS_UNSPACED.fullmatch(last + first):
        return ""
    return " "


def wrap(text: str, n_lines: int) -> list[tuple[int, int]]:
    """Exactly so many lines of about equal length, as (start, end); the last ones may be empty.

    Lines end at spaces or between Chinese characters.
    """
    places = [match.span() for match in _LINE_MAY_END.finditer(text)] if n_lines > 1 else []
    middles = [start + end for start, end in places]  # doubled
    lines, line_start, used = [], 0, 0
    for line in range(1, min(n_lines, len(places) + 1)):
        wanted = 2 * len(text) * line // n_lines
        i = bisect_left(middles, wanted)
        if i > 0 and (i == len(places) or wanted - middles[i - 1] < middles[i] - wanted):
            i -= 1
        i = min(max(i, used), max(len(places) - (n_lines - line), used))  # leave one per line
        lines.append((line_start, places[i][0]))
        line_start, used = places[i][1], i + 1
    lines.append((line_start, len(text)))
    return lines + [(len(text), len(text))] * (n_lines - len(lines))
