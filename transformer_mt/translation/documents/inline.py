"""A run of text and markup on one or several lines → segments; and a translation → the run again.

Comes in: the tokens of one paragraph, heading, cell or the like, from the reader of a format. Goes
out: parts of a document. Markup within a sentence does not divide it: the segment is the whole
text, and its marks are placed in the translation. This file does not know formats.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest
from typing import Literal, NamedTuple

from transformer_mt.translation.documents.document import LINE_BREAKS, Segment
from transformer_mt.translation.documents.layout import joint_of, wrap
from transformer_mt.translation.documents.marks import Mark, place
from transformer_mt.translation.documents.spans import has_words, protected_spans

_LINE_END = re.compile(r"((?<!\s)\s*\n\s*)")  # tried once for each stretch of white space
_SPACES = re.compile("[ \t]+")
_DEEPEST = 20  # marks within marks; where there are more, marks divide the text


TokenKind = Literal["text", "joint", "open", "close", "kept", "break"]
Piece = tuple[str, TokenKind]


class Token(NamedTuple):
    """A piece of a run.

    text: to be translated. joint: a line end with the quote mark or indent after it. open,
    close: markup around text. kept: stays as it is, within a sentence. break: divides sentences.
    """

    kind: TokenKind
    raw: str
    name: str = ""  # of open and close: they pair by it; of kept: its characters in the sentence


class Sentence(NamedTuple):
    """The text of a run, its marks, the line ends in it, and white space spelled as entities."""

    text: str
    marks: tuple[Mark, ...]
    joints: list[str]
    lead: str = ""
    trail: str = ""


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

    def write(self, sentence: Sentence, raw: str) -> str:
        """Raw text for a translated sentence, in the place of `raw`."""
        return lay_out(sentence, self)


def text_tokens(raw: str, decode: Callable[[str], str] | None = None) -> Iterator[Token]:
    """Text on one or several lines; with `decode`, addresses and placeholders in it are kept."""
    position = 0
    spans = [
        (start, end)
        for start, end in (protected_spans(raw) if decode else [])
        if raw[start] != "<" and raw[start - 1 : start] != "\\"
    ]
    for start, end in [*spans, (len(raw), len(raw))]:
        for i, piece in enumerate(_LINE_END.split(raw[position:start])):
            if piece:
                yield Token("joint" if i % 2 else "text", piece)
        if decode and start < end:
            yield Token("kept", raw[start:end], decode(raw[start:end]))
        position = end


def text_parts(raw: str, syntax: Syntax) -> list[str | Segment]:
    """A text as one segment with the white space around it, or unchanged if it has no words."""
    return run_parts(list(text_tokens(raw)), syntax)


def run_parts(tokens: Sequence[Token], syntax: Syntax) -> list[str | Segment]:
    """The parts of a run: a segment for each sentence with words, and the rest of its tokens."""
    parts: list[str | Segment] = []
    for breaks, group in groupby(tokens, lambda token: token.kind == "break"):
        members = list(group)
        parts += [_raw(members)] if breaks else _sentence_parts(members, syntax)
    return [part for part in parts if part != ""]


def _raw(tokens: Sequence[Token]) -> str:
    return "".join(token.raw for token in tokens)


def _sentence_parts(tokens: list[Token], syntax: Syntax) -> list[str | Segment]:
    words = " ".join(syntax.decode(token.raw) for token in tokens if token.kind == "text")
    if not has_words(words):
        return [_raw(tokens)]
    tokens, partners, depth = _paired(tokens)
    if depth > _DEEPEST:
        plain = ("text", "joint")
        return run_parts([t if t.kind in plain else Token("break", t.raw) for t in tokens], syntax)
    before, inside, after = _without_edges(tokens, partners)
    sentence = _Reader(syntax.decode).read(inside)
    if not has_words(sentence.text):
        return [_raw(tokens)]
    raw = _raw(inside)

    def write(translation: str, origins: Sequence[int] | None) -> str:
        text, marks = translation, sentence.marks
        if marks:
            text, marks = place(sentence.text, marks, _SPACES.sub(" ", translation), origins)
        return syntax.write(sentence._replace(text=text, marks=marks), raw)

    return [before, Segment(sentence.text, raw, write, sentence.marks), after]


def _paired(tokens: list[Token]) -> tuple[list[Token], dict[int, int], int]:
    """Tokens whose markup is nested properly, the partners of open and close, and their depth.

    A tag without a partner is kept, unless its partner can stand before or after the run.
    """
    tokens = list(tokens)
    partners: dict[int, int] = {}
    stack: list[int] = []
    n_open: Counter[str] = Counter()
    depth = n_before = 0
    for i, token in enumerate(tokens):
        if token.kind == "open":
            stack.append(i)
            n_open[token.name] += 1
        elif token.kind == "close" and n_open[token.name]:
            while tokens[opening := stack.pop()].name != token.name:
                n_open[tokens[opening].name] -= 1
                tokens[opening] = Token("kept", tokens[opening].raw)
            n_open[token.name] -= 1
            partners |= {opening: i, i: opening}
        elif token.kind == "close" and stack:
            tokens[i] = Token("kept", token.raw)
        elif token.kind == "close":
            n_before += 1
        depth = max(depth, len(stack) + n_before)
    return tokens, partners, depth


def _without_edges(tokens: list[Token], partners: dict[int, int]) -> tuple[str, list[Token], str]:
    """The raw text before the first word, the tokens up to the last one, the raw text after it.

    Markup around all of the text stays with it, and takes the white space between it and the text.
    """
    content = [
        i
        for i, token in enumerate(tokens)
        if (token.raw.strip() if token.kind == "text" else token.kind == "kept" and token.name)
    ]
    first, last = content[0], content[-1]
    core = tokens[first : last + 1]
    head = [(t, partners.get(i, -1) >= first) for i, t in enumerate(tokens[:first])]
    tail = [
        (t, 0 <= partners.get(i, -1) <= last)
        for i, t in reversed(list(enumerate(tokens[last + 1 :], start=last + 1)))
    ]
    if core[0].kind == "text":
        stripped = core[0].raw.lstrip()
        head.append((Token("text", core[0].raw.removesuffix(stripped)), False))
        core[0] = core[0]._replace(raw=stripped)
    if core[-1].kind == "text":
        stripped = core[-1].raw.rstrip()
        tail.append((Token("text", core[-1].raw.removeprefix(stripped)), False))
        core[-1] = core[-1]._replace(raw=stripped)
    before, after = [Token("text", "")], [Token("text", "")]
    for edge, rest in ((before, head), (after, tail)):
        for token, stays in rest:
            if stays or (len(edge) > 1 and token.kind not in ("text", "joint")):
                edge.append(token)
            else:
                raws = [edge[-1].raw, token.raw]
                edge[-1] = edge[-1]._replace(raw="".join(raws if edge is before else raws[::-1]))
    return before[0].raw, [*before[1:], *core, *reversed(after[1:])], after[0].raw


class _Open(NamedTuple):
    """A mark that is not closed yet."""

    opening: str
    start: int
    inner: list[Mark]


class _Reader:
    """Reads tokens, whose markup is nested properly, into a text with marks."""

    def __init__(self, decode: Callable[[str], str]) -> None:
        self._decode = decode
        self._pieces: list[str] = []
        self._length = 0
        self._last = ""  # character
        self._at_joint = False
        self._open = [_Open("", 0, [])]  # the whole text first
        self._joints: list[str] = []

    def read(self, tokens: Sequence[Token]) -> Sentence:
        for token in tokens:
            if token.kind == "text":
                self._add(self._decode(token.raw))
            elif token.kind == "joint":
                self._joints.append(token.raw)
                self._at_joint = True
            elif token.kind == "kept":
                self._add_joint(token.name[:1] or self._last)
                start = self._length
                self._add(token.name)
                self._mark(Mark(start, self._length, token.raw, kept=True))
            elif token.kind == "open":
                self._open.append(_Open(token.raw, self._length, []))
            else:
                self._close(token.raw)
        while len(self._open) > 1:
            opening, start, inner = self._open.pop()
            self._mark(Mark(start, self._length, opening, open_at="end", inner=tuple(inner)))
        decoded = "".join(self._pieces)
        text = decoded.strip()
        lead = decoded[: len(decoded) - len(decoded.lstrip())]
        trail = decoded[len(lead) + len(text) :]
        marks = _trimmed(self._open[0].inner, text, len(lead))
        return Sentence(text, marks, self._joints, lead, trail)

    def _mark(self, mark: Mark) -> None:
        self._open[-1].inner.append(mark)

    def _close(self, closing: str) -> None:
        if len(self._open) > 1:
            opening, start, inner = self._open.pop()
            self._mark(Mark(start, self._length, opening, closing, inner=tuple(inner)))
        else:
            inner = self._open[0].inner
            inner[:] = [Mark(0, self._length, "", closing, open_at="start", inner=tuple(inner))]

    def _add(self, characters: str) -> None:
        characters = LINE_BREAKS.sub(" ", characters)
        self._add_joint(characters[:1])
        if self._last in (" ", ""):
            characters = self._without_space(characters)
        if characters:
            self._pieces.append(characters)
            self._length += len(characters)
            self._last = characters[-1]

    def _add_joint(self, following: str) -> None:
        if self._at_joint and following:
            self._at_joint = False
            if self._last not in (" ", "") and following != " " and joint_of(self._last, following):
                self._add(" ")

    def _without_space(self, characters: str) -> str:
        """Characters after a space, without their own; a mark between the two takes it."""
        stripped = characters.lstrip(" ")
        inner = self._open[-1].inner
        if stripped != characters and inner and inner[-1].start == self._length:
            inner[-1] = replace(inner[-1], opening=f"{inner[-1].opening} ")
        return stripped


def _trimmed(marks: Sequence[Mark], text: str, lead: int) -> tuple[Mark, ...]:
    """Marks without white space at their ends, in a text that has lost `lead` characters."""
    trimmed = []
    for mark in marks:
        start, end = max(mark.start - lead, 0), min(mark.end - lead, len(text))
        while start < end and text[start].isspace() and not mark.open_at:
            start += 1
        while start < end and text[end - 1].isspace() and not mark.open_at:
            end -= 1
        mark = replace(mark, start=min(start, len(text)), end=max(end, start))
        mark = replace(mark, inner=_trimmed(mark.inner, text, lead))
        match mark.inner:
            case (Mark(kept=True) as only,) if (only.start, only.end) == (mark.start, mark.end):
                is_link = mark.opening != mark.closing
                if is_link and only.opening != text[only.start : only.end]:  # as in [`code`](u)
                    opening = mark.opening + only.opening + mark.closing
                    mark = replace(only, opening=opening, closing="")
        trimmed.append(mark)
    return tuple(trimmed)


def pieces(sentence: Sentence) -> Iterator[Piece]:
    """Text and markup in turn, with the white space around the sentence."""
    yield sentence.lead, "text"
    yield from _pieces(sentence.text, sentence.marks, 0, len(sentence.text))
    yield sentence.trail, "text"


def _pieces(text: str, marks: Sequence[Mark], start: int, end: int) -> Iterator[Piece]:
    for mark in marks:
        yield text[start : mark.start], "text"
        yield mark.opening, "kept" if mark.kept else "open"
        if not mark.kept:
            yield from _pieces(text, mark.inner, mark.start, mark.end)
            yield mark.closing, "close"
        start = mark.end
    yield text[start:end], "text"


def lay_out(sentence: Sentence, syntax: Syntax, *, wrapped: bool = True) -> str:
    """A sentence as raw text on as many lines as it has joints, and one.

    Args:
        wrapped: False: all of the text stands on the first line.
    """
    written: list[str] = []
    fixed: list[tuple[int, int]] = []
    length = 0
    for characters, kind in pieces(sentence):
        raw = syntax.encode(characters) if kind == "text" else characters
        if raw and kind != "text":
            fixed.append((length, length + len(raw)))
        written.append(raw)
        length += len(raw)
    joined = "".join(written)
    markup = {start for start, _ in fixed}
    spans = wrap(joined, len(sentence.joints) + 1, fixed if wrapped else [(0, length)])
    lines = [
        joined[start:end] if start in markup else syntax.encode_line(joined[start:end])
        for start, end in spans
    ]
    pairs = zip_longest(lines, sentence.joints, fillvalue="")
    return "".join(piece for pair in pairs for piece in pair)
