"""CUDA graphs of micro-batches: recordings of a thousand operations that the host starts as one.

Comes in: padded token ids on a GPU, and the function that adds their gradients. Goes out: its
result, from the recording for the shape of the ids. Starting operations one by one takes the host
longer than computing them takes the GPU (docs/scaling.md). This file knows no model.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from transformer_mt.training.padding import Batch

PLAIN = 3  # micro-batches before the first recording, in which libraries initialise
MOST = 256  # recordings; further shapes run operation by operation
LONGEST = 512  # tokens; a longer sentence may extend the table of positions


class Recording(Protocol):
    """The operations of one call; a replay uses the same memory."""

    def replay(self) -> None: ...


class CudaGraphs:
    """Makes recordings that share one memory pool: only one of them runs at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Callable[[], None]) -> Recording:
        graph = torch.cuda.CUDAGraph()
        # Other threads may use CUDA meanwhile: one pins memory for the next micro-batches.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            work()
        return graph


class RecordedMicroBatches:
    """A function of micro-batches that is recorded once per shape and then replayed.

    Tensors that it reads and writes besides the batch must stay where they are in memory.
    """

    def __init__(
        self,
        run: Callable[[Batch], Tensor],
        held: Callable[[], object],
        record: Callable[[Callable[[], None]], Recording],
    ) -> None:
        """
        Args:
            run: returns a scalar; operations depend on shapes alone and never wait for the host.
            held: gives the tensors that `run` reads and others may replace; a recording keeps them.
            record: records a function, as `CudaGraphs` does; this need not compute its results.
        """
        self._run, self._held, self._record = run, held, record
        self._recorded: dict[tuple[torch.Size, torch.Size], _Recorded] = {}
        self._n_plain, self._is_full = 0, False

    def __call__(self, batch: Batch) -> Tensor:
        shape = (batch.src.shape, batch.tgt_in.shape)
        longest = max(batch.src.size(1), batch.tgt_in.size(1))
        may_record = self._n_plain >= PLAIN and not self._is_full and longest <= LONGEST
        if may_record and shape not in self._recorded:
            try:
                self._recorded[shape] = _Recorded(self._run, self._held(), self._record, batch)
                self._is_full = len(self._recorded) == MOST
            except torch.OutOfMemoryError:
                self._recorded.clear()
                self._is_full = True
        # Outside of the handler: its traceback would keep tensors of the failed call alive.
        if shape in self._recorded:
            return self._recorded[shape](batch)
        self._n_plain += 1
        return self._run(batch)


class _Recorded:
    def __init__(
        self,
        run: Callable[[Batch], Tensor],
        held: object,
        record: Callable[[Callable[[], None]], Recording],
        batch: Batch,
    ) -> None:
        self._batch, self._held = batch.map(torch.clone), held
        self._result: Tensor

        def work() -> None:
            self._result = run(self._batch)

        self._recording = record(work)

    def __call__(self, batch: Batch) -> Tensor:
        for own, ids in zip(self._batch.tensors, batch.tensors, strict=True):
            own.copy_(ids)
        self._recording.replay()
        return self._result.clone()
