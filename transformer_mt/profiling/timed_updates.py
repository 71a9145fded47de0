"""Training as the trainer does it, one update at a time, with a clock in between.

Comes in: a configuration and an encoded corpus. Goes out: tokens, operations and seconds of
updates, and the memory they took. This file does not know which updates are of interest.
"""

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import torch

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.errors import TmtError, TrainingError
from transformer_mt.model_dir import build_model, load_tokenizers
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling.flops import training_flops
from transformer_mt.system.device import (
    choose_device,
    choose_precision,
    keep_memory,
    peak_memory_mib,
    seed_all,
)
from transformer_mt.system.processes.child_python import protected_children
from transformer_mt.system.processes.distributed import Ranks, joined_ranks
from transformer_mt.system.processes.environment import MEETING_PREFIX, place_variables
from transformer_mt.system.processes.parallel import count_workers, spawn_context, start_worker
from transformer_mt.training.batches import Indices, collate, deal
from transformer_mt.training.loss import OutputLoss
from transformer_mt.training.memory import is_out_of_memory
from transformer_mt.training.optimizer import MasterAdam

PARTS = ("data", "forward", "loss", "backward", "optimizer")

_TOO_LITTLE = (
    "the worst micro-batches do not fit into memory (a process was {}): lower train.max_tokens or "
    "the sizes of the model"
)

Task = TypeVar("Task")
Result = TypeVar("Result")


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


class Workbench:
    """A model, its optimizer and its loss as the trainer has them.

    Args:
        run: has the tokenizers.
        corpus: what `update` takes its sentences from.
        ranks: the processes that share every update.
    """

    def __init__(self, cfg: Config, run: Run, corpus: EncodedCorpus, ranks: Ranks) -> None:
        keep_memory()
        self.device = choose_device()
        self.dtype = choose_precision(cfg.train.precision, self.device)
        self.tokenizers = load_tokenizers(run.tokenizer_dir, joint=cfg.tokenizer.joint)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        seed_all(cfg.seed, "initial weights")
        self.model = build_model(cfg, self.tokenizers).to(self.device).train()
        self.n_parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.optimizer = MasterAdam(self.model, cfg.train, self.dtype, ranks)
        self._output_loss = OutputLoss(cfg.train.label_smoothing, PAD_ID)
        self._corpus, self._ranks = corpus, ranks
        self._src_lengths, self._tgt_lengths = corpus.src.lengths, corpus.tgt.lengths

    @property
    def precision(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    def update(self, batches: list[Indices]) -> Cost:
        """One update as the trainer does it, with a learning rate of 0.

        Returns:
            What this process did of it; waiting for the others counts for the optimizer.
        """
        cost = FREE
        dealt = deal(batches, self._ranks.rank, self._ranks.size, even=self.device.type == "cpu")
        for own in dealt:
            cost += self._micro_batch(own.indices, is_last=own is dealt[-1])
        n_tokens = sum(int(self._tgt_lengths[indices].sum()) for indices in batches)
        start = self.now()
        self.optimizer.step(0.0, n_tokens)
        return replace(cost, seconds=cost.seconds | {"optimizer": self.now() - start})

    def _micro_batch(self, indices: Indices, *, is_last: bool) -> Cost:
        """Everything up to the accumulated gradient."""
        marks = [self.now()]
        batch = collate(self._corpus, indices).to(self.device)
        marks.append(self.now())
        hidden = self.model(batch.src, batch.tgt_in)
        marks.append(self.now())
        sums = self._output_loss(hidden, self.model.output.weight, batch.tgt_out)
        marks.append(self.now())
        if is_last:
            self.optimizer.expect_last()
        (sums.loss * self.optimizer.loss_scale).backward()
        self.optimizer.accumulate()
        marks.append(self.now())
        seconds = [end - start for start, end in pairwise(marks)]
        src, tgt = self._src_lengths[indices], self._tgt_lengths[indices]
        flops = training_flops(self.model, src, tgt)
        by_part = dict(zip(PARTS, [*seconds, 0.0], strict=True))
        return Cost(int(src.sum()), int(tgt.sum()), flops, by_part)

    def now(self) -> float:
        """Seconds on a clock, when the device has done what it was told so far."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def peak_memory_mib(self) -> float:
        """The most that all processes together took: allocated on GPUs, else resident."""
        own = peak_memory_mib()
        if self.device.type == "cuda":
            own = torch.cuda.max_memory_allocated(self.device) / 2**20
        return sum(self._ranks.gather(own))


def in_new_processes(work: Callable[[Task, Ranks], Result], task: Task, n_processes: int) -> Result:
    """The value of a function of a module in processes that train together, as rank 0 has it.

    They are started with as many threads as `tmt train` would give them, and nothing that this
    process holds counts for their memory.

    Raises:
        TrainingError: one of them ended early, or there is not enough memory.
        TmtError: what `work` raised.
    """
    from torch.multiprocessing import ProcessExitedException, start_processes

    results: Any = spawn_context().SimpleQueue()
    with tempfile.TemporaryDirectory(prefix=MEETING_PREFIX) as folder:
        arguments = (work, task, n_processes, Path(folder), results)
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
            raise TrainingError(f"a process that trained for a trial ended: {error}") from error
    result = results.get()
    if isinstance(result, TmtError):
        raise result
    return result


def _as_rank(
    rank: int,
    work: Callable[[Task, Ranks], Result],
    task: Task,
    n_processes: int,
    meeting_dir: Path,
    results: Any,
) -> None:
    start_worker()
    threads = os.environ.get("OMP_NUM_THREADS")
    torch.set_num_threads(int(threads) if threads else max(1, count_workers("auto") // n_processes))
    os.environ |= place_variables(rank, n_processes, meeting_dir)
    with joined_ranks() as ranks:
        try:
            result = work(task, ranks)
        except TmtError as error:
            results.put(error)  # the first one is the cause: others miss this process
            return
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            results.put(TrainingError(_TOO_LITTLE.format("refused more memory")))
            return
        if ranks.is_main:
            results.put(result)
