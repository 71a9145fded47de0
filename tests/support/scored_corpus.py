"""A corpus of scored pairs on disk, without any rule."""

from pathlib import Path

import numpy as np

from transformer_mt.corpus.cleaning.rules import SCORED_RULES, comparison_key
from transformer_mt.corpus.cleaning.score_store import (
    ScoredCorpus,
    ScoredSource,
    shard_path,
    write_scored,
)
from transformer_mt.corpus.readers.pairs import Pair


def scored_corpus(
    folder: Path, sources: list[list[list[Pair]]], scores: dict[str, list[float]] | None = None
) -> ScoredCorpus:
    """A corpus of sources of shards of pairs; scores for all rows in order, 0 by default."""
    start, found = 0, []
    for i, shards in enumerate(sources):
        source = ScoredSource(f"s{i}", folder / str(i), list(map(len, shards)), [], [])
        source.folder.mkdir(parents=True)
        line = 1
        for number, pairs in enumerate(shards):
            rows = slice(start, start + len(pairs))
            columns = {
                rule: np.array((scores or {}).get(rule, [0.0] * 10**4)[rows], dtype=np.float32)
                for rule in SCORED_RULES
            }
            keys = [(comparison_key(src), comparison_key(tgt)) for src, tgt in pairs]
            path = shard_path(source.folder, number)
            lines = np.arange(line, line + len(pairs))
            write_scored(path, pairs, keys, columns, lines=lines)
            start += len(pairs)
            line += len(pairs)
        found.append(source)
    return ScoredCorpus(found)
