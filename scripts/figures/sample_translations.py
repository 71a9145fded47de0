"""Random translations of a run's test set beside their references, as a Markdown table.

python scripts/figures/sample_translations.py runs/tatoeba-zh-en tatoeba [--n 20] [--seed 1]
"""

import argparse
import random
from pathlib import Path

from transformer_mt.corpus.clean import read_clean
from transformer_mt.corpus.readers.pairs import split_lines
from transformer_mt.pipeline.run_dir import Run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("test_set")
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    run = Run(arguments.run_dir)
    srcs, refs = read_clean(run.clean_dir, f"test.{arguments.test_set}")
    hyps = list(split_lines(run.translations_dir / f"{arguments.test_set}.txt"))
    print("| source | translation | reference |\n|---|---|---|")
    for index in sorted(random.Random(arguments.seed).sample(range(len(srcs)), arguments.n)):
        row = (srcs[index], hyps[index], refs[index])
        print("| " + " | ".join(text.replace("|", "\\|") for text in row) + " |")


if __name__ == "__main__":
    main()
