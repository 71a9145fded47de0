"""What all formats become: a list of parts, of which some are text to translate.

Comes in: raw text and how its format writes text. Goes out: segments for a translator, and after it
the document again. A segment is one line without space around it; where it stands on several lines
in the document, its translation is laid out on as many. This file knows no format and no model.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from transformer_mt.text.scripts import HAN
from transformer_mt.translation.documents.spans import has_words

# Chinese and Japanese: no space where lines meet; a line may end between any two characters, but
# not before closing marks or after opening ones.
_LETTER = rf"{HAN}\u3041-\u30ff\uff66-\uff9d"
_CLOSING = "，。！？；：、”’」』）》】…"
_OPENING = "“‘「『（《【"
_MEETS_UNSPACED = re.compile(f"[{_LETTER}{_CLOSING}][{_LETTER}{_OPENING}]")
_LINE_MAY_END = re.compile(rf"\s+|(?<=[{_LETTER}{_CLOSING}])(?=[{_LETTER}{_OPENING}])")

_SPACE = re.compile(r"\s+")
_LINE_BREAKS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


def as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True)
class Segment:
    text: str  # to be translated: one line, without white space around it
    raw: str  # the same as it stands in the document
    write: Callable[[str], str]  # a translation → what stands in the document instead of `raw`


@dataclass(frozen=True)
class Document:
    parts: list[str | Segment]  # texts stay as they are

    @property
    def segments(self) -> list[str]:
        """What is to be translated, in order."""
        return [part.text for part in self.parts if isinstance(part, Segment)]

    def rebuild(self, translations: Sequence[str]) -> str:
        """The document with a translation in the place of each segment.

        A translation that equals its segment leaves the bytes of the document as they are. Line
        ends within a translation become spaces.

        Raises:
            ValueError: the number of translations is not that of segments.
        """
        n_segments = sum(isinstance(part, Segment) for part in self.parts)
        if len(translations) != n_segments:
            raise ValueError(f"{len(translations)} translations for {n_segments} segments")
        remaining = iter(translations)
        return "".join(
            _written(part, next(remaining)) if isinstance(part, Segment) else part
            for part in self.parts
        )


def _written(segment: Segment, translation: str) -> str:
    if translation == segment.text:
        return segment.raw
    return segment.write(_LINE_BREAKS.sub(" ", translation).strip())


def text_parts(
    raw: str, decode: Callable[[str], str] = as_it_is, encode: Callable[[str], str] = as_it_is
) -> list[str | Segment]:
    """A text as one segment with the white space around it, or unchanged if it has no words.

    Args:
        raw: one line or several, which belong together.
        decode: a raw line → the characters that it stands for.
        encode: any characters → raw text.
    """
    core = raw.strip()
    if not core:
        return [raw]
    before, _, after = raw.partition(core)
    breaks = [space for space in _SPACE.finditer(core) if "\n" in space[0]]
    starts = [0, *(space.end() for space in breaks)]
    ends = [*(space.start() for space in breaks), len(core)]
    lines = [core[start:end] for start, end in zip(starts, ends, strict=True)]
    return line_parts(lines, [space[0] for space in breaks], (before, after), decode, encode)


def line_parts(
    lines: Sequence[str],
    joints: Sequence[str],
    around: tuple[str, str],
    decode: Callable[[str], str] = as_it_is,
    encode: Callable[[str], str] = as_it_is,
    encode_line: Callable[[str], str] = as_it_is,
) -> list[str | Segment]:
    """Lines that belong together as one segment, or unchanged if there are no words in them.

    Args:
        lines: raw, without white space around them.
        joints: what stands between two of them: one less.
        around: what stands before them, anything, and what stands after them.
        encode, encode_line: applied before and after a translation is laid out on lines.
    """
    before, after = around
    raw = interleave(lines, joints)
    decoded = fold([decode(line) for line in lines])
    text = _LINE_BREAKS.sub(" ", decoded).strip()
    if not has_words(text):
        return [before + raw + after]
    lead = decoded[: len(decoded) - len(decoded.lstrip())]  # spaces that were spelled as entities
    trail = decoded[len(decoded.rstrip()) :]

    def write(translation: str) -> str:
        wrapped = wrap(encode(lead + translation + trail), len(lines))
        return interleave([encode_line(line) for line in wrapped], joints)

    return [part for part in (before, Segment(text, raw, write), after) if part]


def interleave(lines: Sequence[str], joints: Sequence[str]) -> str:
    pairs = zip_longest(lines, joints, fillvalue="")
    return "".join(part for pair in pairs for part in pair)


def fold(lines: Sequence[str]) -> str:
    """Lines as one: a space where they meet, or nothing between Chinese or Japanese characters."""
    folded: list[str] = []
    last = ""
    for line in filter(None, lines):
        if last and _MEETS_UNSPACED.fullmatch(last + line[0]) is None:
            folded.append(" ")
        folded.append(line)
        last = line[-1]
    return "".join(folded)


def wrap(text: str, n_lines: int) -> list[str]:
    """Lay a text out on exactly so many lines of about equal length.

    Lines end at spaces or between Chinese characters. With more lines than places for their ends,
    the last ones are empty.
    """
    if n_lines == 1:
        return [text]
    places = [(match.start(), match.end()) for match in _LINE_MAY_END.finditer(text)]
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
        line_end, next_start = places[i]
        lines.append(text[line_start:line_end])
        line_start, used = next_start, i + 1
    lines.append(text[line_start:])
    return lines + [""] * (n_lines - len(lines))
