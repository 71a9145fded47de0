"""The layers of a Transformer with these kernels, and a model that gets them.

Comes in: a Transformer on a GPU. Goes out: the same one, with the same parameters under the same
names; outputs and gradients are the same up to rounding. The model itself does not know this file.
"""

from typing import cast

from torch import Tensor, nn

from transformer_mt.kernels import attention
from transformer_mt.kernels.linear import linear
from transformer_mt.kernels.residual import residual_norm
from transformer_mt.model.attention import CrossAttention, SelfAttention, attend
from transformer_mt.model.transformer import FeedForward, Residual


class FusedLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.bias is None else linear(x, self.weight, self.bias)


class FusedFeedForward(FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(linear(x, self.fc1.weight, self.fc1.bias, relu=True))


class FusedResidual(Residual):
    def before(self, x: Tensor) -> Tensor:
        return self._norm(x, None) if self.pre else x

    def after(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        return super().after(x, sublayer_output) if self.pre else self._norm(x, sublayer_output)

    def _norm(self, x: Tensor, y: Tensor | None) -> Tensor:
        norm, p = cast(nn.LayerNorm, self.layer_norm), self.dropout.p if self.training else 0.0
        return residual_norm(x, y, norm.weight, getattr(norm, "bias", None), norm.eps, p)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, weights: list[Tensor] | None = None
) -> Tensor:
    if (
        weights is None
        and attn_mask is not None
        and attention.fits(q.size(2), k.size(2), q.size(3))
    ):
        return attention.attend(q, k, v, attn_mask)
    return attend(q, k, v, attn_mask, weights)


class FusedSelfAttention(SelfAttention):
    attend = staticmethod(_attend)

    def forward(
        self, x: Tensor, attn_mask: Tensor | None, weights: list[Tensor] | None = None
    ) -> Tensor:
        _, length, width = x.shape
        fits = attention.fits(length, length, width // self.heads)
        if self.rotary or weights is not None or attn_mask is None or not fits:
            return super().forward(x, attn_mask, weights)
        return self.out_proj(attention.self_attend(self.qkv_proj(x), self.heads, attn_mask))


class FusedCrossAttention(CrossAttention):
    attend = staticmethod(_attend)


_FUSED: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: FusedLinear,
    FeedForward: FusedFeedForward,
    Residual: FusedResidual,
    SelfAttention: FusedSelfAttention,
    CrossAttention: FusedCrossAttention,
}


def fuse(model: nn.Module) -> None:
    """Replace the class of each layer, and nothing else of it."""
    for module in model.modules():
        module.__class__ = _FUSED.get(type(module), type(module))
