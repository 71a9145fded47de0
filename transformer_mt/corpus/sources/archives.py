"""A zip or tar archive of unknown origin → its files in a directory of their own, and nowhere else.

The directory is complete or absent. Single compressed files stay as they are: the readers open
them.
"""

import io
import re
import shutil
import stat
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, cast

from transformer_mt.corpus.readers.lines import decompressed, ending_by_content
from transformer_mt.corpus.readers.workbooks import WORKBOOKS
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import writing_folder
from transformer_mt.system.zip_damage import ZIP_DAMAGE

# Sizes that no archive of text reaches, unless it is made to do harm.
_MEMBERS = 200_000
_RATIO = 200  # unpacked size / archive size; text has 3 to 10
_ALWAYS_ALLOWED = 64 << 20  # bytes that may be unpacked whatever the ratio
_HEADERS = 1 << 16  # bytes that the headers of one member of a tar may have
_DIRECTORY = 32 << 20  # bytes of the directory of a zip: 200,000 names of 100 characters
_BLOCK = 1 << 20
_PADDING = 16 << 20  # more of it is not looked at
_TAR = re.compile(r"\.(tar|tar\.(gz|xz|bz2|zst)|tgz|txz|tbz2?|tzst)$", re.IGNORECASE)
_DAMAGE = (
    *ZIP_DAMAGE, tarfile.TarError,
    IndexError, KeyError, TypeError, OverflowError, struct.error,  # of headers that do not fit
)  # fmt: skip


def is_archive(path: Path) -> bool:
    """Whether the file is a zip or tar archive, by its name or, failing that, by its content.

    A workbook, which is a zip inside, is a file to read.
    """
    if path.suffix.lower() in WORKBOOKS:
        return False
    if _is_zip(path) or _TAR.search(path.name):
        return True
    try:
        with _tar_bytes(path) as stream:
            return stream.read(512)[257:262] == b"ustar"
    except _DAMAGE:  # its reader explains the damage
        return False


