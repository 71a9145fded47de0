"""A document in, the same document in another language out, whoever translates.

Comes in: the text of a file, its form, and a function from segments to translations. Goes out: the
text with translations in the place of segments. This file knows no models.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

from transformer_mt.translation.documents.document import Document
from transformer_mt.translation.documents.html import read_html
from transformer_mt.translation.documents.jsonl import read_json_lines
from transformer_mt.translation.documents.markdown import read_markdown
from transformer_mt.translation.documents.marks import Align
from transformer_mt.translation.documents.srt import read_srt
from transformer_mt.translation.documents.text import read_text

Form = Literal["text", "markdown", "html", "srt", "jsonl"]
FORMS: tuple[Form, ...] = get_args(Form)

_FORM_OF_SUFFIX: dict[str, Form] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".srt": "srt",
    ".jsonl": "jsonl",
}
_BYTE_ORDER_MARK = "\ufeff"


def form_of(path: Path) -> Form:
    """The form that a file's suffix stands for; `text` for any other."""
    return _FORM_OF_SUFFIX.get(path.suffix.lower(), "text")


def read_document(text: str, form: Form, *, field: str = "text") -> Document:
    """Find the text to translate.

    Args:
        text: a whole file, decoded without any change of line ends.
        field: with `jsonl`, the key of the text in every object.
    Raises:
        DataError: see `read_json_lines`; the other forms take any text.
    """
    content = text.removeprefix(_BYTE_ORDER_MARK)
    if form == "markdown":
        document = read_markdown(content)
    elif form == "html":
        document = read_html(content)
    elif form == "srt":
        document = read_srt(content)
    elif form == "jsonl":
        document = read_json_lines(content, field)
    else:
        document = read_text(content)
    return Document([text[: len(text) - len(content)], *document.parts])


def translate_document(
    text: str,
    form: Form,
    translate: Callable[[list[str]], list[str]],
    *,
    field: str = "text",
    align: Align | None = None,
) -> str:
    """Translate the text of a document, and nothing else.

    Args:
        translate: called once with all segments, in order; gives one translation for each.
        align: see `Document.rebuild`.
    Returns:
        A document of as many lines. A segment that is translated as itself stays byte for byte.
    Raises:
        DataError: see `read_document`.
        ValueError: `translate` gave another number of translations.
    """
    document = read_document(text, form, field=field)
    segments = document.segments
    return document.rebuild(translate(segments) if segments else [], align)
