"""The encoded corpus on disk: token ids of both sides, memory-mapped.

One directory has, per side, all ids in one flat array and the offsets of the sentences in it, and
for training the source that each row is from. Every sentence ends with EOS. This file knows nothing
of batches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_mt.corpus.readers.parts import LinesOfFiles, cut_files
from transformer_mt.encoding.tags import Ids, Tagging
from transformer_mt.encoding.tokenizer import EOS_ID, Tokenizer
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.arrays import Array, growing_array, read_ahead
from transformer_mt.system.output import remove, write_json, writing_folder
from transformer_mt.system.processes.executors import Workers
from transformer_mt.system.processes.parallel import run_shards

SHARD = 100_000  # pairs that one process encodes at a time, and that are lost when it is killed
CHUNK = 5_000  # sentences whose ids are Python objects at a time
SIDES = ("src", "tgt")

Indices = NDArray[np.int64]  # rows of a corpus, or lengths of its sentences
Sources = NDArray[np.uint16]  # index into `data.train`, of pairs or rows
Rows = tuple[list[list[int]], list[list[int]]]  # sources and targets of some sentences


@dataclass(frozen=True)
class EncodedSide:
    """ids: (total,) uint16 or int32 memory map; offsets: (n + 1,) int64 memory map."""

    ids: NDArray[np.integer]
    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> Indices:
        """(n,) tokens per sentence, tags and EOS included."""
        return np.diff(self.offsets)

    @property
    def longest(self) -> int:
        """Tokens of the longest sentence; memory does not grow with the corpus."""
        starts = range(0, len(self.offsets) - 1, SHARD)
        return max(int(np.diff(self.offsets[i : i + SHARD + 1]).max()) for i in starts)

    def lengths_of(self, rows: Indices) -> Indices:
        """Tokens of some sentences, without a look at the others."""
        return self.offsets[rows + 1] - self.offsets[rows]

    def ids_of(self, rows: Indices) -> Indices:
        """All ids of some sentences, one after another."""
        lengths = self.lengths_of(rows)
        starts = np.repeat(self.offsets[rows] - (np.cumsum(lengths) - lengths), lengths)
        return np.asarray(self.ids[starts + np.arange(lengths.sum())], dtype=np.int64)

    def sentence(self, index: int) -> list[int]:
        return self.ids[self.offsets[index] : self.offsets[index + 1]].tolist()


@dataclass(frozen=True)
class EncodedCorpus:
    src: EncodedSide
    tgt: EncodedSide
    sources: Sources | None = None  # (n,) ascending; None: not training
    directory: Path | None = None  # None: in memory

    def __len__(self) -> int:
        return len(self.src.offsets) - 1

    def read_ahead(self, rows: Indices) -> None:
        """Ask the system to have these rows, ascending, in its cache when they are needed."""
        if self.directory is None or not len(rows):
            return
        gaps = np.flatnonzero(np.diff(rows) > 1) + 1
        firsts, ends = rows[np.append(0, gaps)], rows[np.append(gaps - 1, -1)] + 1
        for name, side in zip(SIDES, (self.src, self.tgt), strict=True):
            bounds = side.offsets[firsts], side.offsets[ends]
            read_ahead(self.directory / f"{name}.offsets.npy", 8 * firsts, 8 * ends)
            read_ahead(self.directory / f"{name}.ids", *(side.ids.itemsize * at for at in bounds))


@dataclass(frozen=True)
class EncodingReport:
    """What encoding did to one part of the corpus."""

    kept: int  # pairs; with both directions each of them makes two rows
    too_long: int  # pairs over the token limit on either side, dropped
    src_tokens: int
    tgt_tokens: int


def encode_corpus(
    texts: tuple[Path, Path],
    tokenizers: tuple[Tokenizer, Tokenizer],
    out_dir: Path,
    *,
    max_length: int | None,
    tagging: Tagging | None = None,
    sources_path: Path | None = None,
    workers: Workers = 1,
    shards_dir: Path | None = None,
) -> EncodingReport:
    """Tokenize pairs and write them, streaming; memory does not grow with the corpus.

    With two directions, row 2·i is pair i as it stands, and row 2·i + 1 the other way round.

    Args:
        texts: lines of the sources and of their targets.
        max_length: pairs with more tokens on either side (tags and EOS not counted) are dropped.
        sources_path: of (n,) which source of `data.train` each pair is from, one after another.
        shards_dir: where finished shards stay if this is killed, for the next call with the same
            arguments. It is removed at the end.
    Raises:
        DataError: nothing is left; a process died.
    """
    texts_here = tuple(path.absolute() for path in texts)
    sources_here = sources_path and sources_path.absolute()
    encode = partial(_encode_shard, tokenizers, tagging or Tagging(), max_length, sources_here)
    with writing_folder(out_dir, None) as directory:
        shards = shards_dir or directory / "shards"
        parts = cut_files(texts_here, SHARD, limit=None, unequal=lambda: _unequal(texts))
        jobs = ((shards / f"{part.first // SHARD:06d}.npz", part) for part in parts)
        kept = too_long = 0

        def counted() -> Iterator[Path]:
            nonlocal kept, too_long
            for path in run_shards(jobs, encode, workers=workers):
                with np.load(path) as shard:
                    fits = shard["fits"]
                kept += (n_kept := int(fits.sum()))
                too_long += len(fits) - n_kept
                yield path

        n_tokens = join_shards(counted(), directory)
        if not kept:
            raise _nothing_left(too_long, max_length)
        report = EncodingReport(kept, too_long, *n_tokens)
        write_json(directory / "report.json", report.__dict__)
        remove(shards)
    return report


def _unequal(texts: tuple[Path, Path]) -> None:
    raise DataError(tr("{} and {} have different numbers of lines", *texts))


def _encode_shard(
    tokenizers: tuple[Tokenizer, Tokenizer],
    tagging: Tagging,
    max_length: int | None,
    sources_path: Path | None,
    part: LinesOfFiles,
    path: Path,
) -> None:
    pairs = list(part.read())
    sources: Sources | None = None
    if sources_path is not None:
        sources = np.load(sources_path, mmap_mode="r")[part.first : part.first + part.size]
        assert (sources[:-1] <= sources[1:]).all()
    tags: list[Ids] = [()] * len(pairs)
    if sources is not None:
        tags = [tagging.sources[source] for source in sources.tolist()]
    fits: list[bool] = []

    def rows() -> Iterator[Rows]:
        for start in range(0, len(pairs), CHUNK):
            chunk = slice(start, start + CHUNK)
            src, tgt = (
                t.encode([pair[i] for pair in pairs[chunk]]) for i, t in enumerate(tokenizers)
            )
            src_rows, tgt_rows = [], []
            for a, b, own_tags in zip(src, tgt, tags[chunk], strict=True):
                fits.append(max_length is None or max(len(a), len(b)) <= max_length)
                if fits[-1]:
                    ways = zip(tagging.directions, (a, b), (b, a), strict=False)  # one, or two
                    for direction, read, written in ways:
                        src_rows.append([*direction, *own_tags, *read, EOS_ID])
                        tgt_rows.append([*written, EOS_ID])
            yield src_rows, tgt_rows

    arrays = pack_rows(rows(), tokenizers)
    arrays["fits"] = np.array(fits, dtype=bool)
    if sources is not None:
        arrays["sources"] = np.repeat(sources[arrays["fits"]], len(tagging.directions))
    write_shard(path, arrays)


def pack_rows(rows: Iterable[Rows], tokenizers: Sequence[Tokenizer]) -> dict[str, Array]:
    """Rows, some at a time, as flat arrays: `src`, `src_lengths`, `tgt`, `tgt_lengths`.

    Each side has the smallest type that holds all ids of its tokenizer.
    """
    dtypes = [np.uint16 if t.vocab_size <= 2**16 else np.int32 for t in tokenizers]
    ids: list[list[Array]] = [[np.empty(0, dtype)] for dtype in dtypes]
    lengths: list[list[Array]] = [[np.empty(0, np.int32)] for _ in dtypes]
    for sides in rows:
        for i, side in enumerate(sides):
            lengths[i].append(np.fromiter(map(len, side), np.int32, len(side)))
            n_ids = int(lengths[i][-1].sum())
            ids[i].append(np.fromiter(chain.from_iterable(side), dtypes[i], n_ids))
    packed: dict[str, Array] = {}
    for i, name in enumerate(SIDES):
        packed[name], packed[f"{name}_lengths"] = map(np.concatenate, (ids[i], lengths[i]))
    return packed


def write_shard(path: Path, arrays: Mapping[str, Array]) -> None:
    with path.open("wb") as file:  # given a name, NumPy would add an ending to it
        named: dict[str, Any] = dict(arrays)  # as arrays, it could name NumPy's own flags
        np.savez(file, **named)


def _nothing_left(too_long: int, max_length: int | None) -> DataError:
    return DataError(
        tr(
            "no pair is left: all {} have more than data.max_length = {} tokens on a side",
            too_long,
            max_length,
        )
        if too_long
        else tr("no pair is left after cleaning")
    )


def join_shards(paths: Iterable[Path], directory: Path) -> list[int]:
    """Put shards one after the other, as they come: ids, offsets, and sources where they have them.

    Returns:
        the tokens of the sources and of the targets.
    """
    n_tokens = [0, 0]
    with ExitStack() as stack:

        def growing(name: str, dtype: type) -> Callable[[Array], None]:
            return stack.enter_context(growing_array(directory / name, dtype))

        ids = [stack.enter_context((directory / f"{side}.ids").open("wb")) for side in SIDES]
        offsets = [growing(f"{side}.offsets.npy", np.int64) for side in SIDES]
        sources: Callable[[Array], None] | None = None
        for append in offsets:
            append(np.zeros(1))
        for path in paths:
            with np.load(path) as shard:
                for i, side in enumerate(SIDES):
                    of_side = shard[side]
                    ids[i].write(of_side.data)
                    ends = np.cumsum(shard[f"{side}_lengths"], dtype=np.int64)
                    offsets[i](n_tokens[i] + ends)
                    n_tokens[i] += len(of_side)
                if "sources" in shard:
                    sources = sources or growing("sources.npy", np.uint16)
                    sources(shard["sources"])
    return n_tokens


def open_corpus(directory: Path) -> EncodedCorpus:
    """Map an encoded corpus into memory.

    Raises:
        DataError: a file is missing or has been cut.
    """
    path = directory / "sources.npy"
    try:
        src, tgt = (_open_side(directory, side) for side in SIDES)
        sources = np.asarray(np.load(path, mmap_mode="r")) if path.exists() else None
        return EncodedCorpus(src, tgt, sources, directory)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(tr("{}: encoded corpus is incomplete: {}", directory, error)) from error


def _open_side(directory: Path, side: str) -> EncodedSide:
    path = directory / f"{side}.ids"
    offsets = np.asarray(np.load(directory / f"{side}.offsets.npy", mmap_mode="r"))
    n_bytes, total = path.stat().st_size, int(offsets[-1])
    if n_bytes not in (2 * total, 4 * total):
        raise DataError(
            tr(
                "{}: {} bytes for {} tokens; delete {} and run again",
                path,
                n_bytes,
                total,
                directory,
            )
        )
    if not total:  # a block of small weights, which cannot be mapped
        return EncodedSide(np.empty(0, np.uint16), offsets)
    dtype = np.uint16 if n_bytes == 2 * total else np.int32
    return EncodedSide(np.memmap(path, dtype=dtype, mode="r"), offsets)
