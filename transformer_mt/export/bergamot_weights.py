"""The parameters of a Marian model that computes what a post-norm `Transformer` of the paper does.

Comes in: a `Transformer`. Goes out: Marian's names and arrays. Marian's embeddings differ: the
rates of its positions are 10000^(-i / (W/2 - 1)), the paper's 10000^(-i / (D/2)); all sines come
before the cosines; its decoder starts with zeros instead of the embedding of BOS. A layer before
the others puts that right (`bergamot_positions.py`). It needs features of its own, so the stream
is made wider, W = D + R, by padding.

Two things keep a normalisation over W features the same as over D. Padding holds their mean: then
it changes the variance by the factor D / W, and nothing else. And the stream is scaled by `c`, so
that the 1e-6 that Marian adds to the variance weighs as much as the 1e-5 of the paper's model.

What is added to the stream can bring its mean along. But behind a norm the stream has another
mean, that of gain · features + bias, which Marian has no matrix to compute. So padding carries it
through the norm: added to the old mean, with both signs, which the gains of padding make one
again. (It is small, so that its variance is nothing.) Where an attention follows, its norm wants
the same, and so on, until a feed-forward network can compute anew: `_paddings`.

Shapes: see `model/attention.py`; a matrix is (in, out).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer_mt.export.bergamot_positions import (
    Layout,
    as_inner_units,
    embedding_parameters,
    scattered,
)
from transformer_mt.export.weights import plain_weights
from transformer_mt.model.transformer import Transformer

_FORBIDDEN = -1e4  # added to the logit of an id that no translation holds
_LETTERS = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "out_proj": "o", "fc1": "1", "fc2": "2"}
_BLOCKS = {"self_attn": "self", "encoder_attn": "context", "ffn": "ffn"}  # in this order


def layout_of(model: Transformer, n_positions: int) -> Layout:
    cfg = model.cfg
    return Layout.of(cfg.d_model, cfg.heads, cfg.ffn, n_positions=n_positions)


def marian_parameters(
    model: Transformer, n_positions: int, silent_ids: list[int]
) -> dict[str, Tensor]:
    """Name → float32.

    Args:
        n_positions: of a source, and of a translation; later ones are not corrected.
        silent_ids: of the target's vocabulary, which no translation holds.
    """
    layout = layout_of(model, n_positions)
    plain = {name: weight.double() for name, weight in plain_weights(model).items()}
    paddings = _paddings(layout, plain)
    found: dict[str, Tensor] = {}
    for name, weight in plain.items():
        side, index, *rest = name.split(".")
        if index == "embedding":
            padding = paddings[f"{side}.0.self_attn"].before
            found |= embedding_parameters(layout, side, weight, padding, n_positions)
        elif side != "output":
            block = next(block for block in _BLOCKS if rest[0].startswith(block))
            prefix = f"{side}_l{int(index) + 2}_{_BLOCKS[block]}"  # layer 1 is not of the model
            padding_here = paddings[f"{side}.{index}.{block}"]
            found[prefix + _suffix(block, rest)] = _converted(layout, padding_here, rest, weight)
    output = plain["output.weight"]
    found["decoder_ff_logit_out_Wt"] = layout.placed(output) / layout.scale
    found["decoder_ff_logit_out_b"] = bias = torch.zeros(1, len(output))
    bias[0, silent_ids] = _FORBIDDEN
    return {name: parameter.float().contiguous() for name, parameter in found.items()}


@dataclass(frozen=True)
class _Padding:
    """What padding holds around a norm, as maps (R, D) of the stream's own features.

    Attributes:
        signs: (R,) of what it carries through the norm.
    """

    before: Tensor
    after: Tensor
    signs: Tensor


def _paddings(layout: Layout, plain: Mapping[str, Tensor]) -> dict[str, _Padding]:
    """That of every sub-layer's norm, by `encoder.0.self_attn`; from the last to the first."""
    found: dict[str, _Padding] = {}
    n_padding, n_features = len(layout.padding), len(layout.stream)
    mean = torch.full((n_padding, n_features), 1 / n_features, dtype=torch.float64)
    after, bits = mean, torch.arange(n_padding)
    ending = "_layer_norm.weight"
    norms = [name.removesuffix(ending) for name in plain if name.endswith(ending)]
    order = list(_BLOCKS)
    for name in sorted(norms, key=lambda name: _place(name, order), reverse=True):
        block = name.rpartition(".")[2]
        # Products of different blocks' signs sum to 0, too: one does not disturb the other.
        signs = 1.0 - 2.0 * (bits >> order.index(block) & 1).double()
        carried = after * plain[name + ending]
        carried = carried - carried.mean(1, keepdim=True)
        before = mean + signs[:, None] * carried
        found[name] = _Padding(before, after, signs)
        ends = block == "ffn" or name.endswith(".0.self_attn")
        after = mean if ends else before
    return found


def _place(name: str, order: list[str]) -> tuple[str, int, int]:
    side, index, block = name.split(".")
    return side, int(index), order.index(block)


def _suffix(block: str, rest: list[str]) -> str:
    """`_Wq` of `self_attn.q_proj.weight`, `_ffn_ln_bias` of `ffn_layer_norm.bias`."""
    is_weight = rest[-1] == "weight"
    if len(rest) == 3:
        return f"_{'W' if is_weight else 'b'}{_LETTERS[rest[1]]}"
    return f"_{'ffn' if block == 'ffn' else 'Wo'}_ln_{'scale' if is_weight else 'bias'}"


def _converted(layout: Layout, padding: _Padding, rest: list[str], weight: Tensor) -> Tensor:
    """A parameter of a layer, for a stream of width W.

    Args:
        rest: the parts of its name: `self_attn`, `q_proj`, `weight`.
        weight: a matrix (out, in) or a vector.
    """
    if len(rest) == 2:
        return _norm(layout, padding, rest[1], weight[None])
    module, is_matrix = rest[1], weight.dim() == 2
    columns = weight.T if is_matrix else weight[None]  # (in, out) or (1, out)
    if module in ("out_proj", "fc2"):
        columns = layout.written(columns, padding.before)  # (…, W)
        reads, n_in = layout.heads, layout.width
    else:
        columns = columns / layout.scale if is_matrix else columns
        reads, n_in = layout.stream, layout.width
        if module == "fc1":
            columns = scattered(columns, torch.arange(columns.size(1)), layout.ffn)
        else:
            if module == "q_proj":  # Marian divides by the root of its own head width
                columns = columns * math.sqrt(layout.width / len(layout.stream))
            columns = scattered(columns, layout.heads, layout.width)
    if not is_matrix:
        return columns
    if module == "fc2":
        reads, n_in = torch.arange(len(columns)), layout.ffn
    found = scattered(columns.T, reads, n_in).T
    if module in ("fc1", "fc2"):  # behind an attention's norm, padding holds the mean
        lacking = padding.before - 1 / len(layout.stream)
        reading, writing = as_inner_units(layout, lacking)
        if module == "fc1":
            found[:, -reading.size(1) :] = reading
        else:
            found[-len(writing) :] = writing
    return found


def _norm(layout: Layout, padding: _Padding, kind: str, row: Tensor) -> Tensor:
    """Args: row: (1, D), gains (kind weight) or biases."""
    if kind == "bias":
        return layout.written(row, padding.after)
    found = layout.placed(row)
    found[:, layout.padding] = padding.signs
    return found * layout.scale * math.sqrt(len(layout.stream) / layout.width)
