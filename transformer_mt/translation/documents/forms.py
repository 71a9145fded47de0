"""The form of a document, told by its name; and files that no form fits, refused with advice."""

from collections.abc import Collection
from pathlib import Path
from typing import Literal, get_args

from transformer_mt.corpus.readers.lines import open_bytes, plain_name
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr

Form = Literal["text", "markdown", "html", "xml", "srt", "vtt", "jsonl"]
PackageForm = Literal["docx", "pptx", "odt", "odp"]  # a ZIP archive with XML in it
FORMS: tuple[Form, ...] = get_args(Form)
PACKAGE_FORMS: tuple[PackageForm, ...] = get_args(PackageForm)

_FORM_OF_SUFFIX: dict[str, Form | PackageForm] = {
    ".txt": "text", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html",
    ".xml": "xml", ".srt": "srt", ".vtt": "vtt", ".jsonl": "jsonl", ".docx": "docx",
    ".pptx": "pptx", ".odt": "odt", ".odp": "odp",
}  # fmt: skip
SUFFIXES = tuple(_FORM_OF_SUFFIX)
_LINES_OF_TEXT = ("", ".text", ".src", ".tgt", ".ref")
_START = 4096  # bytes that are looked at
_BINARY = {
    b"%PDF": tr(
        "a PDF, which has no sentences, only places of letters; make text of it: pdftotext "
        "{name}, or open it in Word or LibreOffice and save it as .docx"
    ),
    b"PK\x03\x04": tr(
        "a ZIP archive; of these tmt reads .docx, .pptx, .odt and .odp: name it so if it is one; "
        "save a spreadsheet as CSV or as text; unpack others"
    ),
    b"\xd0\xcf\x11\xe0": tr("a file of an old Office; save it as .docx or .pptx"),
    b"{\\rtf": tr("RTF; save it as .docx"),
    b"\xff\xfe": tr("UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {name} > NEW"),
    b"\xfe\xff": tr("UTF-16; convert it: iconv -f UTF-16 -t UTF-8 {name} > NEW"),
}


def form_of(path: Path) -> Form | PackageForm:
    """The form that a file's suffix stands for; `text` for any other."""
    return _FORM_OF_SUFFIX.get(_suffix(path), "text")


def is_known(path: Path, languages: Collection[str]) -> bool:
    """Whether a suffix is of a form, or usual for lines of text, such as a language's code."""
    suffix = _suffix(path)
    return suffix in (*_FORM_OF_SUFFIX, *_LINES_OF_TEXT) or suffix[1:] in map(str.lower, languages)


def unknown_form(path: Path) -> str:
    """The warning about a file whose suffix says nothing."""
    known = ", ".join(suffix for suffix in _FORM_OF_SUFFIX if suffix not in (".htm", ".markdown"))
    return tr(
        "{}: tmt does not know {} files, and translates each line as text, markup too; known are "
        "{}; --format NAME says which it is",
        path,
        _suffix(path),
        known,
    )


def refuse_binary(path: Path) -> None:
    """Raises: DataError: a file that should hold text begins as no text does; with what to do."""
    with open_bytes(path) as stream:
        start = stream.read(_START)
    for magic, found in _BINARY.items():
        if start.startswith(magic):
            raise DataError(tr("{}: is {}", path, found.format(name=path.name)))
    if start.count(0) > len(start) // 8:
        text = tr(
            "{}: is binary, not text (a NUL at byte {}); give a file of text",
            path,
            start.index(0) + 1,
        )
        raise DataError(text)


def _suffix(path: Path) -> str:
    """In lower case, without an ending that says how the file is compressed."""
    return Path(plain_name(path.name)).suffix.lower()
