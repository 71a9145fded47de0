"""What the probability of a word is worth: how often such words stand in the reference.

    python scripts/bench/word_confidence.py -m runs/base --src dev.en --ref dev.de --to de

Translates, groups the words of all translations by their probability, and prints for each group the
mean probability and the share of words that the reference has as well. Words are those of the page
of `tmt serve`.
"""

import argparse
from collections import Counter
from itertools import pairwise
from pathlib import Path

from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.pipeline.run_dir import find_model
from transformer_mt.serve.jobs import Call, Translated
from transformer_mt.serve.worker import Answerer

EDGES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.01)


def found_again(translations: list[Translated], refs: list[str]) -> list[tuple[float, bool]]:
    """(probability, whether the reference has it) of each word; each word of a reference once."""
    found = []
    for translation, ref in zip(translations, refs, strict=True):
        left = Counter(ref.split() if any(w.space for w in translation.words) else ref)
        for word in translation.words:
            found.append((word.probability, left[word.text] > 0))
            left[word.text] -= 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", required=True, type=Path)
    parser.add_argument("--src", required=True, type=Path)
    parser.add_argument("--ref", required=True, type=Path)
    parser.add_argument("--to", required=True)
    args = parser.parse_args()
    answerer = Answerer([find_model(args.model)], "native", "auto")
    srcs, refs = [*split_lines(args.src)], [*split_lines(args.ref)]
    words = found_again(answerer.answer(Call("translate", 0, args.to, words=True), srcs), refs)
    print("| probability | words | mean probability | in the reference |\n|---|---|---|---|")
    for low, high in pairwise(EDGES):
        group = [(p, hit) for p, hit in words if low <= p < high]
        if group:
            mean = sum(p for p, _ in group) / len(group)
            share = sum(hit for _, hit in group) / len(group)
            print(f"| {low:.1f}–{min(high, 1):.1f} | {len(group):,} | {mean:.2f} | {share:.0%} |")


if __name__ == "__main__":
    main()
