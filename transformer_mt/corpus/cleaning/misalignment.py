"""A lexical score of every pair, learned on the corpus itself → probabilities of mismatch.

Comes in: the scored corpus and the fates so far. Goes out: for each pair how likely its sides do
not belong together. The model and the scores of each shard are files, so that work that was killed
goes on. Where lines may be shifted, the pairs of neighbouring lines are scored as well. This file
does not know how the score is made: see `lexical_model.py` and `misaligned_runs.py`.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_mt.config.experiment import Config
from transformer_mt.corpus.cleaning.decide import TRAIN, Fates
from transformer_mt.corpus.cleaning.lexical_model import SAMPLE, LexicalModel
from transformer_mt.corpus.cleaning.misaligned_runs import NO_GAIN, find_mismatches
from transformer_mt.corpus.cleaning.score_store import ScoredCorpus, Shard
from transformer_mt.system.arrays import save_array
from transformer_mt.system.output import remove_other_prints, writing
from transformer_mt.system.processes.parallel import count_workers, run_apart, run_shards
from transformer_mt.system.state import fingerprint

Say = Callable[[str], None]
Floats = NDArray[np.float32]

SHIFTS = (1, -1)  # lines
_STRETCH = 1000  # rows
_FORM = 3  # of the files; another number makes all of them anew


def learn_mismatch(
    cfg: Config, corpus: ScoredCorpus, fate: Fates, made_from: list[str], work_dir: Path, say: Say
) -> Floats | None:
    """(n,) probability that the sides of a pair do not belong together.

    Args:
        fate: pairs that are dropped already teach nothing, and get 0.
        made_from: fingerprints of the sources.
        work_dir: gets one folder with the model and the scores; others are removed.
    Returns:
        None: there is too little text to learn from.
    """
    rows = _stretches(fate)
    made_of = fingerprint(_FORM, made_from, cfg.seed, hashlib.sha256(rows.tobytes()).hexdigest())
    folder = work_dir / made_of
    remove_other_prints(work_dir, [made_of])
    model_path = folder / "model.npz"
    lesson = _Lesson(corpus, rows, cfg.seed, model_path)
    if not model_path.exists():
        # Much text takes much memory, which a process of its own gives back.
        learned = run_apart(_learn, lesson) if len(rows) > _STRETCH * 20 else _learn(lesson)
        if not learned:
            return None
    judge = _Judge(corpus, fate, model_path, count_workers(cfg.data.workers))
    return judge.by_source(judge.evidence())


@dataclass(frozen=True)
class _Judge:
    """A corpus, the model of it, and who works."""

    corpus: ScoredCorpus
    fate: Fates
    model_path: Path
    workers: int

    def evidence(self) -> Floats:
        """(n,) of all pairs that are still there, 0 for others."""
        jobs = (
            (self.model_path.with_name(f"{index:05d}.npy"), (self.model_path, shard))
            for index, shard in enumerate(self.corpus.shards)
        )
        evidence = np.zeros(len(self.corpus), dtype=np.float32)
        paths = run_shards(jobs, score_shard, workers=self.workers)
        for path, shard in zip(paths, self.corpus.shards, strict=True):
            evidence[shard.rows] = np.load(path)
        evidence[self.fate != TRAIN] = 0
        return evidence

    def by_source(self, evidence: Floats) -> Floats:
        """(n,) probabilities, each source being a text with its own share of mismatches."""
        probability = np.zeros_like(evidence)
        for source in range(self.corpus.n_sources):
            shards = [shard for shard in self.corpus.shards if shard.source == source]
            if shards:
                rows = slice(shards[0].rows.start, shards[-1].rows.stop)
                found = find_mismatches(evidence[rows])
                gains = self.gains(shards, evidence[rows], found.suspects())
                probability[rows] = found.probability(gains)
        return probability

    def gains(
        self, shards: list[Shard], evidence: Floats, suspects: NDArray[np.bool_]
    ) -> list[Floats]:
        """For each of `SHIFTS` (n,) how much better targets fit that are so many lines on.

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
        is_train = self.fate[first:][: len(evidence)][suspects] == TRAIN
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


def score_shifted(args: tuple[Path, Shard, NDArray[np.int64]], path: Path) -> None:
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


def _stretches(fate: Fates) -> NDArray[np.int64]:
    """About `SAMPLE` rows that are in train, in order: all, or stretches spread over the corpus.

    Neighbours stay together, since the model learns to tell them apart.
    """
    n_stretches = max(1, SAMPLE // _STRETCH)
    starts = np.linspace(0, max(0, len(fate) - _STRETCH), n_stretches, dtype=np.int64)
    if len(fate) <= SAMPLE:
        return np.flatnonzero(fate == TRAIN)
    rows = (starts[:, None] + np.arange(_STRETCH)).ravel()
    return rows[fate[rows] == TRAIN]


@dataclass(frozen=True)
class _Lesson:
    """What a model is learned from, and where it is written."""

    corpus: ScoredCorpus
    rows: NDArray[np.int64]  # in order
    seed: int
    path: Path


def _learn(lesson: _Lesson) -> bool:
    """Write a model learned from some rows; False: there is too little text."""
    rows = lesson.rows
    srcs: list[str] = []
    tgts: list[str] = []
    keys = [np.zeros(0, dtype=np.uint64)]
    for shard, (pair_hash,) in lesson.corpus.each("pair_hash"):
        first, end = np.searchsorted(rows, (shard.start, shard.start + shard.size))
        inside = rows[first:end] - shard.start
        if len(inside):
            keys.append(pair_hash[inside])
            pairs = shard.pairs(inside)
            srcs += [src for src, _ in pairs]
            tgts += [tgt for _, tgt in pairs]
    model = LexicalModel.learn(srcs, tgts, np.concatenate(keys), seed=lesson.seed)
    if model is None:
        return False
    with writing(lesson.path) as temporary:
        model.save(temporary)
    return True
