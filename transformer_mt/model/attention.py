"""Scaled dot-product and multi-head attention.

Shapes, everywhere in tmt: `B` batch · `S` source length · `T` target length · `D` model width ·
`H` heads · `Dh` head width = D / H · `F` FFN width · `V` vocabulary · `K` beam · `N` = B·K.

Masks say in their names what True means: `attn_mask` True = *may attend*;
`…_padding_mask` True = *is padding*. The one conversion is `may_attend`.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_mt.model.modern import RotaryPositions

# Up to this many scores per head, two batched products beat the fused kernel on a CPU
# (docs/lab/attention-kernels.md); above it, the kernel wins because it does not store the scores.
EXPLICIT_MAX_CELLS = 512 * 512

# torch's softmax does not vectorise rows that are shorter than a vector register.
VECTOR_BYTES = 64 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 32


def may_attend(padding_mask: Tensor) -> Tensor:
    """(B, S) True = padding → (B, 1, 1, S) True = may attend, for all heads and queries."""
    return ~padding_mask[:, None, None, :]


def causal_mask(length: int, device: torch.device) -> Tensor:
    """(1, 1, T, T) bool, True = may attend: position t sees positions ≤ t.

    Source: Vaswani et al. 2017, section 3.2.3, third item.
    """
    ones = torch.ones(length, length, dtype=torch.bool, device=device)
    return ones.tril()[None, None]


def attend(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, weights: list[Tensor] | None = None
) -> Tensor:
    """softmax(QKᵀ / √Dh) V, one softmax along the keys for each query.

    Source: Vaswani et al. 2017, section 3.2.1, formula 1.
    Args:
        q: (B, H, T, Dh). k, v: (B, H, S, Dh).
        attn_mask: bool, broadcastable to (B, H, T, S), True = may attend; every query must have
            at least one key. None: every key may be attended to.
        weights: if given, the softmax (B, H, T, S) is appended to it, by the explicit path.
    Returns:
        (B, H, T, Dh).
    """
    n_cells = q.size(2) * k.size(2)
    if weights is None and (q.device.type != "cpu" or n_cells > EXPLICIT_MAX_CELLS):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
    # Otherwise the product would copy transposed, non-contiguous keys element by element.
    scores = (q * q.size(-1) ** -0.5) @ k.contiguous().transpose(-2, -1)  # (B, H, T, S)
    if attn_mask is not None:
        scores.masked_fill_(~attn_mask, -math.inf)
    if weights is not None and scores.dtype == torch.float16:
        scores = scores.float()  # a gradient of small shares overflows before it is multiplied
    shares = softmax(scores)  # (B, H, T, S)
    if weights is not None:
        weights.append(shares)
    return shares.to(v.dtype) @ v.contiguous()  # (B, H, T, Dh)


def softmax(scores: Tensor) -> Tensor:
    """Softmax along the last axis of (…, S), by the fastest kernel for that row length."""
    n_bytes = scores.size(-1) * scores.element_size()
    if scores.device.type == "cpu" and n_bytes < VECTOR_BYTES:
        weights: Tensor = _ShortSoftmax.apply(scores)
        return weights
    return scores.softmax(dim=-1)


class _ShortSoftmax(torch.autograd.Function):
    """Softmax of rows that are shorter than a vector register.

    Operations over all rows at once, in fp32, are faster than torch's kernel for such rows
    (docs/lab/attention-kernels.md).
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = scores.to(torch.promote_types(scores.dtype, torch.float32), copy=True)
        weights.sub_(weights.amax(-1, keepdim=True)).exp_()
        weights.div_(weights.sum(-1, keepdim=True))
        ctx.save_for_backward(weights)
        return weights.to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        products = grad_outputs[0] * weights
        products -= weights * products.sum(-1, keepdim=True)
        return products.to(grad_outputs[0].dtype)


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence over itself; Q, K, V from one fused projection.

    Source: Vaswani et al. 2017, section 3.2.2.
    """

    attend = staticmethod(attend)  # a subclass may have another kernel

    def __init__(
        self, d_model: int, heads: int, *, bias: bool = True, rotary: RotaryPositions | None = None
    ) -> None:
        """The modern model has rotary positions and no biases."""
        super().__init__()
        self.heads = heads
        self.qkv_proj = nn.Linear(d_model, 3 * d_model, bias=bias)  # rows: q, k, v
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)
        self.rotary = rotary

    def forward(
        self, x: Tensor, attn_mask: Tensor | None, weights: list[Tensor] | None = None
    ) -> Tensor:
        """(B, T, D) → (B, T, D). Args: attn_mask, weights: see `attend`."""
        q, k, v = (split_heads(y, self.heads) for y in self.qkv_proj(x).chunk(3, dim=-1))
        if self.rotary is not None:
            q, k = self.rotary(q), self.rotary(k)
        return self.out_proj(merge_heads(self.attend(q, k, v, attn_mask, weights)))


class CrossAttention(nn.Module):
    """Multi-head attention of the decoder over the encoder's output.

    Queries come from the decoder, keys and values from the memory. The memory does not change while
    a sentence is decoded, so `project_memory` is called once per sentence.
    """

    attend = staticmethod(attend)  # a subclass may have another kernel

    def __init__(self, d_model: int, heads: int, *, bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(d_model, d_model, bias=bias)
        self.kv_proj = nn.Linear(d_model, 2 * d_model, bias=bias)  # rows: k, v
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """(B, S, D) → keys and values, each (B, H, S, Dh)."""
        k, v = self.kv_proj(memory).chunk(2, dim=-1)
        return split_heads(k, self.heads), split_heads(v, self.heads)

    def forward(
        self,
        x: Tensor,
        keys_values: tuple[Tensor, Tensor],
        attn_mask: Tensor | None,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """(B, T, D) → (B, T, D).

        Args:
            keys_values: from `project_memory`, (B, H, S, Dh) each.
            attn_mask, weights: see `attend`.
        """
        q = split_heads(self.q_proj(x), self.heads)
        return self.out_proj(merge_heads(self.attend(q, *keys_values, attn_mask, weights)))


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, T, D) → (B, H, T, Dh)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, Dh) → (B, T, D): the heads side by side on the feature axis."""
    return x.transpose(1, 2).flatten(2)
