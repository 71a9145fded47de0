"""Markdown: headings, paragraphs, lists, quotes and tables are translated, code is not.

Comes in: a page of CommonMark with tables. Goes out: its parts. The lines of a paragraph are one
text, laid out on as many lines again, so that line counts hold; bullets, numbers, quote marks,
pipes and indentation stay. Kept are front matter, fenced and indented code, comments, definitions
of links. What stands within a line: see `markdown_inline.py`.
"""

import re
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import NamedTuple

from transformer_mt.translation.documents.document import Document, Segment
from transformer_mt.translation.documents.markdown_inline import (
    Labels,
    code_spans,
    inline_parts,
    label_key,
    masked,
)

_QUOTE = re.compile(r"(?: {0,3}> ?)*")
_BULLETS = re.compile(r"(?:[ \t]*(?:>|[-*+](?=[ \t]|$)|\d{1,9}[.)](?=[ \t]|$)))*[ \t]*")
_START = re.compile(r"(?:\[[ xX]\][ \t]+|\[\^[^\]\s]{1,100}\]:[ \t]*|#{1,6}(?=[ \t]|$)[ \t]*)?")
_FENCE = re.compile(r"`{3,}(?=[^`]*$)|~{3,}")
_RAW_BLOCK = re.compile(
    r"<(!--|\?|%|(?:script|style|pre|textarea|svg|math)(?=[\s>]|$))", re.IGNORECASE
)
_RAW_END = {"!--": "-->", "?": "?>", "%": "%>"}  # others end with their closing tag
_DEFINITION = re.compile(r"\[(?!\^)([^\]]{1,999})\]:")
_DIRECTIVE = re.compile(r":::|\[![A-Za-z]+\]\Z")
_RULE = re.compile(r"(?:-[ \t]*)+|=+|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}")
_FRONT_MATTER = {"---": ("---", "..."), "+++": ("+++",)}
_PIPE = re.compile(r"(?<!\\)\|")
_INDENT = 4  # columns that make code


class _Line(NamedTuple):
    before: str  # indentation, quote marks, bullets, the marks of a heading
    text: str
    after: str  # white space and the mark of a hard line break
    begins: bool = False  # with a bullet or as a heading: it does not go on from the line above
    ends: bool = False  # nor does the next one from this: a heading, a hard line break
    row: bool = False  # of a table


def read_markdown(text: str) -> Document:
    lines = text.split("\n")
    found = [_DEFINITION.match(line.strip()) for line in lines]
    labels = frozenset(label_key(definition[1]) for definition in found if definition)
    parts: list[str | Segment] = []
    for block in _blocks(lines):
        parts += [block] if isinstance(block, str) else _block_parts(block, labels)
        parts.append("\n")
    return Document(parts[:-1])


def _block_parts(lines: list[_Line], labels: Labels) -> list[str | Segment]:
    if lines[0].row:
        cells = [_cell_parts(cell, labels) for cell in _cells(lines[0].text)]
        inner = list(chain.from_iterable(cells))
    else:
        joints = [f"{left.after}\n{right.before}" for left, right in pairwise(lines)]
        inner = inline_parts([line.text for line in lines], joints, labels)
    return [lines[0].before, *inner, lines[-1].after]


def _cells(row: str) -> list[str]:
    """Cells and the pipes between them; a pipe within code is none."""
    code, _ = code_spans(row)
    pipes = [pipe.start() for pipe in _PIPE.finditer(masked(row, code))]
    cuts = sorted({0, *pipes, *(pipe + 1 for pipe in pipes), len(row)})
    return [row[start:end] for start, end in pairwise(cuts)]


def _cell_parts(raw: str, labels: Labels) -> list[str | Segment]:
    core = raw.strip()
    if not core or core == "|":
        return [raw]
    before, _, after = raw.partition(core)
    return [before, *inline_parts([core], [], labels, in_cell=True), after]


