"""What makes decoding incremental: keys and values of earlier positions, for beams that move.

This file knows tensors only: no layers, no search. Shapes: see `attention.py`.
"""

import torch
from torch import Tensor


class KeyValueCache:
    """Keys and values of one attention layer for the target positions decoded so far.

    A position holds the K beams of a sentence side by side, so that the beams are more queries over
    the same keys, as in cross-attention. A new order of the beams moves nothing: which of the keys
    a beam descends from is for the mask to say, see `DecoderState`. The buffers grow by doubling,
    so that a step writes one position and copies nothing else.
    """

    def __init__(self, beam: int = 1) -> None:
        self.beam = beam
        self.length = 0
        self._keys: Tensor | None = None  # (B, H, capacity·K, Dh)
        self._values: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the newest position.

        Args:
            k, v: (B, H, K, Dh).
        Returns:
            All keys and values so far, (B, H, length·K, Dh), views of the buffers.
        """
        start, end = self.length * self.beam, (self.length + 1) * self.beam
        if self._keys is None or self._values is None or self._keys.size(2) < end:
            self._keys, self._values = (
                self._grown(old, k, end) for old in (self._keys, self._values)
            )
        self._keys[:, :, start:end] = k
        self._values[:, :, start:end] = v
        self.length += 1
        return self._keys[:, :, :end], self._values[:, :, :end]

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep these of the B sentences. Args: sentences: (B',) int64."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[sentences], self._values[sentences]

    def _grown(self, old: Tensor | None, like: Tensor, needed: int) -> Tensor:
        batch, heads, _, head_width = like.shape
        grown = like.new_empty(batch, heads, max(16 * self.beam, 2 * needed), head_width)
        if old is not None:
            grown[:, :, : old.size(2)] = old
        return grown


class DecoderState:
    """What an incremental decoder keeps between steps, for B sentences with K beams each.

    Per layer the keys and values of the memory and of the target so far. These stay where they were
    written when beams change places; `_ancestors` says which of them belong to whom.
    """

    def __init__(
        self, memory_keys_values: list[tuple[Tensor, Tensor]], memory_mask: Tensor, beam: int = 1
    ) -> None:
        self.memory_keys_values = memory_keys_values  # one (B, H, S, Dh) pair per layer
        self.memory_mask = memory_mask  # (B, 1, 1, S), True = may attend
        self.caches = [KeyValueCache(beam) for _ in memory_keys_values]
        beams = torch.arange(beam, device=memory_mask.device)
        self._beams = beams.expand(memory_mask.size(0), beam)  # (B, K)
        # (B, K, positions): where at each position the keys of beam k's own prefix are.
        self._ancestors = self._beams[:, :, None][:, :, :0]

    @property
    def length(self) -> int:
        """Target positions decoded so far."""
        return self.caches[0].length

    def next_mask(self) -> Tensor | None:
        """Begin a position: the mask of its self-attention, (B, 1, K, positions·K) or None."""
        beam = self._beams.size(1)
        if beam == 1:
            return None
        self._ancestors = torch.cat([self._ancestors, self._beams[:, :, None]], dim=2)
        own = self._ancestors[..., None] == self._beams[0]  # (B, K, positions, K)
        return own.flatten(2)[:, None]

    def select_beams(self, parents: Tensor) -> None:
        """Let beam k continue the former beam `parents[:, k]`. Args: parents: (B, K) int64."""
        self._ancestors = self._ancestors.gather(
            1, parents[:, :, None].expand(-1, -1, self._ancestors.size(2))
        )

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep these of the B sentences. Args: sentences: (B',) int64."""
        self.memory_keys_values = [(k[sentences], v[sentences]) for k, v in self.memory_keys_values]
        self.memory_mask = self.memory_mask[sentences]
        self._beams, self._ancestors = self._beams[sentences], self._ancestors[sentences]
        for cache in self.caches:
            cache.select_sentences(sentences)
