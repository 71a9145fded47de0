"""The encoded corpus on disk: token ids of both sides, memory-mapped.

Comes in: clean text and tokenizers, or rows of ids in shards. Goes out: one directory with, per
side, all ids in one flat array and the offsets of the sentences in it, and for training the source
that each row is from. Every sentence ends with EOS. This file knows nothing of batches.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_mt.encoding.tags import Ids, Tagging
from transformer_mt.encoding.tokenizer import EOS_ID, Tokenizer
from transformer_mt.errors import DataError
from transformer_mt.system.arrays import Array, save_blocks
from transformer_mt.system.output import remove, write_json, writing_folder
from transformer_mt.system.processes.parallel import run_shards

SHARD = 100_000  # pairs that one process encodes at a time, and that are lost when it is killed
CHUNK = 5_000  # sentences whose ids are Python objects at a time
SIDES = ("src", "tgt")

IdLists = list[list[int]]  # of some sentences
Indices = NDArray[np.int64]  # rows of a corpus, or lengths of its sentences


@dataclass(frozen=True)
class EncodedSide:
    """ids: (total,) uint16 or int32 memory map; offsets: (n + 1,) int64 memory map."""

    ids: NDArray[np.integer]
    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> Indices:
        """(n,) tokens per sentence, tags and EOS included."""
        return np.diff(self.offsets)

    def lengths_of(self, rows: Indices) -> Indices:
        """Tokens of some sentences, without a look at the others."""
        return self.offsets[rows + 1] - self.offsets[rows]

    def sentence(self, index: int) -> list[int]:
        return self.ids[self.offsets[index] : self.offsets[index + 1]].tolist()


@dataclass(frozen=True)
class EncodedCorpus:
    src: EncodedSide
    tgt: EncodedSide
    sources: NDArray[np.uint16] | None = None  # (n,) index into `data.train`; None: not training

    def __len__(self) -> int:
        return len(self.src.offsets) - 1


@dataclass(frozen=True)
class EncodingReport:
    """What encoding did to one part of the corpus."""

    kept: int  # pairs; with both directions each of them makes two rows
    too_long: int  # pairs over the token limit on either side, dropped
    src_tokens: int
    tgt_tokens: int


@dataclass(frozen=True)
class EncodingJob:
    """One shard of text, and all that a process needs to encode it."""

    pairs: list[tuple[str, str]]
    sources: NDArray[np.uint16] | None  # (n,), by pair
    tokenizers: tuple[Tokenizer, Tokenizer]
    tagging: Tagging
    max_length: int | None


def encode_corpus(
    pairs: Iterable[tuple[str, str]],
    tokenizers: tuple[Tokenizer, Tokenizer],
    out_dir: Path,
    *,
    max_length: int | None,
    tagging: Tagging | None = None,
    sources: NDArray[np.uint16] | None = None,
    workers: int = 1,
    shards_dir: Path | None = None,
) -> EncodingReport:
    """Tokenize pairs and write them, streaming; memory does not grow with the corpus.

    With two directions, row 2·i is pair i as it stands, and row 2·i + 1 the other way round.

    Args:
        pairs: clean text.
        max_length: pairs with more tokens on either side (tags and EOS not counted) are dropped and
            counted; None keeps all.
        tagging: None: no tags, one direction.
        sources: (n,) which source of `data.train` each pair is from; None: nobody will ask.
        workers: processes.
        shards_dir: where finished shards stay if this is killed, for the next call with the same
            arguments; None: nowhere. It is removed at the end.
    Raises:
        DataError: nothing is left; a process died.
    """
    job = partial(
        EncodingJob,
        tokenizers=tokenizers,
        tagging=tagging or Tagging(),
        max_length=max_length,
    )
    with writing_folder(out_dir, None) as directory:
        shards = shards_dir or directory / "shards"
        jobs = (
            (shards / f"{number:06d}.npz", job(*part))
            for number, part in enumerate(_cut(pairs, sources))
        )
        paths = list(run_shards(jobs, _encode_shard, workers=workers))
        report = _count(paths, max_length)
        assert sources is None or len(sources) == report.kept + report.too_long
        join_shards(paths, directory)
        write_json(directory / "report.json", report.__dict__)
        remove(shards)
    return report


def pack_rows(
    rows: Iterable[tuple[IdLists, IdLists]], dtypes: Sequence[type[np.integer]]
) -> dict[str, Array]:
    """IdLists of ids as flat arrays: `src`, `src_lengths`, `tgt`, `tgt_lengths`.

    Args:
        rows: some rows at a time, (source, target).
        dtypes: of the ids of each side.
    """
    ids: tuple[list[Array], ...] = ([], [])
    lengths: tuple[list[Array], ...] = ([], [])
    for sides in rows:
        for i, side in enumerate(sides):
            lengths[i].append(np.fromiter(map(len, side), np.int32, len(side)))
            n_ids = int(lengths[i][-1].sum())
            ids[i].append(np.fromiter(chain.from_iterable(side), dtypes[i], n_ids))
    packed: dict[str, Array] = {}
    for i, side_name in enumerate(SIDES):
        packed[side_name] = np.concatenate([np.empty(0, dtypes[i]), *ids[i]])
        packed[f"{side_name}_lengths"] = np.concatenate([np.empty(0, np.int32), *lengths[i]])
    return packed


def write_shard(path: Path, arrays: Mapping[str, Array]) -> None:
    with path.open("wb") as file:  # given a name, NumPy would add an ending to it
        named: dict[str, Any] = dict(arrays)  # as arrays, it could name NumPy's own flags
        np.savez(file, **named)


def join_shards(paths: Sequence[Path], directory: Path) -> None:
    """Put shards one after the other: ids, offsets, and sources where every shard has them."""
    n_rows = 0
    with_sources = True
    with (directory / "src.ids").open("wb") as src, (directory / "tgt.ids").open("wb") as tgt:
        for path in paths:
            with np.load(path) as shard:
                src.write(shard["src"].tobytes())
                tgt.write(shard["tgt"].tobytes())
                n_rows += len(shard["src_lengths"])
                with_sources &= "sources" in shard
    for side in SIDES:
        path = directory / f"{side}.offsets.npy"
        save_blocks(path, np.int64, (n_rows + 1,), _offsets(paths, side))
    if with_sources:
        blocks = _of_shards(paths, "sources")
        save_blocks(directory / "sources.npy", np.uint16, (n_rows,), blocks)


def _offsets(paths: Sequence[Path], side: str) -> Iterator[Array]:
    """Where each sentence of one shard after another begins, and where the last one ends."""
    end = 0
    yield np.zeros(1, dtype=np.int64)
    for lengths in _of_shards(paths, f"{side}_lengths"):
        ends = end + np.cumsum(lengths, dtype=np.int64)
        end = int(ends[-1]) if len(ends) else end
        yield ends


def _of_shards(paths: Sequence[Path], name: str) -> Iterator[Array]:
    for path in paths:
        with np.load(path) as shard:
            yield shard[name]


def id_dtypes(tokenizers: Sequence[Tokenizer]) -> list[type[np.integer]]:
    """The smallest types that hold all ids."""
    return [np.uint16 if t.vocab_size <= 2**16 else np.int32 for t in tokenizers]


def open_corpus(directory: Path) -> EncodedCorpus:
    """Map an encoded corpus into memory.

    Raises:
        DataError: a file is missing or has been cut.
    """
    src, tgt = (_open_side(directory, side) for side in SIDES)
    path = directory / "sources.npy"
    return EncodedCorpus(src, tgt, _map_array(path) if path.exists() else None)


def _open_side(directory: Path, side: str) -> EncodedSide:
    ids_path = directory / f"{side}.ids"
    offsets = _map_array(directory / f"{side}.offsets.npy")
    try:
        n_bytes = ids_path.stat().st_size
    except OSError as error:
        raise DataError(f"{directory}: encoded corpus is incomplete: {error}") from error
    total = int(offsets[-1])
    if n_bytes not in (2 * total, 4 * total):
        raise DataError(
            f"{ids_path}: {n_bytes} bytes for {total} tokens; delete {directory} and run again"
        )
    dtype = np.uint16 if n_bytes == 2 * total else np.int32
    return EncodedSide(np.memmap(ids_path, dtype=dtype, mode="r"), offsets)


def _map_array(path: Path) -> Array:
    try:
        return np.asarray(np.load(path, mmap_mode="r"))
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path.parent}: encoded corpus is incomplete: {error}") from error


def _encode_shard(job: EncodingJob, path: Path) -> None:
    fits: list[bool] = []

    def rows() -> Iterator[tuple[IdLists, IdLists]]:
        limit = math.inf if job.max_length is None else job.max_length
        for start in range(0, len(job.pairs), CHUNK):
            chunk = job.pairs[start : start + CHUNK]
            src, tgt = (t.encode([p[i] for p in chunk]) for i, t in enumerate(job.tokenizers))
            fits.extend(len(a) <= limit and len(b) <= limit for a, b in zip(src, tgt, strict=True))
            kept = compress(
                zip(src, tgt, _tags_of(job, start, len(chunk)), strict=True), fits[start:]
            )
            yield _rows_of(kept, job.tagging)

    arrays = pack_rows(rows(), id_dtypes(job.tokenizers))
    arrays["fits"] = np.array(fits, dtype=bool)
    if job.sources is not None:
        arrays["sources"] = np.repeat(job.sources[arrays["fits"]], len(job.tagging.directions))
    write_shard(path, arrays)


def _tags_of(job: EncodingJob, start: int, n: int) -> list[Ids]:
    """For each of some pairs, the tags of the source that it is from."""
    if job.sources is None:
        return [()] * n
    return [job.tagging.sources[source] for source in job.sources[start : start + n].tolist()]


def _rows_of(
    pairs: Iterable[tuple[list[int], list[int], Ids]], tagging: Tagging
) -> tuple[IdLists, IdLists]:
    """The rows that pairs make: with tags and EOS, in all directions."""
    src_rows, tgt_rows = [], []
    forward, *backward = tagging.directions
    for src, tgt, tags in pairs:
        src_rows.append([*forward, *tags, *src, EOS_ID])
        tgt_rows.append([*tgt, EOS_ID])
        for direction in backward:
            src_rows.append([*direction, *tags, *tgt, EOS_ID])
            tgt_rows.append([*src, EOS_ID])
    return src_rows, tgt_rows


def _count(shards: Iterable[Path], max_length: int | None) -> EncodingReport:
    kept = too_long = 0
    tokens = [0, 0]
    for path in shards:
        with np.load(path) as shard:
            n_kept = int(shard["fits"].sum())
            kept, too_long = kept + n_kept, too_long + len(shard["fits"]) - n_kept
            for i, side in enumerate(SIDES):
                tokens[i] += int(shard[f"{side}_lengths"].sum())
    if not kept:
        raise DataError(
            f"no pair is left: all {too_long} have more than data.max_length = {max_length} "
            "tokens on a side"
            if too_long
            else "no pair is left after cleaning"
        )
    return EncodingReport(kept, too_long, *tokens)


def _cut(
    pairs: Iterable[tuple[str, str]], sources: NDArray[np.uint16] | None
) -> Iterator[tuple[list[tuple[str, str]], NDArray[np.uint16] | None]]:
    """Shards of pairs, each with the sources that they are from."""
    iterator = iter(pairs)
    start = 0
    while part := list(islice(iterator, SHARD)):
        yield part, None if sources is None else sources[start : start + SHARD]
        start += SHARD
