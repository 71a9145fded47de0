"""What a corpus of N pairs costs: memory, disk, hours. Part of `scaling.py`.

Comes in: sentence lengths and a number of pairs. Goes out: rows of a table. The bytes per entry
of planning are measured with the real functions; speeds of preparation are those of docs/data.md.
"""

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scaling_model import Lengths

from transformer_mt.encoding.encoded_corpus import EncodedCorpus, EncodedSide
from transformer_mt.encoding.mixing import (
    BLOCK_ENTRIES,
    CHUNK_ROWS,
    WHOLE_EPOCH,
    Place,
    epoch_block,
)
from transformer_mt.training.batches import plan_updates

PAIRS_PER_CORE_S = {"scores": 23_800, "lexical evidence": 23_600, "token ids": 30_800}
PAIRS_PER_S = {"download and unpack": 620_000, "decide and write": 313_000}  # in one process
TEXT_BYTES, WORK_BYTES = 145, 250  # per pair: 2.9 and 5.0 GB for 20 million, docs/data.md
EVIDENCE_BYTES = 34  # of memory per pair: its fate, and what the rule `mismatch` holds
CORES = 64


class Planning(NamedTuple):
    """Per entry of a block, on one core."""

    peak_bytes: float  # while planning; lengths of both sides included
    kept_bytes: float  # while the block is trained on
    seconds: float


def measure_planning(lengths: Lengths) -> Planning:
    """Plan an epoch of one block as training does."""
    offsets = (np.concatenate([[0], np.cumsum(side)]) for side in lengths)  # on disk
    corpus = EncodedCorpus(*(EncodedSide(np.empty(0, np.uint16), side) for side in offsets))

    def plan() -> object:
        block = epoch_block(corpus, [1.0], seed=1, place=Place(0, 0, WHOLE_EPOCH))
        sides = (side.lengths_of(block.rows) for side in (corpus.src, corpus.tgt))
        made = plan_updates(*sides, max_tokens=4096, tokens_per_update=25_000, seed=1, epoch=0)
        return block, replace(made, rows=block.rows[made.rows])

    started = time.process_time()
    plan()
    seconds = time.process_time() - started
    peak, kept = _memory(plan)
    n = len(corpus)
    return Planning(peak / n, kept / n, seconds / n)


def _memory(work: Callable[[], object]) -> tuple[int, int]:
    """Bytes at most, and bytes of the result."""
    tracemalloc.start()
    result = work()
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del result
    return peak, kept


def data_rows(n: float, lengths: Lengths, tgt_tokens_per_s: float) -> list[tuple[str, str, str]]:
    """(what, how much, how it is reckoned) for n pairs.

    Args:
        tgt_tokens_per_s: of the training that reads the corpus.
    """
    planning, n_block = measure_planning(lengths), min(n, BLOCK_ENTRIES)
    src, tgt = (float(side.mean()) for side in lengths)
    ids_bytes = 2 * (src + tgt) + 2 * 8 + 2  # uint16 ids, two offsets, the source
    core_hours = sum(n / speed / 3600 for speed in PAIRS_PER_CORE_S.values())
    serial_hours = sum(n / speed / 3600 for speed in PAIRS_PER_S.values())
    rows_per_s = tgt_tokens_per_s / tgt
    return [
        ("planning a block, memory of each process", _bytes(n_block * planning.peak_bytes),
         f"{n_block:,.0f} entries of {planning.peak_bytes:.0f} bytes, measured"),
        ("… kept while the block lasts", _bytes(n_block * planning.kept_bytes),
         f"{planning.kept_bytes:.0f} bytes per entry, measured"),
        ("… time", f"{n_block * planning.seconds:.1f} s",
         f"{planning.seconds * 1e6:.2f} µs per entry, measured on one core"),
        ("memory of cleaning with `mismatch`", _bytes(n * EVIDENCE_BYTES),
         f"{EVIDENCE_BYTES} bytes per pair of one source (docs/data.md)"),
        ("… without it", _bytes(n), "1 byte per pair"),
        ("preparation, hours of one core", f"{core_hours:.0f} h", "docs/data.md, three stages"),
        (f"… with {CORES} cores", f"{core_hours / CORES + serial_hours:.1f} h",
         f"of which {serial_hours:.1f} h in one process"),
        ("looking for duplicates: bytes read and written", _bytes(n * 48),
         "two hashes, read once; a hash and a row, written and read once"),
        ("disk: token ids", _bytes(n * ids_bytes), f"{ids_bytes:.0f} bytes per pair"),
        ("disk: clean text, scores and work", _bytes(n * (TEXT_BYTES + WORK_BYTES)),
         "docs/data.md"),
        ("target tokens of an epoch", f"{n * tgt:.1e}", f"{tgt:.0f} per pair"),
        ("updates of an epoch, of 25,000 or 400,000 tokens",
         f"{n * tgt / 25e3:,.0f} or {n * tgt / 4e5:,.0f}", ""),
        ("hours of an epoch on 8 GPUs", f"{n * tgt / tgt_tokens_per_s / 3600:.0f} h",
         f"base, {tgt_tokens_per_s:,.0f} tokens/s"),
        ("reads while training, if nothing is cached", f"{4 * rows_per_s / CHUNK_ROWS:,.0f} per s",
         f"ids and offsets of both sides, {CHUNK_ROWS} pairs at a time, at that speed"),
    ]  # fmt: skip


def checkpoint_bytes(n_parameters: int, keep_last: int) -> float:
    """On disk: two checkpoints with Adam's moments, the others and the best with weights alone."""
    return n_parameters * (2 * 12 + 4 * (keep_last - 1))


def _bytes(n: float) -> str:
    if n < 1e9:
        return f"{n / 1e6:.0f} MB"
    return f"{n / 1e12:.1f} TB" if n >= 1e12 else f"{n / 1e9:.0f} GB"
