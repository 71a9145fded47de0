"""Plants known faults into real parallel text, runs the cleaning, and counts what it finds.

    python scripts/bench/planted_faults.py CORPORA/tatoeba-zh-en/train:zh-en [MORE] --seeds 1 2 3

Each PREFIX:SRC-TGT is a corpus. What is made of it starts with a byte order mark, has CRLF line
ends, and these faults, never two on a line: blocks of 20-200 lines shifted by one (1 %), and of 5-9
(0.3 %), swapped sides (1 %), another language on one side (2 %), duplicates (3 %, half of them
changed in case, punctuation or width), sentences of the test set (1 %), targets of other lines
(2 %), U+2028 inside (1 %), and, with the package opencc and a Chinese side, traditional characters
(2 %). The last two should stay, and come out as they were; the others should be dropped, except
that no promise is kept for shifted lines whose wrong target is nearly the right one. A copy with a
byte that is not UTF-8 should be refused. Good pairs are those without a fault; what the corpus
itself repeats, or shares with the test set, is no loss. Exit status 1: a promise is broken.
"""

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from planting import SHARES, Planted, plant, to_traditional, write

from transformer_mt.config.experiment import build_config
from transformer_mt.corpus.cleaning.decide import FATES
from transformer_mt.corpus.readers.pairs import Pair, split_lines
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.errors import DataError
from transformer_mt.pipeline.prepare import clean_stage, fingerprints
from transformer_mt.text.normalise import Normaliser

KEPT = "train"
NO_LOSS = (KEPT, "duplicate", "overlap")
STAYING = ("line separator", "traditional")
PROMISED = {**dict.fromkeys(SHARES, 0.95), "shifted, alike": 0.0, "mismatched": 0.7}
MOST_LOST = 0.01  # of the good pairs


@dataclass(frozen=True)
class Outcome:
    """What became of a planted corpus: of each fault the share that was found, and by what."""

    recall: dict[str, float]
    by: dict[str, Counter[str]]
    lost: float  # share of the good pairs
    lost_by: Counter[str]
    refused: bool  # a byte that is not UTF-8


@dataclass(frozen=True)
class Fate:
    """What became of a line: a rule, or KEPT with the text after normalisation."""

    rule: str
    pair: Pair | None


def run_cleaning(directory: Path, codes: Pair) -> list[Fate]:
    """Clean `train` with `test` in a directory by tmt, and tell the fate of each line.

    This is all that the script knows of the cleaning.
    """
    clean = {
        "chinese_script": "simplified" if to_traditional(codes) else None,
        "language": 0.95,
    }
    data = {
        "root": str(directory), "train": ["train"], "dev": ["test"], "test": {"given": "test"},
        "workers": 1, "clean": clean,
    }  # fmt: skip
    languages = {"src": codes[0], "tgt": codes[1]}
    cfg = build_config({"name": "planted", "languages": languages, "data": data}, "planted.yaml")
    say = partial(print, file=sys.stderr)
    local = obtain_sources(cfg, say)
    clean_stage(local, fingerprints(local), directory / "clean", directory / "work", say)
    rules = [FATES[code] for code in np.load(directory / "clean" / "fates.npy").tolist()]
    left = zip(*(split_lines(directory / "clean" / f"train.{s}") for s in ("src", "tgt")),
               strict=True)  # fmt: skip
    return [Fate(rule, next(left) if rule == KEPT else None) for rule in rules]


def examine(planted: Planted, fates: list[Fate], codes: Pair, *, refused: bool) -> Outcome:
    """Count what was found and what was lost."""
    recall: dict[str, float] = {}
    by: dict[str, Counter[str]] = {}
    script = "simplified" if to_traditional(codes) else None
    normalise = [Normaliser(code, script) for code in codes]
    for fault in SHARES:
        lines = [line for line, name in planted.faults.items() if name == fault]
        rules = Counter(fates[line].rule for line in lines)
        if fault in STAYING:
            came_out = [(fates[n].pair, planted.clean[n]) for n in lines if fates[n].pair]
            right = sum(
                pair == (normalise[0](clean[0]), normalise[1](clean[1]))
                for pair, clean in came_out
            )  # fmt: skip
            by[fault] = Counter(rules | Counter({"came out wrong": len(came_out) - right}))
            found = right + sum(rules[rule] for rule in NO_LOSS[1:])
        else:
            by[fault], found = rules, len(lines) - rules[KEPT]
        if lines:
            recall[fault] = found / len(lines)
    good = [fates[n].rule for n in good_lines(planted)]
    lost_by = Counter(rule for rule in good if rule not in NO_LOSS)
    return Outcome(recall, by, lost_by.total() / len(good), lost_by, refused)


