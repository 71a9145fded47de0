"""Markdown: headings, paragraphs, lists, quotes and tables are translated, code is not.

Comes in: a page. Goes out: its parts. The lines of a paragraph are one text, laid out on as many
lines again, so that line counts hold; bullets, numbers, quote marks, pipes and indentation stay,
and so do front matter, code, and definitions of links. A translation is written so that it is read
again as the same text with the same marks: each is parsed before it is taken.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from html import unescape
from itertools import groupby
from operator import itemgetter

from transformer_mt.translation.documents import html
from transformer_mt.translation.documents.document import Document, Segment
from transformer_mt.translation.documents.inline import (
    Piece,
    Sentence,
    Syntax,
    Token,
    lay_out,
    pieces,
    run_parts,
    text_tokens,
)
from transformer_mt.translation.documents.markdown_runs import (
    BlockKind,
    InlineRun,
    decoded,
    encoded,
    read_runs,
)
from transformer_mt.translation.documents.marks import Mark
from transformer_mt.translation.documents.spans import url_spans

_FRONT_MATTER = re.compile(
    r"(?:---[ \t\r]*\n(?:.*?\n)??(?:---|\.\.\.)|\+\+\+[ \t\r]*\n(?:.*?\n)??\+\+\+)"
    r"[ \t\r]*(?=\n|\Z)",
    re.DOTALL,
)
_NOTE = re.compile(r"(?<!\\)(\[\^[^\]\s]{1,100}\])")
_SPELLED = re.compile(
    r"\\([!-/:-@\[-`{-~])|&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"
)
_SPACES = re.compile("[ \t]+")
_SPECIAL = re.compile(r"[\\`*_\[\]<~]|&(?=[#A-Za-z])")
# Marks that begin or underline a block at the start of a line.
_BLOCK_START = re.compile(
    r"^(?:(\d{1,9})(?=[.)](?:\s|$))|(?=#{1,6}(?:\s|$)|>|[-+*](?:\s|$)|[-=_*]{2}|=\s*$|~~~|\||:::"
    r"|:?-|<[A-Za-z!?/%]))"
)
_LAST_MARKS = re.compile(r"(?<!#)(?=#+\s*$)")  # of a heading

# A page that holds a text in the same kind of block: raw text before its first line, before its
# other lines, and after its last one.
_CONTEXTS: dict[BlockKind, tuple[str, str, str]] = {
    "paragraph": ("", "", ""),
    "heading": ("# ", "", ""),
    "underlined heading": ("", "", "\n==="),
    "cell": ("| ", "", " |\n|---|"),
    "item": ("- ", "  ", ""),
    "quote": ("> ", "> ", ""),
    "footnote": ("[^1]: ", "    ", ""),
}
_Names = dict[str, tuple[str, str]]  # a mark of emphasis → markup before and after a text
_STARS: _Names = {"_": ("*", "*"), "__": ("**", "**")}  # _ is no mark within a word
_TAGS: _Names = {
    mark: (f"<{name}>", f"</{name}>")
    for name, marks in (("em", "* _"), ("strong", "** __"), ("del", "~ ~~"))
    for mark in marks.split()
}
# Ways to write a translation: whether all that could be a mark is escaped, other names of marks,
# and whether the text is laid out on its lines or stands on the first.
_WAYS: list[tuple[bool, _Names, bool]] = [
    (False, {}, True), (True, {}, True), (True, _STARS, True), (True, _TAGS, True),
    (True, _TAGS, False),
]  # fmt: skip


def read_markdown(text: str) -> Document:
    front = _FRONT_MATTER.match(text)
    start = front.end() if front else 0
    source = encoded(text[start:])
    parts: list[str | Segment] = [text[:start]]
    position = 0
    for run in read_runs(text[start:]):
        syntax = html.SYNTAX if run.block == "html" else _MarkdownSyntax(run.block)
        parts += [decoded(source[position : run.start]), *run_parts(list(_tokens(run)), syntax)]
        position = run.end
    return Document([*parts, decoded(source[position:])])


def _tokens(run: InlineRun) -> Iterator[Token]:
    """The tokens of a run, with addresses, placeholders and footnotes apart from text."""
    for token in run.tokens:
        if token.kind != "text" or run.block == "html":
            yield token
            continue
        for i, raw in enumerate(_NOTE.split(token.raw)):
            yield from [Token("kept", raw)] if i % 2 else text_tokens(raw, decode_markdown)


class _MarkdownSyntax(Syntax):
    """How text is written in a block of Markdown."""

    def __init__(self, block: BlockKind, *, escaped: bool = False) -> None:
        self._block, self._escaped = block, escaped

    def decode(self, raw: str) -> str:
        return decode_markdown(raw)

    def encode(self, text: str) -> str:
        """With `escaped`, everything that may be read as a mark; addresses stay."""
        pieces: list[str] = []
        position = 0
        for start, end in [*url_spans(text), (len(text), len(text))]:
            piece = text[position:start]
            if self._escaped:
                piece = _SPECIAL.sub(lambda m: "&amp;" if m[0] == "&" else f"\\{m[0]}", piece)
            if self._block == "cell":
                piece = piece.replace("|", "\\|")
            pieces += [piece, text[start:end]]
            position = end
        return "".join(pieces)

    def encode_line(self, line: str) -> str:
        if not self._escaped:
            return line
        if self._block == "heading":
            line = _LAST_MARKS.sub(r"\\", line, count=1)
        return _BLOCK_START.sub(r"\1\\", line)

    def write(self, sentence: Sentence, raw: str) -> str:
        """The plainest way that is read as the sentence; if there is none, `raw`."""
        if not sentence.text:
            return raw if sentence.marks else lay_out(sentence, self)
        before, between, after = _CONTEXTS[self._block]
        for escaped, names, wrapped in _WAYS:
            candidate = sentence._replace(marks=_renamed(sentence.marks, names))
            syntax = _MarkdownSyntax(self._block, escaped=escaped)
            alone = candidate._replace(joints=[f"\n{between}"] * len(sentence.joints))
            page = before + lay_out(alone, syntax, wrapped=wrapped) + after
            runs = list(read_runs(page, any_label=True))
            same = [run.block for run in runs] == [self._block]
            if same and _read(runs[0].tokens) == _meant(candidate):
                return lay_out(candidate, syntax, wrapped=wrapped)
        return raw


def _renamed(marks: Sequence[Mark], names: _Names) -> tuple[Mark, ...]:
    renamed = []
    for mark in marks:
        inner = _renamed(mark.inner, names)
        if mark.opening == mark.closing and mark.opening in names:
            opening, closing = names[mark.opening]
            mark = replace(mark, opening=opening, closing=closing)
        renamed.append(replace(mark, inner=inner))
    return tuple(renamed)


def _read(tokens: Sequence[Token]) -> list[tuple[str, bool]]:
    """Text and markup of a run in a form in which equal ones are the same."""
    parts: list[Piece] = []
    for token in tokens:
        if token.kind == "text":
            found = enumerate(_NOTE.split(token.raw))
            parts += [
                (raw, "kept") if i % 2 else (decode_markdown(raw), "text") for i, raw in found
            ]
        elif token.kind != "joint":
            parts.append((token.raw, token.kind))
    return _canonical(parts)


def _meant(sentence: Sentence) -> list[tuple[str, bool]]:
    """A sentence in the form of `_read`."""
    return _canonical(pieces(sentence._replace(marks=_markup(sentence.text, sentence.marks))))


def _markup(text: str, marks: Sequence[Mark]) -> tuple[Mark, ...]:
    """Marks without addresses and placeholders, which are text for a reader of Markdown."""
    return tuple(
        replace(mark, inner=_markup(text, mark.inner))
        for mark in marks
        if not (mark.kept and decode_markdown(mark.opening) == text[mark.start : mark.end])
    )


def _canonical(parts: Iterable[Piece]) -> list[tuple[str, bool]]:
    """(characters without white space, whether they are text); neighbours of one kind as one."""
    bare = []
    for characters, kind in parts:
        emphasis = {"open": "(", "close": ")"}.get(kind, "") if characters in _TAGS else ""
        bare.append(("".join(characters.split()) + emphasis, kind == "text"))
    groups = groupby(filter(itemgetter(0), bare), itemgetter(1))
    return [("".join(map(itemgetter(0), group)), is_text) for is_text, group in groups]


def decode_markdown(raw: str) -> str:
    """Characters for escapes and entities, and one space for several."""
    return _SPACES.sub(" ", _SPELLED.sub(lambda found: found[1] or unescape(found[0]), raw))