def unpack_archive(archive: Path, out_dir: Path) -> list[Path]:
    """Write the members below `out_dir`, which appears once it is complete; returns them, sorted.

    Raises:
        DataError: damaged; or a member lies outside, is a link, a device or encrypted; or more
            comes out than an honest archive holds, or than fits on the disk.
        TmtError: a name is both a file and a directory; or the disk is full.
    """
    with writing_folder(out_dir, None) as temporary:
        room = _Room(archive, shutil.disk_usage(temporary).free * 95 // 100)  # others write, too
        members = _zip_members if _is_zip(archive) else _tar_members
        for name, stream in members(archive, room):
            path = temporary / _inside(archive, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                for block in _blocks(archive, stream):
                    room.take(name, len(block))
                    file.write(block)
        if not any(path.is_file() for path in temporary.rglob("*")):
            raise DataError(tr("{}: holds no files", archive))
    return sorted(path for path in out_dir.rglob("*") if path.is_file())


class _Room:
    """Counts the members and bytes of an archive against the limits."""

    def __init__(self, archive: Path, free: int) -> None:
        self._archive, self._free = archive, free
        self._allowed = max(_ALWAYS_ALLOWED, _RATIO * archive.stat().st_size)
        self._members = self._bytes = 0

    def enter(self, name: str, kind_fits: bool) -> None:
        if not kind_fits:
            raise DataError(
                tr(
                    "{}: {!r} is a link, a device, encrypted or compressed in a rare "
                    "way: refused, since only plain files are unpacked",
                    self._archive,
                    name,
                )
            )
        self._members += 1
        if self._members > _MEMBERS:
            raise self.harmful(
                tr("{!r} is member {:,}, after which none is read", name, self._members)
            )

    def take(self, name: str, size: int) -> None:
        self._bytes += size
        if self._bytes > self._allowed:
            raise self.harmful(
                tr("{!r} brings it to more than {} times its own size", name, _RATIO)
            )
        if self._bytes > self._free:
            raise DataError(
                tr(
                    "{}: {!r} does not fit on the disk: {:,} MiB are free; make room, "
                    "or set data.cache to another disk",
                    self._archive,
                    name,
                    self._free >> 20,
                )
            )

    def harmful(self, found: str) -> DataError:
        return DataError(
            tr(
                "{}: {}: refused, as from an archive made to do harm; if you trust it, "
                "unpack it yourself and give the files",
                self._archive,
                found,
            )
        )


def _inside(archive: Path, name: str) -> Path:
    """The member's place, as a path that cannot leave the directory it is joined to."""
    parts = name.replace("\\", "/").split("/")
    if parts[0] == "" or ".." in parts or ":" in parts[0] or "\0" in name:
        raise DataError(
            tr("{}: {!r} would be written outside of its directory: refused", archive, name)
        )
    return Path(*[part for part in parts if part not in ("", ".")])


@contextmanager
def _reading(archive: Path) -> Iterator[None]:
    """Explain the many errors of damaged archives as one."""
    try:
        yield
    except _DAMAGE as error:
        with archive.open("rb") as file:
            start = file.read(100).lstrip().lower()
        is_page = start.startswith((b"<!doctype html", b"<html"))
        raise DataError(
            tr(
                "{}: damaged, or no such archive: {}{}; delete it and get it again",
                archive,
                error,
                tr(" (it is a web page)") * is_page,
            )
        ) from error


def _blocks(archive: Path, stream: IO[bytes]) -> Iterator[bytes]:
    with _reading(archive):
        yield from iter(partial(stream.read, _BLOCK), b"")


def _is_zip(archive: Path) -> bool:
    with archive.open("rb") as file:
        return file.read(4) == b"PK\x03\x04" or archive.suffix.lower() == ".zip"


def _zip_members(archive: Path, room: _Room) -> Iterator[tuple[str, IO[bytes]]]:
    with (
        _reading(archive),
        _ShortReads(archive.open("rb", buffering=0)) as raw,
        zipfile.ZipFile(raw) as file,
    ):
        for info in file.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            # Few bytes of the other compressions may become very many in memory.
            plain = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            plain = plain and kind in (0, stat.S_IFREG, stat.S_IFDIR) and not info.flag_bits & 1
            room.enter(info.filename, plain)
            if not info.is_dir():
                with file.open(info) as stream:
                    yield info.filename, stream


class _ShortReads(io.BufferedReader):
    """zipfile reads the directory of a zip as a whole."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size and size > _DIRECTORY:
            raise ValueError(f"its directory has more than {_DIRECTORY >> 20} MiB")
        return super().read(size)


def _tar_members(archive: Path, room: _Room) -> Iterator[tuple[str, IO[bytes]]]:
    with (
        _reading(archive),
        _tar_bytes(archive) as raw,
        tarfile.open(fileobj=cast(IO[bytes], stream := _Counting(raw, room)), mode="r|") as file,
    ):
        for member in file:
            room.enter(member.name, member.isreg() or member.isdir())
            room.take(member.name, stream.headers)
            # tarfile would keep all members, and the headers that hold for later members.
            vars(file).update(members=[], pax_headers={})
            if content := file.extractfile(member):
                stream.in_member = True
                yield member.name, content
            stream.headers, stream.in_member = 0, False
        # Behind the last member is padding, and then the checksum of the compressed stream.
        for _ in range(_PADDING // _BLOCK):
            raw.read(_BLOCK)


class _Counting:
    """The bytes of a tar; tarfile reads those between two members, their headers, as a whole."""

    def __init__(self, stream: BinaryIO, room: _Room) -> None:
        self._stream, self._room = stream, room
        self.headers, self.in_member = 0, False

    def read(self, size: int) -> bytes:
        block = self._stream.read(size)
        self.headers += 0 if self.in_member else len(block)
        if self.headers > _HEADERS:
            raise self._room.harmful(tr("a member has headers of more than {} KiB", _HEADERS >> 10))
        return block


@contextmanager
def _tar_bytes(archive: Path) -> Iterator[BinaryIO]:
    """The bytes of the tar itself, decompressed as its content says, whatever its name is."""
    with archive.open("rb") as file:
        ending = ending_by_content(file.peek(10)[:10])
        with decompressed(file, ending) as stream:
            yield stream
