"""The processes that train one model together, and what they tell each other.

Comes in: the environment variables that `torchrun`, or `launch.py`, sets. Goes out: `Ranks`. One
process alone is a group of one: nothing is sent and torch.distributed is not touched. This file
knows no model, data or files.

Every method of `Ranks` that sends must be called by all processes, in the same order.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

# Loaded before there is a group: later (a first optimizer loads it) its functions would keep the
# group as a default for ever, and threads that let go of tensors while Python ends, which aborts.
import torch.distributed.nn.functional
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from transformer_mt.errors import LostProcess

T = TypeVar("T")

# One process may prepare data for hours while the others wait. A process that ends is noticed at
# once, whatever this says, because its connections close.
TIMEOUT = timedelta(days=7)


@dataclass(frozen=True)
class Ranks:
    """This process among `size`; rank 0 writes files and speaks to the user."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among the processes of this machine
    local_size: int = 1

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Every `size`-th item: what this process does of work that needs no order."""
        return items[self.rank :: self.size]

    def join_shares(self, own: Sequence[T]) -> list[T]:
        """The inverse of `share`: results of all processes in the order of the items."""
        if self.size == 1:
            return list(own)
        shares = self.gather(list(own))
        n_items = sum(map(len, shares))
        return [shares[i % self.size][i // self.size] for i in range(n_items)]

    def sum(self, tensor: Tensor) -> Tensor:
        """Replace `tensor` by its sum over all processes, on each; returns it."""
        if self.size > 1:
            with _connected():
                dist.all_reduce(tensor)
        return tensor

    def start_sum(self, tensor: Tensor) -> Callable[[], None]:
        """Like `sum`, but other work can be done before the returned function is called."""
        if self.size == 1:
            return lambda: None
        with _connected():
            work = dist.all_reduce(tensor, async_op=True)

        def wait() -> None:
            with _connected():
                work.wait()

        return wait

    def join_parts(self, whole: Tensor) -> None:
        """Each process has its part of `whole`, the `rank`-th of `size` equal ones; get the others.

        Args:
            whole: (n,), n divisible by `size`.
        """
        if self.size > 1:
            parts = list(whole.chunk(self.size))
            with _connected():
                dist.all_gather(parts, parts[self.rank].clone())

    def copy_from_main(self, tensor: Tensor) -> None:
        """Overwrite `tensor` with what rank 0 has in it."""
        if self.size > 1:
            with _connected():
                dist.broadcast(tensor, src=0)

    def told_by_main(self, value: T) -> T:
        """What rank 0 passes; the others' `value` is ignored. Plain values, not large tensors."""
        if self.size == 1:
            return value
        box = [value]
        with _connected():
            dist.broadcast_object_list(box, src=0)
        return box[0]

    def gather(self, value: T) -> list[T]:
        """The values of all processes by rank, on each of them."""
        if self.size == 1:
            return [value]
        values: list[T] = [value] * self.size
        with _connected():
            dist.all_gather_object(values, value)
        return values

    def in_turn(self, work: Callable[[], T]) -> T:
        """Each process does `work`, rank 0 first, then the first of each machine, then the rest.

        For work that leaves files, which those who come later find done, on a disk that all
        machines share or on one of each machine.
        """
        turn = 0 if self.is_main else 1 if self.local_rank == 0 else 2
        for now in range(3):
            if now == turn:
                result = work()
            self.gather(None)
        return result


ALONE = Ranks()


@contextmanager
def joined_ranks() -> Iterator[Ranks]:
    """The group that this process was started into; `ALONE` without one.

    Raises:
        LostProcess: the other processes cannot be reached.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
        backend = "cpu:gloo,cuda:nccl"
    with _connected():
        store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
        # torchrun may restart all on the same store: addresses of the last attempt are not those
        # of this one.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        own_store = dist.PrefixStore(f"attempt_{attempt}", store)
        dist.init_process_group(
            backend, store=own_store, rank=rank, world_size=size, timeout=TIMEOUT
        )
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size(), local_rank, local_size)
    finally:
        dist.destroy_process_group()


@contextmanager
def _connected() -> Iterator[None]:
    """Turn a lost connection into an error that says so."""
    try:
        yield
    except RuntimeError as error:  # all of torch.distributed's are, those of gloo included
        reason = str(error).strip().split("\n")[0]
        raise LostProcess(
            "another process of this training has ended, or cannot be reached; what it said is the "
            f"cause. The newest checkpoint is kept, the same command goes on ({reason})"
        ) from error
