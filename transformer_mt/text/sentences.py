"""Sentences: where they end, long texts in pieces that fit, and pieces put together again.

Joined without a separator, what comes out is what came in. Every rule looks at a bounded part of
the text, so that time is linear whatever the text is.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple

from transformer_mt.text.abbreviations import abbreviations_of
from transformer_mt.text.languages import is_unspaced
from transformer_mt.text.scripts import HAN

_HARD = "。！？；｡।॥።။។؟۔"  # end a sentence, with or without a space after them
_SOFT = ".!?…"  # also stand in numbers, abbreviations and addresses
_MARK = re.compile(rf"[{_HARD}{_SOFT}]+|\n\s*\n")
_CLOSERS = re.compile(r"[\"'”’“»›«‹」』）)\]】》〉｝}]*")  # “ and « too: „…“ and »…« in German
_FRENCH_CLOSERS = re.compile(r"(?:[\"'”’)\]}]|\s?[»›])*")
_UNSPACED_CLOSERS = re.compile(r"[\"'”’」』）)\]】》〉｝}]*")
_OPENERS = re.compile(r"[\"'“‘„‚«‹»›(\[{¿¡*_—–-]*\s?")
_GOES_ON = frozenset("，、：,:;；。！？.!?…")  # right after the closing quote: no end yet
_SPACE = re.compile(r"\s*")
_CJK = re.compile(f"[{HAN}\u3040-\u30ff\uff66-\uff9f，、：“”‘’「」『』（）《》{_HARD}]")

# “走吧！”他说。 and "Go!" Tom said. are one sentence each.
_CHINESE_SPEECH = re.compile(r"[^，。！？；：“”「」\s]{0,8}[说說道问問答喊叫想笑嚷吼]")
_ENGLISH_SPEECH = re.compile(
    r"(?:\w{1,20}\.? ){1,3}(?:said|says|asked|replied|answered|cried|shouted|whispered|added)\b"
)

_OPENER_OF = {
    "”": "“", "“": "„", "」": "「", "』": "『", "》": "《", "）": "（", ")": "(",
    "»": "«", '"': '"',
}  # fmt: skip
_OPENING = frozenset(_OPENER_OF.values())
_PAIRED = re.compile(r"[“”„「」『』《》（）()«»\"\n]")
_MEET = frozenset("zh zh-Hant yue wuu lzh ja".split())  # their sentences have no space between
HOPELESS = 16  # tokens of a character differ by less than this between scripts
LONGEST_ASIDE = 200  # characters of a quotation or bracket within which no sentence ends

_WORD_BEFORE = re.compile(r"[^\s()\[\]{}\"“”„‘’«»,;:!?/—–]*\Z")
_NEXT_WORD = re.compile(r"[^\W\d_]{1,20}(?=[\s,'’])")
_LETTERS_WITH_STOPS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
_LONGEST_ABBREVIATION = 24

_CLAUSE_END = re.compile(rf"[，、：…{_HARD}]+[”’」』）》]*|[,:;.!?][\"'”’)]*\s+")
_WORD_END = re.compile(r"\s+")


class _Stop(NamedTuple):
    """A run of marks after which a sentence may end."""

    marks: str
    start: int
    end: int  # after the quotes and brackets that close there
    after: int  # where text goes on, behind white space


def split_sentences(text: str, language: str) -> list[str]:
    """Cut `text` where sentences end: joined without separator, they are `text`.

    A quotation or bracket of up to `LONGEST_ASIDE` characters is not cut inside. White space stays
    with the sentence before it; a blank line always ends one, a single line end never. The language
    decides which abbreviations there are; the rest is seen from the text, which may be mixed.
    """
    ends = [*_sentence_ends(text, language), len(text)]
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False) if start < end]


def _sentence_ends(text: str, language: str) -> Iterator[int]:
    """Positions at which sentences begin, but for the first, in rising order."""
    cased = any(map(str.isupper, text))  # where nothing is capital, small letters tell nothing
    asides = _asides(text)
    opened = {close: open_ for open_, close in asides}
    asides.reverse()
    start = _skip(_SPACE, text, 0)
    for stop in _stops(text, language):
        while asides and asides[-1][1] < stop.end:
            asides.pop()
        inside = bool(asides) and asides[-1][0] < stop.end
        if stop.after == len(text) or stop.end <= start or inside:
            continue
        if stop.marks[0] == "\n" or (
            _may_end(text, start, stop, opened.get(stop.end - 1), cased=cased)
            and not (stop.marks == "." and _abbreviated(text, start, stop, language))
        ):
            yield stop.after
            start = stop.after


def _skip(pattern: re.Pattern[str], text: str, start: int) -> int:
    """Where a pattern that matches everywhere, if need be nothing, stops matching."""
    match = pattern.match(text, start)
    assert match is not None
    return match.end()


def _stops(text: str, language: str) -> Iterator[_Stop]:
    closers = _UNSPACED_CLOSERS if is_unspaced(language) else _CLOSERS
    closers = _FRENCH_CLOSERS if language == "fr" else closers
    for mark in _MARK.finditer(text):
        end = mark.start() if mark[0][0] == "\n" else _skip(closers, text, mark.end())
        yield _Stop(mark[0], mark.start(), end, _skip(_SPACE, text, end))


def _asides(text: str) -> list[tuple[int, int]]:
    """Outermost quotations and brackets within a line, as positions of their two marks."""
    found: list[tuple[int, int]] = []
    open_marks: list[int] = []
    for match in _PAIRED.finditer(text):
        character, position = match[0], match.start()
        if character == "\n":
            open_marks.clear()
        elif open_marks and text[open_marks[-1]] == _OPENER_OF.get(character):
            start = open_marks.pop()
            if position - start <= LONGEST_ASIDE:
                while found and found[-1][0] > start:
                    found.pop()
                found.append((start, position))
        elif character in _OPENING and (character != '"' or _may_open(text, position)):
            open_marks.append(position)
    return found


def _may_open(text: str, position: int) -> bool:
    """A straight quote opens after a space or a Chinese character, not after 5 in 5"."""
    before = text[max(position - 1, 0) : position]
    return not before or before.isspace() or before in "([—" or _CJK.match(before) is not None


