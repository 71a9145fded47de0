"""Faults of a translation that show without a reference: loops, copies, the wrong script.

Languages of one script cannot be told apart. The thresholds are measured:
`scripts/bench/calibrate_checks.py`.
"""

import re
from collections import Counter
from functools import lru_cache
from typing import Literal, NamedTuple

from transformer_mt.messages.catalogue import tr
from transformer_mt.text.foreign_script import SCRIPT_WEIGHTS, SideScripts, weigh
from transformer_mt.text.languages import is_chinese
from transformer_mt.text.scripts import HAN, Letters, script_of

Fault = Literal["cut", "loop", "empty", "short", "copy", "script"]

FAULT_MEANING: dict[Fault, str] = {
    "cut": tr("it was ended before the sentence was: at the length limit, or because of a loop"),
    "loop": tr("it says one thing over and over, and the source does not"),
    "empty": tr("it has no letters, and the source has"),
    "short": tr("it is far too short for the source"),
    "copy": tr("it is the source, or nearly so, though that is plain text"),
    "script": tr("it is in scripts that its language is not written with"),
}

# Scripts whose characters are units by themselves: Thai to Burmese, Khmer, kana, Han.
_UNSPACED = f"\u0e00-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff{HAN}"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W\d_{_UNSPACED}][^\W_{_UNSPACED}]*")

_LONGEST_UNIT = 40  # words; and characters, for what is repeated inside words
_REPEATED = re.compile(rf"(.{{1,{_LONGEST_UNIT}}}?)\1{{2,}}", re.DOTALL)
_EXCUSED = 2  # times as often as the source repeats something: 哈哈哈 may become hahahaha
_LONGEST_PHRASE = 8  # words
_FEWEST_WORDS = 12  # of a text, for a phrase to make up most of it
_MOST = 0.6  # of the words of a text

_SHORTEST = 0.42  # of the letters of the source, between Chinese, Japanese, Korean and Latin script
_SHORTEST_ELSEWHERE = 0.3  # where the usual length was not measured
_SHORT_SLACK = 1  # letters that any text may be shorter

_NEARLY_ALL = 0.8  # of the words of both sides
_PROSE = 20  # letters of plain words that a text should not keep; a command may have some
_PROSE_OF_SENTENCE = 8  # the same, if it is written as a sentence
_ELSEWHERE = 0.4  # of these are enough, if the languages do not share a script
_LOWER_WORD = re.compile(r"(?<![\w./:@-])[^\W\d_]{2,}(?![\w/:@-]|\.\w)")
_SENTENCE = re.compile(r"\W*[^\Wa-z].*[.!?。！？…][\"'”’)）」]*\s*", re.DOTALL)

_LEFT_OVER = 0.01  # share of foreign scripts outside of quotes and brackets
_ONE_CHARACTER = 3  # letters that may always be foreign: 的 is a particle
_FOREIGN = 0.5  # share of a text that is foreign, quotes included
_HARDLY_ANY = 0.1  # share of the right script
_QUOTED = re.compile(
    r"“[^“”]{,30}”|\"[^\"]{,30}\"|‘[^‘’]{,30}’|「[^「」]{,30}」|『[^『』]{,30}』|《[^《》]{,30}》"
    r"|\([^()]{,30}\)|（[^（）]{,30}）"
)


class Repeats(NamedTuple):
    """How often something stands in a row at most; 1: nothing is repeated."""

    words: int
    letters: int  # or syllables, within a word or without spaces
    symbols: int


# From which on it is a loop; of punctuation and digits it takes more: 1,000,000,000 and ......
_FEWEST_TIMES = Repeats(words=4, letters=4, symbols=10)


def faults(
    source: str, translation: str, *, src: str, tgt: str, complete: bool = True
) -> tuple[Fault, ...]:
    """The faults of a translation, in the order of `FAULT_MEANING`.

    Args:
        src, tgt: canonical language codes.
        complete: whether the search ended by itself, not at the length limit.
    """
    letters = script_of(source), script_of(translation)
    found: list[Fault] = [] if complete else ["cut"]
    if is_loop(source, translation):
        found.append("loop")
    if not sum(letters[1]):
        return (*found, "empty") if sum(letters[0]) else tuple(found)
    if is_short(source, translation, letters):
        found.append("short")
    if is_copy(source, translation, src, tgt):
        found.append("copy")
    elif is_foreign(source, translation, src, tgt, letters):
        found.append("script")
    return tuple(found)


def is_loop(source: str, translation: str) -> bool:
    """Whether a translation repeats itself far more than its source."""
    words = _words(translation)
    times = _repeats(translation, words)
    covered = _covered(words)
    if all(map(int.__lt__, times, _FEWEST_TIMES)) and covered <= _MOST:
        return False
    src_words = _words(source)
    excused = _repeats(source, src_words)
    return covered > max(_MOST, _EXCUSED * _covered(src_words)) or any(
        n >= max(fewest, _EXCUSED * n_of_source + 1)
        for n, fewest, n_of_source in zip(times, _FEWEST_TIMES, excused, strict=True)
    )


