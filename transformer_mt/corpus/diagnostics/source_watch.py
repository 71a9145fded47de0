"""A source as a whole → what a person should look at: swapped sides, shifted lines, mixed scripts.

Comes in: the raw pairs of a source, as they stream by. Goes out: the same pairs, and problems in
words. A few MB of memory, about 3 µs per pair. This file does not know what is done about it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from transformer_mt.config.data import Languages
from transformer_mt.corpus.diagnostics.line_units import N_UNITS, LineUnits, character_unit
from transformer_mt.corpus.diagnostics.shifted_lines import Run, ShiftFinder
from transformer_mt.corpus.diagnostics.swapped_sides import SwapFinder
from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.text.languages import is_chinese
from transformer_mt.text.scripts import script_of, traditional_share

_BLOCK = 2000  # lines looked at together
_LEARNED_FROM = 10_000  # lines at the start of a source
_FEWEST = 400  # lines that anything can be learned from
_FEWEST_ODD, _ODD_SHARE = 3, 0.001  # lines of one fault that are worth a person's time
_N_NAMED = 5  # lines, or runs, named in one problem

_FOREIGN = re.compile("[\u3041-\u3096\u30a1-\u30fa\uac00-\ud7a3]")


class SourceWatch:
    """Looks at the pairs of one source, block by block."""

    def __init__(self, name: str, languages: Languages) -> None:
        self.name, self.languages = name, languages
        self.n_lines = 0
        self.swapped = Odd()
        self.sides = [_Side(code) for code in (languages.src, languages.tgt)]
        self._learning: list[tuple[LineUnits, LineUnits]] | None = []
        self._shifts: ShiftFinder | None = None
        self._swaps: SwapFinder | None = None

    def observe(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Pass the pairs on unchanged, looking at each."""
        block: list[Pair] = []
        for pair in pairs:
            block.append(pair)
            if len(block) == _BLOCK:
                self._look(block)
                block = []
            yield pair
        if block:
            self._look(block)

    def _look(self, block: list[Pair]) -> None:
        texts = [list(side) for side in zip(*block, strict=True)]
        units = LineUnits.of(texts[0]), LineUnits.of(texts[1])
        for side, lines, found in zip(self.sides, texts, units, strict=True):
            side.look(lines, found, self.n_lines)
        start = self.n_lines
        self.n_lines += len(block)
        if self._learning is None:
            self._find(units, start)
        else:
            self._learning.append(units)
            if self.n_lines >= _LEARNED_FROM:
                self._learn()

    def _learn(self) -> None:
        """Learn from the blocks that waited, and look at them."""
        blocks, self._learning, start = self._learning or [], None, 0
        if self.n_lines < _FEWEST:
            return
        self._shifts = ShiftFinder(blocks)
        self._swaps = SwapFinder(blocks, self.languages)
        for units in blocks:
            self.swapped.add(self._swaps.look(units), start)
            start += len(units[0].lengths)

    def _find(self, units: tuple[LineUnits, LineUnits], start: int) -> None:
        if self._swaps is not None and self._shifts is not None:
            self.swapped.add(self._swaps.look(units), start)
            self._shifts.look(units)

    def problems(self) -> list[str]:
        """What a person should look at, after the last pair."""
        if self._learning:
            self._learn()
        found = self._whole_sides()
        if not found and self._many(self.swapped):
            found.append(
                f"{self.swapped.n:,} of {self.n_lines:,} lines look swapped, "
                f"{self.languages.tgt} on the {self.languages.src} side and the other way round: "
                f"{self.swapped.lines()}"
            )
        for side in self.sides:
            found += self._scripts(side)
        found += self._runs(self._shifts.finish() if self._shifts else [])
        return [f"{self.name}: {problem}" for problem in found]

    def _many(self, odd: "Odd") -> bool:
        return odd.n >= max(_FEWEST_ODD, _ODD_SHARE * self.n_lines)

    def _whole_sides(self) -> list[str]:
        """Sides without the script of their language."""
        found = []
        for side, other in (self.sides, self.sides[::-1]):
            if side.chinese and side.n_letters and side.han_share < 0.2:
                problem = f"only {side.han_share:.0%} of the letters on the {side.code} side are"
                problem += " Chinese"
                if other.han_share > 0.3 and not other.chinese and other.code != "ja":
                    problem += (
                        f", {other.han_share:.0%} on the {other.code} side: they look swapped"
                    )
                found.append(problem)
        return found

    def _scripts(self, side: "_Side") -> list[str]:
        """Lines of one Chinese script among those of the other, and of Japanese and Korean."""
        found = []
        wanted, other = "Simplified", "Traditional"
        if side.code == "zh-Hant":
            wanted, other = other, wanted
        if self._many(side.other_script):
            found.append(
                f"{side.other_script.n:,} of {self.n_lines:,} lines on the {side.code} side are in "
                f"{other} characters: {side.other_script.lines()}; data.clean.chinese_script: "
                f"{wanted.lower()} makes them {wanted}"
            )
        if self._many(side.foreign):
            found.append(
                f"{side.foreign.n:,} of {self.n_lines:,} lines on the {side.code} side look "
                f"Japanese or Korean: {side.foreign.lines()}"
            )
        return found

    def _runs(self, runs: list[Run]) -> list[str]:
        found = []
        src, tgt = self.languages.src, self.languages.tgt
        for run in runs[:_N_NAMED]:
            more, fewer = (tgt, src) if run.shift > 0 else (src, tgt)
            one = run.first if run.shift > 0 else run.first + 1
            found.append(
                f"lines {run.first}-{run.last} fit better one line apart ({src} of line {one} with "
                f"{tgt} of line {one + run.shift}, and so on): look near line {run.first} for a "
                f"line too many in {more} or missing in {fewer}, and near line {run.last} for the "
                "opposite"
            )
        if len(runs) > _N_NAMED:
            n_lines = sum(run.last - run.first + 1 for run in runs[_N_NAMED:])
            found.append(
                f"{len(runs) - _N_NAMED} more runs of lines, {n_lines:,} lines in all, fit better "
                f"one line apart, the first from line {runs[_N_NAMED].first} on"
            )
        return found


