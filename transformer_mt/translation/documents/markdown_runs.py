"""A page of Markdown as runs of tokens: the text of each paragraph, heading and cell.

CommonMark with tables, strikethrough, footnotes, task lists, alerts and formulas. pyromark finds
blocks and inline markup, as ranges of bytes; this file makes tokens of its events.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, Literal, NamedTuple

import pyromark

from transformer_mt.text.scripts import HAN
from transformer_mt.translation.documents.html import html_tokens, markup_token
from transformer_mt.translation.documents.marks import Token
from transformer_mt.translation.documents.spans import parted, url_spans
from transformer_mt.translation.documents.tags import is_not_translated, tag_name

BlockKind = Literal[
    "paragraph", "heading", "underlined heading", "cell", "item", "quote", "footnote", "html"
]
_CONTAINERS: dict[str, BlockKind] = {
    "Item": "item", "BlockQuote": "quote", "FootnoteDefinition": "footnote"
}  # fmt: skip
_INLINE = frozenset(
    "Text Code InlineMath DisplayMath InlineHtml SoftBreak HardBreak FootnoteReference Emphasis "
    "Strong Strikethrough Link Image".split()
)
_OPTIONS = (
    pyromark.Options.ENABLE_TABLES
    | pyromark.Options.ENABLE_FOOTNOTES
    | pyromark.Options.ENABLE_STRIKETHROUGH
    | pyromark.Options.ENABLE_TASKLISTS
    | pyromark.Options.ENABLE_GFM
)
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which UTF-8 cannot hold
_NO_FORMULA = re.compile(f"[{HAN}\u3000-\u303f\uff00-\uff5e]")
_MOST_ROUNDS = 8  # in which what is no formula is found; then there are none
_EMPHASIS = str.maketrans("*_~", "xxx")  # within addresses they mark nothing
_DIRECTIVE = re.compile(r":::.*|\[![A-Za-z]+\]\s*|\{:[^{}\n]*\}\s*|(?:\{%(?:(?!%\}).)*%\}\s*)+")
_KEPT_LINKS = ("Autolink", "Email", "Shortcut", "Collapsed")  # their text is the target, or a key


class _Event(NamedTuple):
    phase: str  # Start, End, or empty
    name: str
    detail: Any
    start: int  # bytes
    end: int


@dataclass
class InlineRun:
    """Tokens from byte `start` to byte `end`, and the innermost block around them."""

    block: BlockKind
    start: int
    end: int
    tokens: list[Token] = field(default_factory=list)


def encoded(text: str) -> bytes:
    """The bytes that the positions of runs count; half a character takes three."""
    return text.encode("utf-8", "surrogatepass")


def decoded(source: bytes) -> str:
    return source.decode("utf-8", "surrogatepass")


def read_runs(text: str, *, any_label: bool = False) -> Iterator[InlineRun]:
    """The runs of a page, in order; with `any_label`, `[label]` is a link also if not defined."""
    source = encoded(text)
    reader: _RunReader | None = None
    html: list[_Event] = []
    code = False
    blocks: list[BlockKind] = ["paragraph"]
    for event in _events(text, any_label=any_label):
        if event.name == "CodeBlock":
            code = event.phase == "Start"
        if event.name in _INLINE and not code:
            escaped = event.name == "Text" and source[event.start - 1 : event.start] == b"\\"
            reader = reader or _RunReader(source, blocks[-1], event.start - escaped)
            reader.add(event)
            continue
        if reader and event.name != "TaskListMarker":
            yield reader.finish()
            reader = None
        if event.name == "Html":
            html.append(event)
        elif event.name == "HtmlBlock" and event.phase == "End":
            yield _html_run(source, html)
            html = []
        elif block := _block(source, event):
            if event.phase == "Start":
                blocks.append(block)
            else:
                blocks.pop()


def _events(text: str, *, any_label: bool) -> Iterator[_Event]:
    """Events of a text in which addresses are free of emphasis; positions are those of the text."""
    text = _SURROGATE.sub("\ufffd", text)
    pieces = parted(text, url_spans(text))
    text = "".join(piece.translate(_EMPHASIS) if is_url else piece for piece, is_url in pieces)
    source = bytearray(text.encode())
    for options in [*[_OPTIONS | pyromark.Options.ENABLE_MATH] * _MOST_ROUNDS, _OPTIONS]:
        events = _parsed(source.decode(), options, any_label=any_label)
        prices = [event.start for event in events if _is_price(event, source)]
        if not prices:
            break
        for place in prices:
            source[place] = ord("%")  # a mark that begins nothing
    yield from events


def _parsed(text: str, options: pyromark.Options, *, any_label: bool) -> list[_Event]:
    link: Callable[[Any], tuple[str, str]] | None = (lambda _: ("u", "")) if any_label else None
    events = []
    for event, span in pyromark.events_with_range(text, options=options, broken_link_callback=link):
        phase: str = ""
        content: Any = event
        if isinstance(event, dict) and next(iter(event)) in ("Start", "End"):
            ((phase, content),) = event.items()
        name, detail = (content, None) if isinstance(content, str) else next(iter(content.items()))
        events.append(_Event(phase, name, detail, span["start"], span["end"]))
    return events


def _is_price(event: _Event, source: bytearray) -> bool:
    """Whether what looks like a formula is the text between two prices: $5 and US$6."""
    if event.name != "InlineMath":
        return False
    following = source[event.end : event.end + 1]
    return following.isalnum() or _NO_FORMULA.search(event.detail) is not None


def _block(source: bytes, event: _Event) -> BlockKind | None:
    if event.name == "Heading":
        return "heading" if source.startswith(b"#", event.start) else "underlined heading"
    return "cell" if event.name == "TableCell" else _CONTAINERS.get(event.name)


def _html_run(source: bytes, lines: list[_Event]) -> InlineRun:
    """A block of HTML; one with quote marks before its lines stays as it is."""
    start, end = lines[0].start, lines[-1].end
    raw = decoded(source[start:end])
    quoted = any(source[one.end : two.start].strip() for one, two in pairwise(lines))
    tokens = [Token("break", raw)] if quoted else list(html_tokens(raw))
    return InlineRun("html", start, end, tokens)


class _RunReader:
    """Makes tokens of the events of one run."""

    def __init__(self, source: bytes, block: BlockKind, start: int) -> None:
        self._source, self._block = source, block
        self._start = self._end = start
        self._tokens: list[Token] = []
        self._at_line_start = False
        self._element: list[tuple[str, int]] = []  # names and places of tags of code and the like

    def add(self, event: _Event) -> None:
        if event.end <= self._end and event.phase != "End":
            return  # within a link that is kept
        if event.phase == "End":
            if event.end > self._end:
                self._close(event)
            return
        gap = decoded(self._source[self._end : event.start])  # an indent, then an escape
        escape = gap[-1:] if event.name == "Text" and gap.endswith("\\") else ""
        self._add_text(gap.removesuffix(escape))
        self._add_text(escape)
        self._end = event.end
        raw = decoded(self._source[event.start : event.end])
        if event.name in ("SoftBreak", "HardBreak"):
            self._tokens.append(Token("joint" if event.name == "SoftBreak" else "break", raw))
            self._at_line_start = True
        elif event.name in ("Text", "FootnoteReference"):
            self._add_text(raw)
        else:
            self._add_markup(event, raw)

    def finish(self) -> InlineRun:
        tokens: list[Token] = []
        for at_joint, group in groupby(self._tokens, lambda token: token.kind == "joint"):
            line = list(group)
            raw = "".join(token.raw for token in line)
            is_directive = not at_joint and _DIRECTIVE.fullmatch(raw)
            tokens += [Token("break", raw)] if is_directive else line
        return InlineRun(self._block, self._start, self._end, tokens)

    def _add_text(self, raw: str) -> None:
        """Text; at the start of a line, the quote mark or indent that belongs to the line end."""
        last = self._tokens[-1] if self._tokens else None
        if last and (self._at_line_start or last.kind == "text"):
            self._tokens[-1] = last._replace(raw=last.raw + raw)
        elif raw:
            self._tokens.append(Token("text", raw))
        self._at_line_start = False

    def _add_markup(self, event: _Event, raw: str) -> None:
        if event.name in ("Code", "InlineMath", "DisplayMath"):
            self._tokens.append(Token("kept", raw, " ".join(event.detail.split())))
        elif event.name == "InlineHtml":
            self._add_tag(raw)
        elif event.name in ("Link", "Image") and event.detail["link_type"].startswith(_KEPT_LINKS):
            read = raw.removeprefix("!").removesuffix("[]")[1:-1].strip("`*_")
            self._tokens.append(Token("kept", raw, " ".join(read.split())))
        else:
            opening = raw[: _length_of(event.name, raw)]
            self._end = event.start + len(opening)
            self._tokens.append(Token("open", opening, event.name))

    def _close(self, event: _Event) -> None:
        raw = decoded(self._source[self._end : event.end])
        is_link = event.name in ("Link", "Image")
        start = raw.find("]") if is_link else len(raw) - _length_of(event.name, raw[::-1])
        self._add_text(raw[:start])
        self._tokens.append(Token("close", raw[start:], event.name))
        self._end = event.end

    def _add_tag(self, raw: str) -> None:
        self._tokens.append(markup_token(raw))
        name = tag_name(raw)
        if raw.startswith("</") and self._element and name == self._element[-1][0]:
            _, start = self._element.pop()
            whole = "".join(token.raw for token in self._tokens[start:])
            self._tokens[start:] = [markup_token(whole)]
        elif not raw.startswith("</") and is_not_translated(raw):
            self._element.append((name, len(self._tokens) - 1))


def _length_of(name: str, raw: str) -> int:
    """Characters of the mark that markup begins with."""
    if name == "Strikethrough":
        return 2 if raw.startswith("~~") else 1
    return 2 if name in ("Strong", "Image") else 1
