"""How well the words of a source follow from a translation of it, whatever their order.

A table of the probabilities P(source unit | target unit) is learned from a training text; a unit is
a word, a number, or a character or two of an unspaced script. This file does not know what ranks by
it: `translation/noisy_channel.py`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transformer_mt.text.ibm_model_1 import position_pairs, translation_probabilities
from transformer_mt.text.units import N_SLOTS, Ints, Units, text_units

MOST_PAIRS = 200_000  # of a training text; a table of more would hold little else
_MOST_CELLS = 8_000_000  # pairs of units of a sentence pair to learn from, in some 500 MiB
_MOST_UNITS = 128  # of a side; nothing is learned from longer texts
_LEAST = 0.01  # probability below which two units do not translate each other
_CHUNK = 512  # texts looked at together
_FLOOR = 1e-5  # added to each unit's probability: what no word explains


class WordTranslations(NamedTuple):
    """The pairs of units that translate each other."""

    pairs: Ints  # (n,) ascending: unit of the source · N_SLOTS + unit of the target
    probabilities: NDArray[np.float32]  # (n,) P(source | target)

    @classmethod
    def of(cls, srcs: Sequence[str], tgts: Sequence[str]) -> "WordTranslations":
        """Learn from texts and their translations, of all or of some at even distances."""
        sides = text_units(list(srcs)), text_units(list(tgts))
        lengths = np.stack([_lengths(side, len(srcs)) for side in sides])
        rows = np.flatnonzero(lengths.max(0) <= _MOST_UNITS)
        rows = rows[:: -(-int(lengths[:, rows].prod(0).sum()) // _MOST_CELLS) or 1]
        kept = np.zeros(len(srcs), dtype=bool)
        kept[rows] = True
        src, tgt = (side.slots[kept[side.texts]] for side in sides)
        src_places, tgt_places = position_pairs(*lengths[:, rows])
        keys = src[src_places] * N_SLOTS + tgt[tgt_places]
        pairs, of_cell = np.unique(keys, return_inverse=True)
        probabilities = translation_probabilities(
            of_cell, len(pairs), src_places, pairs % N_SLOTS, N_SLOTS
        )
        likely = probabilities > _LEAST
        return cls(pairs[likely], probabilities[likely].astype(np.float32))

    def log_probs(self, srcs: Sequence[str], tgts: Sequence[str]) -> NDArray[np.float64]:
        """(n > 0,) mean of ln P(unit | target) over the units of each source, in nats.

        Each unit of the target explains each of the source with the same weight. 0 where a source
        has no units.
        """
        parts = [
            self._log_probs(*(text_units(list(side[at : at + _CHUNK])) for side in (srcs, tgts)))
            for at in range(0, len(srcs), _CHUNK)
        ]
        return np.concatenate([part[: len(srcs) - at * _CHUNK] for at, part in enumerate(parts)])

    def _log_probs(self, src: Units, tgt: Units) -> NDArray[np.float64]:
        n_src, n_tgt = _lengths(src, _CHUNK), _lengths(tgt, _CHUNK)
        src_places, tgt_places = position_pairs(n_src, n_tgt)
        explained = self._probabilities_of(src.slots[src_places], tgt.slots[tgt_places])
        sums = np.bincount(src_places, explained, len(src.slots))
        log_probs = np.log(sums / np.maximum(n_tgt, 1)[src.texts] + _FLOOR)
        return np.bincount(src.texts, log_probs, _CHUNK) / np.maximum(n_src, 1)

    def _probabilities_of(self, src: Ints, tgt: Ints) -> NDArray[np.float32]:
        """(n,) of pairs of units; 0: they are not in the table."""
        if not len(self.pairs):
            return np.zeros(len(src), dtype=np.float32)
        keys = src * N_SLOTS + tgt
        places = np.searchsorted(self.pairs, keys).clip(max=len(self.pairs) - 1)
        return self.probabilities[places] * (self.pairs[places] == keys)

    def save(self, path: Path) -> None:
        """Write one `.npz` file: the same bytes for the same table."""
        with path.open("wb") as file:
            np.savez_compressed(file, **self._asdict())

    @classmethod
    def load(cls, path: Path) -> "WordTranslations":
        """Raises: ValueError, OSError, KeyError: it is no such file."""
        with np.load(path, allow_pickle=False) as content:
            table = cls(*(content[name] for name in cls._fields))
        if [array.dtype for array in table] != [np.int64, np.float32]:
            raise ValueError("other types of numbers")
        if len({array.shape for array in table}) != 1 or table.pairs.ndim != 1:
            raise ValueError("a pair without a probability")
        if not ((table.probabilities >= 0) & (table.probabilities <= 1)).all():
            raise ValueError("a probability that is none")
        return table


def _lengths(units: Units, n_texts: int) -> Ints:
    return np.bincount(units.texts, minlength=n_texts)[:n_texts]
