"""A document in, the same document in another language out, whoever translates."""

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

from transformer_mt.translation.documents.html import read_html
from transformer_mt.translation.documents.inline import Document, Syntax, text_parts
from transformer_mt.translation.documents.jsonl import read_json_lines
from transformer_mt.translation.documents.markdown import read_markdown
from transformer_mt.translation.documents.marks import Align
from transformer_mt.translation.documents.srt import read_srt

Form = Literal["text", "markdown", "html", "srt", "jsonl"]
FORMS: tuple[Form, ...] = get_args(Form)

_FORM_OF_SUFFIX: dict[str, Form] = {
    ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".srt": "srt",
    ".jsonl": "jsonl",
}  # fmt: skip
_BYTE_ORDER_MARK = "\ufeff"


def form_of(path: Path) -> Form:
    """The form that a file's suffix stands for; `text` for any other."""
    return _FORM_OF_SUFFIX.get(path.suffix.lower(), "text")


def read_document(text: str, form: Form, *, field: str = "text") -> Document:
    """Find the text to translate in a file, decoded without any change of line ends.

    `field` is for `jsonl`: see `read_json_lines`; the other forms take any text.
    """
    readers: dict[Form, Callable[[str], Document]] = {
        "text": _read_lines,
        "markdown": read_markdown,
        "html": read_html,
        "srt": read_srt,
        "jsonl": lambda content: read_json_lines(content, field),
    }
    content = text.removeprefix(_BYTE_ORDER_MARK)
    return Document([text[: len(text) - len(content)], *readers[form](content).parts])


def _read_lines(text: str) -> Document:
    """Plain text: every line with words in it is a segment."""
    parts = ([*text_parts(line, Syntax()), "\n"] for line in text.split("\n"))
    return Document(list(chain.from_iterable(parts))[:-1])


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
