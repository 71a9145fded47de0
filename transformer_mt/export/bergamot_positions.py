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
import torch.nn.functional as F
from torch import Tensor

from transformer_mt.encoding.tokenizer import BOS_ID
from transformer_mt.model.encoder_decoder import sinusoidal_positions

MARIAN_EPS = 1e-6
_MARKERS = 16  # features; fewer do not tell hundreds of positions apart
_N_UNITS = 4  # rank of a linear map that a feed-forward network computes besides
_ANCHOR = 100.0  # K, in lengths of the longest embedding


def marian_positions(length: int, width: int) -> Tensor:
    """(length, width) float64: Marian's table, all sines before all cosines."""
    n = width // 2
    rates = 10000.0 ** (-torch.arange(n, dtype=torch.float64) / (n - 1))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


@dataclass(frozen=True)
class Layout:
    """Where a model's features are in the wider stream. A row is one feature: 1 at its place.

    Attributes:
        inner: units of a feed-forward network.
        stream: (D, W) the model's own features.
        heads: (D, W) those of the heads, each of which is wider, too.
        padding: (R, W) the rest of the stream; among them are, for the first layer:
        markers: (M, W) sines, then cosines of the same rates, from the fastest to the slowest.
        anchors: (2, W)
    """

    inner: int
    stream: Tensor
    heads: Tensor
    padding: Tensor
    markers: Tensor
    anchors: Tensor

    @classmethod
    def of(cls, d_model: int, heads: int, ffn: int, *, n_positions: int) -> "Layout":
        step = math.lcm(8, heads)  # the signs of padding come in eights
        n_padding = -(-(_MARKERS + 2) // step) * step
        width = d_model + n_padding
        rates = torch.linspace(0, width // 2 - 1, _MARKERS // 2).round().long().tolist()
        markers = [*rates, *(rate + width // 2 for rate in rates)]
        slowest = [i for i in reversed(range(width // 2)) if i not in rates]
        padding = [*markers, *slowest[: n_padding - _MARKERS]]
        places = torch.eye(width, dtype=torch.float64)
        return cls(
            inner=max(ffn, 2 * n_positions) + 2 * _N_UNITS,
            stream=places[[i for i in range(width) if i not in padding]],
            heads=places.view(heads, -1, width)[:, : d_model // heads].flatten(0, 1),
            padding=places[padding], markers=places[markers],
            anchors=places[padding[_MARKERS : _MARKERS + 2]],
        )  # fmt: skip

    @property
    def width(self) -> int:
        return self.stream.size(1)

    @property
    def mean(self) -> Tensor:
        """(D, R): the mean of the stream's own features, in each feature of padding."""
        return torch.full((len(self.stream), len(self.padding)), 1 / len(self.stream)).double()

    def written(self, padding: Tensor) -> Tensor:
        """(D, W): from the model's features to the stream. Args: padding: (D, R), to padding."""
        return self.stream + padding @ self.padding

    def inner_units(self, linear: Tensor) -> tuple[Tensor, Tensor]:
        """A linear map through ReLU: z = max(z, 0) - max(-z, 0).

        Args:
            linear: (D, R) of a rank up to U = 4, from the model's features to padding.
        Returns:
            Columns (W, 2 U) and rows (2 U, W) of inner units.
        """
        u, s, v = torch.linalg.svd(linear, full_matrices=False)
        read = self.stream.T @ (u * s)[:, :_N_UNITS]
        written = v[:_N_UNITS] @ self.padding
        return torch.cat([read, -read], dim=1), torch.cat([written, -written])


def embedding_parameters(
    layout: Layout, side: str, weight: Tensor, padding: Tensor, n_positions: int
) -> dict[str, Tensor]:
    """The embeddings of a side, and its first layer.

    Args:
        side: encoder, or decoder, whose first input is zeros and its position.
        weight: (V, D) float64.
        padding: (D, R), what padding is to hold behind that layer.
    """
    d_model, width = layout.stream.shape
    rows = math.sqrt(d_model) * weight
    anchor = _ANCHOR * float(rows.norm(dim=1).max() + math.sqrt(width / 2))
    anchors = anchor * (layout.anchors[0] - layout.anchors[1])
    balance = rows.sum(1, keepdim=True) / 2 * layout.anchors.sum(0)  # each row has the sum 0
    embedding = rows @ layout.stream - balance + anchors
    inputs = marian_positions(n_positions, width) + anchors  # of an embedding of zeros
    wanted = sinusoidal_positions(n_positions, d_model).double()
    blocks = ["self"] if side == "encoder" else ["self", "context"]
    if side == "decoder":
        inputs[0] -= anchors
        wanted[0] += rows[BOS_ID]
    found = {f"{side}_Wemb": embedding / math.sqrt(width)}
    for block in blocks:
        inputs = F.layer_norm(inputs, (width,), eps=MARIAN_EPS)
        prefix = f"{side}_l1_{block}"
        for letter in "qkvo":
            found[f"{prefix}_W{letter}"] = torch.zeros(width, width)
            found[f"{prefix}_b{letter}"] = torch.zeros(1, width)
        found[f"{prefix}_Wo_ln_scale"] = torch.ones(1, width)
        found[f"{prefix}_Wo_ln_bias"] = torch.zeros(1, width)
    network = _feed_forward(layout, inputs, wanted, padding, anchors)
    return found | {f"{side}_l1_ffn_{name}": parameter for name, parameter in network.items()}


def _feed_forward(
    layout: Layout, inputs: Tensor, wanted: Tensor, padding: Tensor, anchors: Tensor
) -> dict[str, Tensor]:
    """
    Args:
        inputs: (P, W), where the token is nothing.
        wanted: (P, D) of the stream behind the layer, where the token is nothing.
        anchors: (W,)
    """
    d_model, width = layout.stream.shape
    divisor = float(anchors.max()) * math.sqrt(2 / width)  # of the norms behind attentions
    # Anchors have to make the sum 0; their gain makes the mean of it. They hold that and no more,
    # for a difference of the two would change the variance.
    is_anchor = layout.anchors.sum(0)
    gains = 1 - is_anchor * width / (width - 2)
    in_padding = layout.padding @ is_anchor > 0
    padding = torch.where(in_padding, -(width - 2) / 2 / d_model, padding)
    outputs = wanted @ layout.written(padding) + anchors
    # An embedding has minus half its sum there already.
    read, written = layout.inner_units(padding + 0.5 * in_padding)
    correction = outputs / divisor - inputs - (inputs @ read).relu() @ written
    # min(max(z, 0), 1) = max(z, 0) - max(z - 1, 0): two units for each position
    detectors = _detectors(layout, inputs).T
    idle = layout.inner - 2 * len(inputs) - len(written)
    w1 = torch.cat([detectors, detectors, torch.zeros(width, idle), read], dim=1)
    w2 = torch.cat([correction, -correction, torch.zeros(idle, width), written])
    b1 = torch.zeros(1, layout.inner)
    b1[0, len(inputs) : 2 * len(inputs)] = -1.0
    return {
        "W1": w1, "b1": b1, "W2": w2, "b2": torch.zeros(1, width),
        "ffn_ln_scale": divisor * gains[None], "ffn_ln_bias": -(gains * anchors)[None],
    }  # fmt: skip


def _detectors(layout: Layout, inputs: Tensor) -> Tensor:
    """(P, W): the product of row p with input q is at least 1 if p = q, else at most 0.

    The product of the markers of two positions is the sum of the cosines of their distance times
    each rate: largest for p = q. A threshold is taken from it: of the slowest rate the cosine is
    always about 1, the sine about 0. With them rows are made to sum to 0, so that a mean which the
    normalisation takes away does not matter.
    """
    sine, cosine = layout.markers[_MARKERS // 2 - 1], layout.markers[-1]  # of the slowest rate
    rows = marian_positions(len(inputs), layout.width) @ layout.markers.T @ layout.markers
    rows = rows - rows.sum(1, keepdim=True) * sine
    constant = cosine - sine
    ones = inputs @ constant  # (P,)
    products = (rows @ inputs.T) / ones  # (P, P)
    own = products.diagonal()
    next_best = (products - torch.diag(torch.full_like(own, math.inf))).amax(1)
    margins = (own - next_best) / 2 * ones
    assert margins.min() > 0, "positions cannot be told apart"
    return 1.1 * (rows - (own + next_best)[:, None] / 2 * constant) / margins[:, None]
