"""Incremental decoding: one target position per step, with cached keys and values.

Comes in: the newest token of every beam. Goes out: logits of the next one. The layers compute the
same as `Transformer.decode`, with its parameters. A step is a few hundred operations on few numbers
each, so the number of operations decides its time: Q, K and V take one operation together, so does
the attention of few sentences; dropout and module calls take none.

Shapes: see `attention.py`.
"""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_mt.model.attention import VECTOR_BYTES, CrossAttention, softmax
from transformer_mt.model.decoder_cache import DecoderCache, Seen, added, is_explicit
from transformer_mt.model.few_rows import Function, Linear, is_plain, linear, norm
from transformer_mt.model.int8 import has_int8
from transformer_mt.model.modern import SwiGLU
from transformer_mt.model.transformer import DecoderLayer, FeedForward, Transformer

SHORTEST = VECTOR_BYTES // 4  # source: torch's softmax does not vectorise shorter rows
ENCODED_ROWS = 64  # sentences encoded at a time, padded to the longest of them


class IncrementalDecoder:
    """A model prepared for step-by-step decoding; its weights must not change afterwards."""

    def __init__(self, model: Transformer) -> None:
        """Args: model: in eval mode."""
        self.model = model
        # Of the rows between layers; integer products come in fp32 and are not rounded to bf16.
        int8 = has_int8(model.decoder_layers)
        self.dtype = torch.float32 if int8 else model.output.weight.dtype
        layers = (cast(DecoderLayer, layer) for layer in model.decoder_layers)
        self.layers = [_Layer(layer, self.dtype) for layer in layers]
        self.norm = norm(model.decoder_norm, self.dtype)
        self.output = linear(model.output, self.dtype)

    def start(self, src: Tensor) -> "Decoding":
        """Encode the padded source, (B, S) int64; neighbours should have similar lengths."""
        memory, memory_mask = self._encode(src)
        return Decoding(self, self.model.project_memory(memory), memory_mask)

    def _encode(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """`Transformer.encode`; on a CPU some sentences at a time, which saves padding."""
        if src.device.type != "cpu":
            return self.model.encode(src)
        longest, memory, mask = src.size(1), [], []
        for part in src.split(ENCODED_ROWS):
            width = int((part != self.model.pad_id).sum(dim=1).max())
            part_memory, part_mask = self.model.encode(part[:, :width])
            memory.append(F.pad(part_memory, (0, 0, 0, longest - width)))
            mask.append(F.pad(part_mask, (0, longest - width)))
        return torch.cat(memory), torch.cat(mask)


class Decoding:
    """B sentences decoded side by side, with K beams each.

    The beams of a sentence are K queries over one set of keys, as in cross-attention: a mask says
    which of them belong to a beam's own prefix, see `DecoderCache`.
    """

    def __init__(
        self,
        decoder: IncrementalDecoder,
        memory_keys_values: list[tuple[Tensor, Tensor]],
        memory_mask: Tensor,
    ) -> None:
        """
        Args:
            memory_keys_values: per layer, (B, H, S, Dh) each.
            memory_mask: (B, 1, 1, S), True = may attend.
        """
        self.length = 0  # target positions decoded so far
        self._decoder = decoder
        keys = memory_keys_values[0][0]
        longer = max(0, SHORTEST - keys.size(2)) if is_explicit(keys, SHORTEST) else 0
        self._memory = [(_longer(k, longer), _longer(v, longer)) for k, v in memory_keys_values]
        mask = F.pad(memory_mask, (0, longer))
        self._memory_mask = None if mask.all() else added(mask, keys.dtype)
        self._set_sources()
        self._cache = DecoderCache([keys for keys, _ in self._memory])

    def step(self, tokens: Tensor) -> Tensor:
        """Decode one position: (B, K) int64, the newest tokens → (B, K, V) logits of the next ones.

        The first step sets K; after that only `select_beams` changes it.
        """
        decoder = self._decoder
        x = decoder.model.decoder_embedding(tokens.view(-1, 1), self.length).squeeze(1)  # (N, D)
        x = x.to(decoder.dtype)
        newest, seen = self._cache.begin_position(tokens.size(1))
        for i, layer in enumerate(decoder.layers):
            x = layer(x, self.length, newest[i], seen[i], self._sources[i])
        self.length += 1
        return decoder.output(decoder.norm(x)).view(*tokens.shape, -1)

    def select_beams(self, parents: Tensor) -> None:
        """Reorder the beams: beam k continues the old beam `parents[:, k]`, (B, K) int64."""
        self._cache.select_beams(parents)

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep only the sentences with these indices, (B',) int64."""
        self._memory = [(keys[sentences], values[sentences]) for keys, values in self._memory]
        if self._memory_mask is not None:
            self._memory_mask = self._memory_mask[sentences]
        self._set_sources()
        self._cache.select_sentences(sentences)

    def _set_sources(self) -> None:
        """Prepare the attention of each layer to the source."""
        explicit = is_explicit(keys := self._memory[0][0], keys.size(2))
        self._sources = [
            layer.attention_to_source(Seen(*pair, self._memory_mask, explicit))
            for layer, pair in zip(self._decoder.layers, self._memory, strict=True)
        ]


class _Layer:
    """One `DecoderLayer` for rows (N, D): the newest positions of N = B·K beams."""

    def __init__(self, layer: DecoderLayer, dtype: torch.dtype) -> None:
        """Args: dtype: of the rows."""
        residuals = (layer.self_attn_residual, layer.encoder_attn_residual, layer.ffn_residual)
        self._norms = [norm(residual.layer_norm, dtype) for residual in residuals]
        self._pre = layer.ffn_residual.pre
        self._rotary = layer.self_attn.rotary
        self._qkv = linear(layer.self_attn.qkv_proj, dtype)
        self._self_out = linear(layer.self_attn.out_proj, dtype)
        self._q = linear(layer.encoder_attn.q_proj, dtype)
        self._cross_out = linear(layer.encoder_attn.out_proj, dtype)
        self._encoder_attn = layer.encoder_attn
        self._ffn = _feed_forward(layer.ffn, dtype)

    def __call__(
        self, x: Tensor, position: int, newest: Tensor, target: Seen, source: Function
    ) -> Tensor:
        """(N, D) → (N, D). Args: newest: slots to write, see `DecoderCache.begin_position`."""
        sublayers: tuple[Function, ...] = (
            lambda y: self._attend_to_target(y, position, newest, target),
            source,
            self._ffn,
        )
        for normalise, sublayer in zip(self._norms, sublayers, strict=True):
            x = x + sublayer(normalise(x)) if self._pre else normalise(x + sublayer(x))
        return x

    def _attend_to_target(self, x: Tensor, position: int, newest: Tensor, target: Seen) -> Tensor:
        batch, heads, _, head_width = target.keys.shape
        qkv = self._qkv(x).view(batch, -1, 3, heads, head_width).permute(2, 0, 3, 1, 4)
        q, kv = qkv[0], qkv[1:]  # (B, H, K, Dh), (2, B, H, K, Dh)
        if self._rotary is not None:
            q, k = self._rotary(qkv[:2].unsqueeze(-2), position).squeeze(-2).unbind()
            newest[0], newest[1] = k, qkv[2]
        else:
            newest.copy_(kv)
        return self._self_out(_attend(q, target))

    def attention_to_source(self, source: Seen) -> Function:
        """Source attention of the newest positions, (N, D) → (N, D)."""
        batch, heads, length, head_width = source.keys.shape
        is_alone = batch == 1 and source.mask is None
        if is_alone and length <= head_width and is_plain(self._encoder_attn.q_proj):
            return _folded(self._encoder_attn, source.keys[0], source.values[0])

        def attend(x: Tensor) -> Tensor:
            q = self._q(x).view(batch, -1, heads, head_width).transpose(1, 2)  # (B, H, K, Dh)
            return self._cross_out(_attend(q, source))

        return attend


def _folded(attention: CrossAttention, keys: Tensor, values: Tensor) -> Function:
    """Attention to (H, S, Dh) keys and values of one sentence, in two products instead of four.

    For each head, (x Wq) Kᵀ = x (Wq Kᵀ) and (P V) Wo = P (V Wo): the factors in brackets stay the
    same for all positions, and as long as S ≤ Dh they are no larger than Wq and Wo.
    """
    q_proj, out_proj = attention.q_proj, attention.out_proj
    heads, length, head_width = keys.shape
    keys = keys * head_width**-0.5
    bias = None if q_proj.bias is None else (keys @ q_proj.bias.view(heads, -1, 1)).flatten()
    matrix = (keys @ q_proj.weight.view(heads, head_width, -1)).flatten(0, 1)  # (H·S, D)
    scores = Linear(matrix, bias)
    matrix = (values @ out_proj.weight.t().reshape(heads, head_width, -1)).flatten(0, 1)
    outputs = Linear(matrix.t(), out_proj.bias)
    return lambda x: outputs(scores(x).view(-1, heads, length).softmax(-1).flatten(1))


def _attend(q: Tensor, seen: Seen) -> Tensor:
    """(B, H, K, Dh) → (N, D), as in `attention.attend`."""
    keys, values, mask, is_explicit = seen
    if is_explicit:
        scaled = torch.mul(q, q.size(-1) ** -0.5, out=keys.new_empty(q.shape))
        scores = (scaled @ keys.transpose(-2, -1)).float()  # (B, H, K, any)
        if mask is not None:
            scores += mask
        outputs = softmax(scores).to(keys.dtype) @ values  # (B, H, K, Dh)
    else:
        outputs = F.scaled_dot_product_attention(q.to(keys.dtype), keys, values, attn_mask=mask)
    return outputs.transpose(1, 2).reshape(-1, q.size(1) * q.size(3))


def _longer(keys: Tensor, n: int) -> Tensor:
    """(B, H, S, Dh) → (B, H, S + n, Dh), in one piece."""
    return F.pad(keys, (0, 0, 0, n)) if n else keys.contiguous()


def _feed_forward(module: nn.Module, dtype: torch.dtype) -> Function:
    if isinstance(module, SwiGLU):
        gate, up = linear(module.gate_proj, dtype), linear(module.up_proj, dtype)
        down = linear(module.down_proj, dtype)
        return lambda x: down(F.silu(gate(x)) * up(x))
    assert isinstance(module, FeedForward)
    first, second = linear(module.fc1, dtype), linear(module.fc2, dtype)
    return lambda x: second(first(x).relu_())
