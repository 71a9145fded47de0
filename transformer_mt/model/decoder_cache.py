"""The keys and values of the target positions that search has decoded so far.

Comes in: how many beams the next position has, then their order, and which sentences stay. Goes
out: slots to write, and the slots that a beam may attend to. Shapes: see `attention.py`.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# From so many heads, and up to so many positions, two products beat the fused kernel on a CPU
# (docs/lab/decoding-changes.md).
EXPLICIT_MIN_HEADS = 64  # heads × sentences
EXPLICIT_MAX_POSITIONS = 96

FIRST_POSITIONS = 12  # of the cache, beyond the source length
# In this precision the two products copy keys and values that have unused slots between them. So
# they attend to all slots of a cache that grows by few positions.
DENSE = torch.bfloat16
DENSE_POSITIONS = 4


class Seen(NamedTuple):
    """The positions to attend to."""

    keys: Tensor  # (B, H, any, Dh)
    values: Tensor
    mask: Tensor | None  # added to the scores, broadcastable to (B, H, K, any)
    is_explicit: bool  # two products instead of the fused kernel


class DecoderCache:
    """Keys and values of B sentences with K beams each.

    A slot holds the key and value of one beam at one position. Here K = 3 beams are at position 2:
    beam 0 continues beam 1 of position 1, beams 1 and 2 continue its beam 0. The mask, which is
    added to the scores, is 0 at × and −∞ at ·:

        position    0  1        2           not yet used
        slot        0  1  2  3  4  5  6  7  8  …
        beam 0      ×  ·  ×  ·  ×  ·  ·
        beam 1      ×  ×  ·  ·  ·  ×  ·
        beam 2      ×  ×  ·  ·  ·  ·  ×
                    before      own

    A new order of the beams permutes the rows of the mask, and moves no keys or values.
    """

    def __init__(self, source: list[Tensor]) -> None:
        """Args: source: keys of each layer, (B, H, S, Dh)."""
        batch, heads, source_length, head_width = source[0].shape
        self._expected = FIRST_POSITIONS + source_length
        self._is_dense = is_explicit(source[0], 1) and source[0].dtype == DENSE
        # Keys and values of layer i are entries 2i and 2i + 1; dense, each layer has its own
        # tensor, since the allocator keeps no pieces beyond 32 MB.
        n_layers = [1] * len(source) if self._is_dense else [len(source)]
        self._slots = [source[0].new_empty(2 * n, batch, heads, 0, head_width) for n in n_layers]
        self._n_used, self._n_positions = 0, 0
        self._mask = source[0].new_empty(batch, 1, 0)  # (B, K, slots)
        self._own = source[0].new_empty(1, 0, 0)  # (1, K, K): of the newest position

    def begin_position(self, beam: int) -> tuple[list[Tensor], list[Seen]]:
        """Make room for the newest position.

        Returns:
            For each layer its newest slots, to be written, (2, B, H, K, Dh), and all of its slots.
        """
        start, end = self._n_used, self._n_used + beam
        if not start:
            self._mask = self._mask.expand(-1, beam, -1)
        if end > self._mask.size(2):
            self._grow(beam)
        if self._own.size(1) != beam:
            eye = torch.eye(beam, dtype=torch.bool, device=self._mask.device)
            self._own = added(eye, self._mask.dtype)[None]
        self._mask[:, :, start:end] = self._own
        self._n_used = end
        self._n_positions += 1
        room = self._mask.size(2)
        n_seen = room if self._is_dense and is_explicit(self._slots[0], room) else end
        only_beam = n_seen == self._n_positions  # one slot at every position
        mask = None if only_beam else self._mask[:, None, :, :n_seen]
        newest = [y for x in self._slots for y in x[:, :, :, start:end].split(2)]
        seen = [y for x in self._slots for y in x[:, :, :, :n_seen].unbind()]
        explicit = is_explicit(seen[0], n_seen)
        pairs = zip(seen[::2], seen[1::2], strict=True)
        return newest, [Seen(keys, values, mask, explicit) for keys, values in pairs]

    def select_beams(self, parents: Tensor) -> None:
        """See `Decoding.select_beams`."""
        self._mask = self._mask.gather(1, parents[:, :, None].expand(-1, -1, self._mask.size(2)))

    def select_sentences(self, sentences: Tensor) -> None:
        """See `Decoding.select_sentences`."""
        self._move(sentences, self._mask.size(2))
        self._mask = self._mask[sentences]

    def _grow(self, beam: int) -> None:
        """Grow at least by half, so that most translations need it once after the first position;
        dense, by little."""
        end = self._n_used + beam
        size = max(beam * self._expected, 3 * self._n_used // 2 + beam)
        if not self._n_used:
            size = beam  # later positions may have more
        elif self._is_dense and end <= EXPLICIT_MAX_POSITIONS:
            size = min(self._n_used + beam * DENSE_POSITIONS, EXPLICIT_MAX_POSITIONS)
        self._move(torch.arange(len(self._mask), device=self._mask.device), size)
        self._mask = F.pad(self._mask, (0, size - self._mask.size(2)), value=-math.inf)

    def _move(self, sentences: Tensor, size: int) -> None:
        """Copy these sentences, (B',) int64, into tensors with `size` slots."""
        for i, slots in enumerate(self._slots):
            n, _, heads, _, head_width = slots.shape
            self._slots[i] = slots.new_empty(n, len(sentences), heads, size, head_width)
            used, unused = self._slots[i].tensor_split([self._n_used], dim=3)
            torch.index_select(slots[:, :, :, : self._n_used], 1, sentences, out=used)
            if self._is_dense and size <= EXPLICIT_MAX_POSITIONS:
                unused.zero_()  # masked, but multiplied


def is_explicit(keys: Tensor, n_positions: int) -> bool:
    """Whether two products attend to so many positions of (…, B, H, any, Dh) keys: on a CPU, where
    many heads attend to few."""
    many_heads = keys.size(-4) * keys.size(-3) >= EXPLICIT_MIN_HEADS
    return many_heads and n_positions <= EXPLICIT_MAX_POSITIONS and keys.device.type == "cpu"


def added(may_attend: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask, True = may attend, as a term to add to the scores: 0 or −∞."""
    return torch.zeros_like(may_attend, dtype=dtype).masked_fill_(~may_attend, -math.inf)
