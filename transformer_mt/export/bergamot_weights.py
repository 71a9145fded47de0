"""The parameters of a Marian model that computes what a post-norm `Transformer` of the paper does.

Comes in: a `Transformer`. Goes out: Marian's names and arrays. Marian's embeddings differ: the
rates of its positions are 10000^(-i / (W/2 - 1)), the paper's 10000^(-i / (D/2)); all sines come
before the cosines; its decoder starts with zeros instead of the embedding of BOS. A layer before
the others puts that right (`bergamot_positions.py`). It needs features of its own, so the stream
is made wider, W = D + R, by padding.

Padding holds the mean of the other features: so a normalisation over W features has the mean of D,
and D / W of their variance. What is added to the stream can bring its mean along. But behind a norm
the stream has another mean, that of gain · features + bias, which Marian has no matrix to compute.
So padding carries it through the norm: added to the old mean, with both signs, which the gains of
padding make one again. (It is small, so that its variance is nothing.) Where an attention follows,
its norm wants the same, and so on, until a feed-forward network can compute anew.

Shapes: see `model/attention.py`; a matrix is (in, out).
"""

import math
from collections.abc import Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_mt.export.bergamot_positions import Layout, embedding_parameters
from transformer_mt.export.weights import plain_weights
from transformer_mt.model.transformer import Transformer

_FORBIDDEN = -1e4  # added to the logit of an id that no translation holds
_BLOCKS = {"self_attn": "self", "encoder_attn": "context", "ffn": "ffn"}  # in this order


def marian_parameters(
    model: Transformer, n_positions: int, silent_ids: list[int]
) -> dict[str, Tensor]:
    """Name → float32.

    Args:
        n_positions: of a source, and of a translation; later ones are not corrected.
        silent_ids: of the target's vocabulary, which no translation holds.
    """
    cfg = model.cfg
    layout = Layout.of(cfg.d_model, cfg.heads, cfg.ffn, n_positions=n_positions)
    plain = {name: weight.double() for name, weight in plain_weights(model).items()}
    found: dict[str, Tensor] = {}
    for side, n_layers in (("encoder", cfg.encoder_layers), ("decoder", cfg.decoder_layers)):
        behind = layout.mean  # (D, R): what padding is to hold behind the layer
        for index in reversed(range(n_layers)):
            layer, behind = _layer(layout, plain, f"{side}.{index}.", behind)
            prefix = f"{side}_l{index + 2}_"  # layer 1 is not of the model
            found |= {prefix + name: parameter for name, parameter in layer.items()}
        weight = plain[f"{side}.embedding.weight"]
        found |= embedding_parameters(layout, side, weight, behind, n_positions)
    found["decoder_ff_logit_out_Wt"] = plain["output.weight"] @ layout.stream
    found["decoder_ff_logit_out_b"] = bias = torch.zeros(1, model.output.out_features)
    bias[0, silent_ids] = _FORBIDDEN
    return {name: parameter.float().contiguous() for name, parameter in found.items()}


def _layer(
    layout: Layout, plain: Mapping[str, Tensor], prefix: str, behind: Tensor
) -> tuple[dict[str, Tensor], Tensor]:
    """A layer, from its last block to its first.

    Args:
        behind: (D, R), what padding is to hold behind the layer.
    Returns:
        Its parameters, and what padding is to hold in front of it.
    """
    found: dict[str, Tensor] = {}
    numbers = torch.arange(len(layout.padding))
    for i, (block, name) in reversed([*enumerate(_BLOCKS.items())]):
        norm = f"{prefix}{block}_layer_norm."
        if f"{norm}weight" not in plain:
            continue
        gain, bias = plain[f"{norm}weight"], plain[f"{norm}bias"]
        # Products of different blocks' signs sum to 0, too: one does not disturb the other.
        signs = 1.0 - 2.0 * (numbers >> i & 1).double()
        carried = gain[:, None] * behind
        before = layout.mean + signs * (carried - carried.mean(0))
        convert = _feed_forward if block == "ffn" else _attention
        for part, parameter in convert(layout, plain, f"{prefix}{block}.", before):
            found[f"{name}_{part}"] = parameter
        gains = gain @ layout.stream + signs @ layout.padding
        norm = f"{name}_{'ffn' if block == 'ffn' else 'Wo'}_ln"
        found[f"{norm}_scale"] = gains[None] * math.sqrt(len(gain) / layout.width)
        found[f"{norm}_bias"] = bias[None] @ layout.written(behind)
        behind = layout.mean if block == "ffn" else before
    return found, behind


def _attention(
    layout: Layout, plain: Mapping[str, Tensor], prefix: str, before: Tensor
) -> Iterator[tuple[str, Tensor]]:
    """Args: before: (D, R), what padding is to hold before the norm."""
    reads, heads = layout.stream, layout.heads
    # Marian divides by the root of its own head width.
    queries = heads * math.sqrt(layout.width / len(layout.stream))
    for letter, source, target in (
        ("q", reads, queries), ("k", reads, heads), ("v", reads, heads),
        ("o", heads, layout.written(before)),
    ):  # fmt: skip
        module = "out_proj" if letter == "o" else f"{letter}_proj"
        yield f"W{letter}", source.T @ plain[f"{prefix}{module}.weight"].T @ target
        yield f"b{letter}", plain[f"{prefix}{module}.bias"][None] @ target


def _feed_forward(
    layout: Layout, plain: Mapping[str, Tensor], prefix: str, before: Tensor
) -> Iterator[tuple[str, Tensor]]:
    """The same; padding holds the mean in front of it."""
    target = layout.written(before)
    w1, b1 = plain[f"{prefix}fc1.weight"].T, plain[f"{prefix}fc1.bias"]
    read, written = layout.inner_units(before - layout.mean)
    idle = layout.inner - len(b1) - len(written)
    yield "W1", torch.cat([layout.stream.T @ w1, torch.zeros(layout.width, idle), read], dim=1)
    yield "b1", F.pad(b1[None], (0, layout.inner - len(b1)))
    w2 = plain[f"{prefix}fc2.weight"].T @ target
    yield "W2", torch.cat([w2, torch.zeros(idle, layout.width), written])
    yield "b2", plain[f"{prefix}fc2.bias"][None] @ target
