"""The encoded corpus on disk: token ids of both sides, memory-mapped.

Comes in: clean text and tokenizers. Goes out: one directory with, per side, all ids in one flat
array and the offsets of the sentences in it. Every sentence ends with EOS. This file knows nothing
of batches.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_mt.data.tokenizer import EOS_ID, Tokenizer
from transformer_mt.errors import DataError
from transformer_mt.files import write_json, writing

CHUNK = 10_000  # sentences tokenized at a time


@dataclass(frozen=True)
class EncodedSide:
    """ids: (total,) uint16 or int32 memory map; offsets: (n + 1,) int64."""

    ids: NDArray[np.integer]
    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n,) tokens per sentence, EOS included."""
        return np.diff(self.offsets)

    def sentence(self, index: int) -> list[int]:
        return self.ids[self.offsets[index] : self.offsets[index + 1]].tolist()


@dataclass(frozen=True)
class EncodedCorpus:
    src: EncodedSide
    tgt: EncodedSide

    def __len__(self) -> int:
        return len(self.src.offsets) - 1


@dataclass(frozen=True)
class EncodingReport:
    """What encoding did to one part of the corpus."""

    kept: int
    too_long: int  # pairs over the token limit on either side, dropped
    src_tokens: int
    tgt_tokens: int


def encode_corpus(
    pairs: Iterable[tuple[str, str]],
    tokenizers: tuple[Tokenizer, Tokenizer],
    out_dir: Path,
    *,
    max_length: int | None,
) -> EncodingReport:
    """Tokenize pairs and write them, streaming; memory does not grow with the corpus.

    Args:
        pairs: clean text.
        max_length: pairs with more tokens on either side (EOS not counted) are dropped and
            counted; None keeps all.
    Raises:
        DataError: nothing is left.
    """
    kept = too_long = 0
    lengths: tuple[list[int], list[int]] = ([], [])
    dtypes = [np.uint16 if t.vocab_size <= 2**16 else np.int32 for t in tokenizers]
    iterator = iter(pairs)
    with writing(out_dir) as directory:
        directory.mkdir(parents=True)
        files = [(directory / f"{side}.ids").open("wb") for side in ("src", "tgt")]
        while chunk := list(islice(iterator, CHUNK)):
            src, tgt = (t.encode([pair[i] for pair in chunk]) for i, t in enumerate(tokenizers))
            rows = list(_within_limit(src, tgt, max_length))
            too_long += len(chunk) - len(rows)
            kept += len(rows)
            for i, file in enumerate(files):
                for row in rows:
                    lengths[i].append(len(row[i]) + 1)
                flat = [token for row in rows for token in (*row[i], EOS_ID)]
                file.write(np.asarray(flat, dtype=dtypes[i]).tobytes())
        for file in files:
            file.close()
        if not kept:
            raise DataError(
                f"no pair is left: all {too_long} have more than data.max_length = {max_length} "
                "tokens on a side"
                if too_long
                else "no pair is left after cleaning"
            )
        for side, side_lengths in zip(("src", "tgt"), lengths, strict=True):
            offsets = np.concatenate([[0], np.cumsum(side_lengths, dtype=np.int64)])
            np.save(directory / f"{side}.offsets.npy", offsets)
        report = EncodingReport(kept, too_long, sum(lengths[0]), sum(lengths[1]))
        write_json(directory / "report.json", report.__dict__)
    return report


def open_corpus(directory: Path) -> EncodedCorpus:
    """Map an encoded corpus into memory.

    Raises:
        DataError: a file is missing or has been cut.
    """
    return EncodedCorpus(_open_side(directory, "src"), _open_side(directory, "tgt"))


def _open_side(directory: Path, side: str) -> EncodedSide:
    ids_path = directory / f"{side}.ids"
    try:
        offsets = np.load(directory / f"{side}.offsets.npy")
        n_bytes = ids_path.stat().st_size
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{directory}: encoded corpus is incomplete: {error}") from error
    total = int(offsets[-1])
    if n_bytes not in (2 * total, 4 * total):
        raise DataError(
            f"{ids_path}: {n_bytes} bytes for {total} tokens; delete {directory} and run again"
        )
    dtype = np.uint16 if n_bytes == 2 * total else np.int32
    return EncodedSide(np.memmap(ids_path, dtype=dtype, mode="r"), offsets)


def _within_limit(
    src: Sequence[list[int]], tgt: Sequence[list[int]], max_length: int | None
) -> Iterator[tuple[list[int], list[int]]]:
    for row in zip(src, tgt, strict=True):
        if max_length is None or max(map(len, row)) <= max_length:
            yield row