def _may_end(text: str, start: int, stop: _Stop, opened: int | None, *, cased: bool) -> bool:
    """Whether a sentence ends here, abbreviations aside; `opened`: where what closes here began."""
    if text[stop.end] in _GOES_ON:
        return False
    hard = stop.marks[-1] in _HARD
    if stop.after == stop.end:
        if "…" in stop.marks and stop.start - start < 2:
            return False  # 我……我不知道。
        around = text[stop.end] + text[max(stop.start - 1, 0) : stop.start]
        if not hard and not all(map(_CJK.match, around)):
            return False
        return opened is None or _aside_ends(text, start, opened, stop.end)
    if hard:
        return True
    first = _skip(_OPENERS, text, stop.after)
    if cased and text[first : first + 1].islower():
        return False
    quoted = stop.end > stop.start + len(stop.marks)
    return not quoted or _ENGLISH_SPEECH.match(text, stop.after) is None


def _aside_ends(text: str, start: int, opened: int, end: int) -> bool:
    """Whether a sentence ends with a Chinese quotation or bracket that holds its last mark."""
    if text[opened] == "《":
        return False
    if text[opened] in "（(":
        return opened == start
    if opened == start:
        return _CHINESE_SPEECH.match(text, end) is None
    return text[opened - 1] in "：，:,"  # 他说：“好。” but not 他问的“为什么？”很难回答。


def _abbreviated(text: str, start: int, stop: _Stop, language: str) -> bool:
    """Whether the full stop belongs to the word before it and ends nothing."""
    rules = abbreviations_of(language)
    before = _WORD_BEFORE.search(text[max(start, stop.start - _LONGEST_ABBREVIATION) : stop.start])
    word = before[0] if before else ""
    lower = word.lower()
    if lower in rules.inside or (lower in rules.numbered and text[stop.after].isdigit()):
        return True
    if word.isdigit():  # 1. of a list
        leads = stop.start - len(word) == start
        return (leads and len(word) <= 3) or (language == "de" and len(word) <= 2)  # 3. Oktober
    initial = len(word) == 1 and word.isupper()
    if initial or lower in rules.anywhere or _LETTERS_WITH_STOPS.fullmatch(word):
        following = _NEXT_WORD.match(text, stop.after)
        return following is None or following[0] not in rules.starters
    return False


