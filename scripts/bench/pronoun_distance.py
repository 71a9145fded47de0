"""Whether a pronoun is right, by its distance from the noun: sentences of the demo, stretched.

    python scripts/bench/pronoun_distance.py write FOLDER
    tmt train tiny --set data.root=FOLDER … --run-dir RUN
    python scripts/bench/pronoun_distance.py measure FOLDER RUN…

The commands of the trainings stand in docs/before-attention.md. Between "The animal didn't cross
the street" and "because it was too tired" stand clauses about me and us, short sentences of the
same grammar: none to four of them in training, up to ten when it is measured. The pronoun still
stands for a noun of the first clause.
"""

import argparse
import random
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.evaluation.contrast import evaluate_contrast, read_contrast
from transformer_mt.translation.translator import Translator

BETWEEN = ("，因为", " because ")
MOST_IN_TRAINING = 4
MEASURED = (0, 1, 2, 3, 4, 6, 8, 10)  # clauses in between
FILLER_CHARACTERS = 10  # of Chinese, at most


class Clause(NamedTuple):
    zh: str
    en: str


def fillers(pairs: Iterable[tuple[str, str]]) -> list[Clause]:
    """Short main clauses about me and us, without pronouns of a third person."""
    others = {"he", "she", "it", "they", "him", "her", "them", "his", "their", "its"}
    found = []
    for zh, en in pairs:
        words = en.rstrip(".").split()
        short = len(zh) <= FILLER_CHARACTERS and "，" not in zh and zh.endswith("。")
        if short and words[0] in ("I", "We") and others.isdisjoint(words):
            first = "I" if words[0] == "I" else "we"
            found.append(Clause(zh.rstrip("。"), " ".join([first, *words[1:]])))
    return list(dict.fromkeys(found))


def stretched(text: str, clauses: list[str], mark: str, comma: str) -> str:
    """`text` with clauses before its only `mark`."""
    before, after = text.split(mark)
    ahead = mark if comma == "，" else f",{mark}"  # the Chinese mark begins with its own comma
    return (
        before
        + "".join(comma + clause for clause in clauses)
        + (ahead if clauses else mark)
        + after
    )


def stretch(texts: Iterable[str], chosen: list[Clause]) -> tuple[str, ...]:
    """The Chinese text, and then English ones, with the clauses in between."""
    zh, *english = texts
    return (
        stretched(zh, [clause.zh for clause in chosen], BETWEEN[0], "，"),
        *(stretched(en, [clause.en for clause in chosen], BETWEEN[1], ", ") for en in english),
    )


def can_stretch(texts: Iterable[str]) -> bool:
    zh, *english = texts
    return zh.count(BETWEEN[0]) == 1 and all(en.count(BETWEEN[1]) == 1 for en in english)


def write(folder: Path) -> None:
    """The corpora of training, and a contrast set for each number of clauses in between."""
    demo, draw = build_demo(), random.Random(1)
    inserted = fillers(demo.train)
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "dev", "test"):
        pairs = [
            stretch(pair, draw.sample(inserted, draw.randint(0, MOST_IN_TRAINING)))
            if can_stretch(pair)
            else pair
            for pair in getattr(demo, part)
        ]
        for side, code in enumerate(("zh", "en")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{part}.{code}").write_text(text, encoding="utf-8")
    items = [item for item in demo.contrast if can_stretch(item)]
    for n_clauses in MEASURED:
        rows = []
        for item in items:
            seeded = random.Random(f"{item[0]} {item[1]} {n_clauses}")  # alike for all wrong ones
            rows.append("\t".join(stretch(item, seeded.sample(inserted, n_clauses))))
        (folder / f"contrast-{n_clauses}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    n_sources = len({item[:2] for item in items})
    print(f"{len(inserted)} clauses, {n_sources} sentences of the contrast set")


def measure(folder: Path, runs: list[Path]) -> None:
    """A row for each distance, a column for each model."""
    translators = [Translator.load(run / "model") for run in runs]
    print(f"| clauses in between | characters | {' | '.join(run.name for run in runs)} |")
    print("|---|---|" + "---|" * len(runs))
    for n_clauses in MEASURED:
        items = read_contrast(folder / f"contrast-{n_clauses}.tsv")
        length = sum(len(item.source) for item in items) / len(items)
        scores = [evaluate_contrast(translator, items).score.score for translator in translators]
        cells = " | ".join(f"{score:.1f} %" for score in scores)
        print(f"| {n_clauses} | {length:.0f} | {cells} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=["write", "measure"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", type=Path, nargs="*")
    arguments = parser.parse_args()
    if arguments.task == "write":
        write(arguments.folder)
    else:
        measure(arguments.folder, arguments.runs)