def _words(text: str) -> str:
    """One character for each word of a text, equal for equal words; all else is left out."""
    codes: dict[str, str] = {}
    return "".join(
        codes.setdefault(word, chr(len(codes) % 0x110000))
        for word in _WORD.findall(text.casefold())
    )


def _repeats(text: str, words: str) -> Repeats:
    n_words = max((_times(run) for run in _REPEATED.finditer(words)), default=1)
    n_letters = n_symbols = 1
    for run in _REPEATED.finditer(text.casefold()):
        if any(map(str.isalpha, run[1])):
            n_letters = max(n_letters, _times(run))
        else:
            n_symbols = max(n_symbols, _times(run))
    return Repeats(n_words, n_letters, n_symbols)


def _times(run: re.Match[str]) -> int:
    return len(run[0]) // len(run[1])


def _covered(words: str) -> float:
    """Share of the words that the most frequent phrase makes up; 0 for short texts."""
    if len(words) < _FEWEST_WORDS:
        return 0
    most = 0
    for size in range(1, _LONGEST_PHRASE + 1):
        grams = Counter(words[i : i + size] for i in range(len(words) - size + 1))
        n = max(grams.values(), default=0)
        if n < _FEWEST_TIMES.words:  # nor is a longer phrase as frequent
            break
        most = max(most, n * size)
    return most / len(words)


def is_short(source: str, translation: str, letters: tuple[Letters, Letters]) -> bool:
    """Whether a translation says far less than its source; digits say as much as letters."""
    expected, found = (
        weigh(counts) + sum(map(str.isdigit, text))
        for counts, text in zip(letters, (source, translation), strict=True)
    )
    measured = not any(counts.other for counts in letters)
    shortest = _SHORTEST if measured else _SHORTEST_ELSEWHERE
    return found + _SHORT_SLACK < shortest * expected


def is_copy(source: str, translation: str, src: str, tgt: str) -> bool:
    """Whether a translation has the words of its source, and these are more than names and code."""
    if is_chinese(src) and is_chinese(tgt):  # 你好 is the same in both scripts
        return False
    src_words, words = (Counter(_WORD.findall(text.casefold())) for text in (source, translation))
    longer = max(sum(src_words.values()), sum(words.values()))
    common = sum((src_words & words).values())
    return common >= _NEARLY_ALL * longer and _is_prose(source, src, tgt)


def is_foreign(
    source: str, translation: str, src: str, tgt: str, letters: tuple[Letters, Letters]
) -> bool:
    """Whether a translation is not, or not only, in the script of its language.

    Latin words are at home everywhere, as names and code, unless there is hardly anything else.
    """
    own = _own_scripts(tgt)
    if not weigh(own):
        return False
    src_letters, tgt_letters = letters
    foreign = _without(SCRIPT_WEIGHTS, own)._replace(latin=0)
    # Letters foreign to the source, too, were carried over: a Greek name, a Japanese word.
    carried = weigh(src_letters, _without(foreign, _own_scripts(src)))
    outside = script_of(_QUOTED.sub(" ", translation))
    left_over = weigh(outside, foreign) - carried
    if left_over > max(_ONE_CHARACTER, _LEFT_OVER * weigh(outside)):
        return True
    if weigh(tgt_letters, foreign) - carried > _FOREIGN * weigh(tgt_letters):
        return True
    hardly_any = weigh(tgt_letters, own) <= _HARDLY_ANY * weigh(tgt_letters)
    return hardly_any and _is_prose(source, src, tgt)


@lru_cache
def _own_scripts(language: str) -> Letters:
    """The weights of the scripts that a language is written with; all 0 if that is not known."""
    return SideScripts(language, None).own


def _without(weights: Letters, others: Letters) -> Letters:
    pairs = zip(weights, others, strict=True)
    return Letters(*(0 if other else weight for weight, other in pairs))


def _is_prose(source: str, src: str, tgt: str) -> bool:
    """Whether a source has plain text of its language, not only names, numbers and code."""
    own = _own_scripts(src) if weigh(_own_scripts(src)) else SCRIPT_WEIGHTS
    unspaced = weigh(script_of(source)._replace(latin=0, other=0), own)
    lower = [word for word in _LOWER_WORD.findall(source) if word == word.lower()]
    spaced = weigh(script_of(" ".join(lower))._replace(han=0, kana=0, hangul=0), own)
    fewest = _PROSE_OF_SENTENCE if _SENTENCE.fullmatch(source) else _PROSE
    shared = weigh(own, _own_scripts(tgt)) or not weigh(_own_scripts(tgt))
    return unspaced + spaced >= (fewest if shared else _ELSEWHERE * fewest)