def split_text(text: str, fits: Callable[[str], bool], language: str = "en") -> list[str]:
    """Cut `text` into pieces that fit: at sentence ends, else at clauses, words, anywhere.

    Neighbours that fit together share a piece. For each piece `fits` is asked a few times, about as
    much text as fits: linear time in all; what is `HOPELESS` times as long as something that did
    not fit is not asked about. Joined without separator, the pieces are `text`.
    """
    return [text] if fits(text) else list(_Splitter(text, fits, language).pieces())


class _Splitter:
    """Packs units into pieces that fit: sentences, and parts of those that do not fit themselves.

    The levels are clauses, words, and then sixteenths until single characters are left.
    """

    def __init__(self, text: str, fits: Callable[[str], bool], language: str) -> None:
        self._text, self._fits, self._language = text, fits, language
        self._shortest_failure = len(text)
        # Ends of the units that are still to be packed, each with its level; the next stands last.
        self._units = [(len(text), -1)]

    def pieces(self) -> Iterator[str]:
        start, known, guess = 0, 0, 1
        while self._units:
            n_fitting = self._n_fitting(start, known, guess)
            if self._divided_next(start, n_fitting):
                known, guess = n_fitting, n_fitting + 1
                continue
            n = max(n_fitting, 1)  # a single character that does not fit: nothing smaller exists
            end, _ = self._units[-n]
            yield self._text[start:end]
            del self._units[-n:]
            start, known, guess = end, 0, n

    def _n_fitting(self, start: int, known: int, guess: int) -> int:
        """How many of the next units fit, beyond `known`: in doubling steps, then by halves."""

        def too_long(n: int) -> bool:
            return not self._span_fits(start, self._units[-n][0])

        low, high, n_units = known, guess, len(self._units)
        while high <= n_units and not too_long(high):
            low, high = high, 2 * high - low + 1
        between = range(low + 1, min(high, n_units + 1))
        return low + bisect_left(between, True, key=too_long)

    def _divided_next(self, start: int, n_fitting: int) -> bool:
        """Divide the unit after those that fit, if it is too long itself; whether that was so."""
        if n_fitting == len(self._units):
            return False
        unit_start = self._units[-n_fitting][0] if n_fitting else start
        end, level = self._units[-n_fitting - 1]
        if end - unit_start <= 1 or (n_fitting and self._span_fits(unit_start, end)):
            return False
        fitting = self._units[len(self._units) - n_fitting :]
        self._units[-n_fitting - 1 :] = [*reversed(self._finer(unit_start, end, level)), *fitting]
        return True

    def _span_fits(self, start: int, end: int) -> bool:
        if end - start >= HOPELESS * self._shortest_failure:
            return False
        found = self._fits(self._text[start:end])
        if not found:
            self._shortest_failure = min(self._shortest_failure, end - start)
        return found

    def _finer(self, start: int, end: int, level: int) -> list[tuple[int, int]]:
        """Ends of the parts of a unit, at the next finer level at which there is a place to cut."""
        text = self._text
        cuts: list[int] = []
        while len(cuts) < 2:
            level += 1
            if level == 0:
                lengths = map(len, split_sentences(text[start:end], self._language))
                cuts = list(accumulate(lengths, initial=start))[1:]
            elif level <= 2:
                pattern = _CLAUSE_END if level == 1 else _WORD_END
                cuts = sorted({*(found.end() for found in pattern.finditer(text, start, end)), end})
            else:
                cuts = [*range(start, end, max((end - start) // 16, 1))[1:], end]
        return [(cut, level) for cut in cuts]


def join_translations(pieces: list[str], language: str) -> str:
    """Put translated pieces back together as the target language writes sentences."""
    return sentence_joint(language).join(piece for piece in pieces if piece)


def sentence_joint(language: str) -> str:
    """What stands between two sentences."""
    return "" if language in _MEET else " "
