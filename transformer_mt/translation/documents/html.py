"""HTML: text is translated, block by block, with its inline tags; all else stays byte for byte.

A page may be well-formed or not, and is not mended. Code, formulas and addresses are kept within
the sentence. The names of elements tell inline tags from blocks; those of elements that the page
has defined itself do not, so that the text around them decides.
"""

import re
from collections.abc import Iterator
from html import unescape

from transformer_mt.translation.documents.inline import Document, Syntax, run_parts, text_tokens
from transformer_mt.translation.documents.marks import Token
from transformer_mt.translation.documents.mixed_content import beside_text
from transformer_mt.translation.documents.spans import parted
from transformer_mt.translation.documents.tags import VOID, content_of, markup_spans, tag_name

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
    pieces = list(parted(text, markup_spans(text)))
    inline = beside_text(pieces, _block_or_custom, _is_custom)
    for index, (piece, is_markup) in enumerate(pieces):
        if is_markup:
            yield markup_token(piece, custom_is_inline=index in inline)
        else:
            yield from text_tokens(piece, decode_html)


def markup_token(raw: str, *, custom_is_inline: bool = True) -> Token:
    """A span of `markup_spans` as a token; the tags of blocks divide the text."""
    name = tag_name(raw)
    content = content_of(raw, decode_html)
    is_pair = name in _PAIRS or (custom_is_inline and _is_custom(name))
    if content is not None and (is_pair or name in _READ):
        return Token("kept", raw, content)
    if is_pair and not raw.endswith("/>"):
        return Token("close" if raw[1] == "/" else "open", raw, name)
    if is_pair or name in _READ or name in _WITHOUT_TEXT or raw.startswith(("<!--", "<?")):
        return Token("kept", raw)
    return Token("break", raw)


def _is_custom(name: str) -> bool:
    """Whether a page has defined the element itself: then its name has a hyphen."""
    return "-" in name


def _block_or_custom(raw: str) -> str:
    name = tag_name(raw)
    return "" if name in VOID or name in _PAIRS or name in _READ else name


def decode_html(raw: str) -> str:
    """Characters for entities, and one space for several."""
    return _SPACES.sub(" ", _ENTITY.sub(lambda entity: unescape(entity[0]), raw))


class _HtmlSyntax(Syntax):
    def decode(self, raw: str) -> str:
        return decode_html(raw)

    def encode(self, text: str) -> str:
        return text.translate(_SPELLED)


SYNTAX = _HtmlSyntax()
