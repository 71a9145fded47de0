"""The processes that train one model together, and their messages: tensors and JSON, no pickle.

One process alone is a group of one: nothing is sent and torch.distributed is not touched. The
processes of one machine meet through a file in a private folder and connect over loopback alone;
each proves to each other that it can read that file, and then nobody else may connect. Under
`torchrun` they meet over its network, which must be trusted.

Every method of `Ranks` that sends must be called by all processes, in the same order.
"""

import hashlib
import hmac
import json
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar, cast

import torch
import torch.distributed as dist

# Loaded before there is a group: later (a first optimizer loads it) its functions would keep the
# group as a default for ever, and threads that let go of tensors while Python ends, which aborts.
import torch.distributed.nn.functional
from torch import Tensor
from torch.distributed.rendezvous import rendezvous
from torch.profiler import record_function

from transformer_mt.errors import LostProcess, TrainingError, TrainingStopped
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.processes.environment import MEETING_FILE, Place, own_place
from transformer_mt.system.processes.loopback import (
    close_doors,
    end_silent_connections,
    keep_to_loopback,
    open_doors,
)

T = TypeVar("T")

# One process may prepare data for hours while the others wait. A process that ends is noticed at
# once, whatever this says, because its connections close.
TIMEOUT = timedelta(days=7)
_ASK_EVERY_S = 0.05  # whether all have come
PROOF_TIMEOUT = timedelta(minutes=5)  # of processes that are connected already


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
        """Every `size`-th item: this process's share of work that needs no order."""
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

    def copy_from_main(self, tensor: Tensor) -> None:
        """Overwrite `tensor` with rank 0's."""
        if self.size > 1:
            with _connected():
                dist.broadcast(tensor, src=0)

    def told_by_main(self, value: T) -> T:
        """The value of rank 0, on every process, as JSON has it; the others' `value` is ignored."""
        return value if self.size == 1 else self.gather(value if self.is_main else cast(T, None))[0]

    def gather(self, value: T) -> list[T]:
        """The values of all processes by rank, on each of them, as JSON has them."""
        if self.size == 1:
            return [value]
        text = json.dumps(value).encode()
        with _connected():
            lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
            dist.all_gather(lengths, torch.tensor([len(text)]))
            longest = int(max(lengths))
            contents = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
            dist.all_gather(contents, _tensor_of(text.ljust(longest)))
        return [json.loads(content.numpy().tobytes()) for content in contents]

    def in_turn(self, work: Callable[[], T]) -> T:
        """Each process does `work`, rank 0 first, then the first of each machine, then the rest.

        For work that leaves files, on a disk of all machines or one of each, for later processes.
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
    """The group that this process was started into; `ALONE` without one."""
    place = own_place()
    if place is None:
        yield ALONE
        return
    backend = "gloo"
    if torch.cuda.is_available():
        if place.local_rank >= (n_gpus := torch.cuda.device_count()):
            text = tr(
                "LOCAL_RANK is {}, but this machine has {} GPUs: start one process for each",
                place.local_rank,
                n_gpus,
            )
            raise TrainingError(text)
        torch.cuda.set_device(place.local_rank)
        backend = "cpu:gloo,cuda:nccl"
    ranks = Ranks(place.rank, place.size, place.local_rank, place.local_size)
    if place.meeting_dir is None:
        with _connected():
            store = next(rendezvous("env://", timeout=TIMEOUT))[0]
            own_store = dist.PrefixStore(_name_of_start(place, store), store)
            _join(place, backend, own_store)
        end_silent_connections()
    else:
        keep_to_loopback()
        doors = open_doors()
        with _connected():
            file = dist.FileStore(str(place.meeting_dir / MEETING_FILE), place.size)
            file.set_timeout(TIMEOUT)
            _join(place, backend, file)
        _prove(place, file)
        close_doors(open_doors() - doors)
    leaves = True
    try:
        if place.meeting_dir is None:  # the machines may differ
            _refuse_differing_devices(ranks)
        yield ranks
    except BaseException as error:
        # NCCL would wait for the others, who wait for what this process was to send.
        leaves = backend == "gloo" or isinstance(error, TrainingStopped)
        raise
    finally:
        if leaves:
            dist.destroy_process_group()


def _join(place: Place, backend: str, store: dist.Store) -> None:
    dist.init_process_group(
        backend, store=store, rank=place.rank, world_size=place.size, timeout=TIMEOUT
    )


def _name_of_start(place: Place, store: dist.Store) -> str:
    """A new name, which those that start now agree on: addresses of an earlier start may be there.

    torchrun starts all again on the same store, and counts restarts in each machine for itself.
    """
    own = secrets.token_hex(8)
    store.set(f"comes/{place.rank}", own)
    if place.rank > 0:
        name: str = store.get(f"answer/{own}").decode()  # waits for it
        store.set(f"here/{name}/{place.rank}", own)
        return name
    missing = set(range(1, place.size))
    while missing:
        for rank in sorted(missing):
            if store.check([f"comes/{rank}"]):  # perhaps of an earlier start: then it waits on
                store.set(f"answer/{store.get(f'comes/{rank}').decode()}", own)
            if store.check([f"here/{own}/{rank}"]):
                missing.remove(rank)
        time.sleep(_ASK_EVERY_S)
    return own


def _refuse_differing_devices(ranks: Ranks) -> None:
    """One without a GPU would wait for the others in another way, and for ever."""
    own = socket.gethostname(), "GPU" if torch.cuda.is_available() else "CPU"
    found = sorted({(host, device) for host, device in ranks.gather(list(own))})
    if len({device for _, device in found}) > 1:
        told = ", ".join(f"{host}: {device}" for host, device in found)
        raise TrainingError(
            tr("some processes of this training see a GPU, and others see none: {}", told)
        )


def _prove(place: Place, store: dist.Store) -> None:
    """Each tells each other something that only a process that can read the store knows.

    Any user of the machine can connect to a port of loopback, and be first.
    """
    others = [rank for rank in range(place.size) if rank != place.rank]
    try:
        if place.rank == 0:
            store.set("secret", secrets.token_hex(32))
        secret = store.get("secret")
        answers = {rank: torch.zeros(32, dtype=torch.uint8) for rank in others}
        works = [dist.irecv(answers[rank], src=rank) for rank in others]
        proofs = [_proof(secret, place.rank, rank) for rank in others]
        works += [dist.isend(p, dst=rank) for p, rank in zip(proofs, others, strict=True)]
        for work in works:
            assert work is not None
            work.wait(PROOF_TIMEOUT)
        right = all(answers[rank].equal(_proof(secret, rank, place.rank)) for rank in others)
    except RuntimeError as error:
        raise LostProcess(_STRANGER) from error
    if not right:
        raise TrainingError(_STRANGER)


_STRANGER = tr(
    "the processes of this training could not connect to each other alone: one has ended, or "
    "another program of this machine has connected to them. Nothing is lost, the same command "
    "goes on; if it happens again, look who else is using this machine"
)


def _proof(secret: bytes, src: int, dst: int) -> Tensor:
    digest = hmac.digest(secret, f"{src} to {dst}".encode(), hashlib.sha256)
    return _tensor_of(digest)


def _tensor_of(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


@contextmanager
def _connected() -> Iterator[None]:
    """Turn a lost connection into an error that says so."""
    try:
        with record_function("communication"):
            yield
    except RuntimeError as error:  # all of torch.distributed's are, those of gloo included
        reason = str(error).strip().split("\n")[0]
        text = tr(
            "another process of this training has ended, or cannot be reached; what it said "
            "is the cause. The newest checkpoint is kept: the same command, without --fresh, goes "
            "on ({})",
            reason,
        )
        raise LostProcess(text) from error
