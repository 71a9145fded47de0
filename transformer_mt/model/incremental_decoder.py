"""Incremental decoding: one target position per step, with cached keys and values.

Comes in: the newest token of every beam. Goes out: logits of the next one. The layers compute the
same as `Transformer.decode`, with its parameters. A step is a few hundred operations on few numbers
each, so the number of operations decides its time: Q, K and V take one operation together, so does
the attention of few sentences; dropout and module calls take none.

Shapes: see `attention.py`; `L` decoder layers · `P` target positions so far.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_mt.model.attention import softmax
from transformer_mt.model.int8 import Int8Linear
from transformer_mt.model.modern import SwiGLU
from transformer_mt.model.transformer import DecoderLayer, FeedForward, Transformer

# On a CPU, a product of few rows with a matrix takes about as long as reading the matrix, which is
# faster in another layout (docs/lab/decoding-changes.md): transposed, or in oneDNN's own.
ONEDNN_MIN_ELEMENTS = 1 << 19  # in fp32; in bf16 and fp16, any matrix
FEW_ROWS = 512
ONEDNN_FOR_ROWS = 8  # in the layout for one row, each further row costs more

# On a CPU, batched products beat the fused kernel if many heads attend to few positions
# (docs/lab/decoding-changes.md).
EXPLICIT_MIN_HEADS = 64  # heads × sentences
EXPLICIT_MAX_POSITIONS = 96

ENCODED_ROWS = 64  # sentences encoded at a time, padded to the longest of them
FIRST_POSITIONS = 12  # of the first cache, beyond the source length

Function = Callable[[Tensor], Tensor]
_onednn = torch.ops.mkldnn


class IncrementalDecoder:
    """A model prepared for step-by-step decoding; its weights must not change afterwards."""

    def __init__(self, model: Transformer) -> None:
        """Args: model: in eval mode."""
        self.model = model
        self.layers = [_Layer(cast(DecoderLayer, layer)) for layer in model.decoder_layers]
        output = model.output
        self.output = output.in_fp32 if isinstance(output, Int8Linear) else _Linear(output)

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
        batch, heads, _, head_width = keys.shape
        self._cache = keys.new_empty(len(self._memory), batch, heads, 0, head_width)
        # Added to the scores: 0 for the slots of a beam's own prefix, −∞ for the others.
        self._mask = keys.new_empty(batch, 1, 0)  # (B, K, slots)
        self._own = keys.new_empty(1, 0, 0)  # (1, K, K): of the newest position

    def step(self, tokens: Tensor) -> Tensor:
        """Decode one position: (B, K) int64, the newest tokens → (B, K, V) logits of the next ones.

        The first step sets K; after that only `select_beams` changes it.
        """
        decoder, memory = self._decoder, self._memory
        x = decoder.model.decoder_embedding(tokens.view(-1, 1), self.length).squeeze(1)  # (N, D)
        newest, cached, mask = self._begin_position(tokens.size(1))
        for i, layer in enumerate(decoder.layers):
            k, v = 2 * i, 2 * i + 1
            target = _Seen(cached[k], cached[v], mask)
            source = _Seen(memory[k], memory[v], self._memory_mask)
            x = layer(x, self.length, newest[k : v + 1], target, source)
        self.length += 1
        return decoder.output(decoder.model.decoder_norm(x)).view(*tokens.shape, -1)

    def select_beams(self, parents: Tensor) -> None:
        """Reorder the beams: beam k continues the old beam `parents[:, k]`, (B, K) int64."""
        self._mask = self._mask.gather(1, parents[:, :, None].expand(-1, -1, self._mask.size(2)))

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep only the sentences with these indices, (B',) int64."""
        self._memory = [keys[sentences] for keys in self._memory]
        used = self._mask.size(2)
        self._cache, self._mask = self._cache[:, sentences, :, :used], self._mask[sentences]
        if self._memory_mask is not None:
            self._memory_mask = self._memory_mask[sentences]

    def _begin_position(self, beam: int) -> tuple[Tensor, tuple[Tensor, ...], Tensor | None]:
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
            The newest slots, to be written, (2L, B, H, K, Dh); the slots of all positions, 2L times
            (B, H, slots, Dh); the mask, (B, 1, K, slots), or None if nothing is masked.
        """
        start = self._mask.size(2)
        end = start + beam
        if end > self._cache.size(3):
            self._grow_cache(beam, start)
        newest, all_slots = self._cache[:, :, :, start:end], self._cache[:, :, :, :end].unbind()
        before = self._mask if start else self._mask.expand(-1, beam, -1)
        if self._own.size(1) != beam:
            eye = torch.eye(beam, dtype=torch.bool, device=before.device)
            self._own = _added(eye, before.dtype)[None]
        self._mask = torch.cat([before, self._own.expand(before.size(0), -1, -1)], dim=2)
        only_beam = end == self.length + 1  # one slot at every position
        return newest, all_slots, None if only_beam else self._mask[:, None]

    def _grow_cache(self, beam: int, n_used: int) -> None:
        """Grow the cache, at least by half; most translations need this once."""
        layers, batch, heads, _, head_width = self._cache.shape
        usual = beam * (FIRST_POSITIONS + self._memory[0].size(2))
        size = max(usual, 3 * n_used // 2 + beam)
        grown = self._cache.new_empty(layers, batch, heads, size, head_width)
        grown[:, :, :, :n_used] = self._cache[:, :, :, :n_used]
        self._cache = grown


class _Seen(NamedTuple):
    """The positions to attend to."""

    keys: Tensor  # (B, H, any, Dh)
    values: Tensor
    mask: Tensor | None  # added to the scores, broadcastable to (B, H, K, any)


class _Layer:
    """One `DecoderLayer` for rows (N, D): the newest positions of N = B·K beams."""

    def __init__(self, layer: DecoderLayer) -> None:
        residuals = (layer.self_attn_residual, layer.encoder_attn_residual, layer.ffn_residual)
        self._norms = [residual.layer_norm.forward for residual in residuals]
        self._pre = layer.ffn_residual.pre
        self._rotary = layer.self_attn.rotary
        self._qkv = _linear(layer.self_attn.qkv_proj)
        self._self_out = _linear(layer.self_attn.out_proj)
        self._q = _linear(layer.encoder_attn.q_proj)
        self._cross_out = _linear(layer.encoder_attn.out_proj)
        self._ffn = _feed_forward(layer.ffn)

    def __call__(
        self, x: Tensor, position: int, newest: Tensor, target: _Seen, source: _Seen
    ) -> Tensor:
        """(N, D) → (N, D). Args: newest: slots to write, see `Decoding._begin_position`."""
        sublayers: tuple[Function, ...] = (
            lambda y: self._attend_to_target(y, position, newest, target),
            lambda y: self._attend_to_source(y, source),
            self._ffn,
        )
        for norm, sublayer in zip(self._norms, sublayers, strict=True):
            x = x + sublayer(norm(x)) if self._pre else norm(x + sublayer(x))
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

    def _attend_to_source(self, x: Tensor, source: _Seen) -> Tensor:
        batch, heads, _, head_width = source.keys.shape
        q = self._q(x).view(batch, -1, heads, head_width).transpose(1, 2)  # (B, H, K, Dh)
        return self._cross_out(_attend(q, source))


def _attend(q: Tensor, seen: _Seen) -> Tensor:
    """(B, H, K, Dh) → (N, D), as in `attention.attend`."""
    keys, values, mask = seen
    many_heads = q.size(0) * q.size(1) >= EXPLICIT_MIN_HEADS
    if q.device.type == "cpu" and many_heads and keys.size(2) <= EXPLICIT_MAX_POSITIONS:
        if q.dtype == torch.bfloat16:
            keys = keys.contiguous()  # else the product would copy element by element
        scores = ((q * q.size(-1) ** -0.5) @ keys.transpose(-2, -1)).float()  # (B, H, K, any)
        if mask is not None:
            scores += mask
        outputs = softmax(scores).to(q.dtype) @ values  # (B, H, K, Dh)
    else:
        outputs = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
    return outputs.transpose(1, 2).reshape(-1, q.size(1) * q.size(3))


def _added(may_attend: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask, True = may attend, as a term to add to the scores: 0 or −∞."""
    return torch.zeros(may_attend.shape, dtype=dtype, device=may_attend.device).masked_fill_(
        ~may_attend, -math.inf
    )


