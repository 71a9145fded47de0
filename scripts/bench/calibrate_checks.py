"""How often the guards flag good translations, and how many planted faults they find.

    python scripts/bench/calibrate_checks.py CORPORA/tatoeba-zh-en/train:zh-en [MORE] [--show 5]

Each PREFIX:SRC-TGT is a corpus, looked at in both directions; its references are taken for good
translations. Faults are planted in some of them: a phrase of 1-8 words or characters four to twenty
times in a row at a random place, nothing or only dots, the first fifth alone, the source itself,
another language in another script, a source word left in the text. One line per direction: the
share of references flagged, in all and by fault, and the share of planted faults flagged as what
they are. `--show N` prints flagged references and missed faults. Exit status 1: more than 0.2 % of
the references of a line are flagged, or less than 95 % of a kind of fault are found.
"""

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import mean

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.readers.pairs import read_pairs
from transformer_mt.text.languages import is_chinese, is_unspaced
from transformer_mt.text.scripts import script_of
from transformer_mt.translation.output_checks import FAULT_MEANING, Fault, faults

MOST_FLAGGED, FEWEST_FOUND = 0.002, 0.95

# The same sentences in scripts of their own: what a confused model might write.
ELSEWHERE = (
    "Мы встретимся завтра у вокзала.", "Этот отчёт ещё не готов, подождите немного.",
    "明日、駅の前で会いましょう。", "このレポートはまだできていません。", "내일 역 앞에서 만나요.",
    "이 보고서는 아직 준비되지 않았습니다.", "سنلتقي غدا أمام المحطة.", "เราจะพบกันพรุ่งนี้ที่หน้าสถานี",
    "Θα συναντηθούμε αύριο μπροστά στον σταθμό.", "नाम अभी तक सूची में नहीं है।",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    src: str
    tgt: str
    languages: Languages

    def faults(self, translation: str) -> tuple[Fault, ...]:
        return faults(self.src, translation, src=self.languages.src, tgt=self.languages.tgt)


Planter = Callable[[Pair, random.Random], str | None]  # None: this pair cannot have the fault


def word_loop(pair: Pair, rng: random.Random) -> str | None:
    if is_unspaced(pair.languages.tgt):
        return None
    return " ".join(_with_loop(pair.tgt.split(" "), rng))


def character_loop(pair: Pair, rng: random.Random) -> str | None:
    return "".join(_with_loop(list(pair.tgt), rng))


def _with_loop(units: list[str], rng: random.Random) -> list[str]:
    size = rng.randint(1, min(8, len(units)))
    start = rng.randint(0, len(units) - size)
    phrase = units[start : start + size]
    return units[:start] + phrase * rng.randint(4, 20) + units[start + size :]


def emptied(pair: Pair, rng: random.Random) -> str | None:
    return rng.choice(["", " ", ".", "。", "...", "-", "?", "1"])


def truncated(pair: Pair, rng: random.Random) -> str | None:
    return pair.tgt[: max(1, len(pair.tgt) // 5)]


def copied(pair: Pair, rng: random.Random) -> str | None:
    return pair.src


def elsewhere(pair: Pair, rng: random.Random) -> str | None:
    return rng.choice(ELSEWHERE)


def left_over(pair: Pair, rng: random.Random) -> str | None:
    """A translation in which two to four Chinese characters of the source stand."""
    if not is_chinese(pair.languages.src) or is_chinese(pair.languages.tgt):
        return None
    runs = [pair.src[i : i + rng.randint(2, 4)] for i in range(len(pair.src))]
    runs = [run for run in runs if script_of(run).han == len(run) > 1]
    if not runs:
        return None
    words = pair.tgt.split(" ")
    words[rng.randrange(len(words))] = rng.choice(runs)
    return " ".join(words)


# What is planted, and the faults that name it.
PLANTERS: dict[str, tuple[Planter, set[Fault]]] = {
    "word loop": (word_loop, {"loop"}),
    "char. loop": (character_loop, {"loop"}),
    "emptied": (emptied, {"empty"}),
    "truncated": (truncated, {"short", "empty"}),
    "copied": (copied, {"copy", "script"}),
    "elsewhere": (elsewhere, {"script"}),
    "left over": (left_over, {"script", "copy"}),
}


@dataclass
class Row:
    """What was seen in one direction of a corpus."""

    name: str
    n: int = 0
    n_flagged: int = 0
    flagged: dict[str, list[Pair]] = field(default_factory=lambda: defaultdict(list))
    found: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    missed: dict[str, list[tuple[Pair, str]]] = field(default_factory=lambda: defaultdict(list))

    def look(self, pair: Pair) -> bool:
        """Whether a reference is free of faults."""
        names = pair.faults(pair.tgt)
        self.n += 1
        self.n_flagged += bool(names)
        for name in names:
            self.flagged[name].append(pair)
        return not names

    def plant(self, pair: Pair, rng: random.Random) -> None:
        for kind, (planter, names) in PLANTERS.items():
            planted = planter(pair, rng)
            if planted is None:
                continue
            found = bool(names & set(pair.faults(planted)))
            self.found[kind].append(found)
            if not found:
                self.missed[kind].append((pair, planted))

    def cells(self) -> Iterator[str]:
        yield from (self.name, str(self.n), f"{self.n_flagged / self.n:.3%}")
        yield from (str(len(self.flagged[fault])) for fault in FAULT_MEANING if fault != "cut")
        for kind in PLANTERS:
            yield f"{mean(self.found[kind]):.1%}" if kind in self.found else "-"

    def is_good(self) -> bool:
        found = all(mean(found) >= FEWEST_FOUND for found in self.found.values())
        return found and self.n_flagged <= MOST_FLAGGED * self.n

    def show(self, n: int) -> Iterator[str]:
        for fault, pairs in self.flagged.items():
            for pair in pairs[:n]:
                yield f"{self.name} {fault}: {pair.src[:200]} ||| {pair.tgt[:200]}"
        for kind, missed in self.missed.items():
            for pair, planted in missed[:n]:
                yield f"{self.name} missed {kind}: {pair.src[:200]} ||| {planted[:300]}"


def measure(corpus: str, *, n: int, n_planted: int, seed: int) -> list[Row]:
    """Both directions of PREFIX:SRC-TGT."""
    prefix, _, direction = corpus.rpartition(":")
    src, _, tgt = direction.partition("-")
    languages = Languages(src=src, tgt=tgt)
    source = Source(path=str(Path(prefix).resolve()))
    texts = [*islice(read_pairs(source, languages, root=Path(), role="test"), n)]
    rows = []
    for reverse in (False, True):
        way = languages.reversed() if reverse else languages
        pairs = [Pair(*(text[::-1] if reverse else text), way) for text in texts if all(text)]
        row = Row(f"{'/'.join(Path(prefix).parts[-2:])} {way.pair}")
        good = [pair for pair in pairs if row.look(pair)]
        rng = random.Random(seed)
        for pair in rng.sample(good, min(n_planted, len(good))):
            row.plant(pair, rng)
        rows.append(row)
    return rows


def render(rows: Sequence[Row]) -> str:
    judged = [fault for fault in FAULT_MEANING if fault != "cut"]
    head = ["references", "pairs", "flagged", *judged, *PLANTERS]
    table = [head, *(list(row.cells()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in table
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpora", nargs="+", metavar="PREFIX:SRC-TGT")
    parser.add_argument("--n", type=int, default=20_000, help="pairs of each corpus")
    parser.add_argument("--planted", type=int, default=2000, help="of them get faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, metavar="N", help="examples of each kind")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for corpus in arguments.corpora:
        rows += measure(corpus, n=arguments.n, n_planted=arguments.planted, seed=arguments.seed)
    print(render(rows))
    for row in rows:
        for line in row.show(arguments.show):
            print(line)
    sys.exit(0 if all(row.is_good() for row in rows) else 1)


if __name__ == "__main__":
    main()
