"""DOCX, PPTX, ODT, ODP: ZIP archives; the XML with text in it is translated, other files stay."""

import re
import shutil
import zipfile
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from io import BytesIO

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
    content: bytes  # of the archive, as it was read
    files: list[tuple[zipfile.ZipInfo, Block | None]]  # in order; None: without text

    @property
    def segments(self) -> list[str]:
        """The texts to translate, in order."""
        return [segment.text for _, block in self.files if block for segment in block.segments]

    def rebuild(self, translations: Sequence[str], align: Align | None = None) -> bytes:
        """The archive with a translation in the place of each segment; see `Document.rebuild`."""
        if len(translations) != len(self.segments):
            raise ValueError(f"{len(translations)} translations for {len(self.segments)} segments")
        left = iter(translations)
        stream = BytesIO()
        with (
            zipfile.ZipFile(BytesIO(self.content)) as source,
            zipfile.ZipFile(stream, "w") as archive,
        ):
            for info, block in self.files:
                if block:
                    archive.writestr(info, block.write(left, align).encode())
                else:  # a piece at a time: unpacked it may be large
                    with source.open(info) as old, archive.open(copy(info), "w") as new:
                        shutil.copyfileobj(old, new)
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
            found = [(info, _read(archive, info, names)) for info in archive.infolist()]
    except ZIP_DAMAGE as error:
        text = tr(
            "not read as .{}, a ZIP archive: {}; open it in an office program, without a "
            "password, and save it as .{} again",
            form,
            error,
            form,
        )
        raise DataError(text) from error
    texts = [data for _, data in found if data is not None]
    if not texts:
        raise DataError(
            tr("is an archive, but has no text of a .{} in it; which format is it?", form)
        )
    if sum(data.count(b"<") for data in texts) > _MOST_TAGS:
        raise DataError(tr("more than {:,} XML tags; divide the document", _MOST_TAGS))
    files = [
        (info, None if data is None else _block(info.filename, data, vocabulary))
        for info, data in found
    ]
    return Package(content, files)


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, names: re.Pattern[str]) -> bytes | None:
    """The content of a file with text; of others the checksum is compared, and nothing is kept."""
    if names.fullmatch(info.filename):
        return archive.read(info)
    with archive.open(info) as file:
        while file.read(1 << 20):
            pass
    return None


def _block(name: str, content: bytes, vocabulary: Vocabulary) -> Block:
    try:
        return read_office_xml(content, vocabulary)
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
