"""A part of the loss that leads attention to the words that translate each other.

Comes in: a batch, the attention weights of its forward pass, and an alignment of sub-words. Goes
out: a sum in nats. Only the first head of the last decoder layer but one is led. What it brings:
docs/lab/guided-attention.md.

Sources: Chen, Matusov, Khadivi and Peter 2016; one head of one layer: Garg, Peitz, Nallasamy and
Paulik 2019.
"""

import torch
from torch import Tensor

from transformer_mt.encoding.subword_alignment import AlignmentModel
from transformer_mt.model.attention import EXPLICIT_MAX_CELLS
from transformer_mt.model.encoder_decoder import AttentionWeights
from transformer_mt.training.padding import Batch

_LEAST_SHARE = 1e-6  # of attention, below which the loss of a link grows no more


class AttentionGuide:
    """An alignment, and the weight in the loss of how far attention is from it."""

    def __init__(self, alignment: AlignmentModel, device: torch.device) -> None:
        self._alignment = alignment.to(device)
        self._weight = torch.zeros((), device=device)  # which a recording for a GPU reads anew

    def set_weight(self, weight: float) -> None:
        self._weight.fill_(weight)

    def collector(self, batch: Batch) -> AttentionWeights | None:
        """What the forward pass of a batch fills; None: its sentences are so long that they would
        take too much memory, and their attention is not led."""
        n_cells = batch.src.size(1) * batch.tgt_out.size(1)
        return AttentionWeights() if n_cells <= EXPLICIT_MAX_CELLS else None

    def loss(self, batch: Batch, weights: AttentionWeights) -> Tensor:
        """The weighted loss of a batch, a scalar in fp32, from what its forward pass has filled."""
        links = self._alignment.links(batch.src, batch.tgt_out)
        return self._weight * attention_loss(weights.cross[-2:][0], links)


def attention_loss(shares: Tensor, links: Tensor) -> Tensor:
    """−Σ links · log shares of the first head.

    Args:
        shares: (B, H, T, S), the weights of a layer's cross-attention.
        links: (B, T, S), probabilities; a row of zeros leads nothing.
    """
    return -(links * (shares[:, 0].float() + _LEAST_SHARE).log()).sum()
