"""Scores → the fate of each training pair: dropped by a rule, held out for dev or test, or kept.

Memory is a few bytes per pair, whatever the length of the text: this file reads numbers from the
shards, and no text.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_mt.config.data import CleanConfig
from transformer_mt.corpus.cleaning.duplicates import repeated_rows
from transformer_mt.corpus.cleaning.rules import SCORED_RULES
from transformer_mt.corpus.cleaning.score_store import Hashes, HashIndex, ScoredCorpus, Shard, mix
from transformer_mt.corpus.readers.pairs import Pair
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.arrays import Array, Floats, Ints
from transformer_mt.system.processes.executors import Workers

# Both sides count as 10 characters longer, since acronyms and idioms vary more than sentences.
RATIO_SMOOTHING = 10
ALL_RULES = (*SCORED_RULES, "length_ratio", "duplicate", "overlap", "mismatch")
RULE_ERROR = "rule_error"  # no rule: the fate of pairs that a rule failed on
DROPS = (*ALL_RULES, RULE_ERROR)
HELD_OUT = {"dev": "dev", "test": "test.held_out"}
FATES = ("train", *DROPS, *HELD_OUT.values())
TRAIN = 0

MIN_TO_HOLD_OUT = 100  # pairs
POOL = 200_000  # random pairs, from which the cheapest are held out
_RATIO_BINS = np.linspace(-6, 6, 4801)  # of log(target / source characters)


class Decisions:
    """The fate of every pair, decided rule by rule; a pair keeps the fate of the first rule.

    Args:
        thresholds: one for each source.
    """

    def __init__(self, corpus: ScoredCorpus, thresholds: Sequence[CleanConfig]) -> None:
        self.corpus, self.thresholds = corpus, thresholds
        self.fate = np.zeros(len(corpus), dtype=np.uint8)  # index into FATES
        self.usual_ratio = 1.0  # target characters per source character
        self.mismatch = np.zeros(0, dtype=np.float32)  # (n,) probability; empty until it is known
        self.n_shared = 0  # pairs that share a side with dev or test, and stay

    def count(self, name: str) -> int:
        return int(np.count_nonzero(self.fate == FATES.index(name)))

    @property
    def held_out(self) -> dict[str, int]:
        """Pairs held out, by role."""
        return {role: n for role, name in HELD_OUT.items() if (n := self.count(name))}

    def drops(self) -> str:
        """The rules that dropped pairs, and how many each, in words."""
        counts = {name: self.count(name) for name in DROPS}
        return ", ".join(f"{name} {n:,}" for name, n in counts.items() if n) or tr("nothing")

    def drop(self, shard: Shard, rule: str, bad: NDArray[np.bool_]) -> None:
        """Args: bad: (size,) rows of the shard; those dropped already keep their fate."""
        fate = self.fate[shard.rows]
        fate[bad & (fate == TRAIN)] = FATES.index(rule)

    def drop_by_scores(self) -> None:
        """Apply the rules that judge each pair by itself; RULE_ERROR: there are no scores."""
        for shard, columns in self.corpus.each(*SCORED_RULES):
            self.fate[shard.rows][list(shard.errors())] = FATES.index(RULE_ERROR)
            for rule, scores in zip(SCORED_RULES, columns, strict=True):
                self.drop(shard, rule, scores > self._limit(shard, rule))

    def drop_by_length_ratio(self) -> None:
        """Drop pairs whose lengths are far from the ratio that is usual in this corpus."""
        self.usual_ratio = self._median_ratio()
        for shard, (src, tgt) in self.corpus.each("src_chars", "tgt_chars"):
            ratios = length_ratio(src, tgt, self.usual_ratio)
            self.drop(shard, "length_ratio", ratios > self._limit(shard, "length_ratio"))

    def drop_duplicates(self, work_dir: Path, *, workers: Workers = 1) -> None:
        """Drop each pair that repeats an earlier pair of train; see `repeated_rows`."""
        rules = [clean.duplicate for clean in self.thresholds]
        alive = self.fate == TRAIN
        for rows in repeated_rows(self.corpus, rules, alive, work_dir, workers=workers):
            self.fate[rows] = FATES.index("duplicate")

    def drop_overlap(self, held: tuple[Hashes, Hashes]) -> None:
        """Drop pairs that share a side with dev or test, given the keys of both sides of these."""
        for shard, shared in self._sharing_a_side(held):
            if self.thresholds[shard.source].overlap:
                self.drop(shard, "overlap", shared)
            else:
                self.n_shared += int(np.count_nonzero(shared & (self.fate[shard.rows] == TRAIN)))

    def drop_mismatches(self, probability: Floats) -> None:
        """Drop pairs whose sides most likely do not belong together: see `misalignment.py`."""
        self.mismatch = probability
        for shard in self.corpus.shards:
            limit = self._limit(shard, "mismatch")
            self.drop(shard, "mismatch", probability[shard.rows] > limit)

    def hold_out(self, roles: list[str], seed: int) -> None:
        """Move pairs to the missing parts, and drop the pairs that share a side with them.

        The cost of a pair is the number of other pairs that share a side with it. The cheapest go
        first.

        Raises:
            DataError: there are too few pairs, or they have too many sides in common.
        """
        if not roles:
            return
        n_usable = self.count("train")
        give = tr("give more data, or {}", tr(" and ").join(f"data.{role}" for role in roles))
        if n_usable < MIN_TO_HOLD_OUT:
            raise DataError(
                tr(
                    "train: {} usable pairs; to hold out {} there must be {}: {}",
                    n_usable,
                    tr(" and ").join(roles),
                    MIN_TO_HOLD_OUT,
                    give,
                )
            )
        size = min(max(n_usable // 100, 50), 1000, n_usable // 10 // len(roles))
        pool = self.draw_rows(POOL, seed)
        keys = np.array(self.corpus.values_at(pool, "src_key", "tgt_key"), dtype=np.uint64).T
        costs = self._occurrences("src_key", keys[0]) + self._occurrences("tgt_key", keys[1]) - 2
        chosen = _cheapest(keys, costs, size * len(roles), budget=n_usable // 10)
        if len(chosen) < len(roles):
            raise DataError(
                tr(
                    "train: sources and targets repeat so often that nothing can be "
                    "held out without losing more than a tenth of the rest: {}",
                    give,
                )
            )
        for shard, shared in self._sharing_a_side((keys[0, chosen], keys[1, chosen])):
            self.drop(shard, "overlap", shared)
        for role, rows in zip(roles, np.array_split(pool[chosen], len(roles)), strict=True):
            self.fate[rows] = FATES.index(HELD_OUT[role])

    def pairs_of(self, fate: str) -> Iterator[Pair]:
        """The texts of all pairs with a fate, in order."""
        for shard in self.corpus.shards:
            chosen = np.flatnonzero(self.fate[shard.rows] == FATES.index(fate))
            if len(chosen):
                yield from shard.values(chosen, "src", "tgt")

    def draw_rows(self, size: int, seed: int) -> Ints:
        """At most about `size` rows of train, at random; no two of the same text.

        The same text is drawn or not drawn, wherever it stands: a function of text and seed.
        """
        share = 1.1 * (size + 100) / max(1, self.count("train"))  # rather more than needed
        bound = np.uint64(2**64 - 1 if share >= 1 else int(share * 2**64))
        hashes, rows = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        for shard, (pair_hash,) in self.corpus.each("pair_hash"):
            order = mix(pair_hash, seed)
            chosen = np.flatnonzero((order <= bound) & (self.fate[shard.rows] == TRAIN))
            hashes.append(order[chosen])
            rows.append(chosen + shard.start)
        _, first = np.unique(np.concatenate(hashes), return_index=True)
        return np.concatenate(rows)[first[:size]]

    def _limit(self, shard: Shard, rule: str) -> np.float32:
        threshold = getattr(self.thresholds[shard.source], rule)
        return np.float32(np.inf if threshold is False else threshold)

    def _sharing_a_side(
        self, keys: tuple[Hashes, Hashes]
    ) -> Iterator[tuple[Shard, NDArray[np.bool_]]]:
        """Every shard with (size,) whether source or target has one of these keys."""
        held = [HashIndex(side) for side in keys]
        for shard, columns in self.corpus.each("src_key", "tgt_key"):
            src, tgt = (
                index.find(column) < len(index.unique)
                for index, column in zip(held, columns, strict=True)
            )
            yield shard, src | tgt

    def _occurrences(self, column_name: str, keys: Hashes) -> Ints:
        """(n,) how many pairs of train have each key in that column."""
        index = HashIndex(keys)
        counts = np.zeros(len(index.unique) + 1, dtype=np.int64)
        for shard, (column,) in self.corpus.each(column_name):
            alive = column[self.fate[shard.rows] == TRAIN]
            counts += np.bincount(index.find(alive), minlength=len(counts))
        return counts[index.find(keys)]

    def _median_ratio(self) -> float:
        """Median of target over source characters of train, to 0.25 %."""
        counts = np.zeros(len(_RATIO_BINS) + 1, dtype=np.int64)
        for shard, (src, tgt) in self.corpus.each("src_chars", "tgt_chars"):
            alive = (self.fate[shard.rows] == TRAIN) & (src > 0) & (tgt > 0)
            ratios = np.log(tgt[alive].astype(np.float64) / src[alive])
            counts += np.bincount(np.searchsorted(_RATIO_BINS, ratios), minlength=len(counts))
        if not counts.any():
            return 1.0
        middle = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
        return float(np.exp(_RATIO_BINS[min(middle, len(_RATIO_BINS) - 1)]))


def length_ratio(src_chars: Array, tgt_chars: Array, usual: float) -> Floats:
    """(n,) how many times the lengths differ from the usual ratio, either way; at least 1."""
    src = src_chars.astype(np.float32) + RATIO_SMOOTHING
    tgt = tgt_chars.astype(np.float32) / np.float32(usual) + RATIO_SMOOTHING
    return np.maximum(src / tgt, tgt / src)


def _cheapest(keys: Hashes, costs: Ints, size: int, *, budget: int) -> list[int]:
    """Up to `size` positions without a side in common, that cost at most `budget` other pairs.

    Args:
        keys: (2, n) of both sides; the order of pairs of equal cost stays, which is random.
        costs: (n,) upper bounds of how many other pairs share a side with each.
    """
    chosen: list[int] = []
    taken_src, taken_tgt = set(), set()
    for position in np.argsort(costs, kind="stable").tolist():
        if len(chosen) == size or costs[position] > budget:
            break
        src, tgt = keys[:, position].tolist()
        if src not in taken_src and tgt not in taken_tgt:
            taken_src.add(src)
            taken_tgt.add(tgt)
            chosen.append(position)
            budget -= costs[position]
    return chosen
