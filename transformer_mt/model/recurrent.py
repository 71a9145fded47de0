"""The recurrent model that the Transformer replaced: GRU layers and additive attention.

Comes in: token ids. Goes out: hidden states and logits. Each state depends on the one before it, so
positions are computed one after the other, in training as well. The layers are gated recurrent
units; an encoder layer is two of width D / 2, one for each direction. This file knows no text,
search or loss. Shapes: see `attention.py`.
Source: Bahdanau et al. 2015, "Neural Machine Translation by Jointly Learning to Align and
Translate", section 3 and appendix A; there the decoder has one layer, and maxout before the output.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from transformer_mt.config.model import ModelConfig
from transformer_mt.model.attention import may_attend
from transformer_mt.model.dropout import Dropout
from transformer_mt.model.encoder_decoder import AttentionWeights, EncoderDecoder


class Memory(NamedTuple):
    """The encoded source, as attention reads it."""

    keys: Tensor  # (B, S, D)
    values: Tensor  # (B, S, D): the states of the encoder
    mask: Tensor  # (B, 1, S), True = may attend

    def of(self, sentences: Tensor) -> "Memory":
        """The memory of the sentences with these indices, (B',) int64."""
        return Memory(*(part[sentences] for part in self))


class AdditiveAttention(nn.Module):
    """e(t, j) = vᵀ tanh(W s(t − 1) + U h(j)), a softmax over j, then the weighted mean of h.

    Source: Bahdanau et al. 2015, section 3.1 and appendix A.1.2.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_model, d_model)  # W
        self.key = nn.Linear(d_model, d_model, bias=False)  # U
        self.value = nn.Identity()
        self.score = nn.Linear(d_model, 1, bias=False)  # v

    def read(self, memory: Tensor, memory_mask: Tensor) -> Memory:
        """Project the keys, once per source. Args: see `EncoderDecoder.decode`."""
        return Memory(self.key(memory), self.value(memory), memory_mask[:, 0])

    def forward(self, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """(B, K, D) states → context vectors, (B, K, D), and attention weights, (B, K, S)."""
        pairs = torch.tanh(self.query(state)[:, :, None] + memory.keys[:, None])  # (B, K, S, D)
        scores = self.score(pairs).squeeze(-1).masked_fill(~memory.mask, -math.inf)
        shares = scores.softmax(dim=-1)
        return shares @ memory.values, shares


class RecurrentModel(EncoderDecoder):
    """Bidirectional encoder, additive attention, and a decoder that reads the context vectors.

    `model.heads` and `model.ffn` have no effect here.
    """

    def __init__(self, cfg: ModelConfig, src_vocab: int, tgt_vocab: int, *, pad_id: int = 0):
        """See `EncoderDecoder`."""
        super().__init__(cfg, src_vocab, tgt_vocab, pad_id)
        width, n_layers = cfg.d_model, cfg.decoder_layers
        self.encoder_layers = nn.ModuleList(
            nn.GRU(width, width // 2, batch_first=True, bidirectional=True)
            for _ in range(cfg.encoder_layers)
        )
        self.first_states = nn.Linear(width // 2, n_layers * width)
        self.attention = AdditiveAttention(width)
        self.decoder_layers = nn.ModuleList(
            nn.GRUCell(width if layer else 2 * width, width) for layer in range(n_layers)
        )
        self.readout = nn.Linear(3 * width, width)
        self.dropout = Dropout(cfg.dropout)
        self._add_output(tgt_vocab)

    def encode(self, src: Tensor, weights: AttentionWeights | None = None) -> tuple[Tensor, Tensor]:
        """See `EncoderDecoder.encode`."""
        padding = src == self.pad_id
        lengths = (~padding).sum(dim=1).cpu()  # where the backward direction begins
        x = self.encoder_embedding(src)
        for layer in self.encoder_layers:
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            x, _ = pad_packed_sequence(layer(packed)[0], True, total_length=src.size(1))
            x = self.dropout(x)
        return x, may_attend(padding)

    def begin(self, memory: Tensor) -> list[Tensor]:
        """(B, S, D) → the initial state of each decoder layer, (B, 1, D).

        It is computed from the backward direction's last state, which has read the whole source.
        """
        read_all = memory[:, :1, self.cfg.d_model // 2 :]
        return list(torch.tanh(self.first_states(read_all)).split(self.cfg.d_model, dim=-1))

    def step(
        self, x: Tensor, states: list[Tensor], memory: Memory
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """One position: embedded tokens, (B, K, D) → states, context vectors, attention weights."""
        context, shares = self.attention(states[-1], memory)
        below, newest = torch.cat([x, context], dim=-1), []
        for layer, state in zip(self.decoder_layers, states, strict=True):
            output = layer(below.flatten(0, 1), state.flatten(0, 1)).view_as(state)
            newest.append(output)
            below = self.dropout(output)
        return newest, context, shares

    def read_out(self, state: Tensor, context: Tensor, x: Tensor) -> Tensor:
        """(…, D) each → hidden states (…, D), which `project` takes. Source: appendix A.2.2."""
        together = torch.cat([state, context, x], dim=-1)
        return self.dropout(torch.tanh(self.readout(self.dropout(together))))

    def decode(
        self,
        tgt_in: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        weights: AttentionWeights | None = None,
    ) -> Tensor:
        """See `EncoderDecoder.decode`."""
        x = self.decoder_embedding(tgt_in)
        source, states = self.attention.read(memory, memory_mask), self.begin(memory)
        tops, contexts, all_shares = [], [], []
        for newest in x.split(1, dim=1):  # (B, 1, D), one position after the other
            states, context, shares = self.step(newest, states, source)
            tops.append(states[-1])
            contexts.append(context)
            all_shares.append(shares)
        if weights is not None:
            weights.cross.append(torch.stack(all_shares, dim=2))  # (B, 1, T, S)
        return self.read_out(torch.cat(tops, dim=1), torch.cat(contexts, dim=1), x)

    def value_projections(self, *, encoder: bool = False) -> list[nn.Module]:
        return [self.attention.value]

    def start(self, src: Tensor) -> "RecurrentDecoding":
        """See `StepDecoder.start`."""
        return RecurrentDecoding(self, *self.encode(src))


class RecurrentDecoding:
    """B sentences decoded side by side; a beam keeps one state per layer."""

    def __init__(self, model: RecurrentModel, memory: Tensor, memory_mask: Tensor) -> None:
        self._model = model
        self._memory = model.attention.read(memory, memory_mask)
        self._states = model.begin(memory)  # (B, K, D) each

    def step(self, tokens: Tensor) -> Tensor:
        """See `Decoding.step`: (B, K) int64, the newest tokens → (B, K, V) logits."""
        x = self._model.decoder_embedding(tokens)
        states = [state.expand(-1, tokens.size(1), -1) for state in self._states]
        self._states, context, _ = self._model.step(x, states, self._memory)
        return self._model.project(self._model.read_out(self._states[-1], context, x))

    def select_beams(self, parents: Tensor) -> None:
        """Reorder the beams: beam k continues the old beam `parents[:, k]`, (B, K) int64."""
        sentences = torch.arange(len(parents), device=parents.device)[:, None]
        self._states = [state[sentences, parents] for state in self._states]

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep only the sentences with these indices, (B',) int64."""
        self._memory = self._memory.of(sentences)
        self._states = [state[sentences] for state in self._states]
