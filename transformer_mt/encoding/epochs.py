"""The training corpus of each epoch: always the same, or cut into sub-words anew.

The corpus of an epoch has the same rows in every epoch and is a pure function of (seed, epoch,
row): a run that was stopped goes on with the same bytes. While an epoch is trained on, a process
beside makes the next one. This file knows nothing of batches or models.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal

import numpy as np

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import (
    CHUNK,
    SHARD,
    EncodedCorpus,
    Rows,
    join_shards,
    open_corpus,
    pack_rows,
    write_shard,
)
from transformer_mt.encoding.subword_sampling import SubwordSampler
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import remove, remove_other_prints, writing_folder
from transformer_mt.system.processes.executors import Workers, spawn_context, start_worker
from transformer_mt.system.processes.parallel import run_shards
from transformer_mt.system.state import Damaged, damages, fingerprint, read_manifest, write_manifest
from transformer_mt.system.terminal import Say

CorpusOf = Callable[[int], EncodedCorpus]

_MANIFEST = "epoch.json"


@dataclass(frozen=True)
class SubwordSampling:
    """How the sub-words of a corpus are drawn; see `SubwordSampler`."""

    corpus_dir: Path  # the encoded corpus with the best sub-words
    tokenizers: tuple[Tokenizer, Tokenizer]
    kind: Literal["bpe", "unigram"]
    strength: float  # 0: not at all
    seed: int
    max_length: int  # a sentence that would get longer keeps its best sub-words

    @classmethod
    def of(
        cls, cfg: Config, corpus_dir: Path, tokenizers: tuple[Tokenizer, Tokenizer]
    ) -> "SubwordSampling":
        tokenizer, data = cfg.tokenizer, cfg.data
        strength = tokenizer.sampling
        return cls(corpus_dir, tokenizers, tokenizer.type, strength, cfg.seed, data.max_length)


@contextmanager
def epoch_corpora(
    plain: EncodedCorpus,
    sampling: SubwordSampling,
    directory: Path,
    *,
    workers: Workers,
    say: Say,
    draws: bool = True,
    meet: Callable[[], object] = lambda: None,
) -> Iterator[CorpusOf]:
    """A function that gives the corpus of an epoch, for as long as the context lasts.

    Args:
        plain: the corpus in `sampling.corpus_dir`, which is every epoch's with a strength of 0.
        directory: where corpora of epochs go. The older ones are removed.
        workers: processes for an epoch that training must wait for.
        draws: of several processes on one disk, only one is to draw; the others read.
        meet: called when this process has drawn an epoch, or wants to read it, and again when it
            has opened it; returns when all have called it.
    """
    if not sampling.strength:
        yield lambda epoch: plain
        return
    own_dir = directory / fingerprint(sampling.strength, sampling.seed)
    ahead: BaseProcess | None = None

    def draw(epoch: int) -> None:
        """See that the corpus of an epoch is there; begin the one after it."""
        nonlocal ahead
        remove_other_prints(directory, [own_dir.name])  # of other settings
        if ahead is not None:
            ahead.join()
        place, following = (own_dir / f"{number:06d}" for number in (epoch, epoch + 1))
        if not _is_whole(place):
            say(tr("  epoch {}: drawing sub-words", epoch))
            sample_corpus(sampling, epoch, place, workers=workers)
        for other in own_dir.glob("[0-9]" * 6 + "*"):
            if not other.name.startswith((place.name, following.name)):
                remove(other)
        if not _is_whole(following):
            context = spawn_context()  # a fork would copy the state of torch
            ahead = context.Process(target=_sample_beside, args=(sampling, epoch + 1, following))
            ahead.start()

    def corpus_of(epoch: int) -> EncodedCorpus:
        if draws:
            draw(epoch)
        meet()
        corpus = replace(open_corpus(own_dir / f"{epoch:06d}"), sources=plain.sources)
        meet()  # or preparing the next epoch could remove what another process still opens
        return corpus

    try:
        yield corpus_of
    finally:
        if ahead is not None:
            ahead.terminate()  # its finished shards stay for the next start
            ahead.join()


def sample_corpus(
    sampling: SubwordSampling, epoch: int, out_dir: Path, *, workers: Workers
) -> None:
    """Write the corpus of an epoch; shards that were finished before are used."""
    n_rows = len(open_corpus(sampling.corpus_dir))
    shards_dir = out_dir.with_name(f"{out_dir.name}.shards")
    jobs = (
        (shards_dir / f"{start:010d}.npz", (start, min(start + SHARD, n_rows)))
        for start in range(0, n_rows, SHARD)
    )
    paths = list(run_shards(jobs, partial(_sample_shard, sampling, epoch), workers=workers))
    with writing_folder(out_dir, _MANIFEST, ours=True) as directory:
        join_shards(paths, directory)
        write_manifest(directory, _MANIFEST, {"epoch": epoch})
    remove(shards_dir)


def _is_whole(place: Path) -> bool:
    """Whether the corpus of an epoch is there, as it was written."""
    try:
        manifest = read_manifest(place, _MANIFEST)
    except Damaged:
        return False
    return manifest is not None and not damages(place, manifest)


def _sample_beside(sampling: SubwordSampling, epoch: int, place: Path) -> None:
    start_worker()
    os.nice(10)  # training comes first
    sample_corpus(sampling, epoch, place, workers=1)


def _sample_shard(
    sampling: SubwordSampling, epoch: int, bounds: tuple[int, int], path: Path
) -> None:
    first, end = bounds
    corpus = open_corpus(sampling.corpus_dir)
    samplers = [SubwordSampler(t, sampling.kind, sampling.strength) for t in sampling.tokenizers]
    # One seed for each sentence, from a generator of its own for each shard.
    random = np.random.default_rng([sampling.seed, epoch, first])
    seeds = random.integers(2**63, size=(end - first, 2)).tolist()

    def redraw(row: int, i: int) -> list[int]:
        ids = (corpus.src, corpus.tgt)[i].sentence(row)
        drawn = samplers[i].sample(ids, seeds[row - first][i])
        return ids if len(drawn) > max(len(ids), sampling.max_length) else drawn

    def rows() -> Iterator[Rows]:
        for start in range(first, end, CHUNK):
            chunk = range(start, min(start + CHUNK, end))
            yield [redraw(row, 0) for row in chunk], [redraw(row, 1) for row in chunk]

    write_shard(path, pack_rows(rows(), sampling.tokenizers))
