"""XML: the text of elements is translated; all else stays byte for byte.

Names of elements mean nothing here: a tag beside text belongs to its sentence, any other divides
the text. `translate="no"` keeps an element. CDATA and entities of the document's own stay.
"""

import re
from collections.abc import Iterator
from html import unescape

from transformer_mt.translation.documents.inline import Document, Syntax, run_parts, text_tokens
from transformer_mt.translation.documents.marks import Token
from transformer_mt.translation.documents.mixed_content import beside_text
from transformer_mt.translation.documents.spans import parted
from transformer_mt.translation.documents.tags import content_of, markup_spans, tag_name

_CHARACTER = re.compile(r"&(?:#[0-9]{1,7}|#x[0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos);")
_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)[^\W\d][\w.:-]*;")
_ENCODING = re.compile(r"""\s*<\?xml\b[^>]*\sencoding\s*=\s*["']([\w.-]+)""")
_SPACES = re.compile("[ \t\r\n]+")
_SPELLED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def read_xml(text: str) -> Document:
    declared = _ENCODING.match(text)
    is_unicode = declared is None or declared[1].lower() in ("utf-8", "utf8")
    return Document(run_parts(list(_tokens(text)), _XmlSyntax() if is_unicode else _AsciiSyntax()))


def _tokens(text: str) -> Iterator[Token]:
    pieces = list(parted(text, markup_spans(text, is_xml=True)))
    inline = beside_text(pieces, lambda raw: tag_name(raw, is_xml=True), lambda name: True)
    for index, (piece, is_markup) in enumerate(pieces):
        if is_markup:
            yield _markup_token(piece, inline=index in inline)
            continue
        for part, is_entity in parted(piece, [found.span() for found in _ENTITY.finditer(piece)]):
            yield from [_entity_token(part)] if is_entity else text_tokens(part, _decode)


def _markup_token(raw: str, *, inline: bool) -> Token:
    content = content_of(raw, _decode, is_xml=True)
    if raw.startswith("<![CDATA["):
        return Token("kept", raw, raw.removeprefix("<![CDATA[").removesuffix("]]>").strip())
    if raw.startswith(("<!--", "<?")) or (inline and raw.endswith("/>")):
        return Token("kept", raw)
    if inline and content is not None:
        return Token("kept", raw, content)
    if inline:
        return Token("close" if raw[1] == "/" else "open", raw, tag_name(raw, is_xml=True))
    return Token("break", raw)


def _entity_token(raw: str) -> Token:
    """An entity that has a meaning in HTML is read with the sentence."""
    content = unescape(raw)
    return Token("kept", raw, content if content != raw and len(content) == 1 else "")


def _decode(raw: str) -> str:
    """Characters for references, and one space for several."""
    return _SPACES.sub(" ", _CHARACTER.sub(lambda found: unescape(found[0]), raw))


class _XmlSyntax(Syntax):
    def decode(self, raw: str) -> str:
        return _decode(raw)

    def encode(self, text: str) -> str:
        return text.translate(_SPELLED)


class _AsciiSyntax(_XmlSyntax):
    """Of files that say that they are in another encoding than the one that is written."""

    def encode(self, text: str) -> str:
        return super().encode(text).encode("ascii", "xmlcharrefreplace").decode()
