"""Random pairs that the cleaning of a configuration drops and keeps, for a person to judge.

    python scripts/bench/sample_cleaning.py my.yaml OUT --n 50 --seed 1 [--set data.clean.numbers=1]

Writes OUT/dropped.tsv and OUT/kept.tsv: rule, source:line, score, source, target; and prints how
many pairs each rule drops. The score is that of the rule which dropped the pair, and for kept pairs
the probability of a mismatch; empty where there is none. OUT/work keeps all scores, so that other
thresholds take less time.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

import numpy as np

from transformer_mt.config.experiment import load_experiment
from transformer_mt.corpus.clean import decide_fates
from transformer_mt.corpus.cleaning.decide import ALL_RULES, FATES, TRAIN
from transformer_mt.corpus.report.collect import CleaningResult, scores_of
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.system.output import write_text


def write_samples(found: CleaningResult, out_dir: Path, size: int, seed: int) -> None:
    """Write both files, each with `size` pairs at random, or all if there are fewer."""
    fate, rng = found.decision.fate, np.random.default_rng(seed)
    is_dropped = np.isin(fate, [FATES.index(rule) for rule in ALL_RULES])
    for name, chosen in (("dropped", is_dropped), ("kept", fate == TRAIN)):
        rows = np.sort(rng.permutation(np.flatnonzero(chosen))[:size])
        lines = [_line(found, int(row)) for row in rows]
        write_text(out_dir / f"{name}.tsv", "".join(f"{line}\n" for line in lines))


def _line(found: CleaningResult, row: int) -> str:
    rule = FATES[found.decision.fate[row]]
    corpus, rows = found.decision.corpus, np.array([row])
    [(source, line)], [pair] = corpus.origins_at(rows), corpus.values_at(rows, "src", "tgt")
    shard = next(shard for shard in corpus.shards if row < shard.start + shard.size)
    score = scores_of(found.decision, shard, "mismatch" if rule == "train" else rule)
    return "\t".join((rule, f"{source}:{line}", f"{score[row - shard.start]:.4g}", *pair))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("config", help="a file, or the name of a bundled one")
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--n", type=int, default=50, help="pairs of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", dest="overrides")
    arguments = parser.parse_args()
    say = partial(print, file=sys.stderr)
    local = obtain_sources(load_experiment(arguments.config, arguments.overrides), say)
    found = decide_fates(local, work_dir=arguments.out_dir / "work", say=say)
    for name in FATES:
        if count := found.decision.count(name):
            print(f"{name}\t{count}")
    write_samples(found, arguments.out_dir, arguments.n, arguments.seed)


if __name__ == "__main__":
    main()
