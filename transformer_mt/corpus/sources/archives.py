"""A zip or tar archive of unknown origin → its files in a directory of their own, and nowhere else.

Comes in: an archive. Goes out: a directory, complete or absent. This file does not know the use of
the members. Single compressed files stay as they are: the readers open them.
"""

import lzma
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

from transformer_mt.corpus.readers.lines import decompressed, ending_by_content
from transformer_mt.errors import DataError
from transformer_mt.system.output import writing_folder

_BLOCK = 1 << 20
_PADDING = 16 << 20  # more of it is not looked at
# Bytes of bzip2 and LZMA within a zip that are unpacked at once: 46 of them may become 46 MiB.
_SMALL_BLOCK = 64
_HEADERS = 1 << 16  # bytes that the headers of one member of a tar may have
_DIRECTORY = 32 << 20  # bytes of the directory of a zip: 200,000 names of 100 characters
_TAR = re.compile(r"\.(tar|tar\.(gz|xz|bz2|zst)|tgz|txz|tbz2?|tzst)$", re.IGNORECASE)
_DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError,
    RuntimeError,  # zipfile's, of an encrypted member or a compression that it does not know
    IndexError, KeyError, TypeError, OverflowError, struct.error,  # of headers that do not fit
)  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """Sizes that no archive of text reaches, unless it is made to do harm."""

    members: int = 200_000
    ratio: float = 200.0  # unpacked size / archive size; text has 3 to 10
    always_allowed: int = 64 << 20  # bytes that may be unpacked whatever the ratio


LIMITS = Limits()


def is_archive(path: Path) -> bool:
    """Whether the file is a zip or tar archive, by its name or, failing that, by its content."""
    if path.suffix.lower() == ".zip" or _TAR.search(path.name):
        return True
    with path.open("rb") as file:
        if file.read(4) == b"PK\x03\x04":
            return True
    try:
        with _tar_bytes(path) as stream:
            return stream.read(512)[257:262] == b"ustar"
    except _DAMAGE:  # its reader explains the damage
        return False


def unpack_archive(archive: Path, out_dir: Path, limits: Limits = LIMITS) -> list[Path]:
    """Write the members below `out_dir`, which appears once it is complete.

    Returns:
        The files, sorted.
    Raises:
        DataError: damaged; or a member lies outside, is a link, a device or encrypted; or more
            comes out than an honest archive holds, or than fits on the disk.
    """
    read = _tar_members if _is_tar(archive) else _zip_members
    with writing_folder(out_dir, None) as temporary:
        free = shutil.disk_usage(temporary).free * 95 // 100  # others want to write, too
        room = _Room(archive, free, limits)
        for name, stream in read(archive, room):
            room.enter(name)
            path = temporary / _inside(archive, name)
            if stream is not None:
                _write(path, stream, archive, name, room)
        if not any(path.is_file() for path in temporary.rglob("*")):
            raise DataError(f"{archive}: holds no files")
    return sorted(path for path in out_dir.rglob("*") if path.is_file())


class _Room:
    """Counts the members and bytes of an archive against the limits."""

    def __init__(self, archive: Path, free: int, limits: Limits) -> None:
        self._archive, self._limits = archive, limits
        size = archive.stat().st_size
        self._allowed = max(limits.always_allowed, int(limits.ratio * size))
        self._free = free
        self._members = self._bytes = 0

    def enter(self, name: str) -> None:
        self._members += 1
        if self._members > self._limits.members:
            raise DataError(
                f"{self._archive}: {name!r} is member {self._members:,}; more than "
                f"{self._limits.members:,} are refused, as from an archive made to do harm"
            )

    def enter_headers(self, n_bytes: int) -> None:
        """Count bytes of headers: tarfile reads them as a whole before it names the member."""
        if n_bytes > _HEADERS:
            raise DataError(
                f"{self._archive}: member {self._members + 1:,} has headers of more than "
                f"{_HEADERS >> 10} KiB: refused, as from an archive made to do harm"
            )

    def take(self, name: str, size: int) -> None:
        self._bytes += size
        if self._bytes > self._allowed:
            raise DataError(
                f"{self._archive}: {name!r} brings it to more than {self._limits.ratio:.0f} times "
                "the size of the archive: refused, as from an archive made to do harm; if you "
                "trust it, unpack it yourself and give the files"
            )
        if self._bytes > self._free:
            raise DataError(
                f"{self._archive}: {name!r} does not fit on the disk: {self._free / 2**20:,.0f} "
                "MiB are free; make room, or set data.cache to another disk"
            )


def _inside(archive: Path, name: str) -> Path:
    """The member's place, as a path that cannot leave the directory it is joined to."""
    parts = name.replace("\\", "/").split("/")
    if parts[0] == "" or ".." in parts or ":" in parts[0] or "\0" in name:
        raise DataError(f"{archive}: {name!r} would be written outside of its directory: refused")
    return Path(*[part for part in parts if part not in ("", ".")])


