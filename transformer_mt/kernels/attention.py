"""Attention over sentences of up to `LONGEST` tokens: one program for each sentence and head.

All scores of a head fit into one tile. So the softmax is exact in one pass, and backward makes it
again from queries, keys and values; no scores are stored. Source of the formulas: Vaswani et al.
2017, section 3.2.1; Dao et al. 2022 (FlashAttention), appendix B.2.
Shapes: see `model/attention.py`.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from transformer_mt.model.attention import merge_heads, split_heads

LONGEST = 64  # above it torch's kernel is faster
WIDTHS = (16, 32, 64, 128)  # Dh that tensor cores multiply without padding
TOKENS_PER_WARP = 16
MASKED = tl.constexpr(-1e30)  # a score without weight; finite, as rows after the end have no other


def fits(n_queries: int, n_keys: int, width: int) -> bool:
    """Whether this file has attention over so many positions with so wide heads."""
    return max(n_queries, n_keys) <= LONGEST and width in WIDTHS


def attend(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor) -> Tensor:
    """softmax(QKᵀ / √Dh) V.

    Args:
        q: (B, H, T, Dh). k, v: (B, H, S, Dh).
        attn_mask: bool, broadcastable to (B, 1, T, S), True = may attend.
    Returns:
        (B, H, T, Dh), a view of (B, T, H, Dh).
    """
    heads = q.size(1)
    out: Tensor = _Attention.apply(attn_mask, heads, *(merge_heads(x) for x in (q, k, v)))
    return split_heads(out, heads)


def self_attend(qkv: Tensor, heads: int, attn_mask: Tensor) -> Tensor:
    """The same of a sequence over itself.

    Args:
        qkv: (B, T, 3·D), queries, keys and values side by side, as are their gradients.
        attn_mask: see `attend`.
    Returns:
        (B, T, D), the heads side by side.
    """
    out: Tensor = _Attention.apply(attn_mask, heads, qkv)
    return out


class _Attention(torch.autograd.Function):
    """Of (B, T, D), (B, S, D) and (B, S, D), or of all three as (B, T, 3·D)."""

    @staticmethod
    def forward(ctx: Any, attn_mask: Tensor, heads: int, *projections: Tensor) -> Tensor:
        projections = tuple(map(_by_rows, projections))
        q, k, v = _parts(projections)
        mask = attn_mask.expand(q.size(0), 1, q.size(1), k.size(1))
        ctx.save_for_backward(mask, *projections)
        ctx.heads = heads
        out = q.new_empty(q.shape)
        _attention_forward[_grid(q, heads)](q, k, v, *_strided(mask), out, **_sizes(q, k, v, heads))
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        mask, *projections = ctx.saved_tensors
        q, k, v = _parts(projections)
        grad = _by_rows(grad_outputs[0])
        grads = [x.new_empty(x.shape) for x in projections]
        grad_q, grad_k, grad_v = _parts(grads)
        _attention_backward[_grid(q, ctx.heads)](
            q, k, v, *_strided(mask), grad, grad_q, grad_k, grad_v,
            **_sizes(q, k, v, ctx.heads), GRAD_ROW=grad.stride(1), TO_ROW=grad_q.stride(1),
        )  # fmt: skip
        return None, None, *grads


def _by_rows(x: Tensor) -> Tensor:
    """x (B, T, any) itself, if its rows lie at equal distances, else a copy."""
    is_regular = x.stride(2) == 1 and x.stride(0) == x.size(1) * x.stride(1)
    return x if is_regular else x.contiguous()


def _parts(projections: Sequence[Tensor]) -> list[Tensor]:
    """Views of queries, keys and values, (B, T or S, D) each."""
    n_parts = 3 // len(projections)
    return [part for x in projections for part in x.chunk(n_parts, -1)]


def _grid(q: Tensor, heads: int) -> tuple[int]:
    return (q.size(0) * heads,)


def _strided(mask: Tensor) -> tuple[Tensor, int, int, int]:
    """The mask and its strides along B, T and S."""
    return mask, mask.stride(0), mask.stride(2), mask.stride(3)


def _sizes(q: Tensor, k: Tensor, v: Tensor, heads: int) -> dict[str, float | int]:
    n_queries, n_keys, width = q.size(1), k.size(1), q.size(2) // heads
    tile = max(WIDTHS[0], triton.next_power_of_2(max(n_queries, n_keys)))
    return {
        "n_queries": n_queries, "n_keys": n_keys, "scale": width**-0.5,
        "HEADS": heads, "WIDTH": width, "TILE": tile, "num_warps": tile // TOKENS_PER_WARP,
        "Q_ROW": q.stride(1), "K_ROW": k.stride(1), "V_ROW": v.stride(1),
    }  # fmt: skip


@triton.jit
def _load(pointer, start, length, head, ROW: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr):
    """The rows of one sentence and head, (TILE, WIDTH); zeros after its end."""
    at = tl.arange(0, TILE)[:, None]
    offsets = (start + at) * ROW + head * WIDTH + tl.arange(0, WIDTH)[None, :]
    return tl.load(pointer + offsets, mask=at < length, other=0.0)


@triton.jit
def _store(
    pointer, x, start, length, head, ROW: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr
):
    at = tl.arange(0, TILE)[:, None]
    offsets = (start + at) * ROW + head * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(pointer + offsets, x.to(pointer.dtype.element_ty), mask=at < length)


@triton.jit
def _weights(
    q, k, mask, sentence, mask_b, mask_t, mask_s, n_queries, n_keys, scale, TILE: tl.constexpr
):
    """softmax(QKᵀ · scale) where the mask allows it, (TILE, TILE) fp32."""
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    t, s = tl.arange(0, TILE)[:, None], tl.arange(0, TILE)[None, :]
    offsets = sentence * mask_b + t * mask_t + s * mask_s
    allowed = tl.load(mask + offsets, mask=(t < n_queries) & (s < n_keys), other=0)
    scores = tl.where(allowed != 0, scores, MASKED)
    exps = tl.exp(scores - tl.max(scores, 1)[:, None])
    return exps / tl.sum(exps, 1)[:, None]


# Compiled for each of these, a kernel would be compiled for each length.
_ANY = ["mask_b", "mask_t", "mask_s", "n_queries", "n_keys"]


@triton.jit(do_not_specialize=_ANY)
def _attention_forward(
    q_ptr, k_ptr, v_ptr, mask, mask_b, mask_t, mask_s, out_ptr, n_queries, n_keys, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr,
    Q_ROW: tl.constexpr, K_ROW: tl.constexpr, V_ROW: tl.constexpr,
):  # fmt: skip
    sentence, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    q_start, k_start = sentence * n_queries, sentence * n_keys
    q = _load(q_ptr, q_start, n_queries, head, Q_ROW, WIDTH, TILE)
    k = _load(k_ptr, k_start, n_keys, head, K_ROW, WIDTH, TILE)
    v = _load(v_ptr, k_start, n_keys, head, V_ROW, WIDTH, TILE)
    weights = _weights(q, k, mask, sentence, mask_b, mask_t, mask_s, n_queries, n_keys, scale, TILE)
    out = tl.dot(weights.to(v.dtype), v, input_precision="ieee")
    _store(out_ptr, out, q_start, n_queries, head, HEADS * WIDTH, WIDTH, TILE)


@triton.jit(do_not_specialize=_ANY)
def _attention_backward(
    q_ptr, k_ptr, v_ptr, mask, mask_b, mask_t, mask_s, grad_ptr, grad_q_ptr, grad_k_ptr, grad_v_ptr,
    n_queries, n_keys, scale, HEADS: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr,
    Q_ROW: tl.constexpr, K_ROW: tl.constexpr, V_ROW: tl.constexpr, GRAD_ROW: tl.constexpr,
    TO_ROW: tl.constexpr,
):  # fmt: skip
    sentence, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    q_start, k_start = sentence * n_queries, sentence * n_keys
    q = _load(q_ptr, q_start, n_queries, head, Q_ROW, WIDTH, TILE)
    k = _load(k_ptr, k_start, n_keys, head, K_ROW, WIDTH, TILE)
    v = _load(v_ptr, k_start, n_keys, head, V_ROW, WIDTH, TILE)
    grad = _load(grad_ptr, q_start, n_queries, head, GRAD_ROW, WIDTH, TILE)
    weights = _weights(q, k, mask, sentence, mask_b, mask_t, mask_s, n_queries, n_keys, scale, TILE)
    grad_v = tl.dot(tl.trans(weights.to(v.dtype)), grad, input_precision="ieee")
    _store(grad_v_ptr, grad_v, k_start, n_keys, head, TO_ROW, WIDTH, TILE)
    grad_weights = tl.dot(grad, tl.trans(v), input_precision="ieee")
    mean = tl.sum(weights * grad_weights, 1)[:, None]
    grad_scores = (weights * (grad_weights - mean) * scale).to(q.dtype)
    grad_q = tl.dot(grad_scores, k, input_precision="ieee")
    _store(grad_q_ptr, grad_q, q_start, n_queries, head, TO_ROW, WIDTH, TILE)
    grad_k = tl.dot(tl.trans(grad_scores), q, input_precision="ieee")
    _store(grad_k_ptr, grad_k, k_start, n_keys, head, TO_ROW, WIDTH, TILE)
