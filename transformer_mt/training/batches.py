"""The plan of updates, as a pure function of (lengths, seed, epoch, block).

Comes in: a block of an epoch, and the token counts of its pairs. Goes out: an `UpdatePlan`, each
update a list of micro-batches. The plan does not depend on the hardware; this file knows nothing of
models or devices.

The name of an index says what it counts:
    row: a sentence pair of the encoded corpus;
    entry: one use of a row in the block; source weights use a row several times, or not at all;
    batch: a micro-batch of the plan, in the order of training.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import Indices
from transformer_mt.encoding.epochs import BlockOf
from transformer_mt.encoding.mixing import EpochBlock, Place

# Batch sizes are rounded down to 3 significant bits, so that few shapes occur: on a CPU, oneDNN
# prepares its products anew for each shape (docs/lab/update-time.md).
SIZE_BITS = 3

# Batches of so many tokens are sorted in steps of 4 target tokens (docs/lab/gpu-kernels.md, Steps).
STEP, STEP_FROM = 4, 8192

# Within 64 shuffled batches, groups of 8 with similar token counts are neighbours, so that the
# processes that share an update have equal work.
BATCHES_SORTED = 64
SORTED_TOGETHER = 8


@dataclass(frozen=True)
class UpdatePlan:
    """All updates of a block.

    Batch b has the rows `rows[batch_starts[b] : batch_starts[b + 1]]`; update u has the batches
    from `update_starts[u]` up to `update_starts[u + 1]`.
    """

    rows: Indices  # (entries,) in the order of training
    batch_starts: Indices  # (batches + 1,) positions in `rows`
    update_starts: Indices  # (updates + 1,) numbers of batches

    def __len__(self) -> int:
        return len(self.update_starts) - 1

    def update(self, index: int) -> list[Indices]:
        """The rows of each micro-batch of one update."""
        return [self.batch(b) for b in range(*self.update_starts[index : index + 2])]

    def batch(self, index: int) -> Indices:
        return self.rows[self.batch_starts[index] : self.batch_starts[index + 1]]

    def batches(self) -> Iterator[Indices]:
        return (self.batch(b) for b in range(len(self.batch_starts) - 1))


def planned_blocks(
    cfg: Config, block_of: BlockOf, place: Place
) -> Iterator[tuple[EpochBlock, UpdatePlan]]:
    """The blocks from `place` on, epoch after epoch, without end, each with its plan.

    If an epoch has several blocks, a thread plans the next block and reads it ahead.
    """

    def planned(place: Place) -> tuple[EpochBlock, UpdatePlan]:
        block = block_of(place)
        if block.n_blocks > 1:
            block.corpus.read_ahead(block.rows)
        return block, experiment_plan(cfg, block)

    beside: Future[tuple[EpochBlock, UpdatePlan]] | None = None
    while True:
        block, plan = beside.result() if beside else planned(place)
        place, beside = block.following, None
        # Not for blocks with drawn sub-words: there all processes must meet, outside of a thread.
        if block.n_blocks > 1 and block.drawn_rows is None:
            thread = ThreadPoolExecutor(1)
            beside = thread.submit(planned, place)
            thread.shutdown(wait=False)  # ends with the plan; validation cannot fork with threads
        yield block, plan


def experiment_plan(cfg: Config, block: EpochBlock) -> UpdatePlan:
    """The plan of a block of an experiment; `train.max_tokens` must be a number, not auto."""
    lengths = (side.lengths_of(block.rows) for side in (block.corpus.src, block.corpus.tgt))
    plan = plan_updates(
        *lengths,
        max_tokens=cfg.train.batch_tokens,
        tokens_per_update=cfg.train.tokens_per_update,
        seed=cfg.seed,
        epoch=block.place.epoch,
        block=block.place.block,
    )
    return replace(plan, rows=block.rows[plan.rows])


def plan_updates(
    src_lengths: Indices,
    tgt_lengths: Indices,
    *,
    max_tokens: int,
    tokens_per_update: int,
    seed: int,
    epoch: int,
    block: int = 0,
) -> UpdatePlan:
    """Cut entries into micro-batches of similar lengths, and group these into updates.

    Args:
        src_lengths, tgt_lengths: (entries,) tokens per sentence, EOS included.
        max_tokens: bound of sentences × longest side for one micro-batch, padding counted. A longer
            sentence is a micro-batch of its own.
        tokens_per_update: real target tokens of one update, on average.
    """
    if not len(src_lengths):
        return UpdatePlan(*(np.zeros(n, dtype=np.int64) for n in (0, 1, 1)))
    random = np.random.default_rng([seed, epoch, block] if block else [seed, epoch])
    step = STEP if max_tokens >= STEP_FROM else 1
    sorted_entries = _sort_by_length(src_lengths, -(-tgt_lengths // step), random)
    src_sorted, tgt_sorted = src_lengths[sorted_entries], tgt_lengths[sorted_entries]
    sorted_starts = _cut(src_sorted, tgt_sorted, max_tokens, tokens_per_update)
    shuffled = _shuffle(_cells(src_sorted, tgt_sorted, sorted_starts), random)  # (batches,)
    sizes = np.diff(sorted_starts)[shuffled]
    batch_starts = np.concatenate([[0], np.cumsum(sizes)])
    # From the position of an entry in the plan to its position in sorted order, the same for all
    # entries of a batch.
    shifts = np.repeat(sorted_starts[:-1][shuffled] - batch_starts[:-1], sizes)
    entries = sorted_entries[np.arange(len(sorted_entries)) + shifts]
    tokens = np.add.reduceat(tgt_lengths[entries], batch_starts[:-1])
    # A batch belongs to the update in which its middle token falls, so sizes average out.
    updates = ((np.cumsum(tokens) - tokens / 2) // tokens_per_update).astype(np.int64)
    update_starts = np.append(np.flatnonzero(np.diff(updates, prepend=-1)), len(tokens))
    return UpdatePlan(entries, batch_starts, update_starts)


def _sort_by_length(src: Indices, tgt: Indices, random: np.random.Generator) -> Indices:
    """Entries by target length or step, then by source length, ties in random order.

    Source lengths rise and fall alternately, so that a batch that spans two of these does not mix
    the longest sources of one with the shortest of the next.
    """
    return np.lexsort((random.random(len(src)), np.where(tgt % 2 == 0, src, -src), tgt))


def _cut(src: Indices, tgt: Indices, max_tokens: int, max_tgt_tokens: int) -> Indices:
    """Starts of the micro-batches in sorted order, and the end; one loop step per micro-batch.

    Args:
        src, tgt: (entries,) lengths in sorted order.
    """
    longest_side = np.maximum(src, tgt)
    starts = [0]
    while starts[-1] < len(src):
        start = starts[-1]
        window = slice(start, start + max(1, max_tokens // int(longest_side[start])))
        longest = np.maximum.accumulate(longest_side[window])
        n_entries = np.arange(1, len(longest) + 1)
        fits = (longest * n_entries <= max_tokens) & (np.cumsum(tgt[window]) <= max_tgt_tokens)
        starts.append(start + max(1, _usual_size(int(fits.sum()))))  # both sums only grow
    return np.asarray(starts, dtype=np.int64)


def _usual_size(n: int) -> int:
    """The largest size up to `n` with 3 significant bits; at least four fifths of `n`."""
    zeros = max(0, n.bit_length() - SIZE_BITS)
    return n >> zeros << zeros


def _cells(src: Indices, tgt: Indices, starts: Indices) -> Indices:
    """Positions of each batch, both sides together, padding counted."""
    longest = [np.maximum.reduceat(side, starts[:-1]) for side in (src, tgt)]
    return np.diff(starts) * (longest[0] + longest[1])


def _shuffle(cells: Indices, random: np.random.Generator) -> Indices:
    """A random order of the batches in which neighbours have similar work.

    Args:
        cells: (batches,) positions of each, padding counted.
    """
    shuffled = random.permutation(len(cells))
    places = np.arange(len(cells))
    groups, blocks = places // BATCHES_SORTED, places // SORTED_TOGETHER
    by_work = shuffled[np.lexsort((cells[shuffled], groups))]
    order_of_blocks = random.random(len(cells))[blocks]
    return by_work[np.lexsort((places, order_of_blocks, groups))]


class Dealt(NamedTuple):
    """A micro-batch, or a part of one, that a process computes."""

    batch: int  # its place in the update
    part: int  # 0 if it is whole
    rows: Indices


def deal(batches: list[Indices], rank: int, size: int, *, even: bool) -> list[Dealt]:
    """The share of an update that one of several processes computes.

    Whole rounds of micro-batches are dealt in turn, back and forth. The rest, fewer batches than
    processes, is divided by sentences. Together the shares are all sentences, each once.

    Args:
        batches: rows of each micro-batch.
        even: cut the rest into equal shares, each of up to two batches. Otherwise a process gets
            one part of one batch, for devices on which even a small batch takes a fixed time.
    Returns:
        Micro-batches; a small update may leave some processes without one.
    """
    n_left = len(batches) % size
    n_whole = len(batches) - n_left
    order = [*range(size), *reversed(range(size))]  # of the processes, in two rounds
    dealt = [Dealt(b, 0, batches[b]) for b in range(n_whole) if order[b % (2 * size)] == rank]
    shares = _equal_shares if even else _one_part
    for b, parts, n_parts in shares(n_left, rank, size) if n_left else ():
        rows = batches[n_whole + b]
        rows = rows[np.isin(np.arange(len(rows)) % n_parts, parts)]
        if len(rows):
            dealt.append(Dealt(n_whole + b, parts[0], rows))
    return dealt


def _one_part(n_left: int, rank: int, size: int) -> list[tuple[int, list[int], int]]:
    """(batch, own parts, number of parts): a batch is divided among the processes that own it."""
    owners = [k * n_left // size for k in range(size)]  # process → its batch
    batch = owners[rank]
    return [(batch, [rank - owners.index(batch)], owners.count(batch))]


def _equal_shares(n_left: int, rank: int, size: int) -> list[tuple[int, list[int], int]]:
    """The same, but each batch has `size` parts, and each process gets `n_left` parts."""
    places = range(rank * n_left, (rank + 1) * n_left)
    own = groupby(places, lambda place: place // size)
    return [(batch, [place % size for place in group], size) for batch, group in own]
