"""The blocks of each epoch: rows of the encoded corpus, or their text cut into sub-words anew.

The sub-words of a sentence are a pure function of (seed, epoch, row): a run that was stopped goes
on with the same bytes. While a block is trained on, a process beside draws the next one; the disk
holds these two and the one before. This file knows nothing of batches or models.
"""

import os
import shutil
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
    Indices,
    Rows,
    join_shards,
    open_corpus,
    pack_rows,
    write_shard,
)
from transformer_mt.encoding.mixing import EpochBlock, Place, epoch_block, source_weights
from transformer_mt.encoding.subword_sampling import SubwordSampler
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import remove, remove_other_prints, writing_folder
from transformer_mt.system.processes.executors import Workers, spawn_context, start_worker
from transformer_mt.system.processes.parallel import run_shards
from transformer_mt.system.state import Damaged, damages, fingerprint, read_manifest, write_manifest
from transformer_mt.system.terminal import Say

BlockOf = Callable[[Place], EpochBlock]

_MANIFEST = "epoch.json"
_SEEDED_ROWS = 100_000  # of the corpus, from one generator; another number would draw other pieces


@dataclass(frozen=True)
class EpochData:
    """What epochs are made of, and how the sub-words are drawn; see `SubwordSampler`."""

    corpus_dir: Path  # the encoded corpus, with the best sub-words
    weights: list[float]  # of its sources
    tokenizers: tuple[Tokenizer, Tokenizer]
    kind: Literal["bpe", "unigram"]
    strength: float  # 0: sub-words are not drawn
    seed: int
    max_length: int  # a sentence that would get longer keeps its best sub-words

    @classmethod
    def of(
        cls, cfg: Config, corpus_dir: Path, tokenizers: tuple[Tokenizer, Tokenizer]
    ) -> "EpochData":
        tokenizer, data = cfg.tokenizer, cfg.data
        weights, drawing = source_weights(data), (tokenizer.type, tokenizer.sampling)
        return cls(corpus_dir, weights, tokenizers, *drawing, cfg.seed, data.max_length)

    def plain_block(self, place: Place) -> EpochBlock:
        """A block with the best sub-words.

        The corpus is opened anew, or pages that earlier blocks have read would count as memory of
        this process.
        """
        return epoch_block(open_corpus(self.corpus_dir), self.weights, seed=self.seed, place=place)


@contextmanager
def epoch_blocks(
    data: EpochData,
    directory: Path,
    *,
    workers: Workers,
    say: Say,
    draws: bool = True,
    meet: Callable[[], object] = lambda: None,
) -> Iterator[BlockOf]:
    """A function that gives a block of an epoch, for as long as the context lasts.

    Args:
        directory: where drawn blocks go. The older ones are removed.
        workers: processes for a block that training must wait for.
        draws: of several processes on one disk, only one is to draw; the others read.
        meet: called when this process has drawn a block, or wants to read it, and again when it
            has opened it; returns when all have called it.
    """
    if not data.strength:
        yield data.plain_block
        return
    own_dir = directory / fingerprint(data.strength, data.seed, data.weights)
    ahead: BaseProcess | None = None
    left = ""  # the block before, which the last update may still read

    def dir_of(place: Place) -> Path:
        return own_dir / "-".join(f"{number:06d}" for number in place)

    def draw(block: EpochBlock) -> None:
        """See that a block is drawn; begin the one after it."""
        nonlocal ahead, left
        remove_other_prints(directory, [own_dir.name])  # of other settings
        if ahead is not None:
            ahead.join()
        out_dir, next_dir = dir_of(block.place), dir_of(block.following)
        if not _is_whole(out_dir):
            say(_drawing(block))
            draw_rows(data, block.place.epoch, block.rows, out_dir, workers=workers)
        _keep_only(own_dir, left or out_dir.name, out_dir.name, next_dir.name)
        left = out_dir.name
        if not _is_whole(next_dir):
            ahead = _begin_beside(data, data.plain_block(block.following), next_dir)

    def block_of(place: Place) -> EpochBlock:
        block = data.plain_block(place)
        if draws:
            draw(block)
        meet()
        drawn = drawn_block(block, dir_of(place))
        meet()  # or drawing the next block could remove what another process still opens
        return drawn

    try:
        yield block_of
    finally:
        if ahead is not None:
            ahead.terminate()  # its finished shards stay for the next start
            ahead.join()