@dataclass
class Odd:
    """How many lines have a fault, and which are the first."""

    n: int = 0
    first: list[int] = field(default_factory=list)  # from 1

    def add(self, positions: NDArray[np.int64] | list[int], start: int) -> None:
        """Args: positions: in a block whose first line is `start`, from 0."""
        self.n += len(positions)
        room = _N_NAMED - len(self.first)
        self.first += [start + int(position) + 1 for position in positions[:room]]

    def lines(self) -> str:
        named = ", ".join(map(str, self.first))
        word = "line" if self.n == 1 else "lines"
        return f"{word} {named}" + (" …" if self.n > len(self.first) else "")


class _Side:
    """What the scripts of one side's lines are."""

    def __init__(self, code: str) -> None:
        self.code, self.chinese = code, is_chinese(code)
        self.n_letters = self.n_han = 0  # in a sample of the lines
        self.other_script, self.foreign = Odd(), Odd()
        self._wrong = -1 if code == "zh-Hant" else 1

    @property
    def han_share(self) -> float:
        return self.n_han / max(1, self.n_letters)

    def look(self, texts: list[str], lines: LineUnits, start: int) -> None:
        letters = script_of(" ".join(texts[:40]))
        self.n_letters += sum(letters)
        self.n_han += letters.han
        if not self.chinese:
            return
        telling = _telling_units()[lines.units] * self._wrong
        if (telling > 0).any():
            balance = np.bincount(lines.owners, telling, minlength=len(texts))
            self.other_script.add(np.flatnonzero(balance > 0), start)
        if lines.has_kana_or_hangul():
            foreign = [i for i, text in enumerate(texts) if _is_foreign(text)]
            self.foreign.add(foreign, start)


def _is_foreign(text: str) -> bool:
    """Whether kana and hangul are more than a quotation."""
    if not _FOREIGN.search(text):
        return False
    letters = script_of(text)
    return 4 * (letters.kana + letters.hangul) > sum(letters)


@lru_cache(maxsize=1)
def _telling_units() -> NDArray[np.int8]:
    """(N_UNITS,) 1: a character of Traditional Chinese alone, -1: of Simplified, 0: of both."""
    telling = np.zeros(N_UNITS, dtype=np.int8)
    for char in map(chr, range(0x4E00, 0xA000)):
        share = traditional_share(char)
        if share is not None:
            telling[character_unit(char)] = 1 if share else -1
    return telling