def _blocks(lines: list[str]) -> Iterator[str | list[_Line]]:
    """Lines that are kept, one by one, and the lines of each paragraph, heading or row."""
    i = _front_matter_end(lines)
    yield from lines[:i]
    block: list[_Line] = []
    list_column, after_blank, in_table = 0, True, False
    while i < len(lines):
        column = _column(lines[i])
        if after_blank and lines[i].strip() and column < list_column:
            list_column = column if column > 1 else 0
        code_from = list_column + _INDENT if after_blank else None
        end, line = _code_end(lines, i, code_from), _split(lines[i])
        in_table = "|" in line.text and (in_table or _is_delimiter_row(lines[i + 1 : i + 2]))
        kept = end > i or _is_kept(line)
        if block and (kept or not _goes_on(block[-1], line, in_table)):
            yield block
            block = []
        if kept:
            end = max(end, i + 1)
            yield from lines[i:end]
        else:
            end = i + 1
            is_row = in_table or (line.text[0] == line.text[-1] == "|")
            block.append(line._replace(row=is_row, ends=line.ends or is_row))
            if line.begins and line.before.strip(" \t>#"):
                list_column = len(_without_quotes(line.before).expandtabs(_INDENT))
        after_blank = not _without_quotes(lines[end - 1]).strip()
        i = end
    if block:
        yield block


def _front_matter_end(lines: list[str]) -> int:
    ends = _FRONT_MATTER.get(lines[0].rstrip(), ())
    for i, line in enumerate(lines[1:], start=1) if ends else ():
        if line.rstrip() in ends:
            return i + 1
    return 0


def _without_quotes(line: str) -> str:
    quotes = _QUOTE.match(line)
    return line[quotes.end() :] if quotes else line


def _column(line: str) -> int:
    rest = _without_quotes(line)
    indentation = rest[: len(rest) - len(rest.lstrip())]
    return len(indentation.expandtabs(_INDENT))


def _code_end(lines: list[str], i: int, code_from: int | None) -> int:
    """After the code, comment or raw HTML that begins with line `i`; `i` itself if none does.

    Args:
        code_from: how far code is indented here; None: it cannot begin here.
    """
    line = _split(lines[i])
    if code_from is not None and lines[i].strip() and _column(lines[i]) >= code_from:
        quoted = ">" in line.before
        end = i + 1
        while end < len(lines) and (
            _column(lines[end]) >= code_from and quoted == (">" in _split(lines[end]).before)
        ):
            end += 1
        return end
    if fence := _FENCE.match(line.text):
        for end in range(i + 1, len(lines)):
            if ">" in line.before and ">" not in lines[end]:
                return end  # the quotation ends, and the code with it
            closing = lines[end].strip("> \t\r")
            if closing.startswith(fence[0]) and not closing.strip(fence[0][0]):
                return end + 1
        return len(lines)
    if raw := _RAW_BLOCK.match(line.text):
        finish = _RAW_END.get(raw[1], f"</{raw[1].lower()}")
        if finish in line.text.lower():
            return i  # within a line it is kept as any markup is
        for end in range(i + 1, len(lines)):
            if finish in lines[end].lower():
                return end + 1
        return len(lines)
    return i


def _split(line: str) -> _Line:
    bullets = _BULLETS.match(line)
    assert bullets is not None
    start = _START.match(line, bullets.end())
    assert start is not None
    rest = line[start.end() :]
    text = rest.rstrip()
    heading = start[0].startswith("#")
    hard_break = rest[len(text) :].startswith("  ")
    if heading:
        opened = text.rstrip("#")
        text = opened.rstrip() if opened[-1:] in (" ", "\t", "") else text
    elif (len(text) - len(text.rstrip("\\"))) % 2:
        text, hard_break = text[:-1].rstrip(), True
    begins = bool(start[0] or bullets[0].strip(" \t>"))
    return _Line(line[: start.end()], text, rest[len(text) :], begins, heading or hard_break)


def _is_kept(line: _Line) -> bool:
    """Whether there is nothing to translate: blank lines, rules, underlines, definitions."""
    if not line.text or _RULE.fullmatch(line.text) or _DIRECTIVE.match(line.text):
        return True
    if _is_delimiter_row([line.text]):
        return True
    return not line.begins and _DEFINITION.match(line.text) is not None


def _goes_on(last: _Line, line: _Line, in_table: bool) -> bool:
    """Whether a line belongs to the paragraph of the line above it."""
    quotes = line.before.count(">")
    is_row = in_table or (line.text[0] == line.text[-1] == "|")
    return not (line.begins or is_row or last.ends) and quotes in (0, last.before.count(">"))


def _is_delimiter_row(lines: list[str]) -> bool:
    return any("|" in line and "-" in line and not line.strip("> \t\r|:-") for line in lines)
