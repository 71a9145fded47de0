"""Scores → what becomes of each training pair.

Comes in: the scored corpus, thresholds, and the dev and test pairs. Goes out: one fate per pair.
Memory is a few bytes per pair, whatever the length of the text. This file knows numbers alone: no
text, and no file but the shards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_mt.config.data import CleanConfig
from transformer_mt.corpus.cleaning.rules import SCORED_RULES
from transformer_mt.corpus.cleaning.score_store import Hashes, ScoredCorpus, mix

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

Fates = NDArray[np.uint8]


@dataclass
class Decision:
    """The fate of every pair, and the scores that were made on the way."""

    fate: Fates  # (n,) index into FATES
    usual_ratio: float = 1.0  # target characters per source character
    mismatch: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    shared: int = 0  # pairs that share a side with dev or test, dropped or not

    def count(self, name: str) -> int:
        return int(np.count_nonzero(self.fate == FATES.index(name)))

    def drops(self) -> str:
        """How many pairs are dropped by each rule that dropped any, in words."""
        counts = {name: self.count(name) for name in DROPS}
        return ", ".join(f"{name} {n:,}" for name, n in counts.items() if n) or "nothing"


def judge_scores(corpus: ScoredCorpus, thresholds: Sequence[CleanConfig]) -> Fates:
    """(n,) the first of SCORED_RULES whose score is above the threshold of the source, or TRAIN.

    RULE_ERROR, where there are no scores.
    """
    fate = np.zeros(len(corpus), dtype=np.uint8)
    limits = np.array(
        [[_limit(clean, rule) for rule in SCORED_RULES] for clean in thresholds], dtype=np.float32
    )
    for shard, columns in corpus.each(*SCORED_RULES):
        for index in reversed(range(len(SCORED_RULES))):  # so that the first one wins
            above = columns[index] > limits[shard.source, index]
            fate[shard.rows][above] = FATES.index(SCORED_RULES[index])
        fate[shard.rows][list(shard.errors())] = FATES.index(RULE_ERROR)
    return fate


def judge_length_ratio(
    corpus: ScoredCorpus, decision: Decision, thresholds: Sequence[CleanConfig]
) -> None:
    """Drop pairs whose lengths are far from the ratio that is usual in this corpus."""
    decision.usual_ratio = _median_ratio(corpus, decision.fate)
    code = FATES.index("length_ratio")
    for shard, (src, tgt) in corpus.each("src_chars", "tgt_chars"):
        above = length_ratio(src, tgt, decision.usual_ratio) > _limit(
            thresholds[shard.source], "length_ratio"
        )
        fate = decision.fate[shard.rows]
        fate[above & (fate == TRAIN)] = code


def length_ratio(
    src_chars: NDArray[Any], tgt_chars: NDArray[Any], usual: float
) -> NDArray[np.float32]:
    """(n,) how many times the lengths differ from the usual ratio, either way; at least 1."""
    src = src_chars.astype(np.float32) + RATIO_SMOOTHING
    tgt = tgt_chars.astype(np.float32) / np.float32(usual) + RATIO_SMOOTHING
    return np.maximum(src / tgt, tgt / src)


def judge_duplicates(
    corpus: ScoredCorpus, decision: Decision, thresholds: Sequence[CleanConfig]
) -> None:
    """Drop what repeats an earlier pair that is still there.

    The hashes are compared in as many rounds as the memory for `KEYS_AT_ONCE` of them asks for.
    """
    n_rounds = -(-len(corpus) // KEYS_AT_ONCE)
    for number in range(n_rounds):
        keys, rows, droppable = [], [], []
        for shard, columns in corpus.each("pair_hash", "src_key", "tgt_key"):
            how = thresholds[shard.source].duplicate
            key = pair_keys(*columns, normalised=how == "normalised")
            here = (decision.fate[shard.rows] == TRAIN) & (key % np.uint64(n_rounds) == number)
            positions = np.flatnonzero(here)
            keys.append(key[positions])
            rows.append(positions + shard.start)
            droppable.append(np.full(len(positions), bool(how)))
        repeated = _repeated(np.concatenate(keys)) & np.concatenate(droppable)
        decision.fate[np.concatenate(rows)[repeated]] = FATES.index("duplicate")


def pair_keys(pair_hash: Hashes, src_key: Hashes, tgt_key: Hashes, *, normalised: bool) -> Hashes:
    """(n,) equal for pairs that count as the same."""
    if not normalised:
        return pair_hash
    with np.errstate(over="ignore"):
        return mix(src_key, 1) + tgt_key


def judge_overlap(
    corpus: ScoredCorpus,
    decision: Decision,
    held: tuple[Hashes, Hashes],
    thresholds: Sequence[CleanConfig],
) -> None:
    """Drop what shares a side with dev or test.

    Args:
        held: keys of their sources, and of their targets.
    """
    code = FATES.index("overlap")
    for shard, shared in sharing_a_side(corpus, held):
        decision.shared += int(np.count_nonzero(shared))
        if thresholds[shard.source].overlap:
            fate = decision.fate[shard.rows]
            fate[shared & (fate == TRAIN)] = code


def sharing_a_side(
    corpus: ScoredCorpus, keys: tuple[Hashes, Hashes]
) -> Iterator[tuple[Any, NDArray[np.bool_]]]:
    """Every shard with (size,) whether source or target has one of these keys."""
    for shard, (src_key, tgt_key) in corpus.each("src_key", "tgt_key"):
        yield shard, np.isin(src_key, keys[0]) | np.isin(tgt_key, keys[1])


def judge_mismatch(
    corpus: ScoredCorpus,
    decision: Decision,
    probability: NDArray[np.float32],
    thresholds: Sequence[CleanConfig],
) -> None:
    """Drop pairs that most likely do not belong together.

    Args:
        probability: (n,) of that, from `misaligned_runs.py`.
    """
    decision.mismatch = probability
    code = FATES.index("mismatch")
    for shard in corpus.shards:
        fate = decision.fate[shard.rows]
        above = probability[shard.rows] > _limit(thresholds[shard.source], "mismatch")
        fate[above & (fate == TRAIN)] = code


def draw_rows(corpus: ScoredCorpus, fate: Fates, size: int, seed: int) -> NDArray[np.int64]:
    """At most about `size` rows that stay in train, at random; no two of the same text.

    The same text is drawn or not drawn, wherever it stands: a function of text and seed.
    """
    n_alive = int(np.count_nonzero(fate == TRAIN))
    bound = _share_of_hashes(size, n_alive)
    hashes, rows = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    for shard, (pair_hash,) in corpus.each("pair_hash"):
        order = mix(pair_hash, seed)
        chosen = np.flatnonzero((order <= bound) & (fate[shard.rows] == TRAIN))
        hashes.append(order[chosen])
        rows.append(chosen + shard.start)
    _, first = np.unique(np.concatenate(hashes), return_index=True)
    return np.concatenate(rows)[first[:size]]


def _share_of_hashes(size: int, n_alive: int) -> np.uint64:
    """Hashes up to here are about `size` of `n_alive`, rather more."""
    share = 1.1 * (size + 100) / max(1, n_alive)
    return np.uint64(2**64 - 1) if share >= 1 else np.uint64(int(share * 2**64))


def _limit(clean: CleanConfig, rule: str) -> float:
    threshold = getattr(clean, rule)
    return float("inf") if threshold is False else float(threshold)


def _median_ratio(corpus: ScoredCorpus, fate: Fates) -> float:
    """Median of target over source characters of the pairs still there, to 0.25 %."""
    counts = np.zeros(len(_RATIO_BINS) + 1, dtype=np.int64)
    for shard, (src, tgt) in corpus.each("src_chars", "tgt_chars"):
        alive = (fate[shard.rows] == TRAIN) & (src > 0) & (tgt > 0)
        ratios = np.log(tgt[alive].astype(np.float64) / src[alive])
        counts += np.bincount(np.searchsorted(_RATIO_BINS, ratios), minlength=len(counts))
    if not counts.any():
        return 1.0
    middle = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
    return float(np.exp(_RATIO_BINS[min(middle, len(_RATIO_BINS) - 1)]))


def _repeated(keys: Hashes) -> NDArray[np.bool_]:
    """(n,) whether an earlier key is the same."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    repeated = np.zeros(len(keys), dtype=bool)
    repeated[order[1:]] = ordered[1:] == ordered[:-1]
    return repeated
