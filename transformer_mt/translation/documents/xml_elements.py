"""XML → elements that know where they stand, so that whatever is not changed stays byte for byte.

A document type is refused: no entity is expanded, and nothing outside is read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr

# The prefix that names get here, whatever a document calls the namespace.
_PREFIXES = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w",
    "http://schemas.openxmlformats.org/drawingml/2006/main": "a",
    "http://purl.oclc.org/ooxml/drawingml/main": "a",
    "urn:oasis:names:tc:opendocument:xmlns:text:1.0": "text",
    "urn:oasis:names:tc:opendocument:xmlns:office:1.0": "office",
    "urn:oasis:names:tc:opendocument:xmlns:style:1.0": "style",
}


@dataclass(slots=True)
class Element:
    """An element, or a piece of character data, which has no name."""

    name: str  # with a prefix of `_PREFIXES`; empty prefix: another namespace
    start: int  # of the start tag, in bytes
    inner: int = -1  # after the start tag
    inner_end: int = -1  # before the end tag
    end: int = -1
    attributes: dict[str, str] = field(default_factory=dict)  # without prefixes
    children: list["Element"] = field(default_factory=list)
    text: str = ""

    def below(self) -> Iterator["Element"]:
        """All elements and character data within, in order."""
        for child in self.children:
            yield child
            yield from child.below()


def parse_xml(content: bytes) -> Element:
    """A whole document as one element without a name; DataError: it is not well-formed UTF-8."""
    try:
        content.decode()
        return _Builder(content).root
    except UnicodeDecodeError as error:
        raise DataError(tr("is not UTF-8 (byte {})", error.start + 1)) from error
    except expat.ExpatError as error:
        raise DataError(tr("is no well-formed XML: {}", error)) from error


class _Builder:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self.root = Element("", 0, 0, len(content), len(content))
        self._stack = [self.root]
        self._parser = parser = expat.ParserCreate("UTF-8", " ")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.DefaultHandler = lambda data: self._at()
        parser.StartDoctypeDeclHandler = self._doctype
        parser.Parse(content, True)

    def _at(self) -> int:
        """The place of this event, which ends the start tag before it."""
        place = self._parser.CurrentByteIndex
        if self._stack[-1].inner < 0:
            self._stack[-1].inner = place
        return place

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        place = self._at()
        plain = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        uri, _, local = name.rpartition(" ")
        element = Element(f"{_PREFIXES.get(uri, '')}:{local}", place, attributes=plain)
        self._stack[-1].children.append(element)
        self._stack.append(element)

    def _end(self, name: str) -> None:
        place = self._at()
        element = self._stack.pop()
        element.inner_end = element.end = place
        if self._content[element.inner - 2 : element.inner] != b"/>":
            element.end = self._content.index(b">", place) + 1

    def _text(self, text: str) -> None:
        children = self._stack[-1].children
        place = self._at()
        if children and children[-1].name == "":
            children[-1].text += text
        elif len(self._stack) > 1:
            children.append(Element("", place, text=text))

    def _doctype(self, *args: object) -> NoReturn:
        raise DataError(tr("has a document type, which may name files; tmt reads none such"))
