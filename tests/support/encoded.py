"""Pairs in memory, encoded by way of the text files that `encode_corpus` reads."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.encoding.encoded_corpus import EncodingReport, encode_corpus
from transformer_mt.encoding.tokenizer import Tokenizer


def encode_pairs(
    pairs: Sequence[Pair],
    tokenizers: tuple[Tokenizer, Tokenizer],
    out_dir: Path,
    *,
    sources: NDArray[np.uint16] | None = None,
    **settings: Any,
) -> EncodingReport:
    """Without line ends in the texts; see `encode_corpus`."""
    with TemporaryDirectory() as name:
        texts = Path(name, "src"), Path(name, "tgt")
        for side, path in enumerate(texts):
            path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
        if sources is not None:
            settings["sources_path"] = Path(name, "sources.npy")
            np.save(settings["sources_path"], sources)
        return encode_corpus(texts, tokenizers, out_dir, **settings)
