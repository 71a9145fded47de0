"""Micro-batches of a GPU as recordings: a thousand operations that the host starts as one.

Comes in: padded token ids on a GPU, and the function that adds their gradients. Goes out: what it
returns, from the recording of its shape, a CUDA graph. To start operations one by one takes a host
longer than it takes a GPU to do them (docs/scaling.md). This file knows no model.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from transformer_mt.training.padding import Batch

PLAIN = 3  # micro-batches before the first recording: libraries set themselves up in them
MOST = 256  # recordings; further shapes are done operation by operation
LONGEST = 512  # tokens: a longer sentence may have to make a table of positions


class Recording(Protocol):
    """The operations of one call, on the memory that they had then."""

    def replay(self) -> None: ...


class CudaGraphs:
    """Makes recordings that share their memory, which only one of them needs at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, work: Callable[[], None]) -> Recording:
        graph = torch.cuda.CUDAGraph()
        # Other threads go on meanwhile: one pins memory for the next micro-batches.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            work()
        return graph


class RecordedMicroBatches:
    """A function of micro-batches, each shape of which is recorded once and then replayed.

    What the function reads and writes besides the batch must stay where it is in memory.
    """

    def __init__(
        self,
        run: Callable[[Batch], Tensor],
        held: Callable[[], object],
        record: Callable[[Callable[[], None]], Recording],
    ) -> None:
        """
        Args:
            run: returns a scalar; its operations depend on shapes alone, and wait for no host.
            held: tensors that `run` reads and that others may replace: kept with each recording.
            record: makes a recording of a function, as `CudaGraphs` does; it need not call it.
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
        # Outside of the handler: its traceback would keep the tensors that are too many.
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
