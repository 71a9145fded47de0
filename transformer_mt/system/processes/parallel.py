"""Many files, each made from its own part of the data, by several processes; resumable.

A file is written as a whole or not at all; one that is there already is not made again, so that
work that was killed goes on, and two workers that make the same file do no harm. This file does not
know where the processes are: see `executors.py`.
"""

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.machine import available_memory_bytes, release_freed_memory
from transformer_mt.system.output import remove, write_text, writing
from transformer_mt.system.processes.executors import Workers, opened_executor
from transformer_mt.system.state import sha256

Args = TypeVar("Args")
Result = TypeVar("Result")
Make = Callable[[Args, Path], None]
Job = tuple[Path, Args]

_ROOM = 3 << 30  # bytes of memory for each process that works apart, and for others beside it


def run_shards(jobs: Iterable[Job[Args]], make: Make[Args], *, workers: Workers) -> Iterator[Path]:
    """Make the file of every job, and yield the paths in the order of the jobs.

    At most two unfinished jobs per worker are read ahead: memory does not grow with their number,
    and a long job lets no worker wait. What is finished stays, whatever is raised. On this machine,
    a single job is done in this process, and so is everything with one worker.

    Args:
        jobs: (path to write, what `make` needs for it: numbers, and paths that workers can read).
        make: called with the second part of a job and a temporary path to write to. With several
            workers it must be a function at the top of a module.
    """
    iterator = iter(jobs)
    head = list(islice(iterator, 2))
    everything = chain(head, iterator)
    if workers == 1 or (isinstance(workers, int) and len(head) < 2):
        for path, args in everything:
            yield _make_unless_whole(make, args, path)
        return
    killed = tr(
        "a process was killed, most likely for want of memory; run the same command again with "
        "fewer processes: --set data.workers=1. What is done stays done"
    )
    with opened_executor(workers, killed) as (executor, count):
        tasks: deque[Future[Path]] = deque()  # whose paths are still to be yielded
        unfinished: set[Future[Path]] = set()
        for path, args in everything:
            tasks.append(executor.submit(_make_unless_whole, make, args, path.absolute()))
            unfinished.add(tasks[-1])
            while len(unfinished) > 2 * count():
                unfinished = wait(unfinished, return_when=FIRST_COMPLETED).not_done
            while tasks and tasks[0].done():
                yield _on_this_disk(tasks.popleft().result())
        while tasks:
            yield _on_this_disk(tasks.popleft().result())


def run_apart(
    function: Callable[[Args], Result], args: Sequence[Args], *, workers: Workers = 1
) -> list[Result]:
    """The values of a function of a module, computed in processes whose memory goes with them.

    Args:
        workers: on this machine so many processes at most, and no more than have room in the
            memory; those of a cluster stay, and give back what they took.
    """
    if isinstance(workers, int):
        workers = max(1, min(workers, len(args), available_memory_bytes() // _ROOM))
    killed = tr("a process was killed, most likely for want of memory; what is done stays done")
    with opened_executor(workers, killed) as (executor, _):
        return list(executor.map(partial(_and_release, function), args))


def _and_release(function: Callable[[Args], Result], args: Args) -> Result:
    try:
        with _garbage_kept():
            return function(args)
    finally:
        release_freed_memory()


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Python does not look for cycles, of which a task makes few, among its many small objects.

    With Python's own thresholds, as in a worker of Dask, that takes a fifth of an encoding's time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def remove_shard(path: Path) -> None:
    """Remove a file that `run_shards` has made."""
    remove(path)
    remove(_digest_path(path))


def digest_of_shard(path: Path) -> str:
    """The digest of a file that `run_shards` has made, as it was when it was made."""
    return _digest_path(path).read_text(encoding="utf-8")


def _digest_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _on_this_disk(path: Path) -> Path:
    if not path.is_file():
        text = tr(
            "{}: a worker made it, but it is not here: all machines must share the disk", path
        )
        raise DataError(text)
    return path


def _make_unless_whole(make: Make[Args], args: Args, path: Path) -> Path:
    """Make a file, unless it is there as it was made: bits that have changed make it absent."""
    digest_path = _digest_path(path)
    try:
        if path.is_file() and digest_of_shard(path) == sha256(path):
            return path
    except (OSError, UnicodeError):
        pass
    with writing(path) as temporary, _garbage_kept():
        make(args, temporary)
        digest = sha256(temporary)
    write_text(digest_path, digest)
    return path
