"""Incremental decoding: one target position per step, with cached keys and values.

Comes in: the newest token of every beam. Goes out: logits of the next one. The layers compute the
same as `Transformer.decode`, with its parameters. A step is a few hundred operations on few numbers
each, so the number of operations decides its time: Q, K and V take one operation together, so does
the attention of few sentences; dropout and module calls take none.

Shapes: see `attention.py`; `L` decoder layers · `P` target positions so far.
"""

import math
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_mt.model.attention import VECTOR_BYTES, CrossAttention, softmax
from transformer_mt.model.few_rows import Function, Linear, is_plain, linear, norm
from transformer_mt.model.int8 import has_int8
from transformer_mt.model.modern import SwiGLU
from transformer_mt.model.transformer import DecoderLayer, FeedForward, Transformer

# On a CPU, batched products beat the fused kernel if many heads attend to few positions
# (docs/lab/decoding-changes.md).
EXPLICIT_MIN_HEADS = 64  # heads × sentences
EXPLICIT_MAX_POSITIONS = 96

SHORTEST = VECTOR_BYTES // 4  # source, padded: torch's softmax does not vectorise shorter rows
ENCODED_ROWS = 64  # sentences encoded at a time, padded to the longest of them
FIRST_POSITIONS = 12  # of the cache, beyond the source length
DENSE = torch.bfloat16  # whose products would copy keys and values with unused slots between them
DENSE_POSITIONS = 4  # by which a cache grows that has no unused slots for long


class IncrementalDecoder:
    """A model prepared for step-by-step decoding; its weights must not change afterwards."""

    def __init__(self, model: Transformer) -> None:
        """Args: model: in eval mode."""
        self.model = model
        # Integer products come in fp32: what lies between two of them is not rounded to bf16.
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
        longest = max(src.size(1), SHORTEST if len(src) > 1 else 1)
        memory, mask = [], []
        for part in src.split(ENCODED_ROWS):
            width = int((part != self.model.pad_id).sum(dim=1).max())
            part_memory, part_mask = self.model.encode(part[:, :width])
            memory.append(F.pad(part_memory, (0, 0, 0, longest - width)))
            mask.append(F.pad(part_mask, (0, longest - width)))
        return torch.cat(memory), torch.cat(mask)


