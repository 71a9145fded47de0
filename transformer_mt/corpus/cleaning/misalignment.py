"""A lexical score of every pair, learned on the corpus itself → probabilities of mismatch.

Comes in: the scored corpus and the fates so far. Goes out: for each pair the probability that its
sides do not belong together. The model and the scores of each shard are files, so that the next
call goes on where one was killed. Where lines may be shifted, the pairs of neighbouring lines are
scored as well. This file does not know how the score is made: see `lexical_model.py` and
`misaligned_runs.py`.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_mt.corpus.cleaning.decide import TRAIN, Decisions
from transformer_mt.corpus.cleaning.lexical_model import SAMPLE_PAIRS, LexicalModel
from transformer_mt.corpus.cleaning.misaligned_runs import NO_GAIN, find_mismatches
from transformer_mt.corpus.cleaning.score_store import ScoredCorpus, Shard
from transformer_mt.system.arrays import Floats, Ints, save_array
from transformer_mt.system.output import remove_other_prints, writing
from transformer_mt.system.processes.parallel import run_apart, run_shards
from transformer_mt.system.state import fingerprint

SHIFTS = (1, -1)  # lines
_STRETCH = 1000  # rows
_FORM = 3  # of the files; another number makes all of them anew


def learn_mismatch(
    decision: Decisions, work_dir: Path, *, seed: int, workers: int
) -> Floats | None:
    """(n,) probability that the sides of a pair do not belong together.

    Args:
        decision: pairs that are dropped already teach nothing, and their probability is 0.
        work_dir: gets one folder with the model and the scores; others are removed.
    Returns:
        None: there is too little text to learn from.
    """
    corpus, rows = decision.corpus, _stretches(decision.fate)
    sources = [source.folder.name for source in corpus.sources]
    made_of = fingerprint(_FORM, sources, seed, hashlib.sha256(rows.tobytes()).hexdigest())
    remove_other_prints(work_dir, [made_of])
    model_path = work_dir / made_of / "model.npz"
    task = _LearningTask(corpus, rows, seed, model_path)
    if not model_path.exists():
        # Much text takes much memory, which a process of its own gives back.
        learned = run_apart(_learn, task) if len(rows) > _STRETCH * 20 else _learn(task)
        if not learned:
            return None
    scoring = _ScoringTask(decision, model_path, workers)
    evidence = scoring.evidence()
    probability = np.zeros_like(evidence)
    for source in range(len(corpus.sources)):  # each a text with its own share of mismatches
        shards = [shard for shard in corpus.shards if shard.source == source]
        if shards:
            rows_of_source = slice(shards[0].rows.start, shards[-1].rows.stop)
            found = find_mismatches(evidence[rows_of_source])
            gains = scoring.gains(shards, evidence[rows_of_source], found.suspects())
            probability[rows_of_source] = found.probability(gains)
    return probability


@dataclass(frozen=True)
class _ScoringTask:
    """Inputs of scoring: the pairs and their fates, the lexical model, the number of processes."""

    decision: Decisions
    model_path: Path
    workers: int

    def evidence(self) -> Floats:
        """(n,) of all pairs of train, 0 for others."""
        shards = self.decision.corpus.shards
        jobs = (
            (self.model_path.with_name(f"{index:05d}.npy"), (self.model_path, shard))
            for index, shard in enumerate(shards)
        )
        evidence = np.zeros(len(self.decision.corpus), dtype=np.float32)
        paths = run_shards(jobs, score_shard, workers=self.workers)
        for path, shard in zip(paths, shards, strict=True):
            evidence[shard.rows] = np.load(path)
        evidence[self.decision.fate != TRAIN] = 0
        return evidence

    def gains(
        self, shards: list[Shard], evidence: Floats, suspects: NDArray[np.bool_]
    ) -> list[Floats]:
        """For each of `SHIFTS` (n,) how much better the target fits that is so many lines on.

        Args:
            shards: of one source, with n rows.
            evidence: (n,) of the pairs as they stand.
            suspects: (n,) rows to look at.
        """
        first = shards[0].start
        chosen = [suspects[shard.start - first :][: shard.size] for shard in shards]
        jobs = (
            (self._path_of_shifted(shard, rows), (self.model_path, shard, np.flatnonzero(rows)))
            for shard, rows in zip(shards, chosen, strict=True)
        )
        paths = run_shards(jobs, score_shifted, workers=self.workers)
        shifted = np.concatenate([np.load(path) for path in paths], axis=1)
        gains = [np.full(len(evidence), NO_GAIN, dtype=np.float32) for _ in SHIFTS]
        is_train = self.decision.fate[first:][: len(evidence)][suspects] == TRAIN
        for gain, found in zip(gains, shifted, strict=True):
            gain[suspects] = np.where(is_train, found - evidence[suspects], 0)
        return gains

    def _path_of_shifted(self, shard: Shard, chosen: NDArray[np.bool_]) -> Path:
        made_of = hashlib.sha256(chosen.tobytes()).hexdigest()[:16]
        return self.model_path.with_name(f"shifted-{shard.start}-{made_of}.npy")


def score_shard(args: tuple[Path, Shard], path: Path) -> None:
    """Write the (size,) evidence of one shard."""
    model_path, shard = args
    srcs, tgts = zip(*shard.pairs(), strict=True)
    (keys,) = shard.columns("pair_hash")
    save_array(path, _model(model_path).evidence(list(srcs), list(tgts), keys))


def score_shifted(args: tuple[Path, Shard, Ints], path: Path) -> None:
    """Write (len(SHIFTS), k) the evidence of k sources with targets of other lines of the shard.

    At the ends of the shard, where there is no such line, it is `NO_GAIN`.
    """
    model_path, shard, rows = args
    found = np.full((len(SHIFTS), len(rows)), NO_GAIN, dtype=np.float32)
    (keys,) = shard.columns("pair_hash")
    srcs = [src for src, _ in shard.pairs(rows)]
    for shift, evidence in zip(SHIFTS, found, strict=True):
        there = np.flatnonzero((rows + shift >= 0) & (rows + shift < shard.size))
        if len(there):
            tgts = [tgt for _, tgt in shard.pairs(rows[there] + shift)]
            evidence[there] = _model(model_path).evidence(
                [srcs[place] for place in there], tgts, keys[rows[there]]
            )
    save_array(path, found)


@lru_cache(maxsize=1)
def _model(path: Path) -> LexicalModel:
    return LexicalModel.load(path)


def _stretches(fate: NDArray[np.uint8]) -> Ints:
    """About `SAMPLE_PAIRS` rows of train, in order: all, or stretches spread over the corpus.

    Neighbours stay together, since the model learns to tell them apart.
    """
    if len(fate) <= SAMPLE_PAIRS:
        return np.flatnonzero(fate == TRAIN)
    n_stretches = SAMPLE_PAIRS // _STRETCH
    starts = np.linspace(0, len(fate) - _STRETCH, n_stretches, dtype=np.int64)
    rows = (starts[:, None] + np.arange(_STRETCH)).ravel()
    return rows[fate[rows] == TRAIN]


@dataclass(frozen=True)
class _LearningTask:
    """Inputs of learning a model, and the path that it is written to."""

    corpus: ScoredCorpus
    rows: Ints  # in order
    seed: int
    path: Path


def _learn(task: _LearningTask) -> bool:
    """Write a model learned from some rows; False: there is too little text."""
    pairs = task.corpus.pairs_at(task.rows)
    (keys,) = task.corpus.integers_at(task.rows, "pair_hash")
    srcs, tgts = ([pair[side] for pair in pairs] for side in (0, 1))
    model = LexicalModel.learn(srcs, tgts, keys, seed=task.seed)
    if model is None:
        return False
    with writing(task.path) as temporary:
        model.save(temporary)
    return True
