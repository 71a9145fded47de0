"""A lexical score of every pair, learned on the corpus itself → probabilities of mismatch.

The model and the scores of each shard are files, so that the next call goes on where one was
killed. Where lines may be shifted, the pairs of neighbouring lines are scored as well. This file
does not know how a score is made: see `lexical_model.py` and `misaligned_runs.py`.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_mt.corpus.cleaning.decide import TRAIN, Decisions
from transformer_mt.corpus.cleaning.lexical_model import (
    SAMPLE_PAIRS,
    Half,
    LexicalModel,
    split_rows,
)
from transformer_mt.corpus.cleaning.misaligned_runs import NO_GAIN, find_mismatches
from transformer_mt.corpus.cleaning.score_store import Hashes, ScoredCorpus, Shard
from transformer_mt.system.arrays import Floats, Ints, save_array
from transformer_mt.system.output import remove_other_prints
from transformer_mt.system.processes.executors import Workers
from transformer_mt.system.processes.parallel import Args, Job, Make, run_apart, run_shards
from transformer_mt.system.state import fingerprint

SHIFTS = (1, -1)  # lines
_STRETCH = 1000  # rows
_FORM = 4  # of the files; another number makes all of them anew

_MUCH_TEXT = 20_000  # rows; less is learned in this process

_Sample = tuple[ScoredCorpus, Ints]  # the rows to learn from, in order


def learn_mismatch(
    decision: Decisions, work_dir: Path, *, seed: int, workers: Workers
) -> Floats | None:
    """(n,) probability that the sides of a pair do not belong together; None: too little text.

    Pairs that are dropped already teach nothing. `work_dir` gets one folder with the model and the
    scores; others are removed.
    """
    corpus, rows, is_train = decision.corpus, _stretches(decision.fate), decision.fate == TRAIN
    sources = [source.folder.name for source in corpus.sources]
    made_of = fingerprint(_FORM, sources, seed, hashlib.sha256(rows.tobytes()).hexdigest())
    remove_other_prints(work_dir, [made_of])
    model_path = _learn_model((corpus, rows), work_dir / made_of, seed=seed, workers=workers)
    if not model_path.stat().st_size:
        return None
    everything = np.ones(len(corpus), dtype=bool)
    (evidence,) = _evidence(corpus, model_path, everything, (0,), workers)
    evidence[~is_train] = 0
    # Each source is a text with its own share of mismatches.
    found = [find_mismatches(evidence[source_rows]) for source_rows in corpus.source_rows]
    suspects = np.concatenate([mismatches.suspects() for mismatches in found])
    shifted = _evidence(corpus, model_path, suspects, SHIFTS, workers)
    gains = np.full((len(SHIFTS), len(corpus)), NO_GAIN, dtype=np.float32)
    gains[:, suspects] = np.where(is_train[suspects], shifted - evidence[suspects], 0)
    probability = evidence  # in its place: each array here has four bytes for every pair
    for mismatches, source_rows in zip(found, corpus.source_rows, strict=True):
        probability[source_rows] = mismatches.probability(gains[:, source_rows])
    return probability


def _evidence(
    corpus: ScoredCorpus,
    model_path: Path,
    chosen: NDArray[np.bool_],
    shifts: tuple[int, ...],
    workers: Workers,
) -> Floats:
    """(len(shifts), k) evidence of the k chosen sources with the target that many lines on."""

    def path_of(shard: Shard) -> Path:
        made_of = hashlib.sha256(chosen[shard.rows].tobytes()).hexdigest()[:16]
        return model_path.with_name(f"{shard.start}-{made_of}-{len(shifts)}.npy")

    jobs = (
        (path_of(shard), (model_path, shard, np.flatnonzero(chosen[shard.rows]), shifts))
        for shard in corpus.shards
    )
    paths = run_shards(jobs, score_rows, workers=workers)
    return np.concatenate([np.load(path) for path in paths], axis=1)


def score_rows(job: tuple[Path, Shard, Ints, tuple[int, ...]], path: Path) -> None:
    """Write (len(shifts), k) the evidence of k sources with targets of other lines of the shard.

    At the ends of the shard, where there is no such line, it is `NO_GAIN`.
    """
    model_path, shard, rows, shifts = job
    found = np.full((len(shifts), len(rows)), NO_GAIN, dtype=np.float32)
    (keys,) = shard.columns("pair_hash")
    for shift, evidence in zip(shifts, found, strict=True):
        there = (rows + shift >= 0) & (rows + shift < shard.size)
        srcs = [src for (src,) in shard.values(rows[there], "src")]
        tgts = [tgt for (tgt,) in shard.values(rows[there] + shift, "tgt")]
        evidence[there] = _model(model_path).evidence(srcs, tgts, keys[rows[there]])
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


def _learn_model(sample: _Sample, folder: Path, *, seed: int, workers: Workers) -> Path:
    """A model in a file, which is empty where there is too little text to learn from."""
    n_rows = len(sample[1])
    halves = [(folder / f"half-{half}.npz", (sample, half)) for half in (0, 1)]
    half_paths = _make_files(halves, _write_half, n_rows, workers)
    whole = [(folder / "model.npz", (sample, half_paths, seed))]
    (path,) = _make_files(whole, _write_model, n_rows, workers)
    return path


def _make_files(
    jobs: Sequence[Job[Args]], make: Make[Args], n_rows: int, workers: Workers
) -> list[Path]:
    """Make files from some rows: many take much memory, which a process gives back at its end."""
    if n_rows < _MUCH_TEXT:
        return list(run_shards(jobs, make, workers=1))
    if len(jobs) > 1 and workers != 1:
        return list(run_shards(jobs, make, workers=workers))
    return list(run_shards(jobs, partial(_in_own_process, workers, make), workers=1))


def _in_own_process(workers: Workers, make: Make[Args], args: Args, path: Path) -> None:
    run_apart(_call, [(make, args, path)], workers=workers)


def _call(task: tuple[Make[Args], Args, Path]) -> None:
    make, args, path = task
    make(args, path)


def _write_half(task: tuple[_Sample, int], path: Path) -> None:
    """Write what one half of the sample teaches, or nothing, if there is too little text."""
    (corpus, rows), half = task
    rows_of_halves = split_rows(_keys(corpus, rows))
    path.touch()
    if rows_of_halves is not None:
        Half.learn(*_texts(corpus, rows[rows_of_halves[half]])).save(path)


def _write_model(task: tuple[_Sample, list[Path], int], path: Path) -> None:
    """Write the model of two halves, or nothing, if there is too little text."""
    (corpus, rows), half_paths, seed = task
    path.touch()
    if not all(half.stat().st_size for half in half_paths):
        return
    first, second = map(Half.load, half_paths)
    texts, keys = _texts(corpus, rows), _keys(corpus, rows)
    model = LexicalModel.fit(first, second, *texts, keys, seed=seed)
    if model is not None:
        model.save(path)


def _texts(corpus: ScoredCorpus, rows: Ints) -> tuple[list[str], list[str]]:
    srcs, tgts = ([text for (text,) in corpus.values_at(rows, name)] for name in ("src", "tgt"))
    return srcs, tgts


def _keys(corpus: ScoredCorpus, rows: Ints) -> Hashes:
    return np.array([key for (key,) in corpus.values_at(rows, "pair_hash")], dtype=np.uint64)
