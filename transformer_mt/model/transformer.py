"""The encoder-decoder Transformer of "Attention Is All You Need", in the order of the paper.

Comes in: token ids. Goes out: hidden states and logits. This file knows no text, files, search or
loss. Parameter names are those that converters to other formats expect. The functions at the end
choose the parts that depend on `architecture`. Shapes: see `attention.py`.
"""

from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from transformer_mt.config.model import ModelConfig
from transformer_mt.model.attention import CrossAttention, SelfAttention, causal_mask, may_attend
from transformer_mt.model.dropout import Dropout
from transformer_mt.model.encoder_decoder import AttentionWeights, EncoderDecoder
from transformer_mt.model.modern import RotaryPositions, SwiGLU

NORM_EPS = 1e-5


class FeedForward(nn.Module):
    """max(0, x W₁ + b₁) W₂ + b₂ at each position separately. Source: section 3.3, formula 2."""

    def __init__(self, d_model: int, ffn: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(d_model, ffn)
        self.fc2 = nn.Linear(ffn, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        return self.fc2(F.relu(self.fc1(x)))


class Residual(nn.Module):
    """Wraps every sub-layer: dropout on its output, residual connection, layer normalisation.

    post (the paper): LayerNorm(x + Dropout(sublayer(x))); pre: x + Dropout(sublayer(LayerNorm(x))).
    The modern architecture uses RMSNorm instead of LayerNorm.
    Source: Vaswani et al. 2017, sections 3.1 and 5.4.
    """

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        self.layer_norm = _norm(cfg)
        self.dropout = Dropout(cfg.dropout)
        self.pre = cfg.norm == "pre"

    def before(self, x: Tensor) -> Tensor:
        return self.layer_norm(x) if self.pre else x

    def after(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        x = x + self.dropout(sublayer_output)
        return x if self.pre else self.layer_norm(x)


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network. Source: section 3.1."""

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        self.self_attn = _self_attention(cfg)
        self.self_attn_residual = Residual(cfg)
        self.ffn = _feed_forward(cfg)
        self.ffn_residual = Residual(cfg)

    def forward(self, x: Tensor, attn_mask: Tensor, weights: list[Tensor] | None) -> Tensor:
        """(B, S, D) → (B, S, D)."""
        normed = self.self_attn_residual.before(x)
        x = self.self_attn_residual.after(x, self.self_attn(normed, attn_mask, weights))
        return self.ffn_residual.after(x, self.ffn(self.ffn_residual.before(x)))


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, feed-forward network. Source: section 3.1."""

    def __init__(self, cfg: ModelConfig) -> None:
        super().__init__()
        self.self_attn = _self_attention(cfg)
        self.self_attn_residual = Residual(cfg)
        self.encoder_attn = _cross_attention(cfg)
        self.encoder_attn_residual = Residual(cfg)
        self.ffn = _feed_forward(cfg)
        self.ffn_residual = Residual(cfg)

    def forward(
        self,
        x: Tensor,
        self_mask: Tensor | None,
        memory_keys_values: tuple[Tensor, Tensor],
        memory_mask: Tensor,
        weights: AttentionWeights | None,
    ) -> Tensor:
        """(B, T, D) → (B, T, D); see `Transformer.decode` for the arguments."""
        self_weights, cross_weights = (weights.decoder, weights.cross) if weights else (None, None)
        normed = self.self_attn_residual.before(x)
        attended = self.self_attn(normed, self_mask, self_weights)
        x = self.self_attn_residual.after(x, attended)
        normed = self.encoder_attn_residual.before(x)
        attended = self.encoder_attn(normed, memory_keys_values, memory_mask, cross_weights)
        x = self.encoder_attn_residual.after(x, attended)
        return self.ffn_residual.after(x, self.ffn(self.ffn_residual.before(x)))


class Transformer(EncoderDecoder):
    """Encoder, decoder and output layer. Source: Vaswani et al. 2017, figure 1."""

    def __init__(self, cfg: ModelConfig, src_vocab: int, tgt_vocab: int, *, pad_id: int = 0):
        """See `EncoderDecoder`."""
        super().__init__(cfg, src_vocab, tgt_vocab, pad_id)
        self.encoder_layers = nn.ModuleList(EncoderLayer(cfg) for _ in range(cfg.encoder_layers))
        self.decoder_layers = nn.ModuleList(DecoderLayer(cfg) for _ in range(cfg.decoder_layers))
        self.encoder_norm = _final_norm(cfg)
        self.decoder_norm = _final_norm(cfg)
        self._add_output(tgt_vocab)

    def _initialise(self, name: str, parameter: Tensor) -> None:
        """Q, K and V get the range of one (D, 3·D) matrix, 1/√2 of the range of each alone: with
        the full range a post-norm model can stall before it learns to attend to the source.
        With `modern`, the last matrix of each sub-layer is 0, so every layer starts as the identity
        (source: Goyal et al. 2017, section 5.1; effect: docs/lab/muon.md)."""
        if self.cfg.modern and name.endswith(("out_proj.weight", "down_proj.weight")):
            nn.init.zeros_(parameter)
        elif name.endswith(("q_proj.weight", "kv_proj.weight", "qkv_proj.weight")):
            for part in parameter.detach().split(self.cfg.d_model):
                nn.init.xavier_uniform_(part, gain=2**-0.5)
        else:
            super()._initialise(name, parameter)

    def encode(self, src: Tensor, weights: AttentionWeights | None = None) -> tuple[Tensor, Tensor]:
        """See `EncoderDecoder.encode`."""
        mask = may_attend(src == self.pad_id)
        x = self.encoder_embedding(src)
        for layer in self.encoder_layers:
            x = layer(x, mask, None if weights is None else weights.encoder)
        return self.encoder_norm(x), mask

    def project_memory(self, memory: Tensor) -> list[tuple[Tensor, Tensor]]:
        """(B, S, D) → keys and values, (B, H, S, Dh) each, for every decoder layer."""
        layers = (cast(DecoderLayer, layer) for layer in self.decoder_layers)
        return [layer.encoder_attn.project_memory(memory) for layer in layers]

    def decode(
        self,
        tgt_in: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        weights: AttentionWeights | None = None,
    ) -> Tensor:
        """See `EncoderDecoder.decode`. Padding needs no mask: it is to the right of every real
        position, where the causal mask hides it."""
        x = self.decoder_embedding(tgt_in)
        self_mask = causal_mask(tgt_in.size(1), tgt_in.device)
        keys_values = self.project_memory(memory)
        for layer, layer_keys_values in zip(self.decoder_layers, keys_values, strict=True):
            x = layer(x, self_mask, layer_keys_values, memory_mask, weights)
        return self.decoder_norm(x)

    def value_projections(self, *, encoder: bool = False) -> list[nn.Module]:
        decoder = (cast(DecoderLayer, layer) for layer in self.decoder_layers)
        read = (cast(EncoderLayer, layer) for layer in self.encoder_layers if encoder)
        return [
            *(layer.encoder_attn.kv_proj for layer in decoder),
            *(layer.self_attn.qkv_proj for layer in read),
        ]


# The parts that depend on `architecture`: those of the paper, or those of `modern.py`.


def _self_attention(cfg: ModelConfig) -> SelfAttention:
    if cfg.modern:
        rotary = RotaryPositions(cfg.d_model // cfg.heads)
        return SelfAttention(cfg.d_model, cfg.heads, bias=False, rotary=rotary)
    return SelfAttention(cfg.d_model, cfg.heads)


def _cross_attention(cfg: ModelConfig) -> CrossAttention:
    return CrossAttention(cfg.d_model, cfg.heads, bias=not cfg.modern)


def _feed_forward(cfg: ModelConfig) -> nn.Module:
    return (SwiGLU if cfg.modern else FeedForward)(cfg.d_model, cfg.ffn)


def _norm(cfg: ModelConfig) -> nn.Module:
    return (nn.RMSNorm if cfg.modern else nn.LayerNorm)(cfg.d_model, eps=NORM_EPS)


def _final_norm(cfg: ModelConfig) -> nn.Module:
    """Pre-norm stacks leave their sum unnormalised and need one more norm at the end."""
    return _norm(cfg) if cfg.norm == "pre" else nn.Identity()
