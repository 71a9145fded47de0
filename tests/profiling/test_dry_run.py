"""Measured is what trains: the same sentences and memory, and speed that adds up."""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoded import side_of
from torch import Tensor

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, open_corpus
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.errors import DataError, TrainingError
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling import plan as module
from transformer_mt.profiling import timed_updates
from transformer_mt.profiling.plan import dry_run
from transformer_mt.profiling.timed_updates import (
    PARTS,
    TimedTraining,
    first_block,
    in_new_processes,
    padding_share,
    worst_batches,
)
from transformer_mt.system.processes.distributed import ALONE, Ranks
from transformer_mt.training.batches import UpdatePlan, experiment_plan, plan_updates
from transformer_mt.training.padding import GPU_MULTIPLE, collate, collated

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def cfg(experiment: Callable[..., Config]) -> Config:
    train = {"max_tokens": 200, "tokens_per_update": 400, "precision": "fp32"}
    return experiment(["a", "b"], {}, train=train)


def timed_on(cfg: Config, run_dir: Path, ranks: Ranks = ALONE) -> TimedTraining:
    run = Run(run_dir)
    return TimedTraining(cfg, run, first_block(cfg, run), ranks)


def copies(timed: TimedTraining) -> dict[str, Tensor]:
    return {name: w.clone() for name, w in timed.learner.optimizer.weights().items()}


def test_an_update_counts_its_real_tokens_and_changes_no_weight(cfg: Config, real: Run) -> None:
    timed = timed_on(cfg, real.directory)
    batches = timed.plan.update(0)
    before = copies(timed)
    start = timed.now()
    cost = timed.update(batches)
    seconds = timed.now() - start
    rows = np.concatenate(batches)
    assert cost["src_tokens"] == timed.corpus.src.lengths_of(rows).sum()
    assert cost["tgt_tokens"] == timed.corpus.tgt.lengths_of(rows).sum()
    parts = [cost[part] for part in PARTS]
    assert min(parts) > 0 and sum(parts) <= seconds
    assert all(weight.equal(before[name]) for name, weight in copies(timed).items())


def test_the_worst_batches_are_the_longest_the_largest_and_the_most_to_write() -> None:
    src = np.array([90, 10, 10, 10, 10, 3, 3, 3, 3, 3, 3])
    tgt = np.array([2, 10, 10, 10, 10, 9, 9, 9, 9, 9, 9])
    plan = plan_updates(src, tgt, max_tokens=60, tokens_per_update=60, seed=1, epoch=0)
    corpus = EncodedCorpus(side_of(src), side_of(tgt))
    chosen = [set(plan.batch(index)) for index in worst_batches(plan, corpus)]
    assert {0} in chosen, "one sentence, but the longest"
    assert {5, 6, 7, 8, 9, 10} in chosen, "54 tokens to write"
    sizes = [len(b) * (src[b].max() + tgt[b].max()) for b in plan.batches()]
    assert max(sizes) in [len(b) * (src[b].max() + tgt[b].max()) for b in map(list, chosen)], (
        "and the most positions"
    )


def test_padding_share_counts_cells() -> None:
    plan = UpdatePlan(np.array([2, 0, 1]), np.array([0, 2, 3]), np.array([0, 2]))
    # Batches of lengths (1, 3) and (4): 2 of 10 cells are padding.
    side = side_of(np.array([3, 4, 1]))
    assert padding_share(plan, side) == pytest.approx(0.2)
    # On a GPU, which pads to multiples: (1, 3) and (4) are 4 of 12.
    assert padding_share(plan, side, multiple=4) == pytest.approx(4 / 12)


