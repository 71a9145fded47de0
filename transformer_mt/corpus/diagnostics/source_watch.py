"""A source as a whole → its faults: swapped sides, shifted lines, mixed scripts.

The raw pairs stream by: a few MB of memory, about 3 µs per pair. This file does not know how faults
are mended.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from transformer_mt.config.data import Languages
from transformer_mt.corpus.diagnostics.line_units import N_UNITS, LineUnits, character_unit
from transformer_mt.corpus.diagnostics.shifted_lines import ShiftedRun, ShiftFinder
from transformer_mt.corpus.diagnostics.swapped_sides import SwapFinder
from transformer_mt.corpus.diagnostics.whole_sides import whole_side_faults
from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.arrays import Ints
from transformer_mt.text.languages import is_chinese
from transformer_mt.text.scripts import script_of, traditional_share

_BLOCK = 2000  # lines looked at together
_N_SAMPLED = 40, 400  # lines of a block, and in all, that tell the languages
_LEARNED_FROM = 10_000  # lines at the start of a source
_FEWEST = 400  # lines to learn from
_FEWEST_FAULTY, _FAULTY_SHARE = 3, 0.001  # lines of one fault that are worth a person's time
_SCRIPTS = {"simplified": tr("Simplified"), "traditional": tr("Traditional")}
_N_NAMED = 5  # lines, or runs, named in one problem

_FOREIGN = re.compile("[\u3041-\u3096\u30a1-\u30fa\uac00-\ud7a3]")


class SourceWatch:
    """Looks at the pairs of one source, block by block.

    Args:
        turned: how the configuration names the source with its sides exchanged.
        line_of: the line of a pair, both from 1, as `problems` names it.
        converts: cleaning writes all Chinese in one script, so that none is a problem.
    """

    def __init__(
        self,
        name: str,
        languages: Languages,
        turned: Callable[[], str] = str,
        line_of: Callable[[int], int] = int,
        *,
        converts: bool = False,
    ) -> None:
        self.name, self.languages, self.turned, self._line_of = name, languages, turned, line_of
        self._converts = converts
        self.n_lines = self._n_searched = 0
        self.swapped = FaultyLines()
        self.sides = [_Side(code) for code in (languages.src, languages.tgt)]
        self._sample: list[Pair] = []
        self._waiting: list[tuple[LineUnits, LineUnits]] = []  # blocks to learn from
        self._finders: tuple[ShiftFinder, SwapFinder] | None = None
        self.shifted: list[ShiftedRun] = []  # those that `problems` has named

    def observe(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Pass the pairs on unchanged, looking at each."""
        stream = iter(pairs)
        while block := list(islice(stream, _BLOCK)):
            self._look(block)
            yield from block

    def _look(self, block: list[Pair]) -> None:
        texts = [list(side) for side in zip(*block, strict=True)]
        units = LineUnits.of(texts[0]), LineUnits.of(texts[1])
        for side, lines, found in zip(self.sides, texts, units, strict=True):
            side.look(lines, found, self.n_lines)
        self.n_lines += len(block)
        if len(self._sample) < _N_SAMPLED[1]:
            step = -(-len(block) // _N_SAMPLED[0])
            self._sample += block[::step]
        self._waiting.append(units)
        if self._finders or self.n_lines >= _LEARNED_FROM:
            self._search()

    def _search(self) -> None:
        """Look for faults in the blocks that wait; the first ones are learned from, too."""
        if self._finders is None:
            self._finders = ShiftFinder(self._waiting), SwapFinder(self._waiting, self.languages)
        for units in self._waiting:
            self._finders[0].look(units)
            self.swapped.add(self._finders[1].look(units), self._n_searched)
            self._n_searched += len(units[0].lengths)
        self._waiting = []

    @cached_property
    def findings(self) -> list[str]:
        """Faults of whole sides, after the last pair: they are in other languages than said."""
        found = whole_side_faults(self._sample, self.languages, self.turned)
        return [f"{self.name}: {fault}" for fault in found]

    def problems(self) -> list[str]:
        """Faults of lines that a person should look at, after the last pair."""
        if self._waiting and self.n_lines >= _FEWEST:
            self._search()
        src, tgt = self.languages.src, self.languages.tgt
        fault = tr("look swapped, {} on the {} side and the other way round", tgt, src)
        found = [] if self.findings else self._told(self.swapped, fault)
        for side in self.sides:
            scripts = ("simplified", "traditional")
            wanted, other = scripts[::-1] if side.code == "zh-Hant" else scripts
            hint = tr("; data.clean.chinese_script: {} makes them {}", wanted, _SCRIPTS[wanted])
            where = tr("on the {} side", side.code)
            if not self._converts:
                fault = tr("{} are in {} characters", where, _SCRIPTS[other])
                found += self._told(side.other_script, fault, hint)
            found += self._told(side.foreign, tr("{} look Japanese or Korean", where))
        runs = self._finders[0].finish() if self._finders else []
        self.shifted = runs[:_N_NAMED]
        found += self._runs(runs)
        return [f"{self.name}: {problem}" for problem in found]

    def _told(self, lines: "FaultyLines", fault: str, hint: str = "") -> list[str]:
        if lines.n < max(_FEWEST_FAULTY, _FAULTY_SHARE * self.n_lines):
            return []
        return [
            tr(
                "{:,} of {:,} lines {}: {}{}",
                lines.n,
                self.n_lines,
                fault,
                lines.name_first(self._line_of),
                hint,
            )
        ]

    def _runs(self, runs: list[ShiftedRun]) -> list[str]:
        found = []
        src, tgt = self.languages.src, self.languages.tgt
        for run in runs[:_N_NAMED]:
            more, fewer = (tgt, src) if run.shift > 0 else (src, tgt)
            one = run.first if run.shift > 0 else run.first + 1
            first, last = self._line_of(run.first), self._line_of(run.last)
            found.append(
                tr(
                    "lines {}-{} fit better one line apart ({} of line {} with {} of "
                    "line {}, and so on): look near line {} for a line too many in {} "
                    "or missing in {}, and near line {} for the opposite",
                    first,
                    last,
                    src,
                    self._line_of(one),
                    tgt,
                    self._line_of(one + run.shift),
                    first,
                    more,
                    fewer,
                    last,
                )
            )
        if len(runs) > _N_NAMED:
            n_lines = sum(run.last - run.first + 1 for run in runs[_N_NAMED:])
            found.append(
                tr(
                    "{} more runs of lines, {:,} lines in all, fit better one line "
                    "apart, the first from line {} on",
                    len(runs) - _N_NAMED,
                    n_lines,
                    self._line_of(runs[_N_NAMED].first),
                )
            )
        return found


@dataclass
class FaultyLines:
    """The number of lines with one fault, and the first of them."""

    n: int = 0
    first: list[int] = field(default_factory=list)  # pairs, from 1

    def add(self, positions: Ints | list[int], start: int) -> None:
        """Args: positions: in a block whose first line is `start`, from 0."""
        self.n += len(positions)
        room = _N_NAMED - len(self.first)
        self.first += [start + int(position) + 1 for position in positions[:room]]

    def name_first(self, line_of: Callable[[int], int]) -> str:
        """`lines 3, 7 …`; `line_of`: the line of a pair, both from 1."""
        numbers = ", ".join(str(line_of(pair)) for pair in self.first)
        named = numbers + (" …" if self.n > len(self.first) else "")
        return tr("line {}", named) if self.n == 1 else tr("lines {}", named)


class _Side:
    """The scripts of the lines of one side."""

    def __init__(self, code: str) -> None:
        self.code, self.chinese = code, is_chinese(code)
        self.other_script, self.foreign = FaultyLines(), FaultyLines()
        self._wrong = -1 if code == "zh-Hant" else 1

    def look(self, texts: list[str], lines: LineUnits, start: int) -> None:
        if not self.chinese:
            return
        telling = _telling_units()[lines.units] * self._wrong
        if (telling > 0).any():
            balance = np.bincount(lines.owners, telling, minlength=len(texts))
            self.other_script.add(np.flatnonzero(balance > 0), start)
        self.foreign.add([i for i, text in enumerate(texts) if _is_foreign(text)], start)


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
