"""Scores → the fate of each training pair.

Comes in: the scored corpus, thresholds, and the keys of the dev and test pairs. Goes out: one fate
per pair. Memory is a few bytes per pair, whatever the length of the text. This file reads numbers
from the shards, and neither text nor any other file.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_mt.config.data import CleanConfig
from transformer_mt.corpus.cleaning.rules import SCORED_RULES
from transformer_mt.corpus.cleaning.score_store import Hashes, ScoredCorpus, Shard, mix
from transformer_mt.corpus.readers.pairs import Pair

# Both sides count as 10 characters longer, since acronyms and idioms vary more than sentences.
RATIO_SMOOTHING = 10
CORPUS_RULES = ("length_ratio", "duplicate", "overlap", "mismatch")
ALL_RULES = (*SCORED_RULES, *CORPUS_RULES)
RULE_ERROR = "rule_error"  # no rule: the fate of pairs that a rule failed on
DROPS = (*ALL_RULES, RULE_ERROR)
HELD_OUT = {"dev": "dev", "test": "test.held_out"}
FATES = ("train", *DROPS, *HELD_OUT.values())
TRAIN = 0

KEYS_AT_ONCE = 2**23  # hashes compared at a time: some 300 MB
_RATIO_BINS = np.linspace(-6, 6, 4801)  # of log(target / source characters)


class Decisions:
    """The fate of every pair, decided rule by rule; a pair keeps the fate of the first rule.

    Attributes:
        fate: (n,) uint8 index into FATES.
        usual_ratio: target characters per source character.
        mismatch: (n,) probability that the sides do not belong together; empty until it is known.
        n_shared: pairs that share a side with dev or test, dropped or not.
    """

    def __init__(self, corpus: ScoredCorpus, thresholds: Sequence[CleanConfig]) -> None:
        """Args: thresholds: one for each source."""
        self.corpus, self.thresholds = corpus, thresholds
        self.fate = np.zeros(len(corpus), dtype=np.uint8)
        self.usual_ratio = 1.0
        self.mismatch = np.zeros(0, dtype=np.float32)
        self.n_shared = 0

    def count(self, name: str) -> int:
        return int(np.count_nonzero(self.fate == FATES.index(name)))

    def drops(self) -> str:
        """The rules that dropped pairs, and how many each, in words."""
        counts = {name: self.count(name) for name in DROPS}
        return ", ".join(f"{name} {n:,}" for name, n in counts.items() if n) or "nothing"

    def drop(self, shard: Shard, rule: str, bad: NDArray[np.bool_]) -> None:
        """Args: bad: (size,) rows of the shard; those dropped already keep their fate."""
        fate = self.fate[shard.rows]
        fate[bad & (fate == TRAIN)] = FATES.index(rule)

    def drop_by_scores(self) -> None:
        """Apply SCORED_RULES with the thresholds of the source; RULE_ERROR: there are no scores."""
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

    def drop_duplicates(self) -> None:
        """Drop each pair that repeats an earlier pair of train.

        The hashes are compared in as many rounds as the memory for `KEYS_AT_ONCE` of them asks for.
        """
        n_rounds = -(-len(self.corpus) // KEYS_AT_ONCE)
        for number in range(n_rounds):
            keys, rows, droppable = [], [], []
            for shard, columns in self.corpus.each("pair_hash", "src_key", "tgt_key"):
                how = self.thresholds[shard.source].duplicate
                key = _pair_keys(*columns, normalised=how == "normalised")
                here = (self.fate[shard.rows] == TRAIN) & (key % np.uint64(n_rounds) == number)
                positions = np.flatnonzero(here)
                keys.append(key[positions])
                rows.append(positions + shard.start)
                droppable.append(np.full(len(positions), bool(how)))
            repeated = _repeated(np.concatenate(keys)) & np.concatenate(droppable)
            self.fate[np.concatenate(rows)[repeated]] = FATES.index("duplicate")

    def drop_overlap(self, held: tuple[Hashes, Hashes]) -> None:
        """Drop pairs that share a side with dev or test.

        Args:
            held: keys of their sources, and of their targets.
        """
        for shard, shared in self.sharing_a_side(held):
            self.n_shared += int(np.count_nonzero(shared))
            if self.thresholds[shard.source].overlap:
                self.drop(shard, "overlap", shared)

    def drop_mismatches(self, probability: NDArray[np.float32]) -> None:
        """Drop pairs whose sides most likely do not belong together.

        Args:
            probability: (n,) from `misalignment.py`.
        """
        self.mismatch = probability
        for shard in self.corpus.shards:
            limit = self._limit(shard, "mismatch")
            self.drop(shard, "mismatch", probability[shard.rows] > limit)

    def pairs_of(self, fate: str) -> Iterator[Pair]:
        """The texts of all pairs with a fate, in order."""
        for shard in self.corpus.shards:
            chosen = self.fate[shard.rows] == FATES.index(fate)
            if chosen.any():
                yield from shard.pairs(chosen)

    def sharing_a_side(
        self, keys: tuple[Hashes, Hashes]
    ) -> Iterator[tuple[Shard, NDArray[np.bool_]]]:
        """Every shard with (size,) whether source or target has one of these keys."""
        for shard, (src_key, tgt_key) in self.corpus.each("src_key", "tgt_key"):
            yield shard, np.isin(src_key, keys[0]) | np.isin(tgt_key, keys[1])

    def draw_rows(self, size: int, seed: int) -> NDArray[np.int64]:
        """At most about `size` rows of train, at random; no two of the same text.

        The same text is drawn or not drawn, wherever it stands: a function of text and seed.
        """
        n_train = self.count("train")
        share = 1.1 * (size + 100) / max(1, n_train)  # rather more than needed
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


def length_ratio(
    src_chars: NDArray[Any], tgt_chars: NDArray[Any], usual: float
) -> NDArray[np.float32]:
    """(n,) how many times the lengths differ from the usual ratio, either way; at least 1."""
    src = src_chars.astype(np.float32) + RATIO_SMOOTHING
    tgt = tgt_chars.astype(np.float32) / np.float32(usual) + RATIO_SMOOTHING
    return np.maximum(src / tgt, tgt / src)


def _pair_keys(pair_hash: Hashes, src_key: Hashes, tgt_key: Hashes, *, normalised: bool) -> Hashes:
    """(n,) equal for pairs that count as the same."""
    if not normalised:
        return pair_hash
    with np.errstate(over="ignore"):
        return mix(src_key, 1) + tgt_key


def _repeated(keys: Hashes) -> NDArray[np.bool_]:
    """(n,) whether an earlier key is the same."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    repeated = np.zeros(len(keys), dtype=bool)
    repeated[order[1:]] = ordered[1:] == ordered[:-1]
    return repeated
