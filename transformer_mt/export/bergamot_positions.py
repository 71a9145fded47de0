"""The first layer of an exported Marian model: it turns Marian's embeddings into the paper's.

Its attention adds nothing. Its feed-forward network recognises the position by features that no
token touches (markers), takes Marian's row of the table away and adds the paper's, at the decoder's
start with the embedding of BOS. Marian normalises after each sub-layer. So every embedding has two
large numbers, K and -K (anchors): beside them the features hardly change the variance, and a
normalisation does nothing but divide by the known sqrt(2 / W) K, which the last one undoes.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer_mt.encoding.tokenizer import BOS_ID
from transformer_mt.model.transformer import NORM_EPS, sinusoidal_positions

MARIAN_EPS = 1e-6
_MARKERS = 16  # features; fewer do not tell hundreds of positions apart
_N_UNITS = 4  # linear maps that a feed-forward network computes besides
_ANCHOR = 100.0  # K, in lengths of the longest embedding


def marian_positions(length: int, width: int) -> Tensor:
    """(length, width) float64: Marian's table, all sines before all cosines."""
    n = width // 2
    rates = 10000.0 ** (-torch.arange(n, dtype=torch.float64) / (n - 1))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


@dataclass(frozen=True)
class Layout:
    """Where the features of a model are in the wider stream.

    Attributes:
        width, ffn: of the Marian model.
        stream: (D,) indices of the model's own features.
        heads: (D,) indices of the features of the heads, each of which is wider, too.
        padding: (R,) the indices that are not in `stream`; among them are, for the first layer:
        markers: (M,) sines, then cosines of the same rates, from the fastest to the slowest.
        anchors: (2,)
        scale: of the stream, `c`.
    """

    width: int
    ffn: int
    stream: Tensor
    heads: Tensor
    padding: Tensor
    markers: Tensor
    anchors: Tensor
    scale: float

    @classmethod
    def of(cls, d_model: int, heads: int, ffn: int, *, n_positions: int) -> "Layout":
        step = math.lcm(8, heads)  # the signs of padding come in eights
        width = d_model + -(-(_MARKERS + 2) // step) * step
        half = width // 2
        sines = torch.linspace(0, half - 1, _MARKERS // 2, dtype=torch.float64).round().long()
        markers = torch.cat([sines, sines + half])
        slowest = [i for i in range(half) if i not in sines.tolist()][::-1]
        padding = torch.cat([markers, torch.tensor(slowest[: width - d_model - _MARKERS])])
        own = torch.ones(width, dtype=torch.bool)
        own[padding] = False
        return cls(
            width=width, ffn=max(ffn, 2 * n_positions) + 2 * _N_UNITS,
            stream=own.nonzero().flatten(),
            heads=torch.arange(width).view(heads, -1)[:, : d_model // heads].flatten(),
            padding=padding, markers=markers, anchors=padding[_MARKERS : _MARKERS + 2],
            scale=math.sqrt(MARIAN_EPS / NORM_EPS * width / d_model),
        )  # fmt: skip

    def placed(self, rows: Tensor) -> Tensor:
        """(…, D) → (…, W), padded with zeros."""
        return scattered(rows, self.stream, self.width)

    def written(self, rows: Tensor, padding: Tensor) -> Tensor:
        """(…, D) → (…, W): what is added to the stream. Args: padding: (R, D), of a row."""
        found = self.placed(rows)
        found[..., self.padding] = rows @ padding.T
        return self.scale * found


def scattered(rows: Tensor, places: Tensor, width: int) -> Tensor:
    """(…, n) → (…, width), zero but at the n places."""
    found = rows.new_zeros(*rows.shape[:-1], width)
    found[..., places] = rows
    return found


def as_inner_units(layout: Layout, linear: Tensor) -> tuple[Tensor, Tensor]:
    """A linear map through ReLU: z = max(z, 0) - max(-z, 0).

    Args:
        linear: (R, D) of a rank up to U = 4, from the stream's own features to padding.
    Returns:
        Columns (W, 2 U) and rows (2 U, W) of the last inner units.
    """
    u, s, v = torch.linalg.svd(linear, full_matrices=False)
    read = layout.placed(v[:_N_UNITS])  # (U, W)
    written = scattered((u * s).T[:_N_UNITS], layout.padding, layout.width)
    return torch.cat([read, -read]).T, torch.cat([written, -written])


def embedding_parameters(
    layout: Layout, side: str, weight: Tensor, padding: Tensor, n_positions: int
) -> dict[str, Tensor]:
    """The embeddings of a side, and its first layer.

    Args:
        side: encoder, or decoder, whose first input is zeros and its position.
        weight: (V, D) float64.
        padding: (R, D), what padding is to hold behind that layer.
    """
    rows = layout.scale * math.sqrt(len(layout.stream)) * weight
    anchor = _ANCHOR * float(rows.norm(dim=1).max() + math.sqrt(layout.width / 2))
    embedding = layout.placed(rows)  # (V, W), each row with the sum 0
    embedding[:, layout.anchors] = -rows.sum(1, keepdim=True) / 2
    anchors = scattered(torch.tensor([anchor, -anchor]).double(), layout.anchors, layout.width)
    found = {f"{side}_Wemb": (embedding + anchors) / math.sqrt(layout.width)}
    inputs = marian_positions(n_positions, layout.width) + anchors  # of an embedding of zeros
    wanted = layout.scale * sinusoidal_positions(n_positions, len(layout.stream)).double()
    if side == "decoder":
        inputs[0] -= anchors
        wanted[0] += rows[BOS_ID]
    for _ in range(1 + (side == "decoder")):  # the norms behind the attentions
        inputs = _normalised(inputs)
    network = _feed_forward(layout, f"{side}_l1_ffn", inputs, wanted, padding, anchor)
    return found | _no_attention(layout, side) | network


def _normalised(rows: Tensor) -> Tensor:
    centred = rows - rows.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True) + MARIAN_EPS).sqrt()


def _no_attention(layout: Layout, side: str) -> dict[str, Tensor]:
    """Attentions that add zeros to the stream, with norms that do not scale it."""
    width, found = layout.width, {}
    for block in ("self", "context")[: 1 + (side == "decoder")]:
        prefix = f"{side}_l1_{block}"
        for letter in "qkvo":
            found[f"{prefix}_W{letter}"] = torch.zeros(width, width)
            found[f"{prefix}_b{letter}"] = torch.zeros(1, width)
        found[f"{prefix}_Wo_ln_scale"] = torch.ones(1, width)
        found[f"{prefix}_Wo_ln_bias"] = torch.zeros(1, width)
    return found


def _feed_forward(
    layout: Layout, prefix: str, inputs: Tensor, wanted: Tensor, padding: Tensor, anchor: float
) -> dict[str, Tensor]:
    """
    Args:
        inputs: (P, W), where the token is nothing.
        wanted: (P, D) of the stream behind the layer, where the token is nothing.
    """
    width, n = layout.width, len(inputs)
    divisor = anchor * math.sqrt(2 / width)  # of the norms behind attentions
    # Anchors have to make the sum 0; their gain makes the mean of it. They hold that and no more,
    # for a difference of the two would change the variance.
    gains = torch.ones(width).double()
    gains[layout.anchors] = -2 / (width - 2)
    is_anchor = torch.isin(layout.padding, layout.anchors)
    padding = torch.where(is_anchor[:, None], -(width - 2) / 2 / len(layout.stream), padding)
    outputs = layout.placed(wanted)
    outputs[:, layout.padding] = wanted @ padding.T
    constants = scattered(torch.tensor([anchor, -anchor]).double(), layout.anchors, width)
    padding[is_anchor] += 0.5  # an embedding has minus half its sum there already
    read, written = as_inner_units(layout, padding)  # (W, 2 U), (2 U, W)
    correction = (outputs + constants) / divisor - inputs - (inputs @ read).relu() @ written
    # min(max(z, 0), 1) = max(z, 0) - max(z - 1, 0): two units for each position
    detectors = _detectors(layout, inputs).T
    idle = layout.ffn - 2 * n - read.size(1)
    w1 = torch.cat([detectors, detectors, torch.zeros(width, idle), read], dim=1)
    w2 = torch.cat([correction, -correction, torch.zeros(idle, width), written])
    b1 = torch.zeros(1, layout.ffn)
    b1[0, n : 2 * n] = -1.0
    return {
        f"{prefix}_W1": w1, f"{prefix}_b1": b1, f"{prefix}_W2": w2,
        f"{prefix}_b2": torch.zeros(1, width), f"{prefix}_ffn_ln_scale": divisor * gains[None],
        f"{prefix}_ffn_ln_bias": -(gains * constants)[None],
    }  # fmt: skip


def _detectors(layout: Layout, inputs: Tensor) -> Tensor:
    """(P, W): the product of row p with input q is at least 1 if p = q, else at most 0.

    The product of the markers of two positions is the sum of the cosines of their distance times
    each rate: largest for p = q. A threshold is taken from it: of the slowest rate the cosine is
    always about 1, the sine about 0. With them rows are made to sum to 0, so that a mean which the
    normalisation takes away does not matter.
    """
    slow_sine, slow_cosine = layout.markers[[_MARKERS // 2 - 1, -1]].tolist()
    table = marian_positions(len(inputs), layout.width)[:, layout.markers]
    rows = scattered(table, layout.markers, layout.width)
    rows[:, slow_sine] -= rows.sum(1)
    constant = torch.zeros_like(rows[0])
    constant[slow_cosine], constant[slow_sine] = 1.0, -1.0
    ones = inputs @ constant  # (P,)
    products = (rows @ inputs.T) / ones  # (P, P)
    own = products.diagonal()
    next_best = (products - torch.diag(torch.full_like(own, math.inf))).amax(1)
    margins = (own - next_best) / 2 * ones
    assert margins.min() > 0, "positions cannot be told apart"
    return 1.1 * (rows - (own + next_best)[:, None] / 2 * constant) / margins[:, None]
