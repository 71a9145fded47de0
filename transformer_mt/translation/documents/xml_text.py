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

_REFERENCE = re.compile(r"&(?:#0*[0-9]{1,7}|#x0*[0-9a-fA-F]{1,6}|[^\W\d][\w.:-]*);")
_ENCODING = re.compile(r"""\s*<\?xml\b[^>]*\sencoding\s*=\s*["']([\w.-]+)""")
_SPACES = re.compile("[ \t\r\n]+")
_SPELLED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def read_xml(text: str) -> Document:
    """Characters beyond ASCII are written as references where the file declares no UTF-8."""
    declared = _ENCODING.match(text)
    is_unicode = declared is None or declared[1].lower() in ("utf-8", "utf8")
    return Document(run_parts(list(_tokens(text)), _XmlSyntax() if is_unicode else _AsciiSyntax()))


def _tokens(text: str) -> Iterator[Token]:
    pieces = [
        part
        for piece, is_markup in parted(text, markup_spans(text, is_xml=True))
        for part in ([(piece, True)] if is_markup else parted(piece, _own_entities(piece)))
    ]
    inline = beside_text(pieces, lambda raw: tag_name(raw, is_xml=True), lambda name: True)
    for index, (piece, is_markup) in enumerate(pieces):
        if is_markup:
            yield _markup_token(piece, inline=index in inline)
        else:
            yield from text_tokens(piece, _decode)


def _markup_token(raw: str, *, inline: bool) -> Token:
    content = content_of(raw, _decode, is_xml=True)
    if raw.startswith("<![CDATA["):
        return Token("kept", raw, raw.removeprefix("<![CDATA[").removesuffix("]]>").strip())
    if raw.startswith(("<!--", "<?", "&")) or (inline and raw.endswith("/>")):
        return Token("kept", raw)
    if inline and content is not None:
        return Token("kept", raw, content)
    if inline:
        return Token("close" if raw[1] == "/" else "open", raw, tag_name(raw, is_xml=True))
    return Token("break", raw)


def _decode(raw: str) -> str:
    """Characters for references, and one space for several."""
    return _SPACES.sub(" ", _REFERENCE.sub(_character, raw))


def _character(reference: re.Match[str]) -> str:
    """Of a number, or of a name that XML or HTML has; the reference itself: of the document's."""
    character = unescape(reference[0])
    return character if len(character) == 1 else reference[0]


def _own_entities(text: str) -> Iterator[tuple[int, int]]:
    """Where references stand that only the document can resolve."""
    return (found.span() for found in _REFERENCE.finditer(text) if _character(found) == found[0])


class _XmlSyntax(Syntax):
    def decode(self, raw: str) -> str:
        return _decode(raw)

    def encode(self, text: str) -> str:
        return text.translate(_SPELLED)


class _AsciiSyntax(_XmlSyntax):
    def encode(self, text: str) -> str:
        return super().encode(text).encode("ascii", "xmlcharrefreplace").decode()
