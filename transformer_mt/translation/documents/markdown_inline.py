"""What stands within a paragraph, heading or cell of Markdown: text, and marks that are kept.

Comes in: the lines of one block without their bullets and the like. Goes out: parts. A sentence is
divided at code, links, addresses, HTML tags and emphasis, and each run of text is a segment of its
own: models know no place-holders, and the marks must survive. What looks like a mark is one, also
without its partner. This file does not know blocks.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from html import unescape

from transformer_mt.translation.documents.document import Segment, line_parts
from transformer_mt.translation.documents.spans import url_spans
from transformer_mt.translation.documents.tags import markup_spans

_PUNCTUATION = r"[!-/:-@\[-`{-~]"
_ESCAPE_OR_TICKS = re.compile(rf"\\{_PUNCTUATION}|`+")
_TARGET = r"\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)"
_MARK = re.compile(
    rf"(?P<note>\[\^[^\]\s]{{1,100}}\])|(?P<open>!?\[)"
    rf"|\](?:(?P<target>{_TARGET})|\[(?P<label>[^\[\]]*)\])?|(?P<emphasis>\*+|_+|~~+)"
)
_SPELLED = re.compile(
    rf"\\({_PUNCTUATION})|&(?:#[0-9]{{1,7}}|#[xX][0-9a-fA-F]{{1,6}}|[A-Za-z][A-Za-z0-9]{{1,31}});"
)
_SPACES = re.compile("[ \t]+")
_SPECIAL = re.compile(r"[\\`*_\[\]<~]|&(?=[#A-Za-z])")
_ESCAPED = {"&": "&amp;"}
_ALWAYS_SPECIAL = re.compile(r"[`\[\]]|\\\Z")  # their partners may stand in other runs
# What would begin a block at the start of a line.
_BLOCK_START = re.compile(
    r"^(?:(\d{1,9})(?=[.)](?:\s|$))|(?=#{1,6}(?:\s|$)|>|[-+*](?:\s|$)|[-=_*]{2}|~~~|\||:::"
    r"|<[A-Za-z!?/%]))"
)

_LONGEST_LABEL = 999  # as CommonMark has it
Labels = frozenset[str]  # of link definitions, as `label_key` spells them


def label_key(label: str) -> str:
    return " ".join(label.split()).casefold()


def inline_parts(
    lines: Sequence[str], joints: Sequence[str], labels: Labels, *, in_cell: bool = False
) -> list[str | Segment]:
    """The parts of a block, or of a cell of a table.

    Args:
        lines: without white space around them.
        joints: what stands between two of them in the document: one less.
    """

    def write(translation: str) -> str:
        return encode(translation, in_cell=in_cell)

    text = "\n".join(lines)
    remaining = iter(joints)
    parts: list[str | Segment] = []
    position = 0
    for start, end in [*_marks(text, labels), (len(text), len(text))]:
        parts += _run_parts(text[position:start], remaining, write)
        parts.append(_restored(text[start:end], remaining))
        position = end
    return parts


def _restored(raw: str, joints: Iterator[str]) -> str:
    first, *others = raw.split("\n")
    return first + "".join(next(joints) + line for line in others)


def _run_parts(raw: str, joints: Iterator[str], write: Callable[[str], str]) -> list[str | Segment]:
    core = raw.strip()
    if not core:
        return [_restored(raw, joints)]
    before, _, after = raw.partition(core)
    before = _restored(before, joints)
    lines = core.split("\n")
    between = [next(joints) for _ in lines[1:]]
    around = (before, _restored(after, joints))
    return line_parts(lines, between, around, decode, write, encode_line)


def _marks(text: str, labels: Labels) -> list[tuple[int, int]]:
    """Spans of everything that is no text, in order and apart."""
    spans: list[tuple[int, int]] = []
    code, escapes = code_spans(text)
    rest = masked(text, sorted([*code, *escapes]))
    tags = list(markup_spans(rest[: rest.rfind(">") + 1]))
    rest = masked(rest, tags)
    urls = url_spans(rest)
    marks = _brackets_and_emphasis(masked(rest, urls), labels)
    spans = sorted([*code, *tags, *urls, *marks])
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def masked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The text with the same length and neutral characters in place of the spans."""
    pieces, position = [], 0
    for start, end in spans:
        pieces += [text[position:start], "x" * (end - start)]
        position = end
    return "".join([*pieces, text[position:]])


def code_spans(text: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Code between equally many backticks, and escaped characters outside of it."""
    runs: dict[int, list[int]] = {}
    for run in re.finditer("`+", text):
        runs.setdefault(len(run[0]), []).append(run.start())
    code: list[tuple[int, int]] = []
    escapes: list[tuple[int, int]] = []
    position = 0
    while found := _ESCAPE_OR_TICKS.search(text, position):
        position = found.end()
        if found[0][0] == "\\":
            escapes.append(found.span())
            continue
        n_ticks = len(found[0])
        starts = runs.get(n_ticks, [])
        closing = bisect_left(starts, position)
        if closing < len(starts):
            position = starts[closing] + n_ticks
            code.append((found.start(), position))
    return code, escapes


def _brackets_and_emphasis(text: str, labels: Labels) -> Iterator[tuple[int, int]]:
    """Marks of links, images, notes and emphasis; text whose code and tags are masked."""
    open_brackets: list[tuple[int, int]] = []
    for mark in _MARK.finditer(text):
        start, end = mark.span()
        if mark["note"]:
            yield start, end
        elif mark["open"]:
            open_brackets.append((start, end))
        elif mark["emphasis"]:
            if _is_emphasis(
                mark["emphasis"][0], text[max(start - 1, 0) : start], text[end : end + 1]
            ):
                yield start, end
        elif open_brackets:
            opening = open_brackets.pop()
            label = mark["label"]
            if mark["target"] or (label and label_key(label) in labels):
                yield opening
                yield start, end
            elif labels and _label(text, opening[1], start) in labels:
                yield opening[0], end  # what is read is the label


def _label(text: str, start: int, end: int) -> str:
    return label_key(text[start : min(end, start + _LONGEST_LABEL)])


def _is_emphasis(mark: str, before: str, after: str) -> bool:
    if not before.strip() and not after.strip():
        return False  # 2 * 3
    return not (mark == "_" and before.isalnum() and after.isalnum())  # snake_case


def decode(raw: str) -> str:
    """Characters for escapes and entities, and one space for several."""
    return _SPACES.sub(" ", _SPELLED.sub(lambda found: found[1] or unescape(found[0]), raw))


def encode(text: str, *, in_cell: bool) -> str:
    """Text as it is, or with escapes where it would be read as something else."""
    pieces: list[str] = []
    position = 0
    for start, end in [*url_spans(text), (len(text), len(text))]:
        piece = text[position:start]
        if (
            _ALWAYS_SPECIAL.search(piece)
            or decode(piece) != _SPACES.sub(" ", piece)
            or _marks(f".{piece}.", frozenset())
        ):
            piece = _SPECIAL.sub(lambda special: _ESCAPED.get(special[0], f"\\{special[0]}"), piece)
        pieces += [piece.replace("|", "\\|") if in_cell else piece, text[start:end]]
        position = end
    return "".join(pieces)


def encode_line(text: str) -> str:
    """A line as it is, or with an escape if it would begin a list, a heading or the like."""
    return _BLOCK_START.sub(r"\1\\", text)
