"""Shards of scored pairs on disk: normalised text, origin, hashes, lengths and scores of each pair.

A shard is one Arrow file, of which any column can be read again, memory-mapped. All pairs are in
it, good or bad: the scores decide later which of them are dropped. This file does not know any rule
or threshold.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_mt.corpus.diagnostics.shifted_lines import ShiftedRun
from transformer_mt.corpus.readers.arrow_columns import array_of, column_of_bytes, column_of_numbers
from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.system.arrays import Array, Floats, Ints

Hashes = NDArray[np.uint64]
_MOST_CHARACTERS = 2**16 - 1
_LEADING_BITS = 22  # of a hash: a table of 4 MiB, which stays in the cache
_OTHER_BITS = np.uint64(64 - _LEADING_BITS)
_ERRORS = b"errors"  # key in the metadata of a shard


def write_scored(
    path: Path,
    pairs: Sequence[Pair],
    keys: Sequence[Pair],
    scores: Mapping[str, Floats],
    *,
    lines: Ints | None = None,
    errors: Mapping[int, str] | None = None,
) -> None:
    """Write a shard.

    Args:
        keys: of each side of each pair: see `rules.comparison_key`.
        lines: (pairs,) of the source, from 1; None: from the first on.
        errors: by row: the reason for missing scores.
    """
    import pyarrow

    text = pyarrow.large_string()
    (srcs, tgts), (src_keys, tgt_keys) = (
        [[pair[side] for pair in both] for side in (0, 1)] for both in (pairs, keys)
    )
    columns: dict[str, Any] = {
        "line": (np.arange(len(pairs)) + 1 if lines is None else lines).astype(np.uint64),
        "src": column_of_bytes([src.encode() for src in srcs], text),
        "tgt": column_of_bytes([tgt.encode() for tgt in tgts], text),
        "pair_hash": hash_texts([f"{src}\n{tgt}" for src, tgt in pairs]),
        "src_key": hash_texts(src_keys),
        "tgt_key": hash_texts(tgt_keys),
        "src_chars": np.array([min(len(src), _MOST_CHARACTERS) for src in srcs], np.uint16),
        "tgt_chars": np.array([min(len(tgt), _MOST_CHARACTERS) for tgt in tgts], np.uint16),
        **scores,
    }
    for name, values in columns.items():
        if isinstance(values, np.ndarray):
            columns[name] = column_of_numbers(values)
    table = pyarrow.table(columns)
    if errors:
        table = table.replace_schema_metadata({_ERRORS: json.dumps(errors)})
    with pyarrow.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


def hash_texts(texts: Sequence[str]) -> Hashes:
    """(n,) 64 bits of each text; the same in every process."""
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def mix(hashes: Hashes, seed: int) -> Hashes:
    """(n,) the same hashes in another random order, one for each seed.

    Source: the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
    """
    mixed = hashes + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class HashIndex:
    """Some hashes, and a table of which leading bits they have: most others differ in these."""

    def __init__(self, hashes: Hashes) -> None:
        self.unique = np.unique(hashes)
        self._has_bits = np.zeros(1 << _LEADING_BITS, dtype=bool)
        self._has_bits[self.unique >> _OTHER_BITS] = True

    def find(self, hashes: Hashes) -> Ints:
        """(n,) the index of each hash in `unique`; `len(unique)` where it is not there."""
        found = np.full(len(hashes), len(self.unique))
        maybe = np.flatnonzero(self._has_bits[hashes >> _OTHER_BITS])
        nearest = np.searchsorted(self.unique, hashes[maybe]).clip(max=len(self.unique) - 1)
        there = self.unique[nearest] == hashes[maybe]
        found[maybe[there]] = nearest[there]
        return found


@dataclass(frozen=True)
class Shard:
    """Rows `start` up to `start + size` of the whole corpus, all from one source."""

    path: Path
    source: int  # index into data.train
    start: int
    size: int

    @property
    def rows(self) -> slice:
        return slice(self.start, self.start + self.size)

    def columns(self, *names: str) -> list[Array]:
        """(size,) each, memory-mapped: a column that is kept keeps its file open."""
        return [array_of(column) for column in self._table(names).columns]

    def values(self, rows: Ints, *names: str) -> Iterator[tuple[Any, ...]]:
        """Python values of some columns at some rows of the shard, row by row."""
        columns = self._table(names).take(column_of_numbers(rows)).columns
        return zip(*(column.to_pylist() for column in columns), strict=True)

    def errors(self) -> dict[int, str]:
        """By position in the shard: the reason for missing scores."""
        found = (self._table([]).schema.metadata or {}).get(_ERRORS, b"{}")
        return {int(row): why for row, why in json.loads(found).items()}

    def _table(self, names: Sequence[str]) -> Any:
        import pyarrow

        with pyarrow.memory_map(str(self.path)) as file:
            return pyarrow.ipc.open_file(file).read_all().select(names)


@dataclass(frozen=True)
class ScoredSource:
    """A source whose pairs all have scores."""

    name: str
    folder: Path  # of its shards, named by the fingerprint of all that they were made from
    sizes: list[int]  # pairs of each shard
    findings: list[str]  # about whole sides, for people: they are in other languages than said
    problems: list[str]  # about lines, for people
    shifted: list[ShiftedRun] = field(default_factory=list)  # the first of them


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.arrow"


class ScoredCorpus:
    """All shards of all sources, in order; n pairs."""

    def __init__(self, sources: Sequence[ScoredSource]) -> None:
        self.sources = sources
        self.shards: list[Shard] = []
        self.source_rows: list[slice] = []  # of each source
        self._size = 0
        for index, source in enumerate(sources):
            first = self._size
            for number, size in enumerate(source.sizes):
                path = shard_path(source.folder, number)
                self.shards.append(Shard(path, index, self._size, size))
                self._size += size
            self.source_rows.append(slice(first, self._size))

    def __len__(self) -> int:
        return self._size

    def each(self, *names: str) -> Iterator[tuple[Shard, list[Array]]]:
        """Every shard with some of its columns."""
        for shard in self.shards:
            yield shard, shard.columns(*names)

    def values_at(self, rows: Ints, *names: str) -> list[tuple[Any, ...]]:
        """Python values of some columns at k rows of the whole corpus, in the order of `rows`."""
        values: list[tuple[Any, ...]] = [()] * len(rows)
        for shard in self.shards:
            inside = np.flatnonzero((rows >= shard.start) & (rows < shard.start + shard.size))
            if len(inside):
                found = shard.values(rows[inside] - shard.start, *names)
                for place, value in zip(inside.tolist(), found, strict=True):
                    values[place] = value
        return values

    def origins_at(self, rows: Ints) -> list[tuple[str, int]]:
        """(name of the source, line) of k rows of the whole corpus."""
        ends = [source_rows.stop for source_rows in self.source_rows]
        owners = np.searchsorted(ends, rows, side="right").tolist()
        lines = self.values_at(rows, "line")
        return [
            (self.sources[owner].name, line) for owner, (line,) in zip(owners, lines, strict=True)
        ]
