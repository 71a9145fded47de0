"""HTML: what stands between tags is translated, everything else stays byte for byte.

Comes in: a page, well-formed or not. Goes out: a segment for each text node with words. Inline tags
divide a sentence, too: `a <b>b</b> c` is three segments, since a model knows no tags. Text that is
no prose is kept: see `tags.py`. This file does not mend pages.
"""

import re
from html import unescape

from transformer_mt.translation.documents.document import Document, Segment, text_parts
from transformer_mt.translation.documents.spans import url_spans
from transformer_mt.translation.documents.tags import markup_spans

_ENTITY = re.compile(
    r"&(?:#[0-9]{1,7}(?![0-9])|#[xX][0-9a-fA-F]{1,6}(?![0-9a-fA-F])|[A-Za-z][A-Za-z0-9]{1,31});?"
)
_SPACES = re.compile("[ \t\r\n\f]+")
_SPELLED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\xa0": "&nbsp;"}
_SPECIAL = re.compile("[&<>\xa0]")


def read_html(text: str) -> Document:
    parts: list[str | Segment] = []
    position = 0
    for start, end in markup_spans(text):
        parts += [*_prose(text[position:start]), text[start:end]]
        position = end
    return Document([*parts, *_prose(text[position:])])


def _prose(raw: str) -> list[str | Segment]:
    """Text without tags, cut at web addresses, which stay."""
    parts: list[str | Segment] = []
    position = 0
    for start, end in url_spans(raw):
        parts += [*text_parts(raw[position:start], decode, encode), raw[start:end]]
        position = end
    return [*parts, *text_parts(raw[position:], decode, encode)]


def decode(raw: str) -> str:
    """Characters for entities, and one space for several."""
    return _SPACES.sub(" ", _ENTITY.sub(lambda entity: unescape(entity[0]), raw))


def encode(text: str) -> str:
    return _SPECIAL.sub(lambda special: _SPELLED[special[0]], text)
