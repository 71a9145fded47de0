"""A source as a whole → what a person should look at: swapped sides, shifted lines, bad text.

Comes in: the raw pairs of a source, or two files. Goes out: problems in words, or a report on the
files as training data. This file does not know a configuration, and writes nothing.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from transformer_mt.config import Languages, Source
from transformer_mt.data.alignment import line_shapes, misfit
from transformer_mt.data.candidates import TRAIN, Candidates
from transformer_mt.data.corpus import Pair, read_pairs, source_files
from transformer_mt.data.report import CorpusReport
from transformer_mt.data.rules import LETTER, normalise_pair, reason_to_drop
from transformer_mt.errors import DataError
from transformer_mt.languages import is_chinese

_BLOCK = 100  # lines looked at together when searching for shifted lines
# A block is suspicious when one line apart it fits with this share of the misfit. Measured: shifted
# text 0.2-0.5, aligned text above 1.3; text sorted by length 0.8-1 shifted and above 0.98 aligned.
_SHIFTED = 0.8
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def check_files(src_path: Path, tgt_path: Path, languages: Languages) -> CorpusReport:
    """Report on two line-aligned files as training data, without writing anything.

    Returns:
        One part, `pairs`; what a person should look at under `problems`; lengths under `notes`.
    Raises:
        DataError: a file is missing. Text that cannot be read to its end is a problem reported.
    """
    source = Source(files=[str(src_path), str(tgt_path)])
    source_files(source, languages, Path())  # files that do not exist are no finding but an error
    candidates = Candidates(seed=0)
    watch = SourceWatch(str(source), languages)
    try:
        pairs = read_pairs(source, languages, root=Path(), role="train")
        candidates.read(str(source), watch.observe(pairs), write=None)
        problems = watch.problems()
    except DataError as error:
        problems = str(error).split("\n")
    fate = candidates.judge(duplicates=True, overlap=None)
    again = map(normalise_pair, read_pairs(source, languages, root=Path(), role="train"))
    for _ in candidates.settle(fate, (pair for pair in again if not reason_to_drop(*pair))):
        pass
    parts = {"pairs": candidates.report(kept=int(np.sum(fate == TRAIN)))}
    return CorpusReport(parts, problems=problems, notes=candidates.length_notes(languages))


class SourceWatch:
    """Looks at a source as a whole, block by block: are its sides swapped, its lines shifted?"""

    def __init__(self, name: str, languages: Languages) -> None:
        self.name, self.languages = name, languages
        self.block: list[Pair] = []
        self.n_blocks = 0
        self.shifted: list[int] = []  # first lines of blocks
        self.n_letters, self.n_han = [0, 0], [0, 0]  # by side

    def observe(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Pass the pairs on unchanged, looking at each."""
        for pair in pairs:
            self.block.append(pair)
            if len(self.block) == _BLOCK:
                self._look()
            yield pair

    def _look(self) -> None:
        sides = [[pair[side] for pair in self.block] for side in (0, 1)]
        if len(self.block) == _BLOCK:
            src, tgt = map(line_shapes, sides)
            as_it_is = misfit(src[1:], tgt[1:])[-1]
            if min(misfit(src[1:], tgt)[-1], misfit(src, tgt[1:])[-1]) < _SHIFTED * as_it_is:
                self.shifted.append(self.n_blocks * _BLOCK + 1)
        for side, texts in enumerate(sides):
            sample = " ".join(texts[:10])
            self.n_letters[side] += len(LETTER.findall(sample))
            self.n_han[side] += len(_HAN.findall(sample))
        self.n_blocks += 1
        self.block.clear()

    def problems(self) -> list[str]:
        """What a person should look at, after the last pair."""
        self._look()
        found = []
        if self.shifted:
            first, n = self.shifted[0], len(self.shifted)
            more = f" (and {n - 1} more blocks of {_BLOCK} lines)" if n > 1 else ""
            found.append(
                f"{self.name}: lines {first}-{first + _BLOCK - 1}{more} fit better one line apart: "
                f"look for a line that is missing or too much on one side, near line {first}"
            )
        codes = self.languages.src, self.languages.tgt
        shares = [han / max(1, n) for han, n in zip(self.n_han, self.n_letters, strict=True)]
        for side in (0, 1):
            chinese, other = is_chinese(codes[side]), codes[1 - side]
            if chinese and shares[side] < 0.2 and self.n_letters[side]:
                percent = f"{shares[side]:.0%} of the letters on the {codes[side]} side are Chinese"
                swapped = shares[1 - side] > 0.3 and not is_chinese(other) and other != "ja"
                hint = f", {shares[1 - side]:.0%} on the {other} side: they look swapped"
                found.append(f"{self.name}: only {percent}{hint if swapped else ''}")
        return found
