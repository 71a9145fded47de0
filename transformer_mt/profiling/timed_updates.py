"""Training as the trainer does it, one update at a time, with a clock in between.

Comes in: a configuration and an encoded corpus. Goes out: tokens, operations and seconds of
updates, and the memory they took. This file does not know which updates are of interest.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, EncodedSide, Indices, open_corpus
from transformer_mt.encoding.mixing import EpochBlock, Place, epoch_block, source_weights
from transformer_mt.errors import TmtError, TrainingError
from transformer_mt.messages.catalogue import tr
from transformer_mt.model_dir import build_model, load_tokenizers
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling.flops import training_flops
from transformer_mt.system.device import choose_device, keep_memory, peak_memory_on, seed_all
from transformer_mt.system.processes.child_python import protected_children
from transformer_mt.system.processes.distributed import Ranks, joined_ranks
from transformer_mt.system.processes.environment import (
    allocator_variables,
    meeting_dir,
    place_variables,
)
from transformer_mt.system.processes.executors import spawn_context, start_worker
from transformer_mt.training.batches import Dealt, UpdatePlan, deal, experiment_plan
from transformer_mt.training.memory import is_out_of_memory
from transformer_mt.training.micro_batch import Learner
from transformer_mt.training.padding import GPU_MULTIPLE, Batch, collated

PARTS = ("data", "forward", "loss", "backward", "optimizer")
# Of the host: for a batch, to start work, for its end; then the step of all.
GPU_PARTS = ("data", "launch", "wait", "optimizer")
GPU_WARM_UP = 40  # updates in which most shapes of micro-batches occur, and are recorded

_TOO_LITTLE = tr(
    "the worst micro-batches do not fit into memory (a process was {}): lower "
    "train.max_tokens or the sizes of the model"
)
_CALL_EVERY_S = 0.25  # while other processes measure
Value = TypeVar("Value")


@dataclass(frozen=True)
class TrainingSetup:
    """What is trained here, and how."""

    parameters: int
    device: str
    precision: str
    processes: int
    max_tokens: int  # also for `auto`
    src_padding: float  # share of positions
    tgt_padding: float
    peak_memory_mib: float  # measured: of all processes together


# Of an update: tokens, operations of the matrix products that real tokens need, seconds by part.
Cost = dict[str, float]
_COUNTS = ("src_tokens", "tgt_tokens", "flops")


def first_block(cfg: Config, run: Run) -> EpochBlock:
    """The first block that training on the prepared corpus of a run would plan."""
    corpus, weights = open_corpus(run.encoded_dir / "train"), source_weights(cfg.data)
    return epoch_block(corpus, weights, seed=cfg.seed, place=Place.start_of(0))


class TimedTraining:
    """A model, its optimizer, its loss and the plan of a block as the trainer has them."""

    def __init__(self, cfg: Config, run: Run, block: EpochBlock, ranks: Ranks) -> None:
        keep_memory()
        self.device = choose_device()
        self._multiple = GPU_MULTIPLE if self.device.type == "cuda" else 1  # of padded lengths
        self.tokenizers = load_tokenizers(run.tokenizer_dir, joint=cfg.tokenizer.joint)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        seed_all(cfg.seed, "initial weights")
        self.model = build_model(cfg, self.tokenizers).to(self.device).train()
        self.learner = Learner(self.model, cfg.train, ranks)
        self.plan = experiment_plan(cfg, block)
        self.corpus = block.corpus
        self._cfg, self._ranks = cfg, ranks
        self._thread = ThreadPoolExecutor(1)
        self._begun: tuple[list[Dealt], Iterator[Batch]] | None = None  # the next update

    def setup(self) -> TrainingSetup:
        """What has been measured with; memory so far."""
        return TrainingSetup(
            parameters=sum(parameter.numel() for parameter in self.model.parameters()),
            device=str(self.device),
            precision=str(self.learner.dtype).removeprefix("torch."),
            processes=self._ranks.size,
            max_tokens=self._cfg.train.batch_tokens,
            src_padding=padding_share(self.plan, self.corpus.src, self._multiple),
            tgt_padding=padding_share(self.plan, self.corpus.tgt, self._multiple),
            peak_memory_mib=sum(self._ranks.gather(peak_memory_on(self.device))),
        )

    def update_with_worst(self) -> None:
        """Updates of the micro-batches that may take most memory, one in every process."""
        for index in worst_batches(self.plan, self.corpus, self._multiple):
            self.update([self.plan.batch(index)] * self._ranks.size)

    def update(self, batches: list[Indices], following: list[Indices] | None = None) -> Cost:
        """One update as the trainer does it, with a learning rate of 0.

        Args:
            following: the batches of the next update, which on a GPU a thread pads meanwhile.
        Returns:
            The part of this process; waiting for the others counts for the optimizer.
        """
        on_gpu = self.device.type == "cuda"
        cost = dict.fromkeys((*_COUNTS, *(GPU_PARTS if on_gpu else PARTS)), 0.0)
        start = self.now()

        def done(part: str) -> None:
            nonlocal start
            now = time.perf_counter()
            cost[part] += now - start
            start = now

        dealt, parts = self._begun or self._begin(batches)
        self._begun = self._begin(following) if following else None
        for own in dealt:
            start = time.perf_counter()
            batch = next(parts)
            done("data")
            if own is dealt[-1]:
                self.learner.send_with_next()
            self.learner.add_gradients(batch, None if on_gpu else done)
            if on_gpu:
                done("launch")
            src, tgt = (s.lengths_of(own.rows) for s in (self.corpus.src, self.corpus.tgt))
            counts = (src.sum(), tgt.sum(), training_flops(self.model, src, tgt))
            for name, n in zip(_COUNTS, counts, strict=True):
                cost[name] += int(n)
        n_tokens = sum(int(self.corpus.tgt.lengths_of(rows).sum()) for rows in batches)
        start = time.perf_counter()
        before_step = self.now()
        if on_gpu:
            done("wait")
        self.learner.optimizer.step(0.0, n_tokens)
        cost["optimizer"] = self.now() - before_step
        return cost

    def _begin(self, batches: list[Indices]) -> tuple[list[Dealt], Iterator[Batch]]:
        """This process's share of an update, and its micro-batches."""
        on_cpu = self.device.type == "cpu"
        dealt = deal(batches, self._ranks.rank, self._ranks.size, even=on_cpu)
        rows = [own.rows for own in dealt]
        return dealt, collated(self.corpus, rows, self.device, None if on_cpu else self._thread)

    def now(self) -> float:
        """Seconds on a clock, once the device has done all its work so far."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def padding_share(plan: UpdatePlan, side: EncodedSide, multiple: int = 1) -> float:
    """Share of positions of one side that are padding when the plan is carried out.

    Args:
        multiple: of it are the lengths after padding, see `collate`.
    """
    padded = _padded_lengths(plan, side, multiple)
    cells = int((padded * np.diff(plan.batch_starts)).sum())
    return 1 - int(side.lengths_of(plan.rows).sum()) / cells


def worst_batches(plan: UpdatePlan, corpus: EncodedCorpus, multiple: int = 1) -> list[int]:
    """The micro-batches with the longest sentence, the most positions, the most target tokens."""
    padded_src, padded_tgt = (
        _padded_lengths(plan, side, multiple) for side in (corpus.src, corpus.tgt)
    )
    longest = np.maximum(padded_src, padded_tgt)
    positions = np.diff(plan.batch_starts) * (padded_src + padded_tgt)
    tgt_tokens = np.add.reduceat(corpus.tgt.lengths_of(plan.rows), plan.batch_starts[:-1])
    return sorted({int(size.argmax()) for size in (longest, positions, tgt_tokens)})


def _padded_lengths(plan: UpdatePlan, side: EncodedSide, multiple: int) -> Indices:
    """(batches,) positions of each row of a micro-batch."""
    longest = np.maximum.reduceat(side.lengths_of(plan.rows), plan.batch_starts[:-1])
    return -(-longest // multiple) * multiple


def in_new_processes(
    work: Callable[[Ranks], Value], n_processes: int,
    waiting: Callable[[float], object] = lambda _: None,
) -> Value:  # fmt: skip
    """What `work`, picklable, gives in processes that train together, as rank 0 has it.

    They are started with as many threads as `tmt train` would give them, and nothing that this
    process holds counts for their memory.

    Args:
        waiting: called again and again until they end, with the seconds since the last call.
    Raises:
        TmtError: what `work` raised; one of them ended early; there is not enough memory.
    """
    from torch.multiprocessing import ProcessExitedException, start_processes

    results: Any = spawn_context().SimpleQueue()
    with meeting_dir() as folder:
        arguments = (work, n_processes, folder, results)
        group: Any = None
        try:
            with protected_children(**allocator_variables()):
                group = start_processes(
                    _as_rank, arguments, n_processes, join=False, start_method="spawn"
                )
            while not group.join(timeout=_CALL_EVERY_S):
                waiting(_CALL_EVERY_S)
        except ProcessExitedException as error:
            if not results.empty() and isinstance(told := results.get(), TmtError):
                raise told from error
            if error.signal_name == "SIGKILL":  # how a system that is short of memory ends it
                raise TrainingError(_TOO_LITTLE.format(tr("killed"))) from error
            raise TrainingError(tr("a process that measured training ended: {}", error)) from error
        finally:
            for process in group.processes if group is not None else ():
                process.terminate()  # or an interrupted command would wait for them at its exit
    result = results.get()
    if isinstance(result, TmtError):
        raise result
    return result


def _as_rank(
    rank: int, work: Callable[[Ranks], Value], n_processes: int, folder: Path, results: Any
) -> None:
    start_worker()
    os.environ |= place_variables(rank, n_processes, folder)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"].partition(",")[0]))
    try:
        with joined_ranks() as ranks:
            result = work(ranks)
            if ranks.is_main:
                results.put(result)
            return
    except TmtError as error:
        results.put(error)  # the first one is the cause: others lose contact with this process
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        results.put(TrainingError(_TOO_LITTLE.format(tr("refused more memory"))))
    sys.exit(1)  # the others are ended: they would wait for this one
