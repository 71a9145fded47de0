"""The base of all models: embeddings, output layer, and the interface for training and search.

Comes in: token ids. Goes out: hidden states and logits. The layers of the Transformer are in
`transformer.py`, those of the recurrent model in `recurrent.py`; this file knows only the names of
their matrices. Shapes: see `attention.py`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from transformer_mt.config.model import ModelConfig
from transformer_mt.model.dropout import Dropout


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
        """Args: add_positions: False if the layers themselves encode positions."""
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
        """(end − start, D) rows of the table, which grows on demand."""
        if end > self.positions.size(0):
            table = sinusoidal_positions(2 * end, self.tokens.embedding_dim)
            self.positions = table.to(self.positions)
        return self.positions[start:end]


@dataclass
class AttentionWeights:
    """Collects the attention weights of one forward pass; each list has one entry per layer
    with that kind of attention."""

    encoder: list[Tensor] = field(default_factory=list)  # (B, H, S, S)
    decoder: list[Tensor] = field(default_factory=list)  # (B, H, T, T)
    cross: list[Tensor] = field(default_factory=list)  # (B, H, T, S)


class EncoderDecoder(nn.Module, ABC):
    """A model that reads the source as a whole and writes the target from left to right."""

    encoder_layers: nn.ModuleList
    decoder_layers: nn.ModuleList
    output: nn.Linear

    def __init__(self, cfg: ModelConfig, src_vocab: int, tgt_vocab: int, pad_id: int) -> None:
        """A subclass adds its layers, then calls `_add_output`.

        Args:
            cfg: sizes; `tie_embeddings` is not auto, see `resolve_tying`.
            pad_id: id of the padding token on both sides.
        Raises:
            ValueError: `tie_embeddings` is auto, or all with vocabularies of different sizes.
        """
        super().__init__()
        if cfg.tie_embeddings == "auto":
            raise ValueError("tie_embeddings: auto must be resolved before the model is built")
        if cfg.tie_embeddings == "all" and src_vocab != tgt_vocab:
            raise ValueError(f"cannot tie vocabularies of {src_vocab} and {tgt_vocab} entries")
        self.cfg = cfg
        self.pad_id = pad_id
        adds_positions = cfg.architecture == "paper"
        self.encoder_embedding, self.decoder_embedding = (
            Embedding(vocab_size, cfg.d_model, cfg.dropout, add_positions=adds_positions)
            for vocab_size in (src_vocab, tgt_vocab)
        )

    def _add_output(self, tgt_vocab: int) -> None:
        """Add the output layer, initialise all parameters, and tie the embeddings."""
        self.output = nn.Linear(self.cfg.d_model, tgt_vocab, bias=False)
        for name, parameter in self.named_parameters():
            self._initialise(name, parameter)
        if self.cfg.tie_embeddings in ("all", "decoder"):
            self.output.weight = self.decoder_embedding.tokens.weight
        if self.cfg.tie_embeddings == "all":
            self.encoder_embedding.tokens.weight = self.decoder_embedding.tokens.weight

    def _initialise(self, name: str, parameter: Tensor) -> None:
        """Xavier-uniform matrices, zero biases, embeddings N(0, 1/D)."""
        if name.rpartition(".")[2].startswith("bias"):
            nn.init.zeros_(parameter)
        elif "embedding" in name or name == "output.weight":
            nn.init.normal_(parameter, std=self.cfg.d_model**-0.5)
        elif parameter.dim() == 2:
            nn.init.xavier_uniform_(parameter)

    @abstractmethod
    def encode(self, src: Tensor, weights: AttentionWeights | None = None) -> tuple[Tensor, Tensor]:
        """Read the source.

        Args:
            src: (B, S) int64 ids, padded. weights: if given, collects the attention weights.
        Returns:
            The memory (B, S, D) and its attention mask (B, 1, 1, S), True = may attend.
        """

    @abstractmethod
    def decode(
        self,
        tgt_in: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        weights: AttentionWeights | None = None,
    ) -> Tensor:
        """Hidden states that predict the token after each token of `tgt_in`.

        Args:
            tgt_in: (B, T) int64, whole rows that start with BOS.
            memory, memory_mask: from `encode`.
        Returns:
            (B, T, D); `project` turns them into logits.
        """

    @abstractmethod
    def value_projections(self, *, encoder: bool = False) -> list[nn.Module]:
        """The modules whose last D output features, (B, S, D), are the values of cross-attention;
        with `encoder`, also those of the encoder's self-attention."""

    def project(self, hidden: Tensor) -> Tensor:
        """(…, D) → logits (…, V)."""
        return self.output(hidden)

    def forward(
        self, src: Tensor, tgt_in: Tensor, weights: AttentionWeights | None = None
    ) -> Tensor:
        """Teacher forcing: (B, S) and (B, T) int64 → hidden states (B, T, D). The loss applies the
        output layer itself."""
        return self.decode(tgt_in, *self.encode(src, weights), weights)


def hidden_matrices(model: nn.Module) -> dict[str, int]:
    """The matrices of the layers, without embeddings and output layer: parameter name → the number
    of projections stacked in it."""
    n_stacked = {".qkv_proj": 3, ".kv_proj": 2, ".weight_ih": 3, ".weight_hh": 3}
    return {
        name: next((n for part, n in n_stacked.items() if part in name), 1)
        for name, parameter in model.named_parameters()
        if "_layers." in name and parameter.dim() == 2
    }


def resolve_tying(cfg: ModelConfig, *, joint: bool) -> ModelConfig:
    """Resolve `tie_embeddings: auto`: tie all with a joint vocabulary, else the decoder's two.

    Source: Vaswani et al. 2017, section 3.4.
    """
    if cfg.tie_embeddings != "auto":
        return cfg
    return cfg.model_copy(update={"tie_embeddings": "all" if joint else "decoder"})
