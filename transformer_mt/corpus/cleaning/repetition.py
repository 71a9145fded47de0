"""Repetitions within a pair: the same text on both sides, or one phrase over and over.

Comes in: the two normalised texts of a pair. Goes out: numbers of characters. This file does not
know languages or thresholds.
"""

import re
from collections import Counter

_NEARLY_ALL = 0.8  # of the characters of words
_EXCUSED = 30  # characters where both sides repeat: 哈哈哈哈 and hahahaha
_LONGEST_UNIT = 40
_REPEATED = re.compile(rf"(.{{1,{_LONGEST_UNIT}}}?)\1{{3,}}")


def identical(src: str, tgt: str) -> int:
    """Characters of lower-case words, if nearly all words of the two sides are the same.

    Names, titles, commands and lines of code may be the same in both languages; they have few plain
    lower-case words, while sentences mostly consist of them.
    """
    longer = max(len(src), len(tgt))
    if min(len(src), len(tgt)) < _NEARLY_ALL * longer:
        return 0
    probes = range(0, len(src), len(src) // 4 + 1)
    if not any(src[start : start + 10] in tgt for start in probes):
        return 0
    common = Counter(src.split()) & Counter(tgt.split())
    n_common = sum(len(word) * n for word, n in common.items())
    if n_common < _NEARLY_ALL * (longer - max(src.count(" "), tgt.count(" "))):
        return 0
    return sum(n * _plain_letters(word) for word, n in common.items())


def _plain_letters(word: str) -> int:
    letters = word.strip("\"'(),.;:!?").replace("'", "")
    return len(letters) if letters.isalpha() and letters == letters.lower() else 0


def repeated(src: str, tgt: str) -> int:
    """Characters in the longest repetition of one side; a repetition on the other excuses it."""
    src_run, tgt_run = _longest_run(src), _longest_run(tgt)
    return max(src_run, tgt_run) - min(src_run, tgt_run, _EXCUSED)


def _longest_run(text: str) -> int:
    """Characters of the longest stretch that repeats a phrase four times or more, or 0.

    Runs that fill less than a fifth of the text may be missed.
    """
    for start in range(0, len(text), len(text) // 5 + 1):
        # Where something is repeated, any few characters come again soon, and so does the rest.
        again = text.find(text[start : start + 4], start + 1, start + _LONGEST_UNIT + 4)
        if again > 0 and text.startswith(text[start:again], again):
            return max((len(run[0]) for run in _REPEATED.finditer(text)), default=0)
    return 0
