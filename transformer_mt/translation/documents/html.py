"""HTML and XML: text is translated, block by block, with its inline tags; all else stays byte for
byte.

A page may be well-formed or not, and is not mended. Code, formulas and addresses are kept within
the sentence. Of HTML the names of elements tell blocks from inline tags; of XML, and of elements
that a page has defined itself, the text around them does.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import unescape

from transformer_mt.translation.documents.inline import Document, Syntax, run_parts, text_tokens
from transformer_mt.translation.documents.marks import Token
from transformer_mt.translation.documents.spans import parted
from transformer_mt.translation.documents.tags import VOID, markup_spans, tag_name

_ENTITY = re.compile(
    r"&(?:#[0-9]{1,7}(?![0-9])|#[xX][0-9a-fA-F]{1,6}(?![0-9a-fA-F])|[A-Za-z][A-Za-z0-9]{1,31});?"
)
_SPACES = re.compile("[ \t\r\n\f]+")
_SPELLED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

_PAIRS = frozenset(
    "a abbr acronym b bdi bdo big cite del dfn em font i ins label mark q s small span strike "
    "strong sub sup time tt u".split()
)
_READ = frozenset("code kbd samp var".split())  # a part of the sentence, but not translated
_WITHOUT_TEXT = frozenset("img wbr input svg math".split())


def read_html(text: str) -> Document:
    return Document(run_parts(list(html_tokens(text)), SYNTAX))


def read_xml(text: str) -> Document:
    return Document(run_parts(list(html_tokens(text, is_xml=True)), XML_SYNTAX))


def html_tokens(text: str, *, is_xml: bool = False) -> Iterator[Token]:
    """Text and markup of a page; tags of blocks divide it."""
    pieces = list(parted(text, markup_spans(text)))
    beside_text = _beside_text(pieces, is_xml)
    for index, (piece, is_markup) in enumerate(pieces):
        if is_markup:
            by_place = is_xml or _is_custom(tag_name(piece))
            yield markup_token(piece, inline=index in beside_text if by_place else None)
        else:
            yield from text_tokens(piece, decode_html)


def markup_token(raw: str, *, inline: bool | None = None) -> Token:
    """A span of `markup_spans` as a token; the tags of blocks divide the text.

    Args:
        inline: whether the tag stands within a sentence; None: its name tells.
    """
    name = tag_name(raw)
    content = _content(raw)
    if inline is None:
        inline = name in _PAIRS or _is_custom(name)
    if content is not None and (inline or name in _READ):
        return Token("kept", raw, content)
    if inline and not raw.endswith("/>"):
        return Token("close" if raw[1] == "/" else "open", raw, name)
    if inline or name in _READ or name in _WITHOUT_TEXT or raw.startswith(("<!--", "<?")):
        return Token("kept", raw)
    return Token("break", raw)


def _is_custom(name: str) -> bool:
    """Whether an element of HTML is one that the page has defined: its name has a hyphen."""
    return "-" in name


def _beside_text(pieces: Sequence[tuple[str, bool]], is_xml: bool) -> set[int]:
    """Indices of the tags of elements that stand beside text, or in an element that does.

    Args:
        pieces: text and markup, see `parted`.
    """
    parents, have_text = [0], [False]  # by element, in the order of the document; 0: around all
    element_of: dict[int, int] = {}  # of tags
    path, n_open = [(0, "")], Counter[str]()
    for index, (piece, is_markup) in enumerate(pieces):
        name = tag_name(piece) if is_markup else ""
        if not is_markup:
            have_text[path[-1][0]] |= not piece.isspace()
        elif not name or (not is_xml and (name in VOID or name in _PAIRS)):
            continue
        elif piece[1] != "/":
            element_of[index] = element = len(parents)
            parents.append(path[-1][0])
            have_text.append(False)
            if not piece.endswith("/>") and _content(piece) is None:
                path.append((element, name))
                n_open[name] += 1
        elif n_open[name]:
            closed = ""
            while closed != name:  # what was not closed ends with the element around it
                element_of[index], closed = path.pop()
                n_open[closed] -= 1
    inline = [False]
    for parent in parents[1:]:
        inline.append(have_text[parent] or inline[parent])
    return {index for index, element in element_of.items() if inline[element]}


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


class _XmlSyntax(Syntax):
    def decode(self, raw: str) -> str:
        return decode_html(raw)

    def encode(self, text: str) -> str:
        return text.translate(_SPELLED)


class _HtmlSyntax(_XmlSyntax):
    def encode(self, text: str) -> str:
        return super().encode(text).replace("\xa0", "&nbsp;")


SYNTAX, XML_SYNTAX = _HtmlSyntax(), _XmlSyntax()
