"""Plans of epochs in blocks: what they cost at 10⁹ pairs, and whether every pair comes once.

    python scripts/bench/plans.py cost --pairs 1e9 [--weight 2.5] [--dir FOLDER]
    python scripts/bench/plans.py walk --pairs 34e6

`cost` writes an index of that many pairs, 8 bytes each, for both sides, and files of token ids that
are one hole; in a fresh process for each row of its table it opens them, after they have left the
system's cache, and goes on to the first padded update of a block, then through that block. `walk`
goes through all updates of an epoch, in memory, and ticks off each pair.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.encoding.encoded_corpus import (
    SIDES,
    EncodedCorpus,
    EncodedSide,
    Indices,
    open_corpus,
)
from transformer_mt.encoding.mixing import Place, epoch_block
from transformer_mt.system.arrays import Array, growing_array
from transformer_mt.system.machine import peak_memory_mib
from transformer_mt.system.processes.parallel import run_apart
from transformer_mt.training.batches import planned_blocks
from transformer_mt.training.padding import collate

PIECE = 1 << 20  # pairs whose lengths are drawn; the others repeat them
MEDIAN, SPREAD = 25, 0.5  # of log-normal lengths: about 28 tokens on average


def lengths(seed: int) -> Indices:
    """(PIECE,) tokens of sentences."""
    drawn = np.random.default_rng(seed).lognormal(np.log(MEDIAN), SPREAD, PIECE)
    return drawn.astype(np.int64).clip(1, 200) + 1


def offsets(n: int, seed: int) -> Iterator[Array]:
    """Where each of n sentences begins, and where the last one ends, in pieces."""
    ends = np.cumsum(lengths(seed))
    yield np.zeros(1, np.int64)
    for piece in range(-(-n // PIECE)):
        yield (piece * ends[-1] + ends)[: n - piece * PIECE]


def write_index(folder: Path, n: int) -> None:
    """An encoded corpus of two sources, about a tenth and the rest; both sides have one index."""
    path = folder / "src.offsets.npy"
    with growing_array(path, np.int64) as append:
        for block in offsets(n, 0):
            append(block)
    (folder / "tgt.offsets.npy").hardlink_to(path)
    n_tokens = int(np.load(path, mmap_mode="r")[-1])
    for side in SIDES:
        with (folder / f"{side}.ids").open("wb") as file:
            file.truncate(2 * n_tokens)
    starts = range(0, n, PIECE)
    with growing_array(folder / "sources.npy", np.uint16) as append:
        for i in starts:
            append(np.full(min(PIECE, n - i), i >= n // 10))


def configuration(tokens_per_update: int) -> Config:
    train = {"max_tokens": min(4096, tokens_per_update), "tokens_per_update": tokens_per_update}
    tree = {"name": "plans", "languages": {"src": "zh", "tgt": "en"}, "train": train}
    return build_config({**tree, "data": {"train": [{"demo": True}]}}, "plans")


def forget(folder: Path) -> None:
    """Let the files leave the cache of the system."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(task: tuple[Path, list[float], Place]) -> tuple[float, ...]:
    """Up to the first update: seconds, those of the processor, peak MiB; then ms and peak MiB."""
    folder, weights, place = task
    forget(folder)
    started, cpu_started = time.perf_counter(), time.process_time()
    cfg, corpus = configuration(25_000), open_corpus(folder)
    blocks = planned_blocks(
        cfg, lambda place: epoch_block(open_corpus(folder), weights, seed=1, place=place), place
    )
    block, plan = next(blocks)
    for rows in plan.update(0):
        collate(corpus, rows)
    first_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
    first_mib = peak_memory_mib()
    started = time.perf_counter()
    for rows in plan.batches():
        collate(block.corpus, rows)
    seconds = time.perf_counter() - started
    return first_s, cpu_s, first_mib, 1000 * seconds / len(plan), peak_memory_mib()


def cost(n: int, weight: float, folder: Path) -> None:
    write_index(folder, n)
    print(f"{n:,} pairs, a tenth of weight {weight:g}, {os.cpu_count()} cores\n")
    print(
        "| first update of | seconds | on a core | peak, MiB | ms to pad one | … after the block |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    corpus, weights, start = open_corpus(folder), [weight, 1.0], Place.start_of(3)
    n_blocks = epoch_block(corpus, weights, seed=1, place=start).n_blocks
    for block in sorted({0, n_blocks - 1}):
        (found,) = run_apart(measure, [(folder, weights, start._replace(block=block))])
        cells = " | ".join(f"{number:,.1f}" for number in found)
        print(f"| block {block + 1} of {n_blocks} | {cells} |", flush=True)


def walk(n: int, tokens_per_update: int, epoch: int) -> tuple[int, int]:
    """Updates and blocks of an epoch.

    Raises:
        AssertionError: a pair does not come exactly once.
    """
    cfg, seen = configuration(tokens_per_update), np.zeros(n, dtype=bool)
    sides = (EncodedSide(np.empty(0, np.uint16), np.concatenate([*offsets(n, s)])) for s in (0, 1))
    corpus, start = EncodedCorpus(*sides), Place.start_of(epoch)
    n_updates = n_entries = 0
    blocks = planned_blocks(
        cfg, lambda place: epoch_block(corpus, [1.0], seed=1, place=place), start
    )
    n_blocks = epoch_block(corpus, [1.0], seed=1, place=start).n_blocks
    for block, plan in islice(blocks, n_blocks):
        assert block.place.epoch == epoch
        for index in range(len(plan)):
            rows = np.concatenate(plan.update(index))
            assert len(rows) and not seen[rows].any(), f"a pair of update {n_updates} came before"
            seen[rows] = True
            n_entries += len(rows)
            n_updates += 1
    assert n_entries == n and seen.all(), "a pair came twice in an update, or not at all"
    return n_updates, n_blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["cost", "walk"])
    parser.add_argument("--pairs", type=float, default=1e9)
    parser.add_argument("--weight", type=float, default=1.0, help="of a tenth of the pairs")
    parser.add_argument("--dir", type=Path, help="where the files of `cost` lie for a while")
    parser.add_argument("--tokens-per-update", type=int, default=1000, help="of `walk`")
    arguments = parser.parse_args()
    n = int(arguments.pairs)
    if arguments.what == "cost":
        with tempfile.TemporaryDirectory(dir=arguments.dir) as folder:
            cost(n, arguments.weight, Path(folder))
        return
    started = time.perf_counter()
    n_updates, n_blocks = walk(n, arguments.tokens_per_update, epoch=2)
    seconds = time.perf_counter() - started
    print(f"{n_updates:,} updates in {n_blocks} blocks, {n:,} pairs, each once; {seconds:.0f} s")


if __name__ == "__main__":
    main()
