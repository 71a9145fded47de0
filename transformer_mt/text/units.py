"""Texts → units to count: words, numbers, characters of unspaced scripts and pairs of these.

The script alone decides about words, so this file does not know any language; nor does it know the
use of the units. It is numpy over all characters at once: some 3 µs per text.
"""

import unicodedata
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

N_SLOTS = 1 << 20  # a unit is a hash of this range; two units rarely share one
WORD, NUMBER, CHARACTER, BIGRAM = range(4)  # kinds of units

_CHUNK = 4096  # texts worked on at once
_STEM = 6  # letters of a word that count, which makes most of its inflected forms one unit
_NUMBER_LENGTH = 18  # digits that count
_OTHER = 255  # white space, punctuation, symbols: they separate
# Scripts without spaces between words: Thai, Lao, Tibetan, Burmese; Khmer; kana; Han.
_UNSPACED = (
    (0x0E00, 0x109F), (0x1780, 0x17FF), (0x3041, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip
_FIRST_MULTIPLIER, _LAST_MULTIPLIER = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93  # odd, of mixed bits


class Units(NamedTuple):
    """The n units of some texts, text after text."""

    slots: Ints  # hash of the unit, in [0, N_SLOTS)
    texts: Ints  # index of the text; never falls
    kinds: NDArray[np.uint8]  # WORD, NUMBER, CHARACTER or BIGRAM

    def without_bigrams(self) -> tuple[Ints, Ints]:
        """Slots and texts of the units that share no character with another."""
        single = self.kinds != BIGRAM
        return self.slots[single], self.texts[single]


def text_units(texts: list[str]) -> Units:
    """The units of each text, but for case, width and the ends of long words."""
    parts = [
        _units(texts[start : start + _CHUNK], start) for start in range(0, len(texts) or 1, _CHUNK)
    ]
    return Units(*map(np.concatenate, zip(*parts, strict=True)))


def _units(texts: list[str], first_text: int) -> Units:
    codes, owners = _characters(texts)
    classes = _classes()[codes]
    # A run is a word, a number, or one character of an unspaced script.
    starts = np.ones(len(codes), dtype=bool)
    same = (classes[1:] == classes[:-1]) & (owners[1:] == owners[:-1])
    starts[1:] = ~same | (classes[1:] == CHARACTER)
    first = np.flatnonzero(starts)
    hashes = _hash_runs(codes, classes, first)
    kinds, owners = classes[first], owners[first]
    bigram = (kinds[1:] == CHARACTER) & (kinds[:-1] == CHARACTER) & (owners[1:] == owners[:-1])
    pairs, kept = np.flatnonzero(bigram), np.flatnonzero(kinds != _OTHER)
    bigram_hashes = hashes[pairs] * np.uint64(_FIRST_MULTIPLIER) + hashes[pairs + 1]
    all_hashes = np.concatenate([hashes[kept], bigram_hashes])
    mixed = (all_hashes ^ (all_hashes >> np.uint64(29))) * np.uint64(_LAST_MULTIPLIER)
    slots = (mixed >> np.uint64(64 - 20)).astype(np.int64)
    all_owners = np.concatenate([owners[kept], owners[pairs]])
    all_kinds = np.concatenate([kinds[kept], np.full(len(pairs), BIGRAM, dtype=np.uint8)])
    order = np.argsort(all_owners, kind="stable")
    return Units(slots[order], all_owners[order] + first_text, all_kinds[order])


def join_lines(texts: list[str]) -> str:
    """One line per text; a line end inside a text becomes a space."""
    joined = "\n".join(texts)
    if joined.count("\n") >= len(texts):
        joined = "\n".join(text.replace("\n", " ") for text in texts)
    return joined


def _characters(texts: list[str]) -> tuple[NDArray[np.uint32], Ints]:
    """Code points of all texts in lower case and half width, and the index of each one's text."""
    encoded = join_lines(texts).lower().encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(encoded, dtype=np.uint32)
    owners = np.cumsum(codes == ord("\n"))
    full_width = (codes >= 0xFF01) & (codes <= 0xFF5E)
    return np.where(full_width, codes - 0xFEE0, codes), owners


def _hash_runs(
    codes: NDArray[np.uint32], classes: NDArray[np.uint8], first: Ints
) -> NDArray[np.uint64]:
    """One number for each run of characters that starts at an index of `first`."""
    if not len(first):
        return np.empty(0, dtype=np.uint64)
    lengths = np.diff(first, append=len(codes))
    positions = np.arange(len(codes)) - np.repeat(first, lengths)
    powers = np.zeros(_NUMBER_LENGTH + 1, dtype=np.uint64)  # the last one cuts off the rest
    powers[:-1] = [pow(_FIRST_MULTIPLIER, n + 1, 1 << 64) for n in range(_NUMBER_LENGTH)]
    limits = np.where(classes == WORD, _STEM, _NUMBER_LENGTH)
    exponents = np.where(positions < limits, positions, _NUMBER_LENGTH)
    return np.add.reduceat(codes * powers[exponents], first)


@lru_cache(maxsize=1)
def _classes() -> NDArray[np.uint8]:
    """(0x110000,) kind of the run that a code point belongs to, or _OTHER."""
    classes = np.full(0x110000, _OTHER, dtype=np.uint8)
    for code in range(0x10000):
        category = unicodedata.category(chr(code))
        if category[0] in "LM":
            classes[code] = WORD
        elif category == "Nd":
            classes[code] = NUMBER
    for low, high in _UNSPACED:
        letters = (classes[low : high + 1] == WORD) | (low >= 0x10000)
        classes[low : high + 1][letters] = CHARACTER
    return classes
