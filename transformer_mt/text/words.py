"""Text → words, marks and spaces, and the differences of two texts.

Where a script is written without spaces, single characters are words.
"""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from transformer_mt.text.languages import is_unspaced
from transformer_mt.text.scripts import HAN

# Beyond this many pieces, or this many pairs of equal ones, only common beginnings and ends are
# told from the rest: a careful comparison looks at all such pairs.
_LONGEST_COMPARED = 1000
_MOST_EQUAL = 30_000

# Within words: accents, vowel signs and viramas, which are no letters to `\w`; the scripts of India
# from Devanagari to Malayalam have theirs at the same places. The joiners between two letters.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u064b-\u065f\u0670\u0dca-\u0ddf\u0df2\u0df3"
_MARKS += "\u0a70\u0a71\u0a75\u0d81-\u0d83\u07a6-\u07b0\u200c\u200d"
_MARKS += "".join(
    f"{chr(base + first)}-{chr(base + last)}"
    for base in range(0x900, 0xD80, 0x80)
    for first, last in ((0x00, 0x03), (0x3A, 0x4F), (0x51, 0x57), (0x62, 0x63))
)
WORD = rf"[^\W_]++(?:[{_MARKS}]++[^\W_]*+)*+"
_SPACED = re.compile(rf"\s+|[{HAN}]|{WORD}(?:['’]{WORD})*|[^\w\s]|_", re.UNICODE)
_UNSPACED = re.compile(r"\s+|[0-9A-Za-zÀ-ɏ]+|.", re.DOTALL)


def split_pieces(text: str, language: str) -> list[str]:
    """Words, marks and stretches of white space, in order; joined they are the text."""
    return (_UNSPACED if is_unspaced(language) else _SPACED).findall(text)


def words(text: str, language: str) -> list[str]:
    """The pieces that are words, numbers or characters of words, in lower case."""
    return [piece for piece in split_pieces(text.lower(), language) if piece[0].isalnum()]


def mark_differences(first: str, second: str, language: str) -> tuple[list[str], list[str]]:
    """Cut two texts into stretches, by turns shared (also if empty) and not shared.

    Joined, the stretches of a text are the text.
    """
    pieces = split_pieces(first, language), split_pieces(second, language)
    marks = [False] * len(pieces[0]), [False] * len(pieces[1])
    for kind, start, end, other_start, other_end in _operations(*pieces):
        if kind != "equal":
            marks[0][start:end] = [True] * (end - start)
            marks[1][other_start:other_end] = [True] * (other_end - other_start)
    return _stretches(pieces[0], marks[0]), _stretches(pieces[1], marks[1])


def _operations(first: list[str], second: list[str]) -> Sequence[tuple[str, int, int, int, int]]:
    counts = Counter(first), Counter(second)
    n_equal = sum(n * counts[1][piece] for piece, n in counts[0].items())
    if max(len(first), len(second)) <= _LONGEST_COMPARED and n_equal <= _MOST_EQUAL:
        return SequenceMatcher(None, first, second, autojunk=False).get_opcodes()
    start, shorter = 0, min(len(first), len(second))
    while start < shorter and first[start] == second[start]:
        start += 1
    end = 0
    while end < shorter - start and first[-1 - end] == second[-1 - end]:
        end += 1
    return [("replace", start, len(first) - end, start, len(second) - end)]


def _stretches(pieces: list[str], marks: list[bool]) -> list[str]:
    """Pieces joined as long as their mark stays the same; the first stretch is not marked."""
    starts = [i for i, mark in enumerate(marks) if mark != (i > 0 and marks[i - 1])]
    return ["".join(pieces[i:j]) for i, j in pairwise([0, *starts, len(pieces)])]
