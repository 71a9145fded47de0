"""Weights under plain names, one matrix for each projection: what the formats rename.

The names: `encoder.0.self_attn.q_proj.weight`, `decoder.1.encoder_attn_layer_norm.bias`,
`encoder.embedding.weight`, `decoder.norm.weight`, `output.weight`. A matrix is (out, in).
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from transformer_mt.model.transformer import Transformer

_FUSED = {"qkv_proj": "qkv", "kv_proj": "kv"}


def plain_weights(model: Transformer, order: Tensor | None = None) -> dict[str, Tensor]:
    """Name → tensor, fp32.

    Args:
        order: (D,) int64, a permutation of the features of everything that the residual stream
            passes through; the model stays the same, but for its position table.
    """
    found: dict[str, Tensor] = {}
    for name, weight in model.state_dict().items():
        for plain, part in _plain(name, weight.detach().float().cpu()):
            found[plain] = (part if order is None else _permuted(plain, part, order)).contiguous()
    return found


def sines_then_cosines(width: int) -> Tensor:
    """(D,): the order of the features in Marian, whose position table is not interleaved."""
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])


def _plain(name: str, weight: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The plain names of a parameter of `Transformer`, with the part that each has."""
    for side in ("encoder", "decoder"):
        name = name.replace(f"{side}_layers.", f"{side}.", 1)
        name = name.replace(f"{side}_embedding.tokens", f"{side}.embedding")
        name = name.replace(f"{side}_norm.", f"{side}.norm.")
    name = name.replace("_residual.layer_norm", "_layer_norm")
    fused = next((fused for fused in _FUSED if f".{fused}." in name), None)
    if fused is None:
        yield name, weight
        return
    letters = _FUSED[fused]
    for letter, part in zip(letters, weight.chunk(len(letters)), strict=True):
        yield name.replace(fused, f"{letter}_proj"), part


def _permuted(name: str, weight: Tensor, order: Tensor) -> Tensor:
    """What reads the residual stream has its columns reordered, what writes it its rows."""
    if "norm" in name:
        return weight[order]
    if name.rpartition(".")[0].endswith(("out_proj", "fc2", "down_proj")):
        return weight[order]
    return weight[:, order] if weight.dim() == 2 else weight
