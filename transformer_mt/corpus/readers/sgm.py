"""The two SGM files of an older WMT test set → pairs.

Comes in: `…-src.zh.sgm` and `…-ref.en.sgm`, which need not be well-formed. Goes out: (source,
target) texts, one by one. This file does not know where files lie.
"""

import html
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.corpus.readers.tables import Pair
from transformer_mt.corpus.readers.tmx_xliff import one_line
from transformer_mt.errors import DataError

_LARGEST = 256 << 20  # bytes of a file, read as a whole; test sets have less than 5 MiB
# Each pattern is tried at few places, and none backtracks: time is linear for every text.
_TAG = re.compile(r"<(?P<kind>doc|seg)\b", re.IGNORECASE)
_END = re.compile(r"</seg\s*+>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""(?<![\w:-])([\w:-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""")
_REFERENCE = re.compile(r"&#?\w{1,32};")  # only complete ones: an "&" alone is text


class _Segment(NamedTuple):
    place: tuple[str, str]  # document, segment
    text: str
    line: int


def read_sgm_pair(src_path: Path, tgt_path: Path) -> Iterator[Pair]:
    """The segments of two files, which must have the same documents and segments in one order.

    Of several references in a file the first is taken.

    Raises:
        DataError: the files do not run side by side, or one of them has no segments.
    """
    for src, tgt in zip_longest(_segments(src_path), _segments(tgt_path)):
        if src is None or tgt is None or src.place != tgt.place:
            raise DataError(
                f"{src_path} and {tgt_path} are not of one test set: {_describe(src)} stands "
                f"against {_describe(tgt)}"
            )
        yield src.text, tgt.text


def _describe(segment: _Segment | None) -> str:
    if segment is None:
        return "the end"
    return f"doc {segment.place[0]} seg {segment.place[1]} (line {segment.line})"


def _segments(path: Path) -> Iterator[_Segment]:
    count, system, doc = 0, "", ""
    first_system = None  # of the first document
    for line, kind, attributes, text in _elements(path):
        if kind == "doc":
            doc, system = attributes.get("docid", ""), attributes.get("sysid", "")
            first_system = system if first_system is None else first_system
        elif system == (first_system or ""):
            count += 1
            text = _REFERENCE.sub(lambda found: html.unescape(found[0]), text)
            place = doc, attributes.get("id", str(count))
            yield _Segment(place, one_line(text).strip(), line)
    if not count:
        raise DataError(f"{path}: no <seg>…</seg> found; expected an SGM file of WMT")


def _elements(path: Path) -> Iterator[tuple[int, str, dict[str, str], str]]:
    """(last line, doc or seg, attributes, text of a seg) of each element that counts."""
    content = _content(path)
    line, counted = 1, 0  # the line at the position `counted`
    position = 0
    while tag := _TAG.search(content, position):
        kind = tag["kind"].lower()
        position = content.find(">", tag.end()) + 1
        if not position:
            if kind == "seg":
                raise DataError(f"{path}: line {_last_line(content)}: the last <seg> has no </seg>")
            return
        attributes, text = _attributes(content[tag.end() : position - 1]), ""
        if kind == "seg":
            end = _END.search(content, position)
            if end is None:
                raise DataError(f"{path}: line {_last_line(content)}: the last <seg> has no </seg>")
            text, position = content[position : end.start()], end.end()
        line, counted = line + content.count("\n", counted, position), position
        if "<seg" in text.lower():
            raise DataError(f"{path}: line {line}: a <seg> starts inside another")
        yield line, kind, attributes, text


def _last_line(content: str) -> int:
    return content.count("\n")


def _content(path: Path) -> str:
    """The lines of a file, each with its end."""
    lines, size = [], 0
    for line in split_lines(path):
        size += len(line) + 1
        if size > _LARGEST:
            raise DataError(
                f"{path}: more than {_LARGEST >> 20} MiB; an SGM file is a test set: give a "
                "corpus as text or TMX"
            )
        lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def _attributes(text: str) -> dict[str, str]:
    found = _ATTRIBUTE.finditer(text)
    return {match[1].lower(): match[2] or match[3] or match[4] or "" for match in found}