def _refuse(archive: Path, name: str, what: str) -> DataError:
    return DataError(f"{archive}: {name!r} is {what}: refused, since only plain files are unpacked")


def _write(path: Path, stream: IO[bytes], archive: Path, name: str, room: _Room) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb")
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise DataError(f"{archive}: {name!r} is both a file and a directory: refused") from error
    with file:
        while block := _read(stream, archive, name, _block_size(stream)):
            room.take(name, len(block))
            file.write(block)


def _read(stream: IO[bytes], archive: Path, name: str, size: int) -> bytes:
    with _reading(archive, name):
        return stream.read(size)


def _block_size(stream: IO[bytes]) -> int:
    """Bytes to read at once, so that few compressed bytes cannot become very many in memory."""
    method = getattr(stream, "_compress_type", zipfile.ZIP_DEFLATED)
    if method not in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        return _BLOCK
    vars(stream).update(MIN_READ_SIZE=_SMALL_BLOCK)  # or it takes 4 KiB
    return _SMALL_BLOCK


@contextmanager
def _reading(archive: Path, name: str | None = None) -> Iterator[None]:
    """Explain the many errors of damaged archives as one; nothing is written in here."""
    try:
        yield
    except _DAMAGE as error:
        where = f"{archive}: {name!r}" if name else str(archive)
        raise DataError(
            f"{where}: damaged, or no such archive: {error}{_what_it_is(archive)}; delete it and "
            "get it again"
        ) from error


def _what_it_is(archive: Path) -> str:
    with archive.open("rb") as file:
        start = file.read(100).lstrip().lower()
    return " (it is a web page)" if start.startswith((b"<!doctype html", b"<html")) else ""


_Member = tuple[str, IO[bytes] | None]  # name and content; None: a directory


def _zip_members(archive: Path, room: _Room) -> Iterator[_Member]:
    with (
        _reading(archive),
        archive.open("rb") as raw,
        zipfile.ZipFile(cast(IO[bytes], _ShortReads(raw, archive))) as file,
    ):
        for info in file.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _refuse(archive, info.filename, "a link or a device")
            if info.flag_bits & 1:
                raise _refuse(archive, info.filename, "encrypted")
            if info.is_dir():
                yield info.filename, None
            else:
                with file.open(info) as stream:
                    yield info.filename, stream


class _ShortReads:
    """A file that gives few bytes at once: zipfile reads the directory of a zip as a whole."""

    def __init__(self, file: BinaryIO, archive: Path) -> None:
        self._file, self._archive = file, archive
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size if 0 <= size <= _DIRECTORY else _DIRECTORY + 1)
        if len(block) > _DIRECTORY:
            raise DataError(
                f"{self._archive}: its directory has more than {_DIRECTORY >> 20} MiB: refused, "
                "as from an archive made to do harm"
            )
        return block


class _Counting:
    """The stream of a tar; bytes that are read between two members are headers."""

    def __init__(self, stream: BinaryIO, room: _Room) -> None:
        self._stream, self._room = stream, room
        self._n_headers: int | None = 0  # bytes; None: a member is being read

    def read(self, size: int) -> bytes:
        block = self._stream.read(size)
        if self._n_headers is not None:
            self._n_headers += len(block)
            self._room.enter_headers(self._n_headers)
        return block

    def enter_member(self, name: str) -> None:
        self._room.take(name, self._n_headers or 0)
        self._n_headers = None

    def leave_member(self) -> None:
        self._n_headers = 0


def _tar_members(archive: Path, room: _Room) -> Iterator[_Member]:
    with (
        _reading(archive),
        _tar_bytes(archive) as raw,
        tarfile.open(fileobj=cast(IO[bytes], stream := _Counting(raw, room)), mode="r|") as file,
    ):
        for member in file:
            stream.enter_member(member.name)
            # tarfile would keep all members, and the headers that hold for later members.
            vars(file).update(members=[], pax_headers={})
            if not member.isreg() and not member.isdir():
                raise _refuse(archive, member.name, "a link or a device")
            yield member.name, file.extractfile(member) if member.isreg() else None
            stream.leave_member()
        # Behind the last member is padding, and then the checksum of the compressed stream.
        for _ in range(_PADDING // _BLOCK):
            raw.read(_BLOCK)


@contextmanager
def _tar_bytes(archive: Path) -> Iterator[BinaryIO]:
    """The bytes of the tar itself, decompressed as its content says, whatever its name is."""
    with archive.open("rb") as file:
        ending = ending_by_content(file.peek(10)[:10])
        with decompressed(file, ending) as stream:
            yield stream


def _is_tar(archive: Path) -> bool:
    with archive.open("rb") as file:
        return not file.read(4).startswith(b"PK") and archive.suffix.lower() != ".zip"
