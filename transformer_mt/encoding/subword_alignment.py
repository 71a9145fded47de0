"""Which source sub-words a target sub-word translates, as probabilities.

Comes in: an encoded corpus. Goes out: for the pairs of a batch a probability of each pair of
positions, which training may lead the attention to. What it brings: docs/lab/guided-attention.md.

Model 1 of IBM (`text/ibm_model_1.py`) is learned in both directions, with links near the diagonal
more probable (Dyer, Chahuneau and Smith 2013); both must agree (Liang, Taskar and Klein 2006).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer_mt.encoding.encoded_corpus import EncodedCorpus, Indices
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.text.ibm_model_1 import position_pairs, translation_probabilities

_DIAGONAL = 4.0  # e^-4 at the other end of the sentence
_MOST_CELLS = 8_000_000  # pairs of positions to learn from, in some 500 MiB
_MOST_SIDE = 128  # tokens; nothing is learned from longer sentences
_LEAST = 1e-6  # probability below which an entry of both directions is as good as none


@dataclass(frozen=True)
class AlignmentModel:
    """Translation probabilities of sub-words; the tensors are on one device."""

    n_tgt: int  # size of the target's vocabulary
    words: Tensor  # (n,) int64, ascending: source id · n_tgt + target id
    to_tgt: Tensor  # (n,) float32: P(target | source)
    to_src: Tensor  # (n,) float32: P(source | target)

    def to(self, device: torch.device) -> "AlignmentModel":
        tensors = (tensor.to(device) for tensor in (self.words, self.to_tgt, self.to_src))
        return AlignmentModel(self.n_tgt, *tensors)

    def links(self, src: Tensor, tgt: Tensor) -> Tensor:
        """The probability that a target token translates a source token, in both directions.

        Args:
            src: (B, S) int64, tgt: (B, T) int64, padded to the right.
        Returns:
            (B, T, S) float32; a row has a sum of at most 1, which is small where the two directions
            disagree. 0 at padding and between sub-words that were never seen together.
        """
        if not len(self.words):
            return torch.zeros(len(src), tgt.size(1), src.size(1), device=src.device)
        keys = src[:, None, :] * self.n_tgt + tgt[:, :, None]
        places = torch.searchsorted(self.words, keys).clamp_(max=len(self.words) - 1)
        real = (src != PAD_ID)[:, None, :] & (tgt != PAD_ID)[:, :, None]
        near = _nearness(*map(_relative_positions, (src, tgt)))
        prior = near * (real & (self.words[places] == keys))
        to_tgt, to_src = self.to_tgt[places] * prior, self.to_src[places] * prior
        return _share(to_tgt, dim=2) * _share(to_src, dim=1)


def _relative_positions(ids: Tensor) -> Tensor:
    """(B, L): middles of the tokens, of a sentence from 0 to 1."""
    lengths = (ids != PAD_ID).sum(1, keepdim=True).clamp(min=1)
    return (torch.arange(ids.size(1), device=ids.device) + 0.5) / lengths


def _nearness(src: Tensor, tgt: Tensor) -> Tensor:
    return torch.exp(-_DIAGONAL * (src[:, None, :] - tgt[:, :, None]).abs())


def _share(values: Tensor, dim: int) -> Tensor:
    return values / values.sum(dim, keepdim=True).clamp(min=1e-9)


def learn_alignment(corpus: EncodedCorpus, n_src: int, n_tgt: int) -> AlignmentModel:
    """Learn from sentence pairs at even distances, as many as there is room for.

    Args:
        n_src, n_tgt: sizes of the vocabularies.
    """
    cells = _cells_of(corpus, _chosen_rows(corpus))
    words, of_cell = np.unique(cells.src_ids * n_tgt + cells.tgt_ids, return_inverse=True)
    src_words, tgt_words = np.divmod(words, n_tgt)
    learn = partial(translation_probabilities, of_cell, len(words), prior=cells.nearness)
    to_tgt = learn(cells.tgt_positions, src_words, n_src)
    to_src = learn(cells.src_positions, tgt_words, n_tgt)
    kept = to_tgt * to_src > _LEAST
    found = words[kept], to_tgt[kept].astype(np.float32), to_src[kept].astype(np.float32)
    return AlignmentModel(n_tgt, *map(torch.from_numpy, found))


@dataclass(frozen=True)
class _Cells:
    """All pairs of positions of some sentence pairs, (n,) each."""

    src_ids: Indices
    tgt_ids: Indices
    src_positions: NDArray[np.int32]  # numbered through all sentences
    tgt_positions: NDArray[np.int32]
    nearness: NDArray[np.float32]


def _chosen_rows(corpus: EncodedCorpus) -> Indices:
    """Pairs with neither side too long, at even distances, of at most `_MOST_CELLS` cells."""
    # Odd distances: where both directions are trained, every other row is the other way round.
    every = len(corpus) * 16 * 16 // (4 * _MOST_CELLS) | 1  # bounds what is looked at
    rows = np.arange(0, len(corpus), every)
    src, tgt = (side.lengths_of(rows).astype(np.int64) for side in (corpus.src, corpus.tgt))
    fits = np.maximum(src, tgt) <= _MOST_SIDE
    n_cells = int((src * tgt)[fits].sum())
    return rows[fits][:: -(-n_cells // _MOST_CELLS) | 1]


def _cells_of(corpus: EncodedCorpus, rows: Indices) -> _Cells:
    lengths = [side.lengths_of(rows).astype(np.int64) for side in (corpus.src, corpus.tgt)]
    src_ids, tgt_ids = (side.ids_of(rows) for side in (corpus.src, corpus.tgt))
    src_positions, tgt_positions = position_pairs(*lengths)
    places = [_places(of_side).astype(np.float32) for of_side in lengths]
    apart = np.abs(places[0][src_positions] - places[1][tgt_positions])
    return _Cells(
        src_ids[src_positions], tgt_ids[tgt_positions], src_positions, tgt_positions,
        np.exp(-_DIAGONAL * apart),
    )  # fmt: skip


def _places(lengths: Indices) -> NDArray[np.float64]:
    """Middles of all tokens of some sentences, of a sentence from 0 to 1."""
    firsts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return (np.arange(lengths.sum()) - firsts + 0.5) / np.repeat(lengths, lengths)
