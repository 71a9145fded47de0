"""HTML: text is translated, block by block, with its inline tags; all else stays byte for byte.

A page may be well-formed or not, and is not mended. Code, formulas and addresses are kept within
the sentence.
"""

import re
from collections.abc import Iterator
from html import unescape

from transformer_mt.translation.documents.inline import Document, Syntax, run_parts, text_tokens
from transformer_mt.translation.documents.marks import Token
from transformer_mt.translation.documents.spans import parted
from transformer_mt.translation.documents.tags import markup_spans, tag_name

_ENTITY = re.compile(
    r"&(?:#[0-9]{1,7}(?![0-9])|#[xX][0-9a-fA-F]{1,6}(?![0-9a-fA-F])|[A-Za-z][A-Za-z0-9]{1,31});?"
)
_SPACES = re.compile("[ \t\r\n\f]+")
_SPELLED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\xa0": "&nbsp;"})

_PAIRS = frozenset(
    "a abbr acronym b bdi bdo big cite del dfn em font i ins label mark q s small span strike "
    "strong sub sup time tt u".split()
)
_READ = frozenset("code kbd samp var".split())  # a part of the sentence, but not translated
_WITHOUT_TEXT = frozenset("img wbr input svg math".split())


def read_html(text: str) -> Document:
    return Document(run_parts(list(html_tokens(text)), SYNTAX))


def html_tokens(text: str) -> Iterator[Token]:
    """Text and markup of a page; tags of blocks divide it."""
    for piece, is_markup in parted(text, markup_spans(text)):
        yield from [markup_token(piece)] if is_markup else text_tokens(piece, decode_html)


def markup_token(raw: str) -> Token:
    """A span of `markup_spans` as a token; the tags of blocks divide the text."""
    name = tag_name(raw)
    content = _content(raw)
    if content is not None and (name in _PAIRS or name in _READ):
        return Token("kept", raw, content)
    if name in _PAIRS and not raw.endswith("/>"):
        return Token("close" if raw[1] == "/" else "open", raw, name)
    if name in _PAIRS or name in _READ or name in _WITHOUT_TEXT or raw.startswith(("<!--", "<?")):
        return Token("kept", raw)
    return Token("break", raw)


def _content(raw: str) -> str | None:
    """The text of a whole element; None: it is a single tag."""
    spans = list(markup_spans(raw, keep=False))
    if len(spans) < 2:
        return None
    text = "".join(piece for piece, is_markup in parted(raw, spans) if not is_markup)
    return decode_html(text).strip()


def decode_html(raw: str) -> str:
    """Characters for entities, and one space for several."""
    return _SPACES.sub(" ", _ENTITY.sub(lambda entity: unescape(entity[0]), raw))


class _HtmlSyntax(Syntax):
    def decode(self, raw: str) -> str:
        return decode_html(raw)

    def encode(self, text: str) -> str:
        return text.translate(_SPELLED)


SYNTAX = _HtmlSyntax()
