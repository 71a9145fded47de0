"""The encoder-decoder Transformer of "Attention Is All You Need", in the order of the paper.

Comes in: token ids. Goes out: hidden states and logits. This file knows no text, files, search or
loss. Parameter names follow what converters to other formats expect. The functions at the end pick
the parts that `architecture: modern` replaces. Shapes: see `attention.py`.
"""

import math
from dataclasses import dataclass, field
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_mt.config.model import ModelConfig
from transformer_mt.model.attention import CrossAttention, SelfAttention, causal_mask, may_attend
from transformer_mt.model.dropout import Dropout
from transformer_mt.model.modern import RotaryPositions, SwiGLU

NORM_EPS = 1e-5


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """The table of position encodings, sines and cosines interleaved.

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same.
    Source: Vaswani et al. 2017, section 3.5.
    Returns: (length, D) float32; row 0 is position 0.
    """
    positions = torch.arange(length, dtype=torch.float64)[:, None]
    exponents = torch.arange(0, d_model, 2, dtype=torch.float64) / d_model
    angles = positions / 10000**exponents  # (length, D / 2)
    table = torch.stack([angles.sin(), angles.cos()], dim=-1)  # (length, D / 2, 2)
    return table.flatten(1).float()


class Embedding(nn.Module):
    """Token embeddings × √D plus position encodings, then dropout.

    Source: Vaswani et al. 2017, sections 3.4, 3.5, 5.4.
    """

    positions: Tensor

    def __init__(
        self, vocab_size: int, d_model: int, dropout: float, *, add_positions: bool = True
    ) -> None:
        """Args: add_positions: False where attention itself knows positions, see `modern.py`."""
        super().__init__()
        self.add_positions = add_positions
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.dropout = Dropout(dropout)
        if add_positions:
            self.register_buffer("positions", sinusoidal_positions(512, d_model), persistent=False)

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        """(B, T) int64 → (B, T, D); `start` is the position of the first column."""
        x = self.tokens(ids) * math.sqrt(self.tokens.embedding_dim)
        if self.add_positions:
            x = x + self._position_rows(start, start + ids.size(1))
        return self.dropout(x)

    def _position_rows(self, start: int, end: int) -> Tensor:
        """(end − start, D), from a table that grows when it must."""
        if end > self.positions.size(0):
            table = sinusoidal_positions(2 * end, self.tokens.embedding_dim)
            self.positions = table.to(self.positions)
        return self.positions[start:end]


