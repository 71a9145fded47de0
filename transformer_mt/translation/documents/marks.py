"""Inline marks of a text (emphasis, links, code), placed in its translation.

Comes in: a text with its marks, a translation, and for each character of the translation the
character of the text that it comes from. Goes out: the translation with every mark once, nested as
in the text. This file knows neither the syntax of the marks nor where the alignment comes from.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
_NEEDS_SPACE = re.compile(_LETTER)  # next to an inserted token
_CLOSES = re.compile(r"[.,;:!?)\]}]")  # no space before it, but one after it
_MOST_COPIES = 20  # of a token, that are looked at
_REACH = 20  # words to both sides, among which a mark without a counterpart looks for a free one


@dataclass(frozen=True)
class Mark:
    """Markup around the characters `start` to `end` of a text; `start == end`: at one place."""

    start: int
    end: int
    opening: str
    closing: str = ""
    kept: bool = False  # `opening` is written instead of the characters: code, an address
    open_at: Literal["", "start", "end"] = ""  # begins before the text, or ends after it
    inner: tuple["Mark", ...] = ()


class _Word(NamedTuple):
    start: int
    end: int
    letters: bool  # False: a punctuation mark
    origin: int  # index in the text; -1: none


class _Window(NamedTuple):
    """The words first … last - 1 of a translation, given to a mark; none: a place between words."""

    first: int
    last: int
    mark: Mark
    inner: list["_Window"]


def place(
    text: str, marks: Sequence[Mark], translation: str, origins: Sequence[int] | None
) -> tuple[str, tuple[Mark, ...]]:
    """Give the marks of a text to its translation.

    A mark gets the run of words that come from its own words; without any, the nearest free word.
    A kept token stays where the translation copies it, or replaces the words that come from it, or
    is inserted.

    Args:
        origins: see `Align`; None: equal words correspond, other words in the order of the text.
    Returns:
        The translation, changed only where it lacks kept tokens, and its marks.
    """
    found = _Translation(text, marks, translation, origins)
    windows = _Level(found, (0, len(text)), (0, len(found.words))).windows(marks)
    writer = _Writer(found)
    placed = writer.write(windows, (0, len(translation)))
    return "".join(writer.pieces), placed


def _all_of(marks: Sequence[Mark]) -> Iterator[Mark]:
    for mark in marks:
        yield mark
        yield from _all_of(mark.inner)


class _Translation:
    """The words of a translation, their origins, and the tokens that it copies from the text."""

    def __init__(
        self, text: str, marks: Sequence[Mark], translation: str, origins: Sequence[int] | None
    ) -> None:
        self.source, self.text = text, translation
        self.aligned = origins is not None and len(origins) == len(translation)
        self._origins = list(origins or ()) if self.aligned else _guess(text, translation)
        matches = list(_WORD.finditer(translation))
        self._first_at = {match.start(): i for i, match in enumerate(matches)}
        self._last_at = {match.end(): i for i, match in enumerate(matches)}
        lower = translation.lower()
        self._lower = lower if len(lower) == len(translation) else translation
        self._search_from: dict[str, int] = {}
        self._copied: set[int] = set()  # words
        self.copies: dict[int, tuple[int, int]] = {}  # start of a kept token → words
        kept = [mark for mark in _all_of(marks) if mark.kept and mark.start < mark.end]
        for mark in sorted(kept, key=lambda mark: mark.start - mark.end):  # longer ones first
            self._find_copy(mark)
        self.words = [
            _Word(*match.span(), bool(match["letters"]), self._origin(*match.span()))
            for match in matches
        ]
        self.n_letters = [0, *accumulate(word.letters for word in self.words)]

    def _origin(self, start: int, end: int) -> int:
        return Counter(self._origins[start:end]).most_common(1)[0][0]

    def _find_copy(self, mark: Mark) -> None:
        """Look for a token in the translation, in any case; of several, take the best aligned."""
        token = self.source[mark.start : mark.end]
        lower = token.lower()
        best, best_score = None, (-1, False)
        start = self._lower.find(lower, self._search_from.get(lower, 0))
        for _ in range(_MOST_COPIES):
            if start < 0:
                break
            end = start + len(lower)
            first, last = self._first_at.get(start, 0), self._last_at.get(end, -1)
            if first <= last and self._copied.isdisjoint(range(first, last + 1)):
                n_aligned = sum(mark.start <= i < mark.end for i in self._origins[start:end])
                score = n_aligned * self.aligned, self.text[start:end] == token
                if score > best_score:
                    best, best_score = (first, last + 1, start), score
            elif best is None:
                self._search_from[lower] = start + 1
            start = self._lower.find(lower, start + 1)
        if best is not None:
            self.copies[mark.start] = best[:2]
            self._copied.update(range(*best[:2]))
            self._origins[best[2] : best[2] + len(lower)] = [mark.start] * len(lower)

    def characters(self, window: _Window, within: tuple[int, int]) -> tuple[int, int]:
        """Where a window begins and ends, in a part of the translation."""
        first, last, mark, _ = window
        if first < last:
            start, end = self.words[first].start, self.words[last - 1].end
        elif first < len(self.words) and self.source[mark.start - 1 : mark.start].isspace():
            start = end = self.words[first].start
        else:
            start = end = self.words[first - 1].end if first else 0
        start = within[0] if mark.open_at == "start" else max(start, within[0])
        end = within[1] if mark.open_at == "end" else min(end, within[1])
        return start, max(start, end)


def _guess(text: str, translation: str) -> list[int]:
    """Origins in proportion to the position, but for words that both sides have once."""
    origins = [i * len(text) // len(translation) for i in range(len(translation))]
    places: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
    for found, side in zip(places, (text, translation), strict=True):
        for match in _WORD.finditer(side):
            if match["letters"]:
                found.setdefault(match[0], []).append(match.start())
    for word, starts in places[1].items():
        if len(starts) == len(places[0].get(word, [])) == 1:
            origins[starts[0] : starts[0] + len(word)] = places[0][word] * len(word)
    return origins


class _Level:
    """Gives words of one part of a translation to marks that stand side by side."""

    def __init__(
        self, found: _Translation, source: tuple[int, int], words: tuple[int, int]
    ) -> None:
        """
        Args:
            source: the part of the text that the marks stand in.
            words: the words of the translation that they may have: first, and one after the last.
        """
        self._found, self._source = found, source
        self._low, self._high = words
        self._taken: dict[int, _Window] = {}
        aligned = ((found.words[i].origin, i) for i in range(*words))
        self._by_origin = sorted(pair for pair in aligned if pair[0] >= 0)

    def windows(self, marks: Sequence[Mark]) -> list[_Window]:
        """A window for each mark, in the order of the translation; they do not overlap."""
        owned = {id(mark): self._owned(mark) for mark in marks}
        # Marks that are open at an end of the text come first, then copied tokens, then marks with
        # many words; places between words are last.
        order = sorted(marks, key=lambda mark: (
            not mark.open_at, mark.start == mark.end, not self._copied(mark), -len(owned[id(mark)])
        ))  # fmt: skip
        windows = [self._take(mark, owned[id(mark)]) for mark in order]
        position = {id(mark): i for i, mark in enumerate(marks)}
        return sorted(windows, key=lambda w: (w.first, w.last, position[id(w.mark)]))

    def _owned(self, mark: Mark) -> list[int]:
        """The words, not punctuation, that come from the words of the mark."""
        start = bisect_left(self._by_origin, (mark.start, -1))
        end = bisect_left(self._by_origin, (mark.end, -1))
        found = sorted(i for _, i in self._by_origin[start:end])
        return [i for i in found if self._found.words[i].letters]

    def _copied(self, mark: Mark) -> tuple[int, int] | None:
        copy = self._found.copies.get(mark.start) if mark.kept else None
        return copy if copy and self._low <= copy[0] and copy[1] <= self._high else None

    def _take(self, mark: Mark, owned: list[int]) -> _Window:
        first, last = self._choose(mark, owned)
        window = _Window(first, last, mark, [])
        self._taken.update(dict.fromkeys(range(first, last), window))
        if mark.inner:
            level = _Level(self._found, (mark.start, mark.end), (first, last))
            window.inner.extend(level.windows(mark.inner))
        return window

    def _choose(self, mark: Mark, owned: list[int]) -> tuple[int, int]:
        whole = self._low, self._high
        if mark.start == mark.end and not mark.open_at:
            return self._between(mark.start)
        if (mark.start, mark.end) == self._source and not mark.kept:
            return whole
        copy = self._copied(mark)
        if copy and not any(i in self._taken for i in range(*copy)):
            return copy
        if mark.kept and not self._found.aligned:
            return self._between(mark.start)
        run = self._run(owned, gaps=not mark.kept)
        if run is None:
            run = self._between(mark.start) if mark.kept else self._nearest(mark.start)
        first, last = run
        if mark.open_at == "start":
            return self._low, max(last, first)
        if mark.open_at == "end":
            return min(first, last), self._high
        return self._with_punctuation(mark, first, last) if first < last else run

    def _run(self, owned: list[int], *, gaps: bool) -> tuple[int, int] | None:
        """The run of free words that has most of the owned words, less others in between."""
        n_letters, taken = self._found.n_letters, self._taken
        best, best_score, first, last, score = None, 0, 0, 0, 0
        for i in owned:
            if i in taken:
                continue
            n_others = n_letters[i] - n_letters[last]
            joined = n_others < score if gaps else score and not n_others
            if joined and not any(j in taken for j in range(last, i)):
                score -= n_others
            else:
                first, score = i, 0
            last, score = i + 1, score + 1
            if score > best_score:
                best, best_score = (first, last), score
        return best

    def _with_punctuation(self, mark: Mark, first: int, last: int) -> tuple[int, int]:
        """A run with the punctuation at its ends if the words of the mark have some there."""
        words, source = self._found.words, self._found.source
        if last < self._high and last not in self._taken and not words[last].letters:
            last += not _is_letter(source[mark.end - 1])
        before = first - 1
        if before >= self._low and before not in self._taken and not words[before].letters:
            first -= not _is_letter(source[mark.start])
        return first, last

    def _nearest(self, start: int) -> tuple[int, int]:
        """A free word near the counterpart of a place in the text; or no word, between two."""
        near, _ = self._between(start)
        for distance in range(_REACH):
            for i in (near + distance, near - 1 - distance):
                free = self._low <= i < self._high and i not in self._taken
                if free and self._found.words[i].letters:
                    return i, i + 1
        return near, near

    def _between(self, start: int) -> tuple[int, int]:
        """The place that corresponds to one in the text, and is within no window.

        It is after the word that comes from the word before `start`, or before the next one if
        there is a space.
        """
        i = bisect_left(self._by_origin, (start, -1))
        if start == self._source[0]:
            near = self._low
        elif not self._by_origin:
            near = self._high
        elif i == 0 or (i < len(self._by_origin) and self._found.source[start - 1].isspace()):
            near = self._by_origin[i][1]
        else:
            near = self._by_origin[i - 1][1] + 1
        before, after = self._taken.get(near - 1), self._taken.get(near)
        if before is not None and before is after:
            near = before.last
        return near, near


def _is_letter(character: str) -> bool:
    word = _WORD.match(character)
    return bool(word and word["letters"])


class _Writer:
    """Writes a translation with its kept tokens, and notes where its marks are then."""

    def __init__(self, found: _Translation) -> None:
        self._found = found
        self.pieces: list[str] = []
        self._length = 0

    def write(self, windows: Sequence[_Window], part: tuple[int, int]) -> tuple[Mark, ...]:
        """Append a part of the translation; its marks, with positions in the written text."""
        position, part_end = part
        placed = []
        for window in windows:
            mark = window.mark
            start, end = self._found.characters(window, (position, part_end))
            self._add(self._found.text[position:start])
            token = self._found.source[mark.start : mark.end] if mark.kept else ""
            inserted = bool(token) and start == end
            if inserted and self._needs_space(self.pieces[-1:]):
                self._add(" ")
            begin = self._length
            if mark.kept:
                self._add(token)
            inner = self.write(window.inner, (start, end)) if not mark.kept else ()
            placed.append(replace(mark, start=begin, end=self._length, inner=inner))
            if inserted and _NEEDS_SPACE.match(self._found.text, end):
                self._add(" ")
            position = end
        self._add(self._found.text[position:part_end])
        return tuple(placed)

    def _needs_space(self, last: Sequence[str]) -> bool:
        character = last[0][-1] if last else " "
        return bool(_NEEDS_SPACE.match(character) or _CLOSES.match(character))

    def _add(self, piece: str) -> None:
        if piece:
            self.pieces.append(piece)
            self._length += len(piece)
