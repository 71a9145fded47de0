"""Epochs in blocks: every entry once, from seed, epoch and block alone, taken up anywhere."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, takewhile
from pathlib import Path

import numpy as np
import pytest
from encoded import caption_lengths, side_of
from hypothesis import given, settings
from hypothesis import strategies as st
from training_session import Session, assert_same, blocks_of, copy_corpus, make_config

from transformer_mt.config.experiment import Config
from transformer_mt.encoding import mixing
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, Indices
from transformer_mt.encoding.mixing import WHOLE_EPOCH, Place
from transformer_mt.training import batches as batching
from transformer_mt.training.batches import deal, experiment_plan, plan_updates, planned_blocks

Update = tuple[Place, int, list[Indices]]
SOURCES = np.repeat([0, 1], [610, 290]).astype(np.uint16)
CORPUS = EncodedCorpus(*map(side_of, caption_lengths(900)), SOURCES)

weights = st.sampled_from([(1.0, 1.0), (0.3, 2.5), (1.0, 0.07), (3.0, 1.0)])
cases = given(
    weights=weights,
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 10**6),
    block_entries=st.integers(30, 2000),
    chunk_rows=st.integers(1, 100),
)
few = settings(max_examples=25, deadline=None)


@contextmanager
def blocks_of_size(block_entries: int, chunk_rows: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixing, "BLOCK_ENTRIES", block_entries)
        patch.setattr(mixing, "CHUNK_ROWS", chunk_rows)
        yield


def config(weights: tuple[float, ...], seed: int) -> Config:
    cfg = make_config(weights=weights, max_tokens=500, tokens_per_update=700)
    return cfg.model_copy(update={"seed": seed})


def updates_from(cfg: Config, place: Place) -> Iterator[Update]:
    """The updates from the start of a block on, without end."""
    for block, plan in planned_blocks(cfg, blocks_of(cfg, lambda _: CORPUS), place):
        for index in range(len(plan)):
            yield block.place, index, plan.update(index)


def same(found: list[Update], expected: list[Update]) -> bool:
    def plain(updates: list[Update]) -> list[object]:
        return [(*place, index, [b.tolist() for b in u]) for place, index, u in updates]

    return plain(found) == plain(expected)


@few
@cases
def test_an_epoch_holds_each_row_as_often_as_its_weight_says(
    weights: tuple[float, ...], seed: int, epoch: int, block_entries: int, chunk_rows: int
) -> None:
    cfg = config(weights, seed)
    with blocks_of_size(block_entries, chunk_rows):
        updates = list(
            takewhile(lambda u: u[0].epoch == epoch, updates_from(cfg, Place.start_of(epoch)))
        )
    counts = np.bincount(np.concatenate([b for *_, u in updates for b in u]), minlength=900)
    for source, weight in enumerate(weights):
        own = counts[source == SOURCES]
        assert abs(own.sum() - weight * len(own)) < 1
        assert set(own.tolist()) <= {int(weight), int(weight) + (weight % 1 > 0)}


@few
@cases
def test_training_is_taken_up_at_any_update_without_the_blocks_before(
    weights: tuple[float, ...], seed: int, epoch: int, block_entries: int, chunk_rows: int
) -> None:
    """Epoch, block and the number of the update lead to the rest; the last epoch's size as well."""
    cfg = config(weights, seed)
    with blocks_of_size(block_entries, chunk_rows):
        whole = list(islice(updates_from(cfg, Place.start_of(epoch)), 40))
    for done in (0, 1, 7, 39):
        place, index, _ = whole[done]
        with blocks_of_size(block_entries, chunk_rows):
            rest = list(islice(updates_from(cfg, place), index, index + 40 - done))
        assert same(rest, whole[done:])


