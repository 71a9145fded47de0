"""Which rows of the encoded corpus an epoch holds, in blocks, by weights, seed and epoch alone.

A weight is how often an epoch holds the pairs of a source: 2 is twice each, 0.5 is half of them,
and the other half in the next epoch. An epoch of many rows comes in blocks, and only one of them is
in memory. This file knows nothing of batches.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transformer_mt.config.data import DataConfig
from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, Indices, Sources
from transformer_mt.encoding.tokenizer import Tokenizer

# Entries of a block, about: planning takes 0.1 GB for them, and their ids are 0.3 GB on disk.
BLOCK_ENTRIES = 1 << 21
# Neighbours that stay in one block, so that ids are read in pieces of a quarter of a megabyte.
CHUNK_ROWS = 4096
WHOLE_EPOCH = 1 << 62  # entries of a block that holds any epoch

Chunks = NDArray[np.int64]  # (chunks, 2) first row of each, and the one after its last


class Place(NamedTuple):
    """Which block of which epoch."""

    epoch: int
    block: int
    block_entries: int  # that the epoch is cut with

    @classmethod
    def start_of(cls, epoch: int) -> "Place":
        return cls(epoch, 0, BLOCK_ENTRIES)


@dataclass(frozen=True)
class EpochBlock:
    """The part of an epoch that is planned, read ahead and cut into sub-words at a time."""

    place: Place
    n_blocks: int  # of the epoch
    rows: Indices  # (entries,) of the corpus: each as often as its weight says
    corpus: EncodedCorpus
    drawn_rows: Indices | None = None  # if sub-words are drawn: each row's in the encoded corpus

    @property
    def following(self) -> Place:
        epoch, block, block_entries = self.place
        if block + 1 < self.n_blocks:
            return Place(epoch, block + 1, block_entries)
        return Place.start_of(epoch + 1)

    def in_encoded_corpus(self, rows: Indices) -> Indices:
        """The rows by which people find these sentences."""
        return rows if self.drawn_rows is None else self.drawn_rows[rows]


def source_weights(data: DataConfig) -> list[float]:
    """How often an epoch holds each pair of each source of `data.train`."""
    return [1.0 if source.weight is None else source.weight for source in data.train]


def epoch_block(
    corpus: EncodedCorpus, weights: Sequence[float], *, seed: int, place: Place
) -> EpochBlock:
    """One block of an epoch; what is read and computed does not grow with the others.

    A small epoch is one block. Else chunks of neighbours are dealt to blocks at random, anew in
    each epoch, and stand in a block in the order of the corpus.

    Args:
        weights: of the sources, > 0; the corpus knows the sources of its rows unless all are 1.
    """
    epoch, block, block_entries = place
    if all(weight == 1 for weight in weights):
        bounds, weights = [(0, len(corpus))], [1]
    else:
        bounds = _bounds(corpus, len(weights))
    exact = [Fraction(str(weight)) for weight in weights]  # 0.3 is three tenths, as it was written
    per_epoch = [weight * (end - first) for weight, (first, end) in zip(exact, bounds, strict=True)]
    n_entries = sum(math.floor((epoch + 1) * n) - math.floor(epoch * n) for n in per_epoch)
    is_small = max(len(corpus), n_entries) <= block_entries
    size = 1 if is_small else CHUNK_ROWS
    chunks = _chunks_of_epoch(bounds, exact, seed=seed, epoch=epoch, size=size)
    n_blocks = max(1, -(-n_entries // block_entries))
    # None are left for a block that there was when weights were larger.
    if is_small:
        return EpochBlock(place, 1, _rows_of(chunks[: 0 if block else None]), corpus)
    order = np.random.default_rng([seed, epoch, n_blocks]).permutation(len(chunks))
    own = np.array_split(order, n_blocks)[block] if block < n_blocks else order[:0]
    rows = _rows_of(chunks[own])
    return EpochBlock(place, n_blocks, np.sort(rows), corpus)


def _bounds(corpus: EncodedCorpus, n_sources: int) -> list[tuple[int, int]]:
    """The first row of each source, and the one after its last; sources stand one after another."""
    assert corpus.sources is not None, "weights need to know where rows are from"
    names = np.arange(n_sources).astype(corpus.sources.dtype)  # of another type, all are copied
    firsts, ends = (np.searchsorted(corpus.sources, names, side) for side in ("left", "right"))
    return list(zip(firsts.tolist(), ends.tolist(), strict=True))


def _chunks_of_epoch(
    bounds: Sequence[tuple[int, int]],
    weights: Sequence[Fraction],
    *,
    seed: int,
    epoch: int,
    size: int,
) -> Chunks:
    """All chunks of an epoch, source by source.

    The whole part of a weight repeats all rows of its source. The rest goes around the source in an
    order of its chunks that is drawn once: each epoch takes the next share, so that none holds a
    row twice on its account, and after any number of epochs no row has been seen more than once
    more than another. A share of less than a row waits for the epoch in which it makes a whole one.
    """
    parts = [np.empty((0, 2), np.int64)]
    for source, (weight, (first, end)) in enumerate(zip(weights, bounds, strict=True)):
        starts = np.arange(first, end, size)
        chunks = np.stack([starts, np.minimum(starts + size, end)], axis=1)
        whole = math.floor(weight)
        parts += [chunks] * whole
        if share := (weight - whole) * (end - first):
            order = np.random.default_rng([seed, source]).permutation(len(chunks))
            taken = (math.floor(e * share) for e in (epoch, epoch + 1))
            parts.append(_around(chunks[order], *taken))
    return np.concatenate(parts)


def _around(chunks: Chunks, first: int, end: int) -> Chunks:
    """The entries from `first` up to `end` of these chunks, which follow each other in a circle."""
    twice = np.concatenate([chunks, chunks])
    sizes = twice[:, 1] - twice[:, 0]
    places = np.cumsum(sizes) - sizes
    n_before = first // (sizes.sum() // 2) * (sizes.sum() // 2)
    kept = np.clip([first - n_before - places, end - n_before - places], 0, sizes)
    return (twice[:, 0] + kept).T[kept[0] < kept[1]]


def _rows_of(chunks: Chunks) -> Indices:
    sizes = chunks[:, 1] - chunks[:, 0]
    places = np.cumsum(sizes) - sizes
    return np.arange(sizes.sum()) + np.repeat(chunks[:, 0] - places, sizes)


def blocks_of_epoch(
    corpus: EncodedCorpus, weights: Sequence[float], *, seed: int, epoch: int
) -> Iterator[EpochBlock]:
    """All blocks of an epoch in turn."""
    place = Place.start_of(epoch)
    while place.epoch == epoch:
        block = epoch_block(corpus, weights, seed=seed, place=place)
        yield block
        place = block.following


@dataclass(frozen=True)
class SourceShare:
    """What a source gives to an epoch. With both directions, every pair makes two rows."""

    source: str
    rows: int  # of the encoded corpus
    weight: float
    rows_in_epoch: int
    tokens_in_epoch: int  # of the target, EOS included


def describe_epoch(cfg: Config, corpus: EncodedCorpus, epoch: int) -> list[SourceShare]:
    """What an epoch of an experiment holds, by source in the order of `data.train`."""
    sources, weights = _sources(corpus), source_weights(cfg.data)
    n = len(weights)
    counts, tokens = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for block in blocks_of_epoch(corpus, weights, seed=cfg.seed, epoch=epoch):
        of_rows = sources[block.rows]
        counts += np.bincount(of_rows, minlength=n)
        lengths = corpus.tgt.lengths_of(block.rows)
        tokens += np.bincount(of_rows, weights=lengths, minlength=n).astype(np.int64)
    totals = [end - first for first, end in _bounds(corpus, n)]
    names = map(str, cfg.data.train)
    return list(map(SourceShare, names, totals, weights, counts.tolist(), tokens.tolist()))


@dataclass(frozen=True)
class EpochExample:
    source: str
    tags: str  # the marks before the source sentence
    src: str
    tgt: str


def sample_epoch(
    cfg: Config,
    corpus: EncodedCorpus,
    tokenizers: tuple[Tokenizer, Tokenizer],
    epoch: int,
    n_examples: int,
) -> list[EpochExample]:
    """Some pairs of an epoch, of its first block, drawn at random but the same every time."""
    sources, weights = _sources(corpus), source_weights(cfg.data)
    rows = epoch_block(corpus, weights, seed=cfg.seed, place=Place.start_of(epoch)).rows
    random = np.random.default_rng([cfg.seed, epoch, n_examples])
    chosen = rows[random.choice(len(rows), min(n_examples, len(rows)), replace=False)]
    names = {id_: piece for piece, id_ in tokenizers[0].tags.items()}
    examples = []
    for row in chosen.tolist():
        src, tgt = corpus.src.sentence(row), corpus.tgt.sentence(row)
        tags = "".join(names[id_] for id_ in src if id_ in names)
        source = str(cfg.data.train[int(sources[row])])
        src_text, tgt_text = tokenizers[0].decode([src])[0], tokenizers[1].decode([tgt])[0]
        examples.append(EpochExample(source, tags, src_text, tgt_text))
    return examples


def _sources(corpus: EncodedCorpus) -> Sources:
    assert corpus.sources is not None, "the training corpus knows where its rows are from"
    return corpus.sources
