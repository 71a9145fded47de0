"""One attention head as numbers: its queries, keys, values, scores, weights and output.

The matrices are recomputed step by step from the outputs of the layer's projections. This file
knows no tokenizer: labels are handed in.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from transformer_mt.explain.terminal import render_matrix
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.attention import causal_mask, may_attend, split_heads
from transformer_mt.model.transformer import Transformer
from transformer_mt.translation.attention_maps import Kind, check_choice


@dataclass(frozen=True, eq=False)
class HeadNumbers:
    """All intermediate results of one head for one sentence."""

    q: Tensor  # (T, Dh); in the encoder T = S
    k: Tensor  # (S, Dh); in the decoder's self-attention S = T. Rotary positions: q, k are turned
    v: Tensor  # (S, Dh)
    scores: Tensor  # (T, S): Q Kᵀ
    scaled: Tensor  # (T, S): scores / √Dh, −inf where masked
    weights: Tensor  # (T, S): softmax of each row
    output: Tensor  # (T, Dh)


def attend(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> HeadNumbers:
    """softmax(Q Kᵀ / √Dh) V, step by step. Source: Vaswani et al. 2017, formula 1."""
    scores = q @ k.T  # (T, S)
    scaled = scores / math.sqrt(q.size(-1))
    if attn_mask is not None:
        scaled = scaled.masked_fill(~attn_mask, -math.inf)
    weights = scaled.softmax(dim=-1)  # (T, S)
    return HeadNumbers(q, k, v, scores, scaled, weights, weights @ v)


@torch.no_grad()
def head_numbers(
    model: Transformer, src: Tensor, tgt_in: Tensor, kind: Kind, layer: int, head: int
) -> HeadNumbers:
    """Recompute one head of one layer, in float32.

    Args:
        model: in evaluation mode, so that no dropout is drawn.
        src: (1, S), tgt_in: (1, T), int64; `tgt_in` starts with BOS.
        layer, head: from 1.
    Raises:
        ConfigError: there is no such layer or head.
    """
    assert not model.training and len(src) == len(tgt_in) == 1
    layers = model.encoder_layers if kind == "encoder" else model.decoder_layers
    check_choice(layer, len(layers), tr("{} attention: layer", kind))
    check_choice(head, model.cfg.heads, tr("{} attention: head", kind))
    block: Any = layers[layer - 1]
    attention = block.encoder_attn if kind == "cross" else block.self_attn
    projected = _projections(model, src, tgt_in, attention, kind)
    q, k, v = (split_heads(y.float(), model.cfg.heads)[0, head - 1] for y in projected)
    if kind != "cross" and attention.rotary is not None:
        q, k = attention.rotary(q), attention.rotary(k)
    if kind == "decoder":
        attn_mask = causal_mask(tgt_in.size(1), tgt_in.device)
    else:
        attn_mask = may_attend(src == model.pad_id)
    return attend(q.cpu(), k.cpu(), v.cpu(), attn_mask[0, 0].cpu())


def _projections(
    model: Transformer, src: Tensor, tgt_in: Tensor, attention: nn.Module, kind: Kind
) -> list[Tensor]:
    """Q, K and V of all heads side by side, (1, T, D) and twice (1, S, D), from one pass."""
    names = ["q_proj", "kv_proj"] if kind == "cross" else ["qkv_proj"]
    caught: dict[nn.Module, Tensor] = {}

    def catch(module: nn.Module, _inputs: Any, output: Tensor) -> None:
        caught[module] = output

    modules = [attention.get_submodule(name) for name in names]
    handles = [module.register_forward_hook(catch) for module in modules]
    try:
        model(src, tgt_in)
    finally:
        for handle in handles:
            handle.remove()
    width = model.cfg.d_model
    return [part for module in modules for part in caught[module].split(width, dim=-1)]


def render_numbers(
    numbers: HeadNumbers,
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    n_features: int = 8,
    width: int = 100,
) -> str:
    """All matrices of a head as text; of Q, K, V and the output `n_features` columns.

    Args:
        rows, columns: pieces of the queries (T) and of the keys (S).
    """
    head_width = numbers.q.size(-1)
    some = tr(", first {} of {} columns", n_features, head_width) if head_width > n_features else ""
    masked = tr("; −∞: masked") if numbers.scaled.isinf().any() else ""
    q, k, v, output = (
        values[:, :n_features] for values in (numbers.q, numbers.k, numbers.v, numbers.output)
    )
    matrices: list[tuple[str, Tensor, Sequence[str], Sequence[str]]] = [
        (f"Q{some}", q, rows, ()),
        (f"K{some}", k, columns, ()),
        (f"V{some}", v, columns, ()),
        (tr("Scores = Q Kᵀ"), numbers.scores, rows, columns),
        (tr("Scaled scores = Q Kᵀ / √{}{}", head_width, masked), numbers.scaled, rows, columns),
        (tr("Weights = softmax of each row"), numbers.weights, rows, columns),
        (tr("Output = weights V{}", some), output, rows, ()),
    ]
    blocks = (render_matrix(*matrix, digits=3, width=width) for matrix in matrices)
    return "\n\n".join([title, *blocks])
