"""Many files, each made from its own part of the data, by several processes; resumable.

Comes in: jobs, in order. Goes out: files, each written as a whole or not at all; those that are
there already are not made again, so that work that was killed goes on. This file does not know
what is in them.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, TypeVar

from transformer_mt.errors import DataError
from transformer_mt.system.machine import usable_cores
from transformer_mt.system.output import write_text, writing
from transformer_mt.system.processes.child_python import protected_children
from transformer_mt.system.state import sha256

Args = TypeVar("Args")
Result = TypeVar("Result")
Make = Callable[[Args, Path], None]
Job = tuple[Path, Args]


def run_shards(jobs: Iterable[Job[Args]], make: Make[Args], *, workers: int) -> Iterator[Path]:
    """Make the file of every job, and yield the paths in the order of the jobs.

    At most two jobs per worker are read ahead, so memory does not grow with their number. A single
    job, or a single worker, is done in this process.

    Args:
        jobs: (path to write, what `make` needs for it); a file that is there, with the digest that
            it was made with, is passed over.
        make: called with the second part of a job and a temporary path to write to. With several
            workers it runs in another process: a function at the top of a module, picklable
            arguments.
    Raises:
        DataError: a process died; everything that `make` raises. What is finished stays.
    """
    iterator = iter(jobs)
    head = list(islice(iterator, 2))
    everything = chain(head, iterator)
    if workers == 1 or len(head) < 2:
        for path, args in everything:
            if not _is_whole(path):
                _make_one(make, args, path)
            yield path
        return
    context = spawn_context()  # a fork would copy locks that threads hold
    with ProcessPoolExecutor(workers, mp_context=context, initializer=start_worker) as pool:
        try:
            yield from _in_order(pool, everything, make, ahead=2 * workers)
        except BrokenProcessPool as error:
            raise DataError(
                f"one of {workers} processes was killed, most likely for want of memory; run the "
                "same command again with fewer: --set data.workers=1. What is done stays done"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def run_apart(function: Callable[[Args], Result], args: Args) -> Result:
    """The value of a function of a module, computed in a process whose memory goes with it.

    Raises:
        DataError: the process died; everything that `function` raises.
    """
    with ProcessPoolExecutor(1, mp_context=spawn_context(), initializer=start_worker) as pool:
        try:
            return pool.submit(function, args).result()
        except BrokenProcessPool as error:
            raise DataError(
                "a process was killed, most likely for want of memory; what is done stays done"
            ) from error


def spawn_context() -> SpawnContext:
    """Starts processes anew, as "spawn" does, that import nothing from the current folder.

    What it sends them is pickled, through pipes that only this process and its children have.
    """
    with protected_children():
        resource_tracker.ensure_running()  # which locks of queues would start
    return _ProtectedContext()


class _ProtectedProcess(SpawnProcess):
    @staticmethod
    def _Popen(process: Any) -> Any:
        with protected_children():
            return SpawnProcess._Popen(process)


class _ProtectedContext(SpawnContext):
    Process = _ProtectedProcess


def count_workers(configured: int | str) -> int:
    """How many processes `data.workers` means here."""
    return configured if isinstance(configured, int) else usable_cores()


def _in_order(
    pool: ProcessPoolExecutor, jobs: Iterable[Job[Args]], make: Make[Args], *, ahead: int
) -> Iterator[Path]:
    under_way: deque[tuple[Path, Future[None] | None]] = deque()
    for path, args in jobs:
        future = None if _is_whole(path) else pool.submit(_make_one, make, args, path)
        del args  # up to a hundred thousand pairs, which the pool holds now
        under_way.append((path, future))
        if len(under_way) > ahead:
            yield _finished(*under_way.popleft())
    while under_way:
        yield _finished(*under_way.popleft())


def _finished(path: Path, future: "Future[None] | None") -> Path:
    if future is not None:
        future.result()
    return path


def _make_one(make: Make[Args], args: Args, path: Path) -> None:
    with writing(path) as temporary:
        make(args, temporary)
        digest = sha256(temporary)
    write_text(_digest_path(path), digest)


def _is_whole(path: Path) -> bool:
    """Whether a file is there, as it was made: bits that have changed make it absent."""
    digest = _digest_path(path)
    try:
        return path.is_file() and digest.read_text(encoding="utf-8") == sha256(path)
    except (OSError, UnicodeError):
        return False


def _digest_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def start_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
