"""Parts of a source: some of its pairs, which any process can read by itself.

Two plain text files are cut where lines end, which takes no decoding: see `cut_files`. Pairs of any
other form are written to a file in parts, by the process that reads them: see `store_pairs`.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from transformer_mt.corpus.readers.arrow_columns import (
    array_of,
    column_of_bytes,
    column_of_numbers,
)
from transformer_mt.corpus.readers.lines import blocks_of, lines_between, open_bytes
from transformer_mt.corpus.readers.tables import Pair
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.arrays import Ints

if TYPE_CHECKING:
    import pyarrow

Version = tuple[int, int]  # bytes, and the second of the last change: not all disks know more


def _version(path: Path) -> Version:
    status = path.stat()
    return status.st_size, int(status.st_mtime)


@dataclass(frozen=True)
class LinesOfFiles:
    """Lines of two plain text files, by the bytes at which they begin and end."""

    paths: tuple[Path, ...]
    bounds: tuple[tuple[int, int], ...]  # of each file
    first: int  # number of the first pair, from 0
    size: int  # pairs
    versions: tuple[Version, ...]  # of the files, when they were cut

    def lines(self) -> Ints:
        """(size,) of each pair, from 1."""
        return np.arange(self.first, self.first + self.size) + 1

    def read(self) -> Iterator[Pair]:
        """Raises: DataError: a file is not the one any more that was cut."""
        sides = [
            lines_between(path, *bounds, n_before=self.first)
            for path, bounds in zip(self.paths, self.bounds, strict=True)
        ]
        yield from islice(zip(*sides, strict=False), self.size)
        for path, version in zip(self.paths, self.versions, strict=True):
            if _version(path) != version:
                raise DataError(
                    tr("{}: has changed while it was read; run the command again", path)
                )


@dataclass(frozen=True)
class StoredPairs:
    """One batch of a file that `store_pairs` has written."""

    path: Path
    number: int  # of the batch
    size: int

    def lines(self) -> Ints:
        """(size,) of each pair, from 1."""
        return array_of(self._column("line"))

    def read(self) -> Iterator[Pair]:
        sides = [
            [text.decode("utf-8", "surrogatepass") for text in self._column(side).to_pylist()]
            for side in ("src", "tgt")
        ]
        return zip(*sides, strict=True)

    def _column(self, name: str) -> "pyarrow.ChunkedArray":
        import pyarrow

        with pyarrow.memory_map(str(self.path)) as file:
            batch = pyarrow.ipc.open_file(file).get_batch(self.number)
            return pyarrow.chunked_array([batch.column(name)])


Part = LinesOfFiles | StoredPairs


def cut_files(
    paths: tuple[Path, ...], every: int, *, limit: int | None, unequal: Callable[[], object]
) -> Iterator[LinesOfFiles]:
    """Parts of `every` pairs of two files, as they are found.

    Args:
        limit: pairs, after which no file is looked at.
        unequal: called at the end of one file that is not the end of the other one.
    """
    first, versions = 0, tuple(map(_version, paths))
    left = sys.maxsize if limit is None else limit
    for cuts in zip_longest(*(_cuts(path, every) for path in paths), fillvalue=(0, 0, 0)):
        sizes = [n_lines for _, _, n_lines in cuts]
        size = min(*sizes, left)
        if size:
            bounds = tuple((start, end) for start, end, _ in cuts)
            yield LinesOfFiles(paths, bounds, first, size, versions)
        first, left = first + size, left - size
        if not left:
            return
        if len({*sizes}) > 1:
            unequal()


def _cuts(path: Path, every: int) -> Iterator[tuple[int, int, int]]:
    """Where each run of `every` lines begins and ends, and its number of lines."""
    with open_bytes(path) as file:
        start = n_seen = n_bytes = 0
        for block in blocks_of(file):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + n_bytes + 1
            for end in ends[every - 1 - n_seen :: every].tolist():
                yield start, end, every
                start = end
            n_seen = (n_seen + len(ends)) % every
            n_bytes += len(block)
        if start < n_bytes:
            yield start, n_bytes, n_seen + _is_open(file)


def _is_open(file: BinaryIO) -> bool:
    """Whether the last line has no end."""
    file.seek(-1, 2)
    return file.read() != b"\n"


def store_pairs(numbered: Iterable[tuple[int, Pair]], path: Path, every: int) -> None:
    """Write lines and pairs, as they are read, into a file of parts of `every` pairs."""
    import pyarrow

    text = pyarrow.large_binary()
    schema = pyarrow.schema([("line", pyarrow.int64()), ("src", text), ("tgt", text)])
    iterator = iter(numbered)
    with pyarrow.ipc.new_file(str(path), schema) as writer:
        while part := list(islice(iterator, every)):
            lines, pairs = zip(*part, strict=True)
            sides = [
                column_of_bytes([text.encode("utf-8", "surrogatepass") for text in side], text)
                for side in zip(*pairs, strict=True)
            ]
            columns = [column_of_numbers(np.array(lines, np.int64)), *sides]
            writer.write_batch(pyarrow.RecordBatch.from_arrays(columns, schema=schema))


def stored_parts(path: Path) -> Iterator[StoredPairs]:
    """The parts of such a file."""
    import pyarrow

    with pyarrow.memory_map(str(path)) as file:
        reader = pyarrow.ipc.open_file(file)
        for number in range(reader.num_record_batches):
            yield StoredPairs(path, number, reader.get_batch(number).num_rows)


def read_stored(path: Path) -> Iterator[Pair]:
    """All pairs of such a file."""
    return chain.from_iterable(part.read() for part in stored_parts(path))


def stored_line(path: Path, pair: int) -> int:
    """The line of a pair of such a file, both from 1."""
    first = next(stored_parts(path))
    number, place = divmod(pair - 1, first.size)
    return int(replace(first, number=number).lines()[place])