def _begin_beside(data: EpochData, block: EpochBlock, out_dir: Path) -> BaseProcess:
    """A process that draws a block; a fork would copy the state of torch."""
    task = (data, block.place.epoch, block.rows, out_dir)
    process = spawn_context().Process(target=_draw_beside, args=task)
    process.start()
    return process


def _keep_only(own_dir: Path, *names: str) -> None:
    """Remove drawn blocks, and their shards, but for these; what is in use may stay until later."""
    for other in own_dir.glob("[0-9]*"):
        if not other.name.startswith(names):
            shutil.rmtree(other, ignore_errors=True)


def _drawing(block: EpochBlock) -> str:
    epoch, number, _ = block.place
    if block.n_blocks == 1:
        return tr("  epoch {}: drawing sub-words", epoch)
    return tr("  epoch {}, block {} of {}: drawing sub-words", epoch, number + 1, block.n_blocks)


def drawn_block(block: EpochBlock, directory: Path) -> EpochBlock:
    """The same entries of a block, from where `draw_rows` has written them."""
    drawn_rows, rows = np.unique(block.rows, return_inverse=True)
    return replace(block, rows=rows, corpus=open_corpus(directory), drawn_rows=drawn_rows)


def draw_rows(
    data: EpochData, epoch: int, rows: Indices, out_dir: Path, *, workers: Workers
) -> None:
    """Write each of these rows once, ascending; shards that were finished before are used."""
    rows = np.unique(rows)
    data_here = replace(data, corpus_dir=data.corpus_dir.absolute())  # for workers elsewhere
    shards_dir = out_dir.with_name(f"{out_dir.name}.shards")
    jobs = (
        (shards_dir / f"{start:010d}.npz", rows[start : start + SHARD])
        for start in range(0, len(rows), SHARD)
    )
    paths = list(run_shards(jobs, partial(_draw_shard, data_here, epoch), workers=workers))
    with writing_folder(out_dir, _MANIFEST, ours=True) as directory:
        join_shards(paths, directory)
        write_manifest(directory, _MANIFEST, {"epoch": epoch})
    remove(shards_dir)


def _is_whole(place: Path) -> bool:
    """Whether a drawn block is there, as it was written."""
    try:
        manifest = read_manifest(place, _MANIFEST)
    except Damaged:
        return False
    return manifest is not None and not damages(place, manifest)


def _draw_beside(data: EpochData, epoch: int, rows: Indices, out_dir: Path) -> None:
    start_worker()
    os.nice(10)  # training comes first
    draw_rows(data, epoch, rows, out_dir, workers=1)


def _draw_shard(data: EpochData, epoch: int, rows: Indices, path: Path) -> None:
    corpus = open_corpus(data.corpus_dir)
    samplers = [SubwordSampler(t, data.kind, data.strength) for t in data.tokenizers]
    seeds = _seeds(data.seed, epoch, rows)

    def redraw(place: int, i: int) -> list[int]:
        ids = (corpus.src, corpus.tgt)[i].sentence(rows[place])
        drawn = samplers[i].sample(ids, seeds[place][i])
        return ids if len(drawn) > max(len(ids), data.max_length) else drawn

    def drawn() -> Iterator[Rows]:
        for start in range(0, len(rows), CHUNK):
            chunk = range(start, min(start + CHUNK, len(rows)))
            yield [redraw(place, 0) for place in chunk], [redraw(place, 1) for place in chunk]

    write_shard(path, pack_rows(drawn(), data.tokenizers))


def _seeds(seed: int, epoch: int, rows: Indices) -> list[list[int]]:
    """One for each side of each of these rows, ascending; the same whichever others are there."""
    seeds = []
    for first in np.unique(rows - rows % _SEEDED_ROWS).tolist():
        own = rows[slice(*np.searchsorted(rows, [first, first + _SEEDED_ROWS]))] - first
        random = np.random.default_rng([seed, epoch, first])
        seeds += random.integers(2**63, size=(own[-1] + 1, 2))[own].tolist()
    return seeds
