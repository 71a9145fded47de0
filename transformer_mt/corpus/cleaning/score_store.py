"""Shards of scored pairs on disk: normalised text, origin, hashes, lengths and scores of each pair.

Comes in: the pairs of a part of a source. Goes out: one Arrow file, and any column of it again,
memory-mapped. All pairs are in it, good or bad: the scores decide later which of them are dropped.
This file does not know any rule or threshold.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_mt.corpus.readers.pairs import Pair

Hashes = NDArray[np.uint64]
_MOST_CHARACTERS = 2**16 - 1
_ERRORS = b"errors"  # key in the metadata of a shard


@dataclass(frozen=True)
class ScoredPairs:
    """n pairs, column by column."""

    lines: list[int]  # in the source, from 1
    pairs: list[Pair]  # normalised
    keys: list[Pair]  # see rules.comparison_key
    scores: dict[str, NDArray[np.float32]]  # by rule
    errors: dict[int, str] = field(default_factory=dict)  # by row: the reason for missing scores


def write_scored(scored: ScoredPairs, path: Path) -> None:
    """Write an Arrow file with all columns."""
    import pyarrow

    srcs, tgts = ([pair[side] for pair in scored.pairs] for side in (0, 1))
    src_keys, tgt_keys = (hash_texts([key[side] for key in scored.keys]) for side in (0, 1))
    columns: dict[str, Any] = {
        "line": np.array(scored.lines, dtype=np.uint64),
        "src": pyarrow.array(srcs, pyarrow.large_string()),
        "tgt": pyarrow.array(tgts, pyarrow.large_string()),
        "pair_hash": hash_texts([f"{src}\n{tgt}" for src, tgt in scored.pairs]),
        "src_key": src_keys,
        "tgt_key": tgt_keys,
        "src_chars": _lengths(srcs),
        "tgt_chars": _lengths(tgts),
        **scored.scores,
    }
    table = pyarrow.table(columns)
    if scored.errors:
        table = table.replace_schema_metadata({_ERRORS: json.dumps(scored.errors)})
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
    with np.errstate(over="ignore"):
        mixed = hashes + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


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

    def columns(self, *names: str) -> list[NDArray[Any]]:
        """(size,) each, memory-mapped: a column that is kept keeps its file open."""
        table = self._table()
        return [table.column(name).to_numpy() for name in names]

    def pairs(self, chosen: NDArray[Any] | None = None) -> list[Pair]:
        """The texts of the chosen rows.

        Args:
            chosen: (size,) booleans, or (k,) positions in the shard; None: all.
        """
        table = self._table().select(["src", "tgt"])
        if chosen is not None:
            table = table.filter(chosen) if chosen.dtype == bool else table.take(chosen)
        srcs, tgts = (column.to_pylist() for column in table.columns)
        return list(zip(srcs, tgts, strict=True))

    def errors(self) -> dict[int, str]:
        """By position in the shard: the reason for missing scores."""
        found = (self._table().schema.metadata or {}).get(_ERRORS, b"{}")
        return {int(row): why for row, why in json.loads(found).items()}

    def _table(self) -> Any:
        import pyarrow

        with pyarrow.memory_map(str(self.path)) as file:
            return pyarrow.ipc.open_file(file).read_all()


@dataclass(frozen=True)
class ScoredSource:
    """A source whose pairs all have scores."""

    name: str
    folder: Path  # of its shards, named by the fingerprint of all that they were made from
    sizes: list[int]  # pairs of each shard
    problems: list[str]  # of the source as a whole, for people

    @property
    def n_pairs(self) -> int:
        return sum(self.sizes)


def shard_path(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.arrow"


class ScoredCorpus:
    """All shards of all sources, in order; n pairs."""

    def __init__(self, sources: Sequence[ScoredSource]) -> None:
        self.sources = sources
        self.shards: list[Shard] = []
        self._size = 0
        for index, source in enumerate(sources):
            for number, size in enumerate(source.sizes):
                path = shard_path(source.folder, number)
                self.shards.append(Shard(path, index, self._size, size))
                self._size += size

    def __len__(self) -> int:
        return self._size

    def each(self, *names: str) -> Iterator[tuple[Shard, list[NDArray[Any]]]]:
        """Every shard with some of its columns."""
        for shard in self.shards:
            yield shard, shard.columns(*names)

    def integers_at(self, rows: NDArray[np.int64], *names: str) -> NDArray[np.uint64]:
        """(len(names), k) columns of hashes or lines at k rows of the whole corpus."""
        values = np.zeros((len(names), len(rows)), dtype=np.uint64)
        for shard, inside in self._places(rows):
            for row, column in zip(values, shard.columns(*names), strict=True):
                row[inside] = column[rows[inside] - shard.start]
        return values

    def pairs_at(self, rows: NDArray[np.int64]) -> list[Pair]:
        """Texts at k rows of the whole corpus, in the order of `rows`."""
        pairs = [("", "")] * len(rows)
        for shard, inside in self._places(rows):
            found = shard.pairs(rows[inside] - shard.start)
            for place, pair in zip(inside.tolist(), found, strict=True):
                pairs[place] = pair
        return pairs

    def origins_at(self, rows: NDArray[np.int64]) -> list[tuple[str, int]]:
        """(name of the source, line) of k rows of the whole corpus."""
        (lines,) = self.integers_at(rows, "line")
        names = [""] * len(rows)
        for shard, inside in self._places(rows):
            for place in inside.tolist():
                names[place] = self.sources[shard.source].name
        return list(zip(names, lines.tolist(), strict=True))

    def _places(self, rows: NDArray[np.int64]) -> Iterator[tuple[Shard, NDArray[np.int64]]]:
        """Every shard that holds some of the rows, with their positions in `rows`."""
        for shard in self.shards:
            inside = np.flatnonzero((rows >= shard.start) & (rows < shard.start + shard.size))
            if len(inside):
                yield shard, inside


def _lengths(texts: list[str]) -> NDArray[np.uint16]:
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return lengths.clip(max=_MOST_CHARACTERS).astype(np.uint16)
