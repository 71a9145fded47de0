"""Files, compressed or not → bytes → lines, or an error: where, what was found, what to do.

This file does not know the meaning of the lines, nor which files belong together.
"""

import bz2
import difflib
import gzip
import io
import lzma
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr

_BLOCK = 1 << 18  # bytes; larger blocks of lines do not stay in the processor's cache
# Bytes of a line, or of another unit that is in memory as a whole; a long book has 4 MiB.
LONGEST = 16 << 20
_LONGEST_PATH = 4096  # bytes, on most systems
COMPRESSED = {".gz": "gzip", ".xz": "xz", ".bz2": "bzip2", ".zst": "zstd"}
_CONTENT = re.compile(
    rb"(?P<gz>\x1f\x8b)|(?P<xz>\xfd7zXZ\0)|(?P<zst>\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18)"
    rb"|(?P<bz2>BZh[1-9](1AY&SY|\x17\x72\x45\x38\x50\x90))"
)


def plain_name(name: str) -> str:
    """A file name without the ending that says how it is compressed."""
    return Path(name).stem if Path(name).suffix in COMPRESSED else name


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The content of a file, decompressed as its ending says, which its content must confirm."""
    try:
        with path.open("rb") as file:
            _check_ending(path, file)
            with decompressed(file, path.suffix) as stream:
                yield stream
    except FileNotFoundError as error:
        raise DataError(missing(path)) from error
    except IsADirectoryError as error:
        raise DataError(tr("{}: is a directory; expected a text file", path)) from error
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if getattr(error, "errno", None) is None and path.suffix in COMPRESSED:
            kind = COMPRESSED[path.suffix]
            raise DataError(
                tr("{}: damaged {} data: {}; get the file again", path, kind, error)
            ) from error
        reason = getattr(error, "strerror", None) or error
        raise DataError(tr("{}: cannot be read: {}", path, reason)) from error


def blocks_of(stream: BinaryIO) -> Iterator[bytes]:
    """The rest of an open stream, a block at a time."""
    return iter(partial(stream.read, _BLOCK), b"")


def split_lines(path: Path) -> Iterator[str]:
    r"""Stream the lines of a UTF-8 file, decompressed if its ending says so.

    Lines end at \n or \r\n only, so that U+2028, U+0085 and form feeds cannot shift the alignment.
    A byte order mark is dropped. Of a byte that is not UTF-8 the error tells line and offset.
    """

    def lists() -> Iterator[list[str]]:
        with open_bytes(path) as stream:
            yield from _lists_of_lines(blocks_of(stream), path)

    return chain.from_iterable(lists())


def lines_between(path: Path, start: int, end: int, *, n_before: int) -> Iterator[str]:
    """The lines of a plain file that begin at one byte and end at another; see `split_lines`.

    Args:
        n_before: lines before `start`, for messages.
    """

    def blocks(stream: BinaryIO) -> Iterator[bytes]:
        stream.seek(start)
        left = end - start
        while block := stream.read(min(left, _BLOCK)):
            left -= len(block)
            yield block

    def lists() -> Iterator[list[str]]:
        with open_bytes(path) as stream:
            yield from _lists_of_lines(blocks(stream), path, (n_before, start))

    return chain.from_iterable(lists())


def split_stream(stream: Iterable[bytes], name: str | Path) -> Iterator[str]:
    """The lines of a byte stream, called `name` in messages; see `split_lines`.

    A line is handed on as soon as its end is there, so that an open file can be typed into.
    """
    if isinstance(stream, io.BufferedReader):
        # `read1` does not wait for the end of a line.
        stream = iter(partial(stream.read1, _BLOCK), b"")
    return chain.from_iterable(_lists_of_lines(stream, name))


def _lists_of_lines(
    pieces: Iterable[bytes], name: str | Path, before: tuple[int, int] = (0, 0)
) -> Iterator[list[str]]:
    """Whole lines are decoded many at a time: the loops over them run in C.

    Args:
        before: lines and bytes before the first piece.
    """
    decode = _Decoder(name, *before)
    pending: list[bytes] = []  # pieces of a line whose end has not been seen
    n_pending = 0  # bytes
    for piece in pieces:
        end = piece.rfind(b"\n") + 1
        if end:
            yield from decode(b"".join([*pending, piece[:end]]))
            pending, n_pending = [], 0
        if end < len(piece):
            pending.append(piece[end:])
            n_pending += len(piece) - end
            if n_pending > LONGEST:
                raise DataError(
                    tr(
                        "{}: line {}: longer than {} MiB; a line is one text: divide "
                        "it, or look whether the file has line ends at all",
                        name,
                        decode.n_lines + 1,
                        LONGEST >> 20,
                    )
                )
    if pending:
        yield from decode(b"".join(pending))


class _Decoder:
    """Decodes runs of whole lines, and counts lines and bytes for messages."""

    def __init__(self, name: str | Path, n_lines: int, n_bytes: int) -> None:
        self.name = name
        self.start = b""  # the first bytes of the stream
        self.n_lines, self.n_bytes = n_lines, n_bytes  # so far

    def __call__(self, data: bytes) -> Iterator[list[str]]:
        self.start = self.start or data[:10]
        try:
            text = str(data, "utf-8")
        except UnicodeDecodeError as error:
            whole = data.rfind(b"\n", 0, error.start) + 1  # end of the line before the broken one
            if whole:
                yield from self(data[:whole])
            at = self.n_bytes + error.start - whole
            raise DataError(
                tr(
                    "{}: line {}: byte 0x{:02x} at offset {} is not UTF-8; {}",
                    self.name,
                    self.n_lines + 1,
                    data[error.start],
                    at,
                    _encoding_hint(self.name, self.start),
                )
            ) from error
        lines = _lines(text if self.n_bytes else text.removeprefix("\ufeff"))
        self.n_lines += len(lines)
        self.n_bytes += len(data)
        yield lines


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if text.endswith("\n"):
        lines.pop()
    return [line.rstrip("\r") for line in lines] if "\r" in text else lines


def _encoding_hint(name: str | Path, start: bytes) -> str:
    ending = ending_by_content(start)
    if ending:
        return tr("it is {}: rename it to {}{}", COMPRESSED[ending], Path(name).name, ending)
    if Path(plain_name(str(name))).suffix.lower() in (".csv", ".tsv"):
        return tr("save it as CSV UTF-8, or as XLSX, in the program that wrote it")
    encoding = "UTF-16" if start.startswith((b"\xff\xfe", b"\xfe\xff")) else "ENCODING"
    known = (
        "" if encoding == "UTF-16" else tr(" (often GB18030 for Chinese, CP1252 for Western text)")
    )
    return tr("convert it: iconv -f {} -t UTF-8 {} > NEW{}", encoding, Path(name).name, known)


def decompressed(file: BinaryIO, ending: str) -> BinaryIO:
    """The content of an open file, decompressed as one of the endings in `COMPRESSED` says."""
    openers: dict[str, Callable[[BinaryIO], Any]] = {
        ".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open, ".zst": _zstd,
    }  # fmt: skip
    return cast(BinaryIO, openers[ending](file)) if ending in openers else file


def _zstd(file: BinaryIO) -> Any:
    import pyarrow

    return pyarrow.input_stream(file, compression="zstd")


def _check_ending(path: Path, file: io.BufferedReader) -> None:
    """Refuse a name that says another compression than the content has."""
    start = file.peek(10)[:10]  # a pipe has no way back
    said = path.suffix if path.suffix in COMPRESSED else ""
    found = ending_by_content(start)
    if said == found:
        return
    if not start:
        raise DataError(
            tr("{}: is empty; expected {} data; get the file again", path, COMPRESSED[said])
        )
    content = tr("is {}", COMPRESSED[found]) if found else tr("is not {}", COMPRESSED[said])
    right = path.name.removesuffix(said) + found
    damage = tr(", or get the file again if it is damaged") if said else ""
    raise DataError(tr("{}: its content {}: rename it to {}{}", path, content, right, damage))


def ending_by_content(start: bytes) -> str:
    """The ending in `COMPRESSED` for a file that begins with these bytes; empty if none fits."""
    found = _CONTENT.match(start)
    return f".{found.lastgroup}" if found else ""


def expand(name: str) -> Path:
    """A path as people write it, with ~ for a home directory."""
    if "\0" in name or len(os.fsencode(name)) > _LONGEST_PATH:
        raise DataError(tr("{!r} …: no path: it holds a NUL, or is too long", name[:60]))
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        start = name.partition("/")[0]
        raise DataError(
            tr("{}: no home directory is known for {}; write the path out", name[:200], start[:60])
        ) from error


def refuse_streams(path: Path) -> None:
    """Refuse pipes and devices, since a corpus is read twice, and names that no report can show."""
    shown = str(path).encode(errors="backslashreplace").decode()
    if shown != str(path):
        raise DataError(tr("{}: the name is not UTF-8; rename it", shown))
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise DataError(
            tr(
                "{}: is a pipe or a device; a corpus is read several times: write it "
                "to a file first, and give that",
                path,
            )
        )


def missing(path: Path, root: Path | None = None, found: str = "") -> str:
    """The message about a missing file, with similar names in its directory.

    Args:
        root: the directory that relative paths start from, if the path may be one.
        found: beginning of the message; default: `PATH: no such file`.
    """
    message = found or tr("{}: no such file", path)
    if not path.parent.is_dir():
        start = tr(" (relative paths start from data.root, here {})", root) if root else ""
        return tr("{}; the directory {} does not exist{}", message, path.parent, start)
    names = names_in(path.parent)
    near = difflib.get_close_matches(path.name, names, n=4, cutoff=0.5) or names[:4]
    return tr(
        "{}; near names in {}: {}", message, path.parent, ", ".join(near) or tr("none, it is empty")
    )


def names_in(directory: Path) -> list[str]:
    """The names in a directory, sorted; none if there is no such directory."""
    try:
        return sorted(path.name for path in directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(tr("{}: cannot be listed: {}", directory, error.strerror)) from error
