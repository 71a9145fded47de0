"""Lines → coarse units of their words and characters, all lines of a block at once.

A unit is the beginning of a word (three letters or digits), a character of Chinese or Japanese, or
one of a few marks. Coarser than the units of `text/units.py` and several times as fast, since
every line of a corpus passes here while one process reads it. This file does not know any language.
"""

import unicodedata
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transformer_mt.system.arrays import Ints
from transformer_mt.text.units import join_lines

N_UNITS = 65536
FIRST_WORD, FIRST_CHARACTER = 1024, 32768  # units below are marks, then words, then characters

_ALONE = 32  # class of codes that are units by themselves; 1 to 31: parts of words; 0: neither
_MARKS = '?!:,"(%'


class LineUnits(NamedTuple):
    """The units of n texts, text after text."""

    units: Ints  # (m,) in [0, N_UNITS)
    owners: Ints  # (m,) index of the text, never falling
    lengths: Ints  # (n,) UTF-16 units of each text

    @classmethod
    def of(cls, texts: list[str]) -> "LineUnits":
        encoded = (join_lines(texts) + "\n\n\n").encode("utf-16-le", "surrogatepass")
        codes = np.frombuffer(encoded, dtype="<u2")
        classes, alone = _tables()
        kinds = classes[codes]
        letters = (kinds - np.uint8(1)) < np.uint8(_ALONE - 1)  # 0 wraps around
        starts = kinds == _ALONE
        starts[0] |= letters[0]
        starts[1:] |= letters[1:] > letters[:-1]
        places = np.flatnonzero(starts)
        first, second, third = (kinds[places + i].astype(np.int64) for i in range(3))
        second[second == _ALONE] = 0
        third[(third == _ALONE) | (second == 0)] = 0
        words = (first << 10) + (second << 5) + third
        units = np.where(first == _ALONE, alone[codes[places]], words)
        ends = np.flatnonzero(codes == ord("\n"))[: len(texts)]
        n_units = np.diff(np.searchsorted(places, ends), prepend=0)
        owners = np.repeat(np.arange(len(texts)), n_units)
        return cls(units, owners, np.diff(ends, prepend=-1) - 1)


def character_unit(char: str) -> int:
    """The unit of a character of Chinese or Japanese."""
    return FIRST_CHARACTER | (ord(char) & 0x7FFF)


@lru_cache(maxsize=1)
def _tables() -> tuple[NDArray[np.uint8], Ints]:
    """(65536,) class of each UTF-16 code, and its unit where the code is a unit by itself."""
    classes, alone = np.zeros(65536, dtype=np.uint8), np.zeros(65536, dtype=np.int64)
    for code in range(65536):
        category = unicodedata.category(chr(code))
        base = unicodedata.normalize("NFKD", chr(code))[:1].lower()
        if 0x3040 <= code < 0xA000 and category[0] == "L":
            classes[code], alone[code] = _ALONE, character_unit(chr(code))
        elif category[0] == "L":
            classes[code] = ord(base) - 96 if "a" <= base <= "z" else 1 + ord(base) % 26
        elif category == "Nd":
            classes[code] = 27 + unicodedata.digit(chr(code)) % 5
        elif base in _MARKS:
            classes[code], alone[code] = _ALONE, ord(base)  # full-width marks as ASCII ones
    return classes, alone
