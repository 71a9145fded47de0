"""Encoded corpora: of pairs in memory, of ids, of lengths alone."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.encoding.encoded_corpus import (
    EncodedSide,
    EncodingReport,
    Indices,
    encode_corpus,
)
from transformer_mt.encoding.tokenizer import EOS_ID, Tokenizer


def encode_pairs(
    pairs: Sequence[Pair],
    tokenizers: tuple[Tokenizer, Tokenizer],
    out_dir: Path,
    *,
    sources: NDArray[np.uint16] | None = None,
    **settings: Any,
) -> EncodingReport:
    """By way of text files, without line ends in the texts; see `encode_corpus`."""
    with TemporaryDirectory() as name:
        texts = Path(name, "src"), Path(name, "tgt")
        for side, path in enumerate(texts):
            path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
        if sources is not None:
            settings["sources_path"] = Path(name, "sources.npy")
            np.save(settings["sources_path"], sources)
        return encode_corpus(texts, tokenizers, out_dir, **settings)


def encoded_side(rows: list[list[int]], dtype: type = np.uint16) -> EncodedSide:
    flat = [token for row in rows for token in (*row, EOS_ID)]
    return EncodedSide(np.array(flat, dtype=dtype), np.cumsum([0, *(len(row) + 1 for row in rows)]))


def side_of(lengths: Indices) -> EncodedSide:
    """Sentences of these lengths, without ids."""
    return EncodedSide(np.empty(0, np.uint16), np.append(0, np.cumsum(lengths)))


def caption_lengths(n: int, seed: int = 0) -> tuple[Indices, Indices]:
    """Like image captions: sources around 14 tokens, targets of similar but not equal length."""
    random = np.random.default_rng(seed)
    src = random.lognormal(2.6, 0.35, n).astype(np.int64) + 2
    tgt = (src * random.normal(1.0, 0.15, n)).astype(np.int64).clip(min=1) + 1
    return src, tgt
