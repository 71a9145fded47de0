"""The units of a training text, and how much of another text is none of them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_mt.text.units import N_SLOTS, text_units

_MOST_KNOWN = 100_000  # units; with more of them, too many hashes of others would collide
_LEAST_THRESHOLD, _MOST_THRESHOLD = 0.25, 0.99
_USUAL = 0.985  # of dev: as much of it is never strange
_FEW_TEXTS, _LEAST_OF_FEW = 400, 0.5  # fewer texts of dev do not tell what is usual


class KnownUnits:
    """The frequent words of a text; of unspaced scripts characters and pairs of them.

    Attributes:
        threshold: share of unknown units above which a text is strange to who learned from this
            one, from the text's own dev set.
    """

    def __init__(self, known: NDArray[np.bool_], threshold: float) -> None:
        """Args: known: (N_SLOTS,) whether a unit with that hash occurs."""
        self._known, self.threshold = known, threshold

    @classmethod
    def of(cls, batches: Iterable[list[str]], dev: Sequence[str]) -> "KnownUnits":
        """Args: batches: the training text. dev: usual texts, which did not count."""
        counts = np.zeros(N_SLOTS, dtype=np.int64)
        for texts in batches:
            counts += np.bincount(text_units(texts).slots, minlength=N_SLOTS)
        known = counts > 0
        if known.sum() > _MOST_KNOWN:
            known = counts > np.partition(counts, -_MOST_KNOWN)[-_MOST_KNOWN]
        shares = cls(known, 1.0).unknown_shares(list(dev))
        usual = float(np.quantile(shares, _USUAL)) if len(shares) else 0.0
        least = _LEAST_THRESHOLD if len(shares) >= _FEW_TEXTS else _LEAST_OF_FEW
        return cls(known, min(max(usual, least), _MOST_THRESHOLD))

    def unknown_shares(self, texts: list[str]) -> NDArray[np.float64]:
        """(n,) share of the units of each text that are unknown; 0 of a text without units."""
        units = text_units(texts)
        n = np.bincount(units.texts, minlength=len(texts))[: len(texts)]
        unknown = np.bincount(units.texts, ~self._known[units.slots], minlength=len(texts))
        return unknown[: len(texts)] / np.maximum(n, 1)

    def save(self, path: Path) -> None:
        packed = np.packbits(self._known)
        with path.open("wb") as file:
            np.savez_compressed(file, known=packed, threshold=np.float64(self.threshold))

    @classmethod
    def load(cls, path: Path) -> "KnownUnits":
        """Raises: ValueError, OSError: it is no such file."""
        with np.load(path, allow_pickle=False) as content:
            if content["known"].shape != (N_SLOTS // 8,):
                raise ValueError(f"{content['known'].shape[0]} bytes, expected {N_SLOTS // 8}")
            return cls(np.unpackbits(content["known"]).astype(bool), float(content["threshold"]))
