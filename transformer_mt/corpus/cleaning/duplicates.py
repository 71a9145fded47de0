"""Hashes of all pairs → the rows that repeat an earlier pair, by one shuffle through files.

Each group of shards writes its hashes in their order. Then each range of hashes is read from all of
these files, and decided by itself: equal hashes are in the same range. Time and disk grow with the
corpus, memory does not. This file does not know what a hash is made of.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_mt.corpus.cleaning.score_store import Hashes, ScoredCorpus, Shard, mix
from transformer_mt.system.arrays import Ints, save_array
from transformer_mt.system.output import remove, remove_other_prints
from transformer_mt.system.processes.executors import Workers
from transformer_mt.system.processes.parallel import run_shards
from transformer_mt.system.state import fingerprint

KEYS_AT_ONCE = 2**22  # hashes that one task sorts: some 200 MB

Rule = str | bool  # which texts are equal: `normalised`, `exact`, or none


def repeated_rows(
    corpus: ScoredCorpus,
    rules: Sequence[Rule],
    alive: NDArray[np.bool_],
    work_dir: Path,
    *,
    workers: Workers,
) -> Iterator[Ints]:
    """Rows of pairs that repeat an earlier one, some at a time.

    Args:
        rules: of each source; a pair of a source without a rule is repeated by others, and stays.
        alive: (n,) pairs that count.
        work_dir: for this function alone; finished files in it are used, and removed at the end.
    """
    made_of = fingerprint(
        [source.folder.name for source in corpus.sources], list(rules), KEYS_AT_ONCE,
        hashlib.sha256(alive.tobytes()).hexdigest(),
    )  # fmt: skip
    remove_other_prints(work_dir, [made_of])
    folder = work_dir / made_of
    sorting = (
        (folder / f"{group[0].start}.keys.npy", (group, list(rules), _alive_of(group, alive)))
        for group in _groups(corpus.shards)
    )
    paths = list(run_shards(sorting, sort_hashes, workers=workers))
    n_ranges = max(1, -(-len(corpus) // KEYS_AT_ONCE))
    deciding = (
        (folder / f"{number}.rows.npy", (paths, number, n_ranges)) for number in range(n_ranges)
    )
    for path in run_shards(deciding, decide_range, workers=workers):
        yield np.load(path)
    remove(folder)


def _groups(shards: Sequence[Shard]) -> Iterator[list[Shard]]:
    """Neighbouring shards, as many as a task takes."""
    group: list[Shard] = []
    for shard in shards:
        if group and shard.start + shard.size - group[0].start > KEYS_AT_ONCE:
            yield group
            group = []
        group.append(shard)
    if group:
        yield group


def _alive_of(group: list[Shard], alive: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.packbits(alive[group[0].start : group[-1].rows.stop])


def sort_hashes(task: tuple[list[Shard], list[Rule], NDArray[np.uint8]], path: Path) -> None:
    """Write (2, n) uint64, sorted: hashes; twice the row of each, plus 1 where it may be dropped.

    Equal hashes stand in the order of the corpus.
    """
    group, rules, bits = task
    start = group[0].start
    alive = np.unpackbits(bits).astype(bool)
    hashes, rows = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    kinds = sorted({str(rule) for rule in rules if rule})  # a pair may repeat one of another rule
    for shard in group:
        chosen = np.flatnonzero(alive[shard.start - start :][: shard.size])
        twice = (chosen + shard.start).astype(np.uint64) * np.uint64(2)
        for kind in kinds:
            hashes.append(_hashes(shard, kind)[chosen])
            rows.append(twice + np.uint64(kind == rules[shard.source]))
    found = np.stack([np.concatenate(hashes), np.concatenate(rows)])
    save_array(path, found[:, np.argsort(found[0], kind="stable")])


def _hashes(shard: Shard, rule: Rule) -> Hashes:
    if rule == "normalised":
        src_key, tgt_key = shard.columns("src_key", "tgt_key")
        return mix(src_key, 1) + tgt_key
    return shard.columns("pair_hash")[0]


def decide_range(task: tuple[list[Path], int, int], path: Path) -> None:
    """Write the rows, among the hashes of one range of several, that repeat an earlier one."""
    paths, number, n_ranges = task
    edges = [np.uint64(edge * 2**64 // n_ranges) for edge in range(n_ranges)]
    parts = [np.zeros((2, 0), np.uint64)]
    for file in paths:
        found = np.load(file, mmap_mode="r")
        start = np.searchsorted(found[0], edges[number])
        last = number + 1 == n_ranges
        end = found.shape[1] if last else np.searchsorted(found[0], edges[number + 1])
        parts.append(found[:, start:end])
    hashes, rows = np.concatenate(parts, axis=1)
    repeated = (rows & np.uint64(1)).astype(bool)
    repeated[np.unique(hashes, return_index=True)[1]] = False  # the first in the corpus
    save_array(path, (rows[repeated] // np.uint64(2)).astype(np.int64))
