"""The training corpus of each epoch: always the same, or cut into sub-words anew.

Comes in: the encoded corpus and the tokenizers. Goes out: a function from an epoch to its corpus,
which has the same rows in every epoch. The corpus of an epoch is a pure function of (seed, epoch,
row): a run that was stopped goes on with the same bytes. While an epoch is trained on, a process
beside makes the next one. This file knows nothing of batches or models.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal

import numpy as np

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import (
    CHUNK,
    SHARD,
    EncodedCorpus,
    IdLists,
    id_dtypes,
    join_shards,
    open_corpus,
    pack_rows,
    write_shard,
)
from transformer_mt.encoding.subword_sampling import SubwordSampler
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.system.output import remove, remove_other_prints, writing_folder
from transformer_mt.system.processes.parallel import run_shards, spawn_context, start_worker
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
    workers: int,
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
    corpora = _SampledCorpora(plain, sampling, directory, workers, say)

    def corpus_of(epoch: int) -> EncodedCorpus:
        if draws:
            corpora.prepare(epoch)
        meet()
        corpus = corpora.open(epoch)
        meet()  # or preparing the next epoch could remove what another process still opens
        return corpus

    try:
        yield corpus_of
    finally:
        corpora.stop()


class _SampledCorpora:
    def __init__(
        self,
        plain: EncodedCorpus,
        sampling: SubwordSampling,
        directory: Path,
        workers: int,
        say: Say,
    ) -> None:
        self._plain, self._sampling, self._workers, self._say = plain, sampling, workers, say
        self._directory = directory / fingerprint(sampling.strength, sampling.seed)
        self._ahead: BaseProcess | None = None

    def open(self, epoch: int) -> EncodedCorpus:
        """The corpus of an epoch, which is there."""
        place = self._directory / f"{epoch:06d}"
        return replace(open_corpus(place), sources=self._plain.sources)

    def prepare(self, epoch: int) -> None:
        """See that the corpus of an epoch is there; begin the one after it."""
        remove_other_prints(self._directory.parent, [self._directory.name])  # of other settings
        if self._ahead is not None:
            self._ahead.join()
        place = self._directory / f"{epoch:06d}"
        if not _is_whole(place):
            self._say(f"  epoch {epoch}: drawing sub-words")
            sample_corpus(self._sampling, epoch, place, workers=self._workers)
        following = self._directory / f"{epoch + 1:06d}"
        for other in self._directory.glob("[0-9]" * 6 + "*"):
            if not other.name.startswith((place.name, following.name)):
                remove(other)
        if not _is_whole(following):
            self._begin(epoch + 1, following)

    def stop(self) -> None:
        """End the process beside; its finished shards stay for the next start."""
        if self._ahead is not None:
            self._ahead.terminate()
            self._ahead.join()

    def _begin(self, epoch: int, place: Path) -> None:
        context = spawn_context()  # a fork would copy the state of torch
        self._ahead = context.Process(target=_sample_beside, args=(self._sampling, epoch, place))
        self._ahead.start()


def sample_corpus(sampling: SubwordSampling, epoch: int, out_dir: Path, *, workers: int) -> None:
    """Write the corpus of an epoch; shards that were finished before are used."""
    n_rows = len(open_corpus(sampling.corpus_dir))
    shards_dir = out_dir.with_name(f"{out_dir.name}.shards")
    jobs = (
        (shards_dir / f"{start:010d}.npz", (sampling, epoch, start, min(start + SHARD, n_rows)))
        for start in range(0, n_rows, SHARD)
    )
    paths = list(run_shards(jobs, _sample_shard, workers=workers))
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


def _sample_shard(job: tuple[SubwordSampling, int, int, int], path: Path) -> None:
    sampling, epoch, first, end = job
    corpus = open_corpus(sampling.corpus_dir)
    samplers = [SubwordSampler(t, sampling.kind, sampling.strength) for t in sampling.tokenizers]
    # One seed for each sentence, from a generator of its own for each shard.
    random = np.random.default_rng([sampling.seed, epoch, first])
    seeds = random.integers(2**63, size=(end - first, 2))

    def rows() -> Iterator[tuple[IdLists, IdLists]]:
        for start in range(first, end, CHUNK):
            chunk = range(start, min(start + CHUNK, end))
            src, tgt = (
                [
                    _redraw(
                        side.sentence(row), sampler, int(seeds[row - first, i]), sampling.max_length
                    )
                    for row in chunk
                ]
                for i, (side, sampler) in enumerate(
                    zip((corpus.src, corpus.tgt), samplers, strict=True)
                )
            )
            yield src, tgt

    write_shard(path, pack_rows(rows(), id_dtypes(sampling.tokenizers)))


def _redraw(row: list[int], sampler: SubwordSampler, seed: int, max_length: int) -> list[int]:
    drawn = sampler.sample(row, seed)
    return row if len(drawn) > max(len(row), max_length) else drawn
