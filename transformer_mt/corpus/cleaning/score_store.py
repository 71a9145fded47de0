"""Shards of scored pairs on disk: normalised text, origin, hashes, lengths and scores of each pair.

Comes in: the pairs of a part of a source. Goes out: one Arrow file, and any column of it again,
memory-mapped. Pairs that no rule will keep are in it, too: what is dropped is decided later, from
the scores. This file does not know any rule or threshold.
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
    errors: dict[int, str] = field(default_factory=dict)  # by row: why it has no scores


def write_shard(scored: ScoredPairs, path: Path) -> None:
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
        """(size,) each; read where it lies, so not to be kept for long."""
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
        """Why a rule failed, for the positions in the shard that have no scores."""
        found = (self._table().schema.metadata or {}).get(_ERRORS, b"{}")
        return {int(row): why for row, why in json.loads(found).items()}

    def _table(self) -> Any:
        import pyarrow

        with pyarrow.memory_map(str(self.path)) as file:
            return pyarrow.ipc.open_file(file).read_all()


class ScoredCorpus:
    """All shards of all sources, in order; n pairs."""

    def __init__(self, shards_of_sources: Sequence[Sequence[tuple[Path, int]]]) -> None:
        """Args: for each source its shards, as (path, number of pairs)."""
        self.shards: list[Shard] = []
        self.n_sources = len(shards_of_sources)
        start = 0
        for source, shards in enumerate(shards_of_sources):
            for path, size in shards:
                self.shards.append(Shard(path, source, start, size))
                start += size
        self._size = start

    def __len__(self) -> int:
        return self._size

    def each(self, *names: str) -> Iterator[tuple[Shard, list[NDArray[Any]]]]:
        """Every shard with some of its columns."""
        for shard in self.shards:
            yield shard, shard.columns(*names)

    def pairs_at(self, rows: NDArray[np.int64]) -> list[Pair]:
        """Texts of rows of the whole corpus, in the order of `rows`."""
        found: dict[int, Pair] = {}
        for shard in self.shards:
            inside = rows[(rows >= shard.start) & (rows < shard.start + shard.size)]
            if len(inside):
                pairs = shard.pairs(inside - shard.start)
                found.update(zip(inside.tolist(), pairs, strict=True))
        return [found[row] for row in rows.tolist()]

    def origins_at(self, rows: NDArray[np.int64]) -> list[tuple[int, int]]:
        """(source, line) of rows of the whole corpus."""
        origins = []
        starts = np.array([shard.start for shard in self.shards])
        for row in rows.tolist():
            shard = self.shards[int(np.searchsorted(starts, row, side="right")) - 1]
            (lines,) = shard.columns("line")
            origins.append((shard.source, int(lines[row - shard.start])))
        return origins


def _lengths(texts: list[str]) -> NDArray[np.uint16]:
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return lengths.clip(max=_MOST_CHARACTERS).astype(np.uint16)
