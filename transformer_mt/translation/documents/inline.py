"""A document as parts: segments of text to translate, and the rest, which stays as it is.

Comes in: the tokens of one paragraph, heading, cell or the like, from the reader of a format; then
translations. Goes out: segments, and the document again. Markup within a sentence does not divide
it: the segment is the whole text, and its marks are placed in the translation. This file knows
neither formats nor models.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, zip_longest
from typing import NamedTuple

from transformer_mt.text.scripts import HAN
from transformer_mt.translation.documents.marks import Align, Mark, Token, place
from transformer_mt.translation.documents.spans import has_words, parted, protected_spans

_LINE_BREAKS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_LINE_END = re.compile(r"((?<!\s)\s*\n\s*)")  # tried once for each stretch of white space
_ENTITY = re.compile(r"&(?!amp;|#0*38;|#[xX]0*26;)(?:#\w+|[A-Za-z]\w*);")
_AMPERSAND = re.compile(r"&(?:amp|#0*38|#[xX]0*26);")
_LONGEST_ENTITY = 40  # characters
_DEEPEST = 20  # marks within marks; where there are more, marks divide the text
# Chinese and Japanese: no space where lines meet; a line may end between any two characters, but
# not before closing marks or after opening ones.
_LETTER = rf"{HAN}\u3041-\u30ff\uff66-\uff9d"
_CLOSING = "，。！？；：、”’」』）》】…"
_OPENING = "“‘「『（《【"
_MEETS_UNSPACED = re.compile(f"[{_LETTER}{_CLOSING}][{_LETTER}{_OPENING}]")
_LINE_MAY_END = re.compile(rf"\s+|(?<=[{_LETTER}{_CLOSING}])(?=[{_LETTER}{_OPENING}])")


class Syntax:
    """How a format writes text; plain text as it is."""

    def decode(self, raw: str) -> str:
        """Raw text → the characters that it stands for."""
        return raw

    def encode(self, text: str) -> str:
        """Characters → raw text."""
        return text

    def encode_line(self, line: str) -> str:
        """Applied to each line that begins with text, after `encode`."""
        return line

    def write(self, tokens: Sequence[Token], joints: Sequence[str], raw: str) -> str:
        """Raw text for a translation, as tokens with characters, on as many lines as `joints` end.

        `raw` stands in the document.
        """
        return lay_out(tokens, joints, self)


@dataclass(frozen=True)
class Segment:
    raw: str  # as it stands in the document
    source: str  # its characters, on one line
    marks: tuple[Mark, ...]
    joints: list[str]
    syntax: Syntax

    @property
    def text(self) -> str:
        """To be translated: one line, without white space around it."""
        return self.source.strip()

    def write(self, translation: str, align: Align | None) -> str:
        """The translation for the place of `raw`; line ends in it become spaces."""
        text = self.text
        if translation == text:
            return self.raw
        translation = _LINE_BREAKS.sub(" ", translation).strip()
        before, after = self.source.split(text, 1)  # white space that is spelled as entities
        tokens = [Token("text", f"{before}{translation}{after}")]
        if self.marks:
            origins = align(text, translation) if align and translation else None
            shifted = None
            if origins is not None:
                inner = [origin + len(before) if origin >= 0 else -1 for origin in origins]
                shifted = [*[-1] * len(before), *inner, *[-1] * len(after)]
            tokens = place(self.source, self.marks, tokens[0].raw, shifted)
        return self.syntax.write(tokens, self.joints, self.raw)


@dataclass(frozen=True)
class Document:
    parts: list[str | Segment]  # strings stay as they are

    @property
    def segments(self) -> list[str]:
        """The texts to translate, in order."""
        return [part.text for part in self.parts if isinstance(part, Segment)]

    def rebuild(self, translations: Sequence[str], align: Align | None = None) -> str:
        """The document with a translation in the place of each segment; ValueError: another number.

        A translation that equals its segment leaves the bytes of the document as they are. `align`
        tells which words get the marks of a segment; None: a guess by position and by equal words.
        """
        if len(translations) != len(self.segments):
            raise ValueError(f"{len(translations)} translations for {len(self.segments)} segments")
        left = iter(translations)
        return "".join(
            part if isinstance(part, str) else part.write(next(left), align) for part in self.parts
        )


def text_tokens(raw: str, decode: Callable[[str], str] | None = None) -> Iterator[Token]:
    """Text on one or several lines; with `decode`, addresses and placeholders in it are kept."""
    spans = [
        (start, _end_of_address(raw, start, end))
        for start, end in (protected_spans(raw) if decode else [])
        if raw[start] != "<" and raw[start - 1 : start] != "\\"
    ]
    for text, protected in parted(raw, spans):
        if decode and protected:
            yield Token("kept", text, decode(text))
            continue
        for i, piece in enumerate(_LINE_END.split(text)):
            if piece:
                yield Token("joint" if i % 2 else "text", piece)


def _end_of_address(raw: str, start: int, end: int) -> int:
    """An address ends where an entity stands, as of a bracket; an & that is whole belongs to it."""
    if raw[start] in "{$%#":
        return end
    last = _AMPERSAND.match(raw, max(start, raw.rfind("&", start, end)))
    if last and last.end() > end:
        end = last.start()
    entity = _ENTITY.search(raw, start, min(len(raw), end + _LONGEST_ENTITY))
    return min(end, entity.start()) if entity else end


def text_parts(raw: str, syntax: Syntax) -> list[str | Segment]:
    """A text as one segment with the white space around it, or unchanged if it has no words."""
    return run_parts(list(text_tokens(raw)), syntax)


def run_parts(tokens: Sequence[Token], syntax: Syntax) -> list[str | Segment]:
    """The parts of a run: a segment for each sentence with words, and the rest of its tokens."""
    parts: list[str | Segment] = []
    for breaks, group in groupby(tokens, lambda token: token.kind == "break"):
        members = list(group)
        words = " ".join(syntax.decode(token.raw) for token in members if token.kind == "text")
        if breaks or not has_words(words):
            parts.append(_raw(members))
            continue
        in_order = nested(members)
        changes = ((token.kind == "open") - (token.kind == "close") for token in in_order)
        if max(accumulate(changes)) > _DEEPEST:
            plain = ("text", "joint")
            divided = [t if t.kind in plain else t._replace(kind="break") for t in members]
            parts += run_parts(divided, syntax)
        else:
            before, inside, after = _without_edges(in_order)
            segment = segment_of(inside, syntax)
            parts += [before, segment if has_words(segment.text) else segment.raw, after]
    return [part for part in parts if part != ""]


def _raw(tokens: Sequence[Token]) -> str:
    return "".join(token.raw for token in tokens)


def nested(tokens: Sequence[Token]) -> list[Token]:
    """Tokens whose markup is nested properly.

    A mark whose partner can stand before or after the run gets an empty one at that end of it;
    other marks without a partner are kept.
    """
    tokens = list(tokens)
    stack: list[int] = []
    n_open: Counter[str] = Counter()
    before: list[Token] = []
    for i, token in enumerate(tokens):
        if token.kind == "open":
            stack.append(i)
            n_open[token.name] += 1
        elif token.kind == "close" and n_open[token.name]:
            while tokens[opening := stack.pop()].name != token.name:
                n_open[tokens[opening].name] -= 1
                tokens[opening] = Token("kept", tokens[opening].raw)
            n_open[token.name] -= 1
        elif token.kind == "close" and stack:
            tokens[i] = Token("kept", token.raw)
        elif token.kind == "close":
            before.append(Token("open", "", token.name))
    after = [Token("close", "", tokens[i].name) for i in reversed(stack)]
    return [*reversed(before), *tokens, *after]


def _without_edges(tokens: list[Token]) -> tuple[str, list[Token], str]:
    """The raw text before the first word, the tokens up to the last one, the raw text after it.

    Markup around words stays with them.
    """
    content = [
        i
        for i, token in enumerate(tokens)
        if (token.raw.strip() if token.kind == "text" else token.kind == "kept" and token.name)
    ]
    first, last = start, end = content[0], content[-1]
    stack: list[int] = []
    for i, token in enumerate(tokens):
        if token.kind == "open":
            stack.append(i)
        elif token.kind == "close":
            opening = stack.pop()
            if opening <= last and i >= first:
                start, end = min(start, opening), max(end, i)
    for i, token in enumerate(tokens):
        if token.kind in ("text", "joint") and not first <= i <= last:
            tokens[i] = Token("kept", token.raw)  # white space between markup and words
    before, inside, after = _raw(tokens[:start]), tokens[start : end + 1], _raw(tokens[end + 1 :])
    if inside[0].kind == "text":
        stripped = inside[0].raw.lstrip()
        before += inside[0].raw.removesuffix(stripped)
        inside[0] = Token("text", stripped)
    if inside[-1].kind == "text":
        stripped = inside[-1].raw.rstrip()
        after = inside[-1].raw.removeprefix(stripped) + after
        inside[-1] = Token("text", stripped)
    return before, inside, after


class _Open(NamedTuple):
    """A mark that is not closed yet; the first one is the whole text."""

    opening: Token
    start: int
    inner: list[Mark]


def segment_of(tokens: Sequence[Token], syntax: Syntax) -> Segment:
    """Read tokens whose markup is nested properly."""
    text, at_joint = "", False
    joints: list[str] = []
    stack = [_Open(Token("open", ""), 0, [])]
    for token in tokens:
        if token.kind == "joint":
            joints.append(token.raw)
            at_joint = True
        elif token.kind == "open":
            stack.append(_Open(token, len(text), []))
        elif token.kind == "close":
            closed = stack.pop()
            stack[-1].inner.append(_mark(text, closed, token))
        else:
            decoded = syntax.decode(token.raw) if token.kind == "text" else token.name
            characters = _LINE_BREAKS.sub(" ", decoded)
            if at_joint:
                at_joint = False
                text += joint_of(text[-1:], characters[:1] or text[-1:])
            if characters.startswith(" ") and text[-1:] in (" ", ""):
                characters = characters.lstrip(" ")
                inner = stack[-1].inner
                if inner and inner[-1].start == len(text):  # a mark that stands between two spaces
                    opening = inner[-1].opening
                    inner[-1] = inner[-1]._replace(opening=opening._replace(raw=opening.raw + " "))
            if token.kind == "kept":
                stack[-1].inner.append(Mark(len(text), len(text) + len(characters), token))
            text += characters
    return Segment(_raw(tokens), text, tuple(stack[0].inner), joints, syntax)


def _mark(text: str, opened: _Open, closing: Token) -> Mark:
    """A mark around the end of a text, without white space at its own ends."""
    opening, start, inner = opened
    characters = text[start:]
    stripped = characters.strip()
    start += len(characters) - len(characters.lstrip()) if stripped else 0
    end = start + len(stripped)
    whole = opening.raw and closing.raw and opening.raw != closing.raw
    if whole and len(inner) == 1 and inner[0].closing is None:
        only = inner[0].opening
        if inner[0][:2] == (start, end) and only.raw != only.name:  # as in [`code`](u)
            return Mark(start, end, only._replace(raw=opening.raw + only.raw + closing.raw))
    return Mark(start, end, opening, closing, tuple(inner))


def lay_out(
    tokens: Sequence[Token], joints: Sequence[str], syntax: Syntax, *, wrapped: bool = True
) -> str:
    """Raw text on as many lines as there are joints, and one; or all of it on the first line."""
    raws = [syntax.encode(token.raw) if token.kind == "text" else token.raw for token in tokens]
    starts = accumulate(map(len, raws), initial=0)
    # No line ends within markup, nor are marks of text looked for at its beginning.
    pieces = zip(starts, tokens, raws, strict=False)
    fixed = {start for start, token, raw in pieces if token.kind != "text" and raw}
    shape = "".join(
        raw if token.kind == "text" and wrapped else "x" * len(raw)
        for token, raw in zip(tokens, raws, strict=True)
    )
    joined = "".join(raws)
    lines = [
        joined[start:end] if start in fixed else syntax.encode_line(joined[start:end])
        for start, end in wrap(shape, len(joints) + 1)
    ]
    pairs = zip_longest(lines, joints, fillvalue="")
    return "".join(piece for pair in pairs for piece in pair)


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