def good_lines(planted: Planted) -> list[int]:
    """Lines that should stay."""
    return [
        line for line in range(len(planted.pairs))
        if planted.faults.get(line, STAYING[0]) in STAYING and line not in planted.moot
    ]  # fmt: skip


def refuses(directory: Path, codes: Pair) -> bool:
    """Whether the same corpus with one byte that is not UTF-8 is an error that names the file."""
    path = directory / f"train.{codes[0]}"
    lines = path.read_bytes().split(b"\n")
    lines[len(lines) // 2] = b"\xff" + lines[len(lines) // 2]
    path.write_bytes(b"\n".join(lines))
    try:
        run_cleaning(directory, codes)
    except DataError as error:
        return str(path) in str(error)
    return False


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Markdown: medians of all seeds, and the rules that dropped the lines."""
    rows = ["| fault | lines | found | by |", "|---|---|---|---|"]
    for fault in SHARES:
        by = sum((outcome.by[fault] for outcome in outcomes), Counter[str]())
        if not by:
            continue
        rows.append(
            f"| {fault} | {by.total() // len(outcomes)} | {_recall(outcomes, fault):.1%} "
            f"| {_listed(by)} |"
        )
    lost_by = sum((outcome.lost_by for outcome in outcomes), Counter[str]())
    rows.append(f"| (good pairs lost) | | {_lost(outcomes):.2%} | {_listed(lost_by)} |")
    return rows


def broken_promises(outcomes: Sequence[Outcome]) -> list[str]:
    """What the medians of all seeds miss."""
    broken = [
        f"{fault} {_recall(outcomes, fault):.1%} < {least:.0%}"
        for fault, least in PROMISED.items()
        if _recall(outcomes, fault) < least
    ]
    if _lost(outcomes) > MOST_LOST:
        broken.append(f"good pairs lost {_lost(outcomes):.2%} > {MOST_LOST:.0%}")
    if not all(outcome.refused for outcome in outcomes):
        broken.append("a byte that is not UTF-8 is not refused")
    return broken


def _recall(outcomes: Sequence[Outcome], fault: str) -> float:
    """0 of a fault that was not planted: nothing shows that it would be found."""
    unknown = 1.0 if fault == "traditional" else 0.0  # where no side is Chinese, there is none
    return median(outcome.recall.get(fault, unknown) for outcome in outcomes)


def _lost(outcomes: Sequence[Outcome]) -> float:
    return median(outcome.lost for outcome in outcomes)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{rule} {count}" for rule, count in counts.most_common() if rule != KEPT)


def measure(prefix: str, codes: Pair, seed: int, foreign: Sequence[str], show: int) -> Outcome:
    """Plant, clean and count; print some lines that were missed or lost."""
    sides = [list(split_lines(Path(f"{prefix}.{code}"))) for code in codes]
    planted = plant(list(zip(*sides, strict=True)), [], codes, seed, foreign)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write(planted, directory, codes)
        fates = run_cleaning(directory, codes)
        refused = refuses(directory, codes)
    kinds = {line: fault for line, fault in planted.faults.items() if fault not in STAYING}
    missed = [line for line in kinds if fates[line].rule == KEPT]
    lost = [line for line in good_lines(planted) if fates[line].rule not in NO_LOSS]
    for name, lines in (("missed", missed), ("lost", lost)):
        random.Random(seed).shuffle(lines)
        for line in sorted(lines[:show]):
            why = kinds.get(line, fates[line].rule)
            print(name, line + 1, why, *planted.pairs[line], sep="\t")
    return examine(planted, fates, codes, refused=refused)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("corpora", nargs="+", metavar="PREFIX:SRC-TGT")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--foreign", metavar="FILE", help="sentences of another language")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="lines missed or lost")
    parser.add_argument("--json", action="store_true", help="one object instead of tables")
    arguments = parser.parse_args()
    foreign = list(split_lines(Path(arguments.foreign))) if arguments.foreign else []
    broken: list[str] = []
    results = {}
    for corpus in arguments.corpora:
        prefix, _, pair = corpus.rpartition(":")
        src, _, tgt = pair.partition("-")
        outcomes = [
            measure(prefix, (src, tgt), seed, foreign, arguments.show) for seed in arguments.seeds
        ]
        broken += [f"{prefix}: {what}" for what in broken_promises(outcomes)]
        results[prefix] = {
            "recall": {fault: _recall(outcomes, fault) for fault in SHARES},
            "lost": _lost(outcomes),
        }
        if not arguments.json:
            print(f"\n{prefix}\n", *table(outcomes), sep="\n", flush=True)
    if arguments.json:
        print(json.dumps({"corpora": results, "broken": broken}, ensure_ascii=False))
    else:
        print("\n" + ("broken: " + "; ".join(broken) if broken else "all promises are kept"))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
