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

from transformer_mt.data.formats.markup import one_line
from transformer_mt.data.formats.streams import split_lines
from transformer_mt.data.formats.tables import Pair
from transformer_mt.errors import DataError

_DOC_OR_SEG = re.compile(
    r"<doc\b(?P<doc>[^>]*)>|<seg\b(?P<seg>[^>]*)>(?P<text>.*?)</seg\s*>", re.IGNORECASE | re.DOTALL
)
_ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_REFERENCE = re.compile(r"&#?\w+;")  # only complete ones: an "&" alone is text


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
    pending, doc, number, count = "", "", 0, 0
    system, first_system = "", None  # whose document this is, and whose the first one was
    for number, line in enumerate(split_lines(path), 1):
        pending += line + "\n"
        if "</seg" not in line.lower():
            continue
        end = 0
        for match in _DOC_OR_SEG.finditer(pending):
            end = match.end()
            if match["doc"] is not None:
                attributes = _attributes(match["doc"])
                doc, system = attributes.get("docid", ""), attributes.get("sysid", "")
                first_system = system if first_system is None else first_system
            elif "<seg" in match["text"].lower():
                raise DataError(f"{path}: line {number}: a <seg> starts inside another")
            elif system == (first_system or ""):
                count += 1
                text = _REFERENCE.sub(lambda found: html.unescape(found[0]), match["text"])
                place = doc, _attributes(match["seg"]).get("id", str(count))
                yield _Segment(place, one_line(text).strip(), number)
        pending = pending[end:]
    if "<seg" in pending.lower():
        raise DataError(f"{path}: line {number}: the last <seg> has no </seg>")
    if not count:
        raise DataError(f"{path}: no <seg>…</seg> found; expected an SGM file of WMT")


def _attributes(text: str) -> dict[str, str]:
    found = _ATTRIBUTE.finditer(text)
    return {match[1].lower(): match[2] or match[3] or match[4] or "" for match in found}