class _Linear:
    """A linear layer with a second copy of its matrix, in the layout that few rows want."""

    def __init__(self, module: nn.Linear) -> None:
        self._weight, self._bias = module.weight, module.bias
        self._layout = _layout_for_few_rows(self._weight)
        self._copy: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """(N, in) → (N, out)."""
        if self._layout is None or x.size(0) > FEW_ROWS:
            return F.linear(x, self._weight, self._bias)
        if self._layout == "onednn":
            if self._copy is None:
                self._copy = _onednn._reorder_linear_weight(self._weight, ONEDNN_FOR_ROWS)
            return _onednn._linear_pointwise(x, self._copy, self._bias, "none", [], "")
        if self._copy is None:
            self._copy = self._weight.t().contiguous()
        return x @ self._copy if self._bias is None else torch.addmm(self._bias, x, self._copy)


def _linear(module: nn.Linear) -> Function:
    return module.forward if isinstance(module, Int8Linear) else _Linear(module)


def _layout_for_few_rows(weight: Tensor) -> Literal["onednn", "transposed"] | None:
    """The fastest that this CPU supports in this precision; None: as the matrix is."""
    if weight.device.type != "cpu":
        return None
    is_fp32, has_onednn = weight.dtype == torch.float32, torch.backends.mkldnn.is_available()
    if weight.dtype == torch.bfloat16:
        has_onednn = has_onednn and _onednn._is_mkldnn_bf16_supported()
    if weight.dtype == torch.float16:
        has_onednn = has_onednn and _onednn._is_mkldnn_fp16_supported()
    if has_onednn and not (is_fp32 and weight.numel() < ONEDNN_MIN_ELEMENTS):
        return "onednn"
    return "transposed" if is_fp32 else None


def _feed_forward(module: nn.Module) -> Function:
    if isinstance(module, SwiGLU):
        gate, up, down = map(_linear, (module.gate_proj, module.up_proj, module.down_proj))
        return lambda x: down(F.silu(gate(x)) * up(x))
    assert isinstance(module, FeedForward)
    first, second = _linear(module.fc1), _linear(module.fc2)
    return lambda x: second(first(x).relu_())
