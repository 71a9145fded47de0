"""Inline marks of a text (emphasis, links, code), placed in its translation.

Comes in: a text with its marks, a translation, and for each character of the translation the
character of the text that it comes from. Goes out: the translation with every mark once, nested as
in the text. This file knows neither the syntax of the marks nor where the alignment comes from.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from transformer_mt.text.scripts import HAN

# (text, translation) → for each character of the translation an index in the text, -1: none. None:
# the two could not be aligned.
Align = Callable[[str, str], Sequence[int] | None]

_CJK = f"{HAN}\u3041-\u30ff\uff66-\uff9d"
_PUNCTUATION = (
    r"!-/:-@\[-^`{-~\xa1\xab\xb7\xbb\xbf\u2010-\u206f\u3000-\u303f\ufe30-\ufe4f\uff00-\uff0f"
    r"\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
_LETTER = rf"[^\s{_CJK}{_PUNCTUATION}]"  # of a word among spaces, as didn't and well-known
_WORD = re.compile(rf"(?P<letters>[{_CJK}]|{_LETTER}+(?:['’-]{_LETTER}+)*)|\S")
_SPACE_BEFORE = re.compile(rf"{_LETTER}|[.,;:!?)\]}}]")  # an inserted token has one after these
_SPACE_AFTER = re.compile(_LETTER)
_MOST_COPIES = 20  # of a token, that are looked at
_REACH = 20  # words to both sides, among which a mark without a counterpart looks for a free one

_Span = tuple[int, int]


class Token(NamedTuple):
    """A piece of a run.

    text: to be translated. joint: a line end with the quote mark or indent after it. open,
    close: markup around text. kept: stays as it is, within a sentence. break: divides sentences.
    """

    kind: Literal["text", "joint", "open", "close", "kept", "break"]
    raw: str
    name: str = ""  # of open and close: they pair by it; of kept: its characters in the sentence


class Mark(NamedTuple):
    """Markup around the characters `start` to `end` of a text; `start == end`: at one place."""

    start: int
    end: int
    opening: Token  # empty: the mark begins before the text
    closing: Token | None = None  # empty: it ends after the text; None: `opening` is a kept token
    inner: tuple["Mark", ...] = ()


class _Word(NamedTuple):
    start: int
    end: int
    letters: bool  # False: a punctuation mark
    origin: int  # index in the text; -1: none


def place(
    text: str, marks: Sequence[Mark], translation: str, origins: Sequence[int] | None
) -> list[Token]:
    """Give the marks of a text to its translation, as tokens.

    A mark gets the run of words that come from its own words; without any, the nearest free word.
    A kept token stays where the translation copies it, or replaces the words that come from it, or
    is inserted.

    Args:
        origins: see `Align`; None: equal words correspond, other words in the order of the text.
    """
    placer = _Placer(text, marks, translation, origins)
    source = len(text) - len(text.lstrip()), len(text.rstrip())
    every_word = 0, len(placer.words)
    return list(placer.tokens(marks, source, every_word, (0, len(translation))))


def _kept(marks: Sequence[Mark]) -> Iterator[Mark]:
    """Kept tokens that have characters in the text."""
    for mark in marks:
        if mark.closing is None and mark.start < mark.end:
            yield mark
        yield from _kept(mark.inner)


def _guess(text: str, translation: str) -> list[int]:
    """Origins in proportion to the position, but for words that both sides have once."""
    origins = [i * len(text) // len(translation) for i in range(len(translation))]
    places: list[dict[str, list[int]]] = [{}, {}]
    for found, side in zip(places, (text, translation), strict=True):
        for match in _WORD.finditer(side):
            if match["letters"]:
                found.setdefault(match[0], []).append(match.start())
    for word, starts in places[1].items():
        if len(starts) == len(places[0].get(word, [])) == 1:
            origins[starts[0] : starts[0] + len(word)] = places[0][word] * len(word)
    return origins


def _copies(
    kept: Iterable[Mark], translation: str, words: list[_Span], origins: Sequence[int]
) -> dict[int, _Span]:
    """The words that are a kept token, in any case; of several, take the best aligned."""
    first_at = {start: i for i, (start, _) in enumerate(words)}
    end_at = {end: i + 1 for i, (_, end) in enumerate(words)}
    lower = translation.lower()
    lower = lower if len(lower) == len(translation) else translation
    tokens: dict[str, list[Mark]] = {}
    for mark in kept:
        tokens.setdefault(mark.opening.name.lower(), []).append(mark)
    copies: dict[int, _Span] = {}
    copied: set[int] = set()  # words
    for token, marks in sorted(tokens.items(), key=lambda item: -len(item[0])):
        places = [match.span() for match in re.finditer(re.escape(token), lower)]
        found = [(first_at[i], end_at[j]) for i, j in places if i in first_at and j in end_at]
        free = [span for span in found if copied.isdisjoint(range(*span))]
        for mark in marks[: len(free)]:
            scores = []
            for first, last in free[:_MOST_COPIES]:
                start, end = words[first][0], words[last - 1][1]
                n_aligned = sum(mark.start <= origin < mark.end for origin in origins[start:end])
                scores.append((n_aligned, translation[start:end] == mark.opening.name))
            copies[mark.start] = free.pop(scores.index(max(scores)))
            copied.update(range(*copies[mark.start]))
    return copies


class _Placer:
    """Gives words of a translation to marks, those side by side first, then those within each."""

    def __init__(
        self, text: str, marks: Sequence[Mark], translation: str, origins: Sequence[int] | None
    ) -> None:
        self._text, self._translation = text, translation
        self._aligned = origins is not None and len(origins) == len(translation)
        owners = list(origins or ()) if self._aligned else _guess(text, translation)
        matches = list(_WORD.finditer(translation))
        spans = [match.span() for match in matches]
        # The words that are the same as a kept token, by the token's start.
        self._copies = _copies(_kept(marks), translation, spans, owners if self._aligned else ())
        for origin, (first, last) in self._copies.items():
            start, end = spans[first][0], spans[last - 1][1]
            owners[start:end] = [origin] * (end - start)
        self.words = [
            _Word(*span, bool(match["letters"]), Counter(owners[slice(*span)]).most_common(1)[0][0])
            for match, span in zip(matches, spans, strict=True)
        ]
        # Of the words before each, those that are no punctuation.
        self._n_letters = [0, *accumulate(word.letters for word in self.words)]
        aligned = ((word.origin, i) for i, word in enumerate(self.words))
        self._by_origin = sorted(found for found in aligned if found[0] >= 0)

    def tokens(
        self, marks: Sequence[Mark], source: _Span, words: _Span, part: _Span
    ) -> Iterator[Token]:
        """The characters of a part of the translation, with the marks that stand side by side.

        Args:
            source: the part of the text that the marks stand in.
            words: the words of the translation that they may have: first, and one after the last.
        """
        windows = self._windows(marks, source, words)
        position, part_end = part
        written = ""  # by the last kept token, right before `position`
        for i in sorted(windows, key=lambda i: (*windows[i], i)):
            mark, window = marks[i], windows[i]
            start, end = self._characters(mark, window, (position, part_end))
            yield Token("text", self._translation[position:start])
            if mark.closing is not None:
                yield mark.opening
                yield from self.tokens(mark.inner, (mark.start, mark.end), window, (start, end))
                yield mark.closing
                written = ""
            else:
                inserted = start == end and mark.opening.name != ""
                last = self._translation[max(start - 1, 0) : start]
                last = written[-1:] if written and position == start else last
                if inserted and _SPACE_BEFORE.match(last):
                    yield Token("text", " ")
                yield mark.opening
                if inserted and _SPACE_AFTER.match(self._translation, end):
                    yield Token("text", " ")
                written = mark.opening.name
            position = end
        yield Token("text", self._translation[position:part_end])

    def _windows(self, marks: Sequence[Mark], source: _Span, words: _Span) -> dict[int, _Span]:
        """For each mark its words, from the first up to the one after the last; none: a place.

        Marks that are open at an end of the text choose first, then copied tokens, then marks with
        many words; places between words are last.
        """
        self._source, (self._low, self._high) = source, words
        self._taken: dict[int, _Span] = {}  # word → the words of its mark
        owned = [self._owned(mark) for mark in marks]
        windows: dict[int, _Span] = {}
        turns = sorted(
            (not _is_open(mark), mark.start == mark.end, not self._copy(mark), -len(owned[i]), i)
            for i, mark in enumerate(marks)
        )
        for *_, i in turns:
            windows[i] = self._choose(marks[i], owned[i])
            self._taken.update(dict.fromkeys(range(*windows[i]), windows[i]))
        return windows

    def _characters(self, mark: Mark, window: _Span, within: _Span) -> _Span:
        """Where a window begins and ends, in a part of the translation."""
        first, last = window
        if first < last:
            start, end = self.words[first].start, self.words[last - 1].end
        elif first < len(self.words) and self._text[mark.start - 1 : mark.start].isspace():
            start = end = self.words[first].start
        else:
            start = end = self.words[first - 1].end if first else 0
        if mark.closing is not None:
            start = start if mark.opening.raw else within[0]
            end = end if mark.closing.raw else within[1]
        start = max(start, within[0])
        return start, max(start, min(end, within[1]))

    def _owned(self, mark: Mark) -> list[int]:
        """The words, not punctuation, that come from the words of the mark."""
        start = bisect_left(self._by_origin, (mark.start, -1))
        end = bisect_left(self._by_origin, (mark.end, -1))
        found = (i for _, i in self._by_origin[start:end] if self._low <= i < self._high)
        return sorted(i for i in found if self.words[i].letters)

    def _copy(self, mark: Mark) -> _Span | None:
        copy = self._copies.get(mark.start) if mark.closing is None else None
        return copy if copy and self._low <= copy[0] and copy[1] <= self._high else None

    def _choose(self, mark: Mark, owned: list[int]) -> _Span:
        kept = mark.closing is None
        if mark.start == mark.end and not _is_open(mark):
            return self._between(mark.start)
        if (mark.start, mark.end) == self._source and not kept:
            return self._low, self._high
        copy = self._copy(mark)
        if copy and self._taken.keys().isdisjoint(range(*copy)):
            return copy
        run = self._run(owned, gaps=not kept) if self._aligned or not kept else None
        if run is None:
            run = self._between(mark.start) if kept else self._nearest(mark.start)
        first, last = run
        if not kept and _is_open(mark):
            return (min(first, last), self._high) if mark.opening.raw else (self._low, last)
        return self._with_punctuation(mark, first, last) if first < last else run

    def _run(self, owned: list[int], *, gaps: bool) -> _Span | None:
        """The run of free words that has most of the owned words, less others in between."""
        n_letters = self._n_letters
        best, best_score, first, last, score = None, 0, 0, 0, 0
        for i in owned:
            if i in self._taken:
                continue
            n_others = n_letters[i] - n_letters[last]
            joined = n_others < score if gaps else score and not n_others
            if joined and self._taken.keys().isdisjoint(range(last, i)):
                score -= n_others
            else:
                first, score = i, 0
            last, score = i + 1, score + 1
            if score > best_score:
                best, best_score = (first, last), score
        return best

    def _with_punctuation(self, mark: Mark, first: int, last: int) -> _Span:
        """A run with the punctuation at its ends if the words of the mark have some there."""
        if last < self._high and last not in self._taken and not self.words[last].letters:
            last += not _is_letter(self._text[mark.end - 1])
        before = first - 1
        if before >= self._low and before not in self._taken and not self.words[before].letters:
            first -= not _is_letter(self._text[mark.start])
        return first, last

    def _nearest(self, start: int) -> _Span:
        """A free word near the counterpart of a place in the text; or no word, between two."""
        near, _ = self._between(start)
        for distance in range(_REACH):
            for i in (near + distance, near - 1 - distance):
                if self._low <= i < self._high and i not in self._taken and self.words[i].letters:
                    return i, i + 1
        return near, near

    def _between(self, start: int) -> _Span:
        """The place that corresponds to one in the text, and is within no window.

        It is after the word that comes from the word before `start`, or before the next one if
        there is a space.
        """
        i = bisect_left(self._by_origin, (start, -1))
        if start == self._source[0]:
            near = self._low
        elif start == self._source[1] or not self._by_origin:
            near = self._high
        elif i == 0 or (i < len(self._by_origin) and self._text[start - 1].isspace()):
            near = self._by_origin[i][1]
        else:
            near = self._by_origin[i - 1][1] + 1
        near = min(max(near, self._low), self._high)
        before, after = self._taken.get(near - 1), self._taken.get(near)
        if before is not None and before == after:
            near = before[1]
        return near, near


def _is_open(mark: Mark) -> bool:
    """Whether a mark begins before the text or ends after it."""
    return mark.closing is not None and not (mark.opening.raw and mark.closing.raw)


def _is_letter(character: str) -> bool:
    word = _WORD.match(character)
    return bool(word and word["letters"])