@few
@given(weights=weights, seed=st.integers(0, 2**40), epoch=st.integers(0, 10**6))
def test_one_block_is_the_plan_of_all_entries(
    weights: tuple[float, ...], seed: int, epoch: int
) -> None:
    """Also for a checkpoint that knows no blocks: its epoch ends as one, whatever its size."""
    cfg = config(weights, seed)
    rows = blocks_of(cfg, lambda _: CORPUS)(Place.start_of(epoch)).rows
    lengths = (side.lengths[rows] for side in (CORPUS.src, CORPUS.tgt))
    expected = plan_updates(*lengths, max_tokens=500, tokens_per_update=700, seed=seed, epoch=epoch)
    for limit in (mixing.BLOCK_ENTRIES, 100):
        place = Place(epoch, 0, WHOLE_EPOCH if limit == 100 else limit)
        with blocks_of_size(limit, 10):
            block, plan = next(planned_blocks(cfg, blocks_of(cfg, lambda _: CORPUS), place))
        assert block.n_blocks == 1 and block.following == Place(epoch + 1, 0, block.following[2])
        assert np.array_equal(plan.rows, rows[expected.rows])
        assert np.array_equal(plan.batch_starts, expected.batch_starts)
        assert np.array_equal(plan.update_starts, expected.update_starts)


@few
@given(n=st.integers(1, 9), seed=st.integers(0, 2**40))
def test_any_number_of_processes_does_the_same_sentences(n: int, seed: int) -> None:
    cfg = config((0.3, 2.5), seed)
    with blocks_of_size(200, 16):
        updates = list(islice(updates_from(cfg, Place.start_of(0)), 10))
    for *_, batches in updates:
        dealt = [part.rows for rank in range(n) for part in deal(batches, rank, n, even=True)]
        assert Counter(np.concatenate(dealt).tolist()) == Counter(np.concatenate(batches).tolist())


def test_the_next_block_is_planned_beside_and_the_thread_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or a validation, which forks, would find another thread."""
    cfg, plan = config((1.0, 1.0), 1), experiment_plan
    planned: list[tuple[Place, bool]] = []
    for thread in set(threading.enumerate()) - {threading.main_thread()}:
        if thread.name.startswith("ThreadPoolExecutor"):  # of an earlier test, planning to its end
            thread.join(30)
    deadline, before = time.monotonic() + 30, set(threading.enumerate())

    def wait_for_threads() -> None:
        while not before >= set(threading.enumerate()):
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def watched(cfg: Config, block: mixing.EpochBlock) -> batching.UpdatePlan:
        planned.append((block.place, threading.current_thread() is threading.main_thread()))
        return plan(cfg, block)

    monkeypatch.setattr(batching, "experiment_plan", watched)
    with blocks_of_size(300, 16):
        blocks = planned_blocks(cfg, blocks_of(cfg, lambda _: CORPUS), Place.start_of(0))
        next(blocks)
        wait_for_threads()
    assert planned == [(Place(0, 0, 300), True), (Place(0, 1, 300), False)]


def test_a_run_in_blocks_is_stopped_and_resumed(tmp_path: Path) -> None:
    """Bit for bit, at the edges of blocks and of epochs; the log counts epochs without a jump."""
    cfg = make_config(weights=(0.6, 1.5), max_updates=12)
    sources = np.repeat([0, 1], [280, 120]).astype(np.uint16)
    corpus = replace(copy_corpus(400), sources=sources)
    with blocks_of_size(150, 8):
        plans = planned_blocks(cfg, blocks_of(cfg, lambda _: corpus), Place.start_of(0))
        ends = np.cumsum([len(plan) for _, plan in islice(plans, 3)]).tolist()
        whole = Session(tmp_path / "whole", cfg, corpus_of=lambda _: corpus)
        assert whole.run().progress.epoch > 0
        epochs = [r["epoch"] for r in whole.records() if r["event"] == "train"]
        assert (np.diff(epochs) > 0).all() and max(np.diff(epochs)) < 2.5 * min(np.diff(epochs))
        for update in (ends[0] - 1, ends[0], ends[2]):
            directory = tmp_path / str(update)
            first = Session(directory, cfg, corpus_of=lambda _: corpus).stop_at(update)
            assert first.run().progress.update == update
            resumed = Session(directory, cfg, seed=99, corpus_of=lambda _: corpus)
            resumed.run()
            assert_same(resumed, whole)
