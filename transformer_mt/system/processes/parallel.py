"""Many files, each made from its own part of the data, by several processes; resumable.

A file is written as a whole or not at all; one that is there already is not made again, so that
work that was killed goes on.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, TypeVar

from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.machine import usable_cores
from transformer_mt.system.output import write_text, writing
from transformer_mt.system.processes.child_python import protected_children
from transformer_mt.system.state import sha256

Args = TypeVar("Args")
Result = TypeVar("Result")
Make = Callable[[Args, Path], None]
Job = tuple[Path, Args]


def count_workers(configured: int | str) -> int:
    """How many processes `data.workers` means here."""
    return configured if isinstance(configured, int) else usable_cores()


def run_shards(jobs: Iterable[Job[Args]], make: Make[Args], *, workers: int) -> Iterator[Path]:
    """Make the file of every job, and yield the paths in the order of the jobs.

    At most two jobs per worker are read ahead, so memory does not grow with their number. A single
    job, or a single worker, is done in this process. What is finished stays, whatever is raised.

    Args:
        jobs: (path to write, what `make` needs for it).
        make: called with the second part of a job and a temporary path to write to. With several
            workers it must be a function at the top of a module.
    """
    iterator = iter(jobs)
    head = list(islice(iterator, 2))
    everything = chain(head, iterator)
    if workers == 1 or len(head) < 2:
        for path, args in everything:
            yield _make_unless_whole(make, args, path)
        return
    killed = tr(
        "a process was killed, most likely for want of memory; run the same command again with "
        "fewer processes: --set data.workers=1. What is done stays done"
    )
    with _pool(workers, killed) as pool:
        under_way: deque[Future[Path]] = deque()
        for path, args in everything:
            under_way.append(pool.submit(_make_unless_whole, make, args, path))
            del args  # up to a hundred thousand pairs, which the pool holds now
            if len(under_way) > 2 * workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def run_apart(function: Callable[[Args], Result], args: Args) -> Result:
    """The value of a function of a module, computed in a process whose memory goes with it."""
    killed = tr("a process was killed, most likely for want of memory; what is done stays done")
    with _pool(1, killed) as pool:
        return pool.submit(function, args).result()


@contextmanager
def _pool(workers: int, killed: str) -> Iterator[ProcessPoolExecutor]:
    context = spawn_context()  # a fork would copy locks that threads hold
    with ProcessPoolExecutor(workers, mp_context=context, initializer=start_worker) as pool:
        try:
            yield pool
        except BrokenProcessPool as error:
            raise DataError(killed) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def spawn_context() -> SpawnContext:
    """Starts processes anew, as "spawn" does, that import nothing from the current folder."""
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


def start_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _make_unless_whole(make: Make[Args], args: Args, path: Path) -> Path:
    """Make a file, unless it is there as it was made: bits that have changed make it absent."""
    digest_path = path.with_name(f"{path.name}.sha256")
    try:
        if path.is_file() and digest_path.read_text(encoding="utf-8") == sha256(path):
            return path
    except (OSError, UnicodeError):
        pass
    with writing(path) as temporary:
        make(args, temporary)
        digest = sha256(temporary)
    write_text(digest_path, digest)
    return path
