"""Markdown: headings, paragraphs, lists, quotes and tables are translated, code is not.

The lines of a paragraph are one text, laid out on as many lines again, so that line counts hold;
bullets, numbers, quote marks, pipes and indentation stay, and so do front matter, code, and
definitions of links. A translation is written so that it is read again as the same text with the
same marks: each is parsed before it is taken.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import unescape
from itertools import groupby

from transformer_mt.translation.documents import html
from transformer_mt.translation.documents.inline import (
    Document,
    Segment,
    Syntax,
    lay_out,
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
from transformer_mt.translation.documents.marks import Token
from transformer_mt.translation.documents.spans import parted, url_spans

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
_SPECIAL = re.compile(r"[\\`*_\[\]<~$]|&(?=[#A-Za-z])")
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
# Tags that do as emphasis where its marks cannot stand, as _ within a word.
_TAGS = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~": "del", "~~": "del"}
# Ways to write a translation: whether all that could be a mark is escaped, whether emphasis is
# written as tags, and whether the text is laid out on its lines or stands on the first.
_WAYS = [(False, False, True), (True, False, True), (True, True, True), (True, True, False)]


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
    for token in run.tokens if run.block == "html" else _divided(run.tokens):
        if token.kind != "text" or run.block == "html":
            yield token
            continue
        for i, raw in enumerate(_NOTE.split(token.raw)):
            yield from [Token("kept", raw)] if i % 2 else text_tokens(raw, decode_markdown)


def _divided(tokens: Sequence[Token]) -> list[Token]:
    """Marks around a line break stay where they are, or half of them would stand in each part."""
    found, opened, n_breaks = list(tokens), list[tuple[int, int]](), 0
    for place, token in enumerate(tokens):
        if token.kind == "open":
            opened.append((place, n_breaks))
        elif token.kind == "close" and opened:
            first, before = opened.pop()
            if n_breaks > before:
                found[first], found[place] = (
                    found[i]._replace(kind="break") for i in (first, place)
                )
        n_breaks += token.kind == "break"
    return found


class _MarkdownSyntax(Syntax):
    """How text is written in a block of Markdown."""

    def __init__(self, block: BlockKind, *, escaped: bool = False) -> None:
        self._block, self._escaped = block, escaped

    def decode(self, raw: str) -> str:
        return decode_markdown(raw)

    def encode(self, text: str) -> str:
        """With `escaped`, everything that may be read as a mark; addresses stay."""
        pieces = parted(text, url_spans(text))
        return "".join(piece if is_url else self._marked(piece) for piece, is_url in pieces)

    def _marked(self, text: str) -> str:
        if self._escaped:
            text = _SPECIAL.sub(lambda m: "&amp;" if m[0] == "&" else f"\\{m[0]}", text)
        return text.replace("|", "\\|") if self._block == "cell" else text

    def encode_line(self, line: str) -> str:
        if not self._escaped:
            return line
        if self._block == "heading":
            line = _LAST_MARKS.sub(r"\\", line, count=1)
        return _BLOCK_START.sub(r"\1\\", line)

    def write(self, tokens: Sequence[Token], joints: Sequence[str], raw: str) -> str:
        """The plainest way that is read as these tokens; if there is none, `raw`."""
        if not any(token.raw for token in tokens if token.kind == "text"):
            return raw if len(tokens) > 1 else lay_out(tokens, joints, self)
        before, between, after = _CONTEXTS[self._block]
        for escaped, tagged, wrapped in _WAYS:
            syntax = _MarkdownSyntax(self._block, escaped=escaped)
            written = [_as_tag(token) for token in tokens] if tagged else tokens
            alone = lay_out(written, [f"\n{between}"] * len(joints), syntax, wrapped=wrapped)
            runs = list(read_runs(before + alone + after, any_label=True))
            same_block = [run.block for run in runs] == [self._block]
            if same_block and _canonical(_decoded(_tokens(runs[0]))) == _canonical(written):
                return lay_out(written, joints, syntax, wrapped=wrapped)
        return raw


def _decoded(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        is_text = token.kind == "text"
        yield token._replace(raw=decode_markdown(token.raw)) if is_text else token


def _as_tag(token: Token) -> Token:
    """A mark of emphasis as the tag that means the same."""
    if token.kind not in ("open", "close") or token.raw not in _TAGS:
        return token
    return token._replace(raw=f"<{'/' * (token.kind == 'close')}{_TAGS[token.raw]}>")


def _canonical(tokens: Iterable[Token]) -> list[tuple[str, bool]]:
    """(characters without white space, whether they are text); neighbours of one kind as one.

    Addresses and placeholders are text for a reader of Markdown.
    """
    parts = []
    for kind, raw, name in tokens:
        is_text = kind == "text" or (kind == "kept" and name == decode_markdown(raw))
        emphasis = {"open": "(", "close": ")"}.get(kind, "") if raw in _TAGS else ""
        if kind != "joint" and (bare := "".join((name if name and is_text else raw).split())):
            parts.append((f"{bare}{emphasis}", is_text))
    groups = groupby(parts, lambda part: part[1])
    return [("".join(bare for bare, _ in group), is_text) for is_text, group in groups]


def decode_markdown(raw: str) -> str:
    """Characters for escapes and entities, and one space for several."""
    return _SPACES.sub(" ", _SPELLED.sub(lambda found: found[1] or unescape(found[0]), raw))
