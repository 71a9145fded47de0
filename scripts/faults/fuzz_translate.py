"""Translates hostile texts and checks what must hold whatever the text is.

    python scripts/faults/fuzz_translate.py -m runs/tiny --n 2000 --seed 1

No exception; one output for each text, without line ends; at most 5 s for a text of up to 1000
characters, and 5 s for every 1000 of a longer one, by the clock of the wall, since copies of the
process may do the work; and a loop that a simple search sees in an output, and not in the text, is
among the translation's faults. Prints a line for each kind of text, the failures below. Exit status
1: there is a failure.
"""

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import median

from hostile_texts import Hostile, hostile_texts

from transformer_mt.pipeline.run_dir import find_model
from transformer_mt.translation.result import Translation
from transformer_mt.translation.translator import Translator

CHUNK = 32  # texts translated at once
CHUNK_CHARACTERS = 4000  # longer chunks are divided
S_PER_1000 = 5.0
LOOP_TIMES = 6  # in a row, from which on a loop must have been flagged
EXCUSED_TIMES = 3  # times as often as in the source
LOOP_SIZE = 12  # words, and characters, at most
SOURCE_SIZE = 40  # what a source repeats may be a sentence, which in Chinese is one long word
SHOWN = 200  # characters of a text in a message


@dataclass
class Tally:
    """What was seen of one kind of text."""

    n: int = 0
    s_per_1000: list[float] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def repeats(text: str, longest: int = LOOP_SIZE) -> int:
    """How often a phrase of words, or of characters with a letter, stands in a row at most."""
    words = _most_repeats(text.lower().split(), longest)
    return max(words, _most_repeats(list("".join(text.lower().split())), longest))


def _most_repeats(units: Sequence[str], longest: int) -> int:
    """Unit by unit: how far does the text equal itself, shifted by the size of the phrase?"""
    most = 1
    for size in range(1, longest + 1):
        equal = 0
        for index in range(size, len(units)):
            equal = equal + 1 if units[index] == units[index - size] else 0
            if equal // size + 1 > most:
                phrase = "".join(units[index - size + 1 : index + 1])
                if any(map(_is_letter, phrase)):
                    most = equal // size + 1
    return most


def _is_letter(character: str) -> bool:
    """Radicals of Han count, and two planes of Unicode that are for Han alone, also unassigned."""
    is_radical, is_plane = 0x2E80 <= ord(character) < 0x2FE0, 0x20000 <= ord(character) < 0x40000
    return character.isalpha() or is_radical or is_plane


def allowed_s(text: str) -> float:
    return S_PER_1000 * max(1.0, len(text) / 1000)


def check(text: str, translation: Translation) -> Iterator[str]:
    """What is wrong with the outcome of one text."""
    output = translation.text
    if "\n" in output or "\r" in output:
        yield f"a line end in the output {output[:SHOWN]!r}"
    times = repeats(output)
    seen = times >= LOOP_TIMES and times > EXCUSED_TIMES * repeats(text, SOURCE_SIZE)
    if seen and "loop" not in translation.faults:
        yield f"{times} times in a row, not flagged: {output[:SHOWN]!r}"


def translate_chunk(translator: Translator, chunk: Sequence[Hostile], tallies: "Tallies") -> None:
    """Translate some texts together; one by one if that fails, to see which one it is."""
    texts = [text for _, text in chunk]
    started = time.perf_counter()
    try:
        translations = translator.translate(texts, retry=True)
    except Exception:
        if len(chunk) > 1:
            for hostile in chunk:
                translate_chunk(translator, [hostile], tallies)
            return
        tallies.fail(chunk[0], traceback.format_exc(limit=-3))
        return
    taken_s = time.perf_counter() - started
    if len(chunk) > 1 and taken_s > min(map(allowed_s, texts)):
        for hostile in chunk:  # together they may take longer than one of them may
            translate_chunk(translator, [hostile], tallies)
        return
    if len(translations) != len(texts):
        tallies.fail(chunk[0], f"{len(translations)} outputs for {len(texts)} texts")
        return
    n_characters = max(1, sum(map(len, texts)))
    for hostile, translation in zip(chunk, translations, strict=True):
        tallies.add(hostile, translation, taken_s * 1000 / n_characters)
        for problem in check(hostile.text, translation):
            tallies.fail(hostile, problem)
    if taken_s > sum(map(allowed_s, texts)):
        tallies.fail(chunk[0], f"{taken_s:.1f} s for {n_characters} characters")


class Tallies(dict[str, Tally]):
    """By kind of text."""

    def __missing__(self, kind: str) -> Tally:
        self[kind] = Tally()
        return self[kind]

    def add(self, hostile: Hostile, translation: Translation, s_per_1000: float) -> None:
        tally = self[hostile.kind]
        tally.n += 1
        tally.s_per_1000.append(s_per_1000)
        tally.faults.update(translation.faults or ("none",))

    def fail(self, hostile: Hostile, problem: str) -> None:
        text = f"{len(hostile.text)} characters, {hostile.text[:SHOWN]!r}"
        self[hostile.kind].failures.append(f"{hostile.kind}: {text}: {problem}")


def chunks_of(texts: Iterator[Hostile]) -> Iterator[list[Hostile]]:
    """Texts of one kind together, long ones alone."""
    for _, group in groupby(sorted(texts, key=lambda hostile: hostile.kind), lambda h: h.kind):
        chunk: list[Hostile] = []
        for hostile in group:
            n_characters = sum(len(other.text) for other in chunk) + len(hostile.text)
            if chunk and (len(chunk) == CHUNK or n_characters > CHUNK_CHARACTERS):
                yield chunk
                chunk = []
            chunk.append(hostile)
        yield chunk


def render(tallies: Tallies) -> Iterator[str]:
    yield f"{'kind':<20} {'texts':>5} {'failures':>8}  s/1000 characters  faults"
    yield f"{'':<20} {'':>5} {'':>8} {'median':>9} {'max':>8}"
    for kind, tally in tallies.items():
        middle, most = median(tally.s_per_1000 or [0]), max(tally.s_per_1000, default=0)
        faults = ", ".join(f"{name} {n}" for name, n in tally.faults.most_common())
        counts = f"{tally.n:>5} {len(tally.failures):>8}"
        yield f"{kind:<20} {counts} {middle:>9.3f} {most:>8.3f}  {faults}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", type=Path, help="model or run directory")
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    translator = Translator.load(find_model(arguments.model))
    tallies = Tallies()
    for chunk in chunks_of(hostile_texts(arguments.n, arguments.seed)):
        translate_chunk(translator, chunk, tallies)
        n_done = sum(tally.n for tally in tallies.values())
        print(f"\r{n_done}/{arguments.n} {chunk[0].kind:<20}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print("\n".join(render(tallies)))
    failures = [failure for tally in tallies.values() for failure in tally.failures]
    for failure in failures:
        print(failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
