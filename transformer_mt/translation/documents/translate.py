"""A document in, the same document in another language out; the translator is an argument."""

from collections.abc import Callable
from itertools import chain
from typing import cast

from transformer_mt.translation.documents.forms import PACKAGE_FORMS, Form, PackageForm
from transformer_mt.translation.documents.html import read_html
from transformer_mt.translation.documents.inline import Document, Syntax, text_parts
from transformer_mt.translation.documents.jsonl import read_json_lines
from transformer_mt.translation.documents.markdown import read_markdown
from transformer_mt.translation.documents.marks import Align
from transformer_mt.translation.documents.package import read_package
from transformer_mt.translation.documents.subtitles import read_srt, read_vtt
from transformer_mt.translation.documents.xml_text import read_xml

_BYTE_ORDER_MARK = "\ufeff"


def read_document(text: str, form: Form, *, field: str = "text") -> Document:
    """Find the text to translate in a file, decoded without any change of line ends.

    `field` is for `jsonl`: see `read_json_lines`; the other forms take any text.
    """
    readers: dict[Form, Callable[[str], Document]] = {
        "text": _read_lines,
        "markdown": read_markdown,
        "html": read_html,
        "xml": read_xml,
        "srt": read_srt,
        "vtt": read_vtt,
        "jsonl": lambda content: read_json_lines(content, field),
    }
    content = text.removeprefix(_BYTE_ORDER_MARK)
    return Document([text[: len(text) - len(content)], *readers[form](content).parts])


def _read_lines(text: str) -> Document:
    """Plain text: every line with words in it is a segment."""
    parts = ([*text_parts(line, Syntax()), "\n"] for line in text.split("\n"))
    return Document(list(chain.from_iterable(parts))[:-1])


def texts_of(content: bytes, form: Form | PackageForm, *, field: str = "text") -> list[str]:
    """The texts of a document, in order. Raises: DataError, UnicodeDecodeError: it is none."""
    for package in PACKAGE_FORMS:
        if form == package:
            return read_package(content, package).segments
    return read_document(content.decode(), cast("Form", form), field=field).segments


def translate_content(
    content: bytes,
    form: Form | PackageForm,
    translate: Callable[[list[str]], list[str]],
    *,
    field: str = "text",
    align: Align | None = None,
) -> bytes:
    """`translate_document` or `translate_package`, by the form."""
    for package in PACKAGE_FORMS:
        if form == package:
            return translate_package(content, package, translate, align=align)
    text = content.decode()
    return translate_document(
        text, cast("Form", form), translate, field=field, align=align
    ).encode()


def translate_document(
    text: str,
    form: Form,
    translate: Callable[[list[str]], list[str]],
    *,
    field: str = "text",
    align: Align | None = None,
) -> str:
    """Translate the text of a document, and nothing else: it keeps its number of lines.

    `translate` is called once with all segments, in order. See `read_document`, `Document.rebuild`.
    """
    document = read_document(text, form, field=field)
    segments = document.segments
    return document.rebuild(translate(segments) if segments else [], align)


def translate_package(
    content: bytes,
    form: PackageForm,
    translate: Callable[[list[str]], list[str]],
    *,
    align: Align | None = None,
) -> bytes:
    """`translate_document` for a ZIP archive with XML in it; see `read_package`."""
    package = read_package(content, form)
    segments = package.segments
    return package.rebuild(translate(segments) if segments else [], align)
