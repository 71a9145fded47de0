"""How many usual and strange texts get a note, for a model of given training text.

    python scripts/bench/input_notes.py --lang zh --train train.zh --dev dev.zh --usual test.zh \\
        --strange other/test.en other/test.de [--traditional] [--most 500]

Each FILE has one text per line. `--traditional` adds the usual texts in Traditional characters, and
emoji and random letters are always added. No model is needed: notes come from the words of the
training text and from scripts.
"""

import argparse
import random
import string
from itertools import islice
from pathlib import Path

from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.text.known_units import KnownUnits
from transformer_mt.text.normalise import Normaliser
from transformer_mt.translation.input_checks import check_inputs
from transformer_mt.translation.segments import in_known_script


def noted(texts: list[str], known: KnownUnits, language: str) -> float:
    """Share of the texts with a note."""
    normalised = list(map(Normaliser(language, None), texts))
    read = normalised
    if language == "zh":
        read = [in_known_script(text, known) for text in normalised]
    n = len(texts)
    found = check_inputs(normalised, read, [language] * n, [0.0] * n, known)
    return sum(bool(check.notes) for check in found) / n


def garbage(n: int) -> list[str]:
    """Emoji and random letters by turns."""
    draw = random.Random(1)
    emoji = [chr(code) for code in range(0x1F600, 0x1F640)]
    texts = []
    for i in range(n):
        words = [
            "".join(draw.choices(string.ascii_lowercase, k=draw.randint(3, 9))) for _ in "five"
        ]
        texts.append(" ".join(words) if i % 2 else "".join(draw.choices(emoji, k=4)))
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lang", required=True)
    for name in ("train", "dev", "usual"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--strange", type=Path, nargs="*", default=[])
    parser.add_argument("--traditional", action="store_true")
    parser.add_argument("--most", type=int, default=1000)
    options = parser.parse_args()
    known = KnownUnits.of([list(split_lines(options.train))], list(split_lines(options.dev)))

    def show(name: str, texts: list[str]) -> None:
        texts = [text for text in texts if text.strip()]
        print(f"{name:40} {len(texts):6}  {noted(texts, known, options.lang):.1%}")

    usual = list(islice(split_lines(options.usual), options.most))
    print(f"{'texts':40} {'number':>6}  with a note (threshold {known.threshold:.2f})")
    show(f"usual: {options.usual.name}", usual)
    for path in options.strange:
        show(str(path), list(islice(split_lines(path), options.most)))
    show("emoji, random letters", garbage(200))
    if options.traditional:
        to_traditional = Normaliser(options.lang, "traditional")
        converted = [(text, to_traditional(text)) for text in usual]
        others = [traditional for text, traditional in converted if traditional != text]
        show("usual, in Traditional characters", others)


if __name__ == "__main__":
    main()