class Decoding:
    """B sentences decoded side by side, with K beams each.

    The beams of a sentence are K queries over one set of keys, as in cross-attention. A slot holds
    the key and value of one beam at one position. Reordering the beams moves no keys and values:
    the mask says which slots belong to a beam's own prefix.
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
        # Keys and values of layer i are entries 2i and 2i + 1.
        self._memory = [x.contiguous() for pair in memory_keys_values for x in pair]
        keys = self._memory[0]
        self._memory_mask = None if memory_mask.all() else _added(memory_mask, keys.dtype)
        self._set_sources()
        batch, heads, _, head_width = keys.shape
        self._is_dense = _is_explicit(keys, 1) and keys.dtype == DENSE
        self._used = 0  # slots
        # Keys and values of layer i are entries 2i and 2i + 1; dense, each layer has its own cache,
        # since the allocator keeps no pieces beyond 32 MB.
        n_layers = [1] * len(decoder.layers) if self._is_dense else [len(decoder.layers)]
        self._cache = [keys.new_empty(2 * n, batch, heads, 0, head_width) for n in n_layers]
        # Added to the scores: 0 for the slots of a beam's own prefix, −∞ for the others.
        self._mask = keys.new_empty(batch, 1, 0)  # (B, K, slots)
        self._own = keys.new_empty(1, 0, 0)  # (1, K, K): of the newest position

    def step(self, tokens: Tensor) -> Tensor:
        """Decode one position: (B, K) int64, the newest tokens → (B, K, V) logits of the next ones.

        The first step sets K; after that only `select_beams` changes it.
        """
        decoder = self._decoder
        x = decoder.model.decoder_embedding(tokens.view(-1, 1), self.length).squeeze(1)  # (N, D)
        x = x.to(decoder.dtype)
        newest, seen, mask = self._begin_position(tokens.size(1))
        is_explicit = _is_explicit(seen[0], seen[0].size(2))
        for i, layer in enumerate(decoder.layers):
            target = _Seen(seen[2 * i], seen[2 * i + 1], mask, is_explicit)
            x = layer(x, self.length, newest[i], target, self._sources[i])
        self.length += 1
        return decoder.output(decoder.norm(x)).view(*tokens.shape, -1)

    def select_beams(self, parents: Tensor) -> None:
        """Reorder the beams: beam k continues the old beam `parents[:, k]`, (B, K) int64."""
        self._mask = self._mask.gather(1, parents[:, :, None].expand(-1, -1, self._mask.size(2)))

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep only the sentences with these indices, (B',) int64."""
        self._memory = [keys[sentences] for keys in self._memory]
        self._move_cache(sentences, self._mask.size(2))
        self._mask = self._mask[sentences]
        if self._memory_mask is not None:
            self._memory_mask = self._memory_mask[sentences]
        self._set_sources()

    def _set_sources(self) -> None:
        """Prepare the attention of each layer to the source."""
        keys, values, mask = self._memory[::2], self._memory[1::2], self._memory_mask
        self._sources = [
            layer.attention_to_source(_Seen(k, v, mask, _is_explicit(k, k.size(2))))
            for layer, k, v in zip(self._decoder.layers, keys, values, strict=True)
        ]

    def _begin_position(self, beam: int) -> tuple[list[Tensor], list[Tensor], Tensor | None]:
        """Make room for the keys and values of the newest position.

        The cache of one sentence has a slot for each beam of each position. Here K = 3 beams are at
        position 2: beam 0 continues beam 1 of position 1, beams 1 and 2 continue its beam 0. The
        mask, which is added to the scores, is 0 at × and −∞ at ·:

            position    0  1        2           not yet used
            slot        0  1  2  3  4  5  6  7  8  …
            beam 0      ×  ·  ×  ·  ×  ·  ·
            beam 1      ×  ×  ·  ·  ·  ×  ·
            beam 2      ×  ×  ·  ·  ·  ·  ×
                        before      own

        `select_beams` permutes the rows of the mask, and never moves keys or values.

        Returns:
            The newest slots, to be written, L times (2, B, H, K, Dh); the slots to attend to, 2L
            times (B, H, slots, Dh); their mask, (B, 1, K, slots), or None if nothing is masked.
        """
        start, end = self._used, self._used + beam
        if not start:
            self._mask = self._mask.expand(-1, beam, -1)
        if end > self._mask.size(2):
            self._grow_cache(beam)
        if self._own.size(1) != beam:
            eye = torch.eye(beam, dtype=torch.bool, device=self._mask.device)
            self._own = _added(eye, self._mask.dtype)[None]
        self._mask[:, :, start:end] = self._own
        self._used = end
        n_seen = self._mask.size(2) if self._is_dense else end
        only_beam = n_seen == self.length + 1  # one slot at every position
        newest = [y for x in self._cache for y in x[:, :, :, start:end].split(2)]
        seen = [y for x in self._cache for y in x[:, :, :, :n_seen].unbind()]
        return newest, seen, None if only_beam else self._mask[:, None, :, :n_seen]

    def _grow_cache(self, beam: int) -> None:
        """Grow the cache, at least by half, so that most translations need this once; or, without
        unused slots, by a few positions."""
        size = max(beam * (FIRST_POSITIONS + self._memory[0].size(2)), 3 * self._used // 2 + beam)
        if self._is_dense and self._used < EXPLICIT_MAX_POSITIONS:
            size = self._used + beam * DENSE_POSITIONS
        if not self._used:
            size = beam  # later positions may have more
        self._move_cache(torch.arange(len(self._mask), device=self._mask.device), size)
        self._mask = F.pad(self._mask, (0, size - self._mask.size(2)), value=-math.inf)

    def _move_cache(self, sentences: Tensor, size: int) -> None:
        """Copy these sentences, (B',) int64, into a cache with `size` slots."""
        for i, cache in enumerate(self._cache):
            n, _, heads, _, head_width = cache.shape
            self._cache[i] = cache.new_empty(n, len(sentences), heads, size, head_width)
            used, unused = self._cache[i].tensor_split([self._used], dim=3)
            torch.index_select(cache[:, :, :, : self._used], 1, sentences, out=used)
            if self._is_dense:
                unused.zero_()  # masked, but multiplied


class _Seen(NamedTuple):
    """The positions to attend to."""

    keys: Tensor  # (B, H, any, Dh)
    values: Tensor
    mask: Tensor | None  # added to the scores, broadcastable to (B, H, K, any)
    is_explicit: bool  # two products instead of the fused kernel


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
        self, x: Tensor, position: int, newest: Tensor, target: _Seen, source: Function
    ) -> Tensor:
        """(N, D) → (N, D). Args: newest: slots to write, see `Decoding._begin_position`."""
        sublayers: tuple[Function, ...] = (
            lambda y: self._attend_to_target(y, position, newest, target),
            source,
            self._ffn,
        )
        for normalise, sublayer in zip(self._norms, sublayers, strict=True):
            x = x + sublayer(normalise(x)) if self._pre else normalise(x + sublayer(x))
        return x

    def _attend_to_target(self, x: Tensor, position: int, newest: Tensor, target: _Seen) -> Tensor:
        batch, heads, _, head_width = target.keys.shape
        qkv = self._qkv(x).view(batch, -1, 3, heads, head_width).permute(2, 0, 3, 1, 4)
        q, kv = qkv[0], qkv[1:]  # (B, H, K, Dh), (2, B, H, K, Dh)
        if self._rotary is not None:
            q, k = self._rotary(qkv[:2].unsqueeze(-2), position).squeeze(-2).unbind()
            newest[0], newest[1] = k, qkv[2]
        else:
            newest.copy_(kv)
        return self._self_out(_attend(q, target))

    def attention_to_source(self, source: _Seen) -> Function:
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


def _attend(q: Tensor, seen: _Seen) -> Tensor:
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


def _is_explicit(keys: Tensor, n_positions: int) -> bool:
    """How so many positions of (B, H, any, Dh) keys are attended to, see `_Seen`."""
    many_heads = keys.size(0) * keys.size(1) >= EXPLICIT_MIN_HEADS
    return many_heads and n_positions <= EXPLICIT_MAX_POSITIONS and keys.device.type == "cpu"


def _added(may_attend: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask, True = may attend, as a term to add to the scores: 0 or −∞."""
    return torch.zeros_like(may_attend, dtype=dtype).masked_fill_(~may_attend, -math.inf)


def _feed_forward(module: nn.Module, dtype: torch.dtype) -> Function:
    if isinstance(module, SwiGLU):
        gate, up = linear(module.gate_proj, dtype), linear(module.up_proj, dtype)
        down = linear(module.down_proj, dtype)
        return lambda x: down(F.silu(gate(x)) * up(x))
    assert isinstance(module, FeedForward)
    first, second = linear(module.fc1, dtype), linear(module.fc2, dtype)
    return lambda x: second(first(x).relu_())
