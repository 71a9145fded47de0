"""DOCX, PPTX, ODT, ODP: ZIP archives; the XML with text in it is translated, other files stay."""

import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import compress

from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.zip_damage import ZIP_DAMAGE
from transformer_mt.translation.documents.forms import PackageForm
from transformer_mt.translation.documents.marks import Align
from transformer_mt.translation.documents.office import Block, read_office_xml
from transformer_mt.translation.documents.office_names import (
    OPEN_DOCUMENT,
    SLIDES,
    WORD,
    Vocabulary,
)

_MOST_BYTES = 1 << 30  # of all files, unpacked
_MOST_TAGS = 1_000_000  # of the files with text: an element takes some 800 bytes of memory
_OPEN_DOCUMENT_FILES = re.compile(r"(?:content|styles)\.xml")
_TEXT: dict[PackageForm, tuple[re.Pattern[str], Vocabulary]] = {
    "docx": (re.compile(r"word/(?:document|header|footer|footnotes|endnotes)\d*\.xml"), WORD),
    "pptx": (re.compile(r"ppt/(?:slides/slide|notesSlides/notesSlide)\d+\.xml"), SLIDES),
    "odt": (_OPEN_DOCUMENT_FILES, OPEN_DOCUMENT),
    "odp": (_OPEN_DOCUMENT_FILES, OPEN_DOCUMENT),
}


@dataclass(frozen=True)
class Package:
    files: list[tuple[zipfile.ZipInfo, bytes | Block]]  # in order

    @property
    def segments(self) -> list[str]:
        """The texts to translate, in order."""
        blocks = [content for _, content in self.files if isinstance(content, Block)]
        return [segment.text for block in blocks for segment in block.segments]

    def rebuild(self, translations: Sequence[str], align: Align | None = None) -> bytes:
        """The archive with a translation in the place of each segment; see `Document.rebuild`."""
        if len(translations) != len(self.segments):
            raise ValueError(f"{len(translations)} translations for {len(self.segments)} segments")
        left = iter(translations)
        stream = BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for info, content in self.files:
                if isinstance(content, Block):
                    content = content.write(left, align).encode()
                archive.writestr(info, content)
        return stream.getvalue()


def read_package(content: bytes, form: PackageForm) -> Package:
    """Raises: DataError: the archive, or XML in it, is damaged, encrypted or of another form."""
    names, vocabulary = _TEXT[form]
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            size = sum(info.file_size for info in archive.infolist())
            if size > _MOST_BYTES:
                raise DataError(
                    tr("more than {} MiB unpacked; divide the document", _MOST_BYTES >> 20)
                )
            found = [(info, archive.read(info)) for info in archive.infolist()]
    except ZIP_DAMAGE as error:
        text = tr(
            "not read as .{}, a ZIP archive: {}; open it in an office program, without a "
            "password, and save it as .{} again",
            form,
            error,
            form,
        )
        raise DataError(text) from error
    is_text = [names.fullmatch(info.filename) is not None for info, _ in found]
    if not any(is_text):
        raise DataError(
            tr("is an archive, but has no text of a .{} in it; which format is it?", form)
        )
    if sum(data.count(b"<") for _, data in compress(found, is_text)) > _MOST_TAGS:
        raise DataError(tr("more than {:,} XML tags; divide the document", _MOST_TAGS))
    return Package(
        [
            (info, _block(info.filename, data, vocabulary) if with_text else data)
            for (info, data), with_text in zip(found, is_text, strict=True)
        ]
    )


def _block(name: str, content: bytes, vocabulary: Vocabulary) -> Block:
    try:
        return read_office_xml(content, vocabulary)
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