class FeedForward(nn.Module):
    """max(0, x W₁ + b₁) W₂ + b₂ at each position alone. Source: section 3.3, formula 2."""

    def __init__(self, d_model: int, ffn: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(d_model, ffn)
        self.fc2 = nn.Linear(ffn, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        return self.fc2(F.relu(self.fc1(x)))


class Residual(nn.Module):
    """The frame around every sub-layer: dropout on its output, residual, layer normalisation.

    post (the paper): LayerNorm(x + Dropout(sublayer(x))); pre: x + Dropout(sublayer(LayerNorm(x))).
    The modern architecture has RMSNorm for LayerNorm.
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


@dataclass
class AttentionWeights:
    """Collects the weights of every layer during one pass; each list has one entry per layer."""

    encoder: list[Tensor] = field(default_factory=list)  # (B, H, S, S)
    decoder: list[Tensor] = field(default_factory=list)  # (B, H, T, T)
    cross: list[Tensor] = field(default_factory=list)  # (B, H, T, S)


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


class Transformer(nn.Module):
    """Encoder, decoder and output layer. Source: Vaswani et al. 2017, figure 1."""

    def __init__(self, cfg: ModelConfig, src_vocab: int, tgt_vocab: int, *, pad_id: int = 0):
        """
        Args:
            cfg: sizes; `tie_embeddings: auto` is resolved, see `resolve_tying`.
            pad_id: id of the padding token on both sides.
        Raises:
            ValueError: `tie_embeddings` is unresolved, or asks for what the sizes forbid.
        """
        super().__init__()
        if cfg.tie_embeddings == "auto":
            raise ValueError("tie_embeddings: auto must be resolved before the model is built")
        if cfg.tie_embeddings == "all" and src_vocab != tgt_vocab:
            raise ValueError(f"cannot tie vocabularies of {src_vocab} and {tgt_vocab} entries")
        self.cfg = cfg
        self.pad_id = pad_id
        self.encoder_embedding = _embedding(cfg, src_vocab)
        self.decoder_embedding = _embedding(cfg, tgt_vocab)
        self.encoder_layers = nn.ModuleList(EncoderLayer(cfg) for _ in range(cfg.encoder_layers))
        self.decoder_layers = nn.ModuleList(DecoderLayer(cfg) for _ in range(cfg.decoder_layers))
        self.encoder_norm = _final_norm(cfg)
        self.decoder_norm = _final_norm(cfg)
        self.output = nn.Linear(cfg.d_model, tgt_vocab, bias=False)
        self._initialise()
        if cfg.tie_embeddings in ("all", "decoder"):
            self.output.weight = self.decoder_embedding.tokens.weight
        if cfg.tie_embeddings == "all":
            self.encoder_embedding.tokens.weight = self.decoder_embedding.tokens.weight

    def _initialise(self) -> None:
        """Xavier-uniform matrices, zero biases, embeddings N(0, 1/D).

        Q, K and V take the range of one matrix (D, 3·D) with three outputs, 1/√2 of their own: with
        the full range a post-norm model can stall before it attends to the source at all.
        """
        width = self.cfg.d_model
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif "embedding" in name or name == "output.weight":
                nn.init.normal_(parameter, std=width**-0.5)
            elif name.endswith(("q_proj.weight", "kv_proj.weight", "qkv_proj.weight")):
                for part in parameter.detach().split(width):
                    nn.init.xavier_uniform_(part, gain=2**-0.5)
            elif parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)

    def encode(self, src: Tensor, weights: AttentionWeights | None = None) -> tuple[Tensor, Tensor]:
        """Read the source.

        Args:
            src: (B, S) int64 ids, padded.
        Returns:
            The memory (B, S, D) and its attention mask (B, 1, 1, S), True = may attend.
        """
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
        """Hidden states that predict the token after each of `tgt_in`.

        Args:
            tgt_in: (B, T) int64, whole rows that start with BOS. Padding needs no mask here: it
                stands to the right of every real position.
            memory, memory_mask: from `encode`.
        Returns:
            (B, T, D); `project` turns them into logits.
        """
        x = self.decoder_embedding(tgt_in)
        self_mask = causal_mask(tgt_in.size(1), tgt_in.device)
        keys_values = self.project_memory(memory)
        for layer, layer_keys_values in zip(self.decoder_layers, keys_values, strict=True):
            x = layer(x, self_mask, layer_keys_values, memory_mask, weights)
        return self.decoder_norm(x)

    def project(self, hidden: Tensor) -> Tensor:
        """(…, D) → logits (…, V)."""
        return self.output(hidden)

    def forward(
        self, src: Tensor, tgt_in: Tensor, weights: AttentionWeights | None = None
    ) -> Tensor:
        """Teacher forcing: (B, S) and (B, T) int64 → hidden states (B, T, D), for the loss to take
        through the output layer in parts."""
        return self.decode(tgt_in, *self.encode(src, weights), weights)


# What `architecture` decides, all of it: the paper's parts, or those of `modern.py`.


def _embedding(cfg: ModelConfig, vocab_size: int) -> Embedding:
    return Embedding(vocab_size, cfg.d_model, cfg.dropout, add_positions=not cfg.modern)


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


def hidden_matrices(model: nn.Module) -> dict[str, int]:
    """The matrices of the layers: parameter name → how many maps stand above each other in it.

    Embeddings and the output layer are none of them.
    """
    n_stacked = {"qkv_proj": 3, "kv_proj": 2}
    return {
        name: n_stacked.get(name.split(".")[-2], 1)
        for name, parameter in model.named_parameters()
        if "_layers." in name and parameter.dim() == 2
    }


def resolve_tying(cfg: ModelConfig, *, joint: bool) -> ModelConfig:
    """Replace `tie_embeddings: auto`: all three matrices with one vocabulary, else the decoder's.

    Source: Vaswani et al. 2017, section 3.4.
    """
    if cfg.tie_embeddings != "auto":
        return cfg
    return cfg.model_copy(update={"tie_embeddings": "all" if joint else "decoder"})
