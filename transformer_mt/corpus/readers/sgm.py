"""The two SGM files of an older WMT test set, `…-src.zh.sgm` and `…-ref.en.sgm`, → pairs.

They need not be well-formed.
"""

import html
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from transformer_mt.corpus.readers.lines import open_bytes, split_stream
from transformer_mt.corpus.readers.tables import Pair
from transformer_mt.corpus.readers.tmx_xliff import one_line
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr

_LARGEST = 256 << 20  # bytes of a file, read as a whole; test sets have less than 5 MiB
# No pattern backtracks, and none goes beyond the next tag: time is linear for every text.
_ELEMENT = re.compile(
    r"<doc\b(?P<doc>[^<>]*+)"
    r"|<seg\b(?P<seg>[^<>]*+)(?:>(?P<text>(?:[^<]++|<(?!/?seg\b))*+)</seg\s*+>)?",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"""(?<![\w:-])([\w:-]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""")
_REFERENCE = re.compile(r"&#?\w{1,32};")  # only complete ones: an "&" alone is text


class _Segment(NamedTuple):
    doc: str
    seg: str
    line: int
    text: str


def read_sgm_pair(src_path: Path, tgt_path: Path) -> Iterator[Pair]:
    """The segments of two files, which must have the same documents and segments in one order.

    Of several references in a file the first is taken.

    Raises:
        DataError: the files do not run side by side, or one of them has no segments.
    """
    for src, tgt in zip_longest(_segments(src_path), _segments(tgt_path)):
        if src is None or tgt is None or src[:2] != tgt[:2]:
            raise DataError(
                tr(
                    "{} and {} are not of one test set: {} stands against {}",
                    src_path,
                    tgt_path,
                    _describe(src),
                    _describe(tgt),
                )
            )
        yield src.text, tgt.text


def _describe(segment: _Segment | None) -> str:
    return (
        tr("doc {} seg {} (line {})", segment.doc, segment.seg, segment.line)
        if segment
        else tr("the end")
    )


def _segments(path: Path) -> Iterator[_Segment]:
    with open_bytes(path) as stream:
        data = stream.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise DataError(
            tr(
                "{}: more than {} MiB; an SGM file is a test set: give a corpus as text or TMX",
                path,
                _LARGEST >> 20,
            )
        )
    content = "\n".join(split_stream([data], path))
    count, line, position = 0, 1, 0
    doc = system = ""
    first_system = None  # of the first document
    for found in _ELEMENT.finditer(content):
        line += content.count("\n", position, found.end())
        position = found.end()
        attributes = _attributes(found["doc"] or found["seg"] or "")
        if found["seg"] is None:
            doc, system = attributes.get("docid", ""), attributes.get("sysid", "")
            first_system = system if first_system is None else first_system
        elif found["text"] is None:
            raise DataError(tr("{}: line {}: a <seg> has no </seg>", path, line))
        elif system == (first_system or ""):
            count += 1
            text = _REFERENCE.sub(lambda found: html.unescape(found[0]), found["text"])
            seg = attributes.get("id", str(count))
            yield _Segment(doc, seg, line, one_line(text).strip())
    if not count:
        raise DataError(tr("{}: no <seg>…</seg> found; expected an SGM file of WMT", path))


def _attributes(text: str) -> dict[str, str]:
    found = _ATTRIBUTE.finditer(text)
    return {match[1].lower(): match[2] or match[3] or match[4] or "" for match in found}
