"""Training as the trainer does it, one update at a time, with a clock in between.

Comes in: a configuration and an encoded corpus. Goes out: tokens, operations and seconds of
updates, and the memory they took. This file does not know which updates are of interest.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, Indices
from transformer_mt.errors import TmtError, TrainingError
from transformer_mt.model_dir import build_model, load_tokenizers
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling.flops import training_flops
from transformer_mt.system.device import choose_device, keep_memory, seed_all
from transformer_mt.system.machine import peak_memory_mib
from transformer_mt.system.processes.child_python import protected_children
from transformer_mt.system.processes.distributed import Ranks, joined_ranks
from transformer_mt.system.processes.environment import meeting_dir, place_variables
from transformer_mt.system.processes.parallel import spawn_context, start_worker
from transformer_mt.training.batches import collate, deal
from transformer_mt.training.memory import is_out_of_memory
from transformer_mt.training.micro_batch import Learner

PARTS = ("data", "forward", "loss", "backward", "optimizer")

_TOO_LITTLE = (
    "the worst micro-batches do not fit into memory (a process was {}): lower train.max_tokens or "
    "the sizes of the model"
)

Task = TypeVar("Task")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Cost:
    """Of one micro-batch, or of several."""

    src_tokens: int
    tgt_tokens: int
    flops: int  # of the matrix products that the real tokens need
    seconds: dict[str, float]  # by part

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.src_tokens + other.src_tokens,
            self.tgt_tokens + other.tgt_tokens,
            self.flops + other.flops,
            {part: self.seconds[part] + other.seconds[part] for part in PARTS},
        )


FREE = Cost(0, 0, 0, dict.fromkeys(PARTS, 0.0))


class TimedTraining:
    """A model, its optimizer and its loss as the trainer has them.

    Args:
        run: has the tokenizers.
        corpus: of the rows of `update`.
        ranks: the processes that share every update.
    """

    def __init__(self, cfg: Config, run: Run, corpus: EncodedCorpus, ranks: Ranks) -> None:
        keep_memory()
        self.device = choose_device()
        self.tokenizers = load_tokenizers(run.tokenizer_dir, joint=cfg.tokenizer.joint)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        seed_all(cfg.seed, "initial weights")
        self.model = build_model(cfg, self.tokenizers).to(self.device).train()
        self.n_parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.learner = Learner(self.model, cfg.train, ranks)
        self._corpus, self._ranks = corpus, ranks

    @property
    def precision(self) -> str:
        return str(self.learner.dtype).removeprefix("torch.")

    def update(self, batches: list[Indices]) -> Cost:
        """One update as the trainer does it, with a learning rate of 0.

        Returns:
            The part of this process; waiting for the others counts for the optimizer.
        """
        cost = FREE
        dealt = deal(batches, self._ranks.rank, self._ranks.size, even=self.device.type == "cpu")
        for own in dealt:
            cost += self._micro_batch(own.rows, is_last=own is dealt[-1])
        n_tokens = sum(int(self._corpus.tgt.lengths_of(rows).sum()) for rows in batches)
        start = self.now()
        self.learner.optimizer.step(0.0, n_tokens)
        return replace(cost, seconds=cost.seconds | {"optimizer": self.now() - start})

    def _micro_batch(self, rows: Indices, *, is_last: bool) -> Cost:
        """Everything up to the gradient of the update."""
        seconds = dict.fromkeys(PARTS, 0.0)
        start = self.now()

        def done(part: str) -> None:
            nonlocal start
            now = self.now()
            seconds[part], start = now - start, now

        batch = collate(self._corpus, rows).to(self.device)
        done("data")
        if is_last:
            self.learner.optimizer.gradient.send_with_next()
        self.learner.add_gradients(batch, done)
        src, tgt = (side.lengths_of(rows) for side in (self._corpus.src, self._corpus.tgt))
        return Cost(int(src.sum()), int(tgt.sum()), training_flops(self.model, src, tgt), seconds)

    def now(self) -> float:
        """Seconds on a clock, once the device has done all its work so far."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def peak_memory_mib(self) -> float:
        """The most that all processes together took: allocated on GPUs, else resident."""
        own = peak_memory_mib()
        if self.device.type == "cuda":
            own = torch.cuda.max_memory_allocated(self.device) / 2**20
        return sum(self._ranks.gather(own))


def in_new_processes(work: Callable[[Task, Ranks], Value], task: Task, n_processes: int) -> Value:
    """The value of a function of a module in processes that train together, as rank 0 has it.

    They are started with as many threads as `tmt train` would give them, and nothing that this
    process holds counts for their memory.

    Raises:
        TrainingError: one of them ended early, or there is not enough memory.
        TmtError: what `work` raised.
    """
    from torch.multiprocessing import ProcessExitedException, start_processes

    results: Any = spawn_context().SimpleQueue()
    with meeting_dir() as folder:
        arguments = (work, task, n_processes, folder, results)
        try:
            with protected_children():
                group: Any = start_processes(
                    _as_rank, arguments, n_processes, join=False, start_method="spawn"
                )
            while not group.join():
                pass
        except ProcessExitedException as error:
            if error.signal_name == "SIGKILL":  # how a system that is short of memory ends it
                raise TrainingError(_TOO_LITTLE.format("killed")) from error
            raise TrainingError(f"a process that measured training ended: {error}") from error
    result = results.get()
    if isinstance(result, TmtError):
        raise result
    return result


def _as_rank(
    rank: int,
    work: Callable[[Task, Ranks], Value],
    task: Task,
    n_processes: int,
    folder: Path,
    results: Any,
) -> None:
    start_worker()
    os.environ |= place_variables(rank, n_processes, folder)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with joined_ranks() as ranks:
        try:
            result = work(task, ranks)
        except TmtError as error:
            results.put(error)  # the first one is the cause: others lose contact with this process
            return
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            results.put(TrainingError(_TOO_LITTLE.format("refused more memory")))
            return
        if ranks.is_main:
            results.put(result)
