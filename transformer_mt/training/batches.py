"""Which sentences make which update, as a pure function of (lengths, rows, seed, epoch).

Comes in: the token counts of every pair, and the rows that the epoch holds. Goes out: an
`EpochPlan` of updates, each a list of micro-batches, and padded `Batch`es. An update is defined
here and not by the hardware; this file knows nothing of models or devices.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transformer_mt.encoding.encoded_corpus import EncodedCorpus, EncodedSide
from transformer_mt.encoding.tokenizer import BOS_ID, PAD_ID

Indices = NDArray[np.int64]

# The fewer different sizes of batches, the fewer products does a CPU's library have to make anew
# (docs/lab/update-time.md). Numbers with three binary digits and zeros are taken.
SIZE_DIGITS = 3

# Of so many batches in random order, those with about as much to do stand together, in blocks: so
# processes that share an update have as much to do as each other.
BATCHES_SORTED = 64
BLOCK = 8


@dataclass(frozen=True)
class Batch:
    """Padded token ids of some sentences; PAD_ID to the right."""

    src: Tensor  # (B, S) int64, each row ends with EOS
    tgt_in: Tensor  # (B, T) int64, each row starts with BOS
    tgt_out: Tensor  # (B, T) int64, each row ends with EOS

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(ids.to(device, non_blocking=True) for ids in self.__dict__.values()))


@dataclass(frozen=True)
class EpochPlan:
    """All updates of one epoch.

    Micro-batch b holds the sentences `order[batch_starts[b] : batch_starts[b + 1]]`; update u holds
    the micro-batches `update_starts[u]` up to `update_starts[u + 1]`.
    """

    order: Indices
    batch_starts: Indices
    update_starts: Indices

    def __len__(self) -> int:
        return len(self.update_starts) - 1

    def update(self, index: int) -> list[Indices]:
        """The micro-batches of one update, each an array of sentence indices."""
        return [self.batch(b) for b in range(*self.update_starts[index : index + 2])]

    def batch(self, index: int) -> Indices:
        return self.order[self.batch_starts[index] : self.batch_starts[index + 1]]

    def batches(self) -> Iterator[Indices]:
        return (self.batch(b) for b in range(len(self.batch_starts) - 1))


def plan_epoch(
    src_lengths: Indices,
    tgt_lengths: Indices,
    *,
    rows: Indices | None = None,
    max_tokens: int,
    tokens_per_update: int,
    seed: int,
    epoch: int,
) -> EpochPlan:
    """Cut a corpus into micro-batches of like lengths and deal them into updates.

    Args:
        src_lengths, tgt_lengths: (n,) tokens per sentence, EOS included.
        rows: the sentences of the epoch, repeats allowed; None: every sentence once.
        max_tokens: bound of sentences × longest side for one micro-batch, padding counted. A single
            sentence that is longer stands alone.
        tokens_per_update: real target tokens of one update, met on average.
    """
    if rows is not None:
        if not len(rows):
            return EpochPlan(rows, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
        src_lengths, tgt_lengths = src_lengths[rows], tgt_lengths[rows]
    random = np.random.default_rng([seed, epoch])
    by_length = _sort_by_length(src_lengths, tgt_lengths, random)
    starts = _cut(src_lengths[by_length], tgt_lengths[by_length], max_tokens, tokens_per_update)
    shuffled = _shuffle(_cells(src_lengths, tgt_lengths, by_length, starts), random)
    sizes = np.diff(starts)[shuffled]
    batch_starts = np.concatenate([[0], np.cumsum(sizes)])
    # Row i of the shuffled order: its batch's old start, plus its place within the batch.
    shifts = np.repeat(starts[:-1][shuffled] - batch_starts[:-1], sizes)
    order = by_length[np.arange(len(by_length)) + shifts]
    tokens = np.add.reduceat(tgt_lengths[order], batch_starts[:-1])
    # A batch belongs to the update in which its middle token falls, so sizes average out.
    middles = np.cumsum(tokens) - tokens / 2
    owners = (middles // tokens_per_update).astype(np.int64)
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    update_starts = np.append(firsts, len(tokens))
    return EpochPlan(order if rows is None else rows[order], batch_starts, update_starts)


def _sort_by_length(src: Indices, tgt: Indices, random: np.random.Generator) -> Indices:
    """By target length, and within one target length by source length, ties at random.

    Source lengths run up and down in turn, so that a batch that spans two target lengths does not
    mix the longest sources of one with the shortest of the next.
    """
    src_in_turn = np.where(tgt % 2 == 0, src, -src)
    return np.lexsort((random.random(len(src)), src_in_turn, tgt))


def _cut(src: Indices, tgt: Indices, max_tokens: int, max_tgt_tokens: int) -> Indices:
    """Starts of the micro-batches in sorted order, and the end. One step per batch, not per row."""
    longest_side = np.maximum(src, tgt)
    starts = [0]
    while starts[-1] < len(src):
        start = starts[-1]
        window = slice(start, start + max(1, max_tokens // int(longest_side[start])))
        longest = np.maximum.accumulate(longest_side[window])
        n_rows = np.arange(1, len(longest) + 1)
        fits = (longest * n_rows <= max_tokens) & (np.cumsum(tgt[window]) <= max_tgt_tokens)
        starts.append(start + max(1, _usual_size(int(fits.sum()))))  # both bounds only ever grow
    return np.asarray(starts, dtype=np.int64)


def _usual_size(n: int) -> int:
    """The largest that is not above `n`; at least four fifths of it."""
    zeros = max(0, n.bit_length() - SIZE_DIGITS)
    return n >> zeros << zeros


def _cells(src: Indices, tgt: Indices, order: Indices, starts: Indices) -> Indices:
    """Tokens of each batch, padding counted, on both sides together."""
    longest = [np.maximum.reduceat(side[order], starts[:-1]) for side in (src, tgt)]
    return np.diff(starts) * (longest[0] + longest[1])


def _shuffle(cells: Indices, random: np.random.Generator) -> Indices:
    """Batches in random order, but with neighbours that have about as much to do."""
    shuffled = random.permutation(len(cells))
    places = np.arange(len(cells))
    groups, blocks = places // BATCHES_SORTED, places // BLOCK
    by_work = shuffled[np.lexsort((cells[shuffled], groups))]
    order_of_blocks = random.random(len(cells))[blocks]
    return by_work[np.lexsort((places, order_of_blocks, groups))]


class Dealt(NamedTuple):
    """A micro-batch, or a part of one, that a process does."""

    batch: int  # its place in the update
    part: int  # 0 if it is whole
    indices: Indices


def deal(batches: list[Indices], rank: int, size: int, *, even: bool) -> list[Dealt]:
    """What one of several processes does of an update.

    Whole rounds of micro-batches are dealt in turn, forth and back. What is left, fewer than there
    are processes, is cut by sentences. Together they do the same sentences as one process would.

    Args:
        even: cut what is left into equal shares, each of up to two batches. Otherwise a process
            gets one part of one batch: for where a batch takes its time however small it is.
    Returns:
        Micro-batches; a small update may leave some processes without one.
    """
    n_left = len(batches) % size
    n_whole = len(batches) - n_left
    order = [*range(size), *reversed(range(size))]  # of the processes, in two rounds
    dealt = [Dealt(b, 0, batches[b]) for b in range(n_whole) if order[b % (2 * size)] == rank]
    shares = _equal_shares if even else _one_part
    for b, parts, n_parts in shares(n_left, rank, size) if n_left else ():
        indices = batches[n_whole + b]
        indices = indices[np.isin(np.arange(len(indices)) % n_parts, parts)]
        if len(indices):
            dealt.append(Dealt(n_whole + b, parts[0], indices))
    return dealt


def _one_part(n_left: int, rank: int, size: int) -> list[tuple[int, list[int], int]]:
    """(batch, parts of it, of so many): each batch is divided among as many as there are for it."""
    owners = [k * n_left // size for k in range(size)]  # process → its batch
    batch = owners[rank]
    return [(batch, [rank - owners.index(batch)], owners.count(batch))]


def _equal_shares(n_left: int, rank: int, size: int) -> list[tuple[int, list[int], int]]:
    """The same, if every batch has `size` parts, and every process gets `n_left` of them all."""
    places = range(rank * n_left, (rank + 1) * n_left)
    own = groupby(places, lambda place: place // size)
    return [(batch, [place % size for place in group], size) for batch, group in own]


def collate(corpus: EncodedCorpus, indices: Indices) -> Batch:
    """Pad some sentences into a batch, without touching a Python object per row."""
    src = _pad(corpus.src, indices)
    tgt_out = _pad(corpus.tgt, indices)
    tgt_in = np.roll(tgt_out, 1, axis=1)
    tgt_in[:, 0] = BOS_ID
    # EOS is the last real token of `tgt_out`; one step later it must not be read as input.
    lengths = corpus.tgt.offsets[indices + 1] - corpus.tgt.offsets[indices]
    tgt_in[np.arange(tgt_in.shape[1]) >= lengths[:, None]] = PAD_ID
    return Batch(*(torch.from_numpy(ids) for ids in (src, tgt_in, tgt_out)))


def _pad(side: EncodedSide, indices: Indices) -> NDArray[np.int64]:
    """(B, longest) ids, PAD_ID to the right."""
    starts = side.offsets[indices][:, None]
    lengths = side.offsets[indices + 1][:, None] - starts
    columns = np.arange(lengths.max())
    real = columns < lengths  # (B, longest)
    padded = np.full(real.shape, PAD_ID, dtype=np.int64)
    padded[real] = side.ids[(starts + columns)[real]]
    return padded


def padding_share(plan: EpochPlan, lengths: Indices) -> float:
    """Share of positions of one side that are padding when the plan is carried out."""
    ordered = lengths[plan.order]
    longest = np.maximum.reduceat(ordered, plan.batch_starts[:-1])
    cells = int((longest * np.diff(plan.batch_starts)).sum())
    return 1 - int(ordered.sum()) / cells