def test_on_a_gpu_the_padding_of_its_shapes_counts(
    cfg: Config, real: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = timed_on(cfg, real.directory)
    plan, corpus = timed.plan, timed.corpus
    monkeypatch.setattr(timed, "_multiple", GPU_MULTIPLE)
    shapes = [collate(corpus, rows, multiple=GPU_MULTIPLE) for rows in plan.batches()]
    for side, told in (("src", timed.setup().src_padding), ("tgt_out", timed.setup().tgt_padding)):
        ids = [getattr(batch, side) for batch in shapes]
        n_padding = sum(int((cells == PAD_ID).sum()) for cells in ids)
        assert told == pytest.approx(n_padding / sum(cells.numel() for cells in ids))
    positions = [batch.src.numel() + batch.tgt_out.numel() for batch in shapes]
    worst = worst_batches(plan, corpus, GPU_MULTIPLE)
    assert max(positions) in [positions[index] for index in worst]


def test_a_trial_plans_what_training_will_do(cfg: Config, real: Run) -> None:
    found, twice = (dry_run(cfg, real.directory, None, n, 0.2, ALONE) for n in (1, 2))
    block = first_block(cfg, real)
    corpus, plan = block.corpus, experiment_plan(cfg, block)
    assert (found.pairs, found.updates) == (len(corpus), len(plan))
    assert found.tgt_tokens == corpus.tgt.lengths.sum()
    assert found.dev_pairs == 20
    assert min(found.tgt_tokens_per_s, found.validation_s, found.checkpoint_s) > 0
    assert (twice.pairs, twice.tgt_tokens) == (2 * found.pairs, 2 * found.tgt_tokens)
    assert twice.setup.tgt_padding <= found.setup.tgt_padding, "more sentences fit better together"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_optimizer_counts_once_per_update_however_little_was_done(
    cfg: Config, real: Run, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    """By a clock that gives each micro-batch 1 s and each optimizer step 10 s."""
    timed = timed_on(cfg, real.directory)
    timed.device = torch.device(device)  # no GPU is needed: the micro-batches stay where they are
    monkeypatch.setattr(
        timed_updates,
        "collated",
        lambda corpus, parts, _, thread: collated(corpus, parts, CPU, thread),
    )
    clock = [0.0]
    monkeypatch.setattr(timed, "now", lambda: clock[0])

    def takes(seconds: float, work: Callable[..., Any]) -> Callable[..., Any]:
        def slow(*args: Any) -> Any:
            clock[0] += seconds
            return work(*args)

        return slow

    learner, plan = timed.learner, timed.plan
    monkeypatch.setattr(learner, "add_gradients", takes(1, learner.add_gradients))
    monkeypatch.setattr(learner.optimizer, "step", takes(10, learner.optimizer.step))
    n_batches, n_tokens = len(plan.batch_starts) - 1, int(timed.corpus.tgt.lengths.sum())
    assert n_batches > len(plan)
    speed = module._measure_speed(timed, n_tokens / len(plan), 40.0, 1000, ALONE)
    assert speed == pytest.approx(n_tokens / (n_batches + 10 * len(plan)), rel=0.15)


def _tokens_of(cfg: Config, run_dir: Path, ranks: Ranks) -> list[float]:
    timed = timed_on(cfg, run_dir, ranks)
    return ranks.gather(timed.update(timed.plan.update(0))["tgt_tokens"])


def test_two_processes_share_an_update(cfg: Config, real: Run) -> None:
    tokens = in_new_processes(partial(_tokens_of, cfg, real.directory), 2)
    assert len(tokens) == 2 and min(tokens) > 0
    assert [sum(tokens)] == _tokens_of(cfg, real.directory, ALONE)


def _peak_of(cfg: Config, run_dir: Path, ranks: Ranks) -> float:
    return timed_on(cfg, run_dir, ranks).setup().peak_memory_mib


@pytest.mark.skipif(sys.platform != "linux", reason="others do not say it of a single process")
def test_what_this_process_holds_does_not_count(cfg: Config, real: Run) -> None:
    ballast = np.ones(10**8)  # 763 MiB
    peak = in_new_processes(partial(_peak_of, cfg, real.directory), 1)
    assert 20 < peak < ballast.nbytes / 2**20


def _die(ranks: Ranks) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _abort(ranks: Ranks) -> None:
    os.abort()


def _need_too_much(ranks: Ranks) -> None:
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate …")


def _give_up(ranks: Ranks) -> None:
    raise DataError("the file is missing")


@pytest.mark.parametrize(
    ("work", "expected", "message"),
    [
        (_die, TrainingError, r"do not fit into memory .* killed.*: lower train\.max_tokens"),
        (_abort, TrainingError, "^a process that measured training ended: .* SIGABRT"),
        (_need_too_much, TrainingError, r"refused more memory\): lower train\.max_tokens"),
        (_give_up, DataError, "^the file is missing$"),
    ],
)
def test_what_ends_a_trial_is_told(
    work: Callable[[Ranks], None], expected: type[Exception], message: str
) -> None:
    with pytest.raises(expected, match=message):
        in_new_processes(work, 1)


def test_max_tokens_auto_is_what_training_would_choose(cfg: Config, real: Run) -> None:
    assert module._with_max_tokens(cfg, real, ALONE) is cfg
    train = cfg.train.model_copy(update={"max_tokens": "auto"})
    resolved = module._with_max_tokens(cfg.model_copy(update={"train": train}), real, ALONE)
    corpus = open_corpus(real.encoded_dir / "train")
    longest = max(corpus.src.lengths.max(), corpus.tgt.lengths.max())
    assert longest <= resolved.train.batch_tokens <= cfg.train.tokens_per_update + 64
