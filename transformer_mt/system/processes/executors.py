"""Where tasks run: processes of this machine, a Dask cluster, or MPI.

Each is a `concurrent.futures.Executor`. A task is a function of a module and what it is called
with: paths and numbers, never text. This file does not know what a task does.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from transformer_mt import __version__
from transformer_mt.errors import ConfigError, DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.machine import keep_freed_memory, usable_cores
from transformer_mt.system.processes.child_python import protected_children

Workers = int | str  # processes of this machine; or `dask://HOST:PORT`, `dask+tls://…`, `mpi`

_WAIT_S = 60  # for the first worker of a cluster
_KEPT_BYTES = 128 << 20  # of freed memory, by a worker of a cluster


def count_workers(configured: int | str) -> Workers:
    """What `data.workers` means here."""
    return usable_cores() if configured == "auto" else configured


def refuse_mpi_of_several(workers: int | str) -> None:
    """Raises: ConfigError: several processes would train, and mpiexec has started none of them."""
    if workers == "mpi":
        raise ConfigError(
            tr(
                "mpi prepares data only in the process that mpiexec starts: give --processes 1, or "
                "first tmt data prepare with it, then tmt train without"
            )
        )


@contextmanager
def opened_executor(workers: Workers, killed: str) -> Iterator[tuple[Executor, Callable[[], int]]]:
    """An executor, and a function that counts its workers now; what waits is cancelled at the end.

    Args:
        killed: the error where a process of this machine is killed.
    Raises:
        DataError: a process was killed; the cluster cannot be reached, or is lost.
    """
    if isinstance(workers, int):
        opened = _processes(workers, killed)
    else:
        opened = _mpi() if workers == "mpi" else _dask(workers)
    with opened as (executor, count):
        yield executor, count


@contextmanager
def _processes(workers: int, killed: str) -> Iterator[tuple[Executor, Callable[[], int]]]:
    context = spawn_context()  # a fork would copy locks that threads hold
    others = multiprocessing.active_children()
    with ProcessPoolExecutor(workers, mp_context=context, initializer=start_worker) as pool:
        try:
            yield pool, lambda: workers
        except BrokenExecutor as error:
            raise DataError(killed) from error
        # Nobody wants the rest: a task may take minutes, and leaves nothing that is half done.
        except (KeyboardInterrupt, GeneratorExit):
            for process in set(multiprocessing.active_children()).difference(others):
                process.terminate()
            if sys.version_info < (3, 11, 5):
                # Later ones do it by themselves (gh-94777): what fills the queue would wait for a
                # reader that has gone, and this process for it.
                vars(pool)["_call_queue"]._reader.close()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _dask(address: str) -> Iterator[tuple[Executor, Callable[[], int]]]:
    """A Dask cluster: it starts a task again whose worker has died."""
    try:
        from distributed import KilledWorker
        from distributed.comm import CommClosedError
    except ImportError as error:
        raise DataError(_missing(address, "transformer-mt[cluster]")) from error
    client = _connected(address)
    executor = client.get_executor()
    try:
        yield executor, lambda: sum(client.nthreads().values())
    except (CommClosedError, KilledWorker, CancelledError, TimeoutError) as error:
        _connected.cache_clear()
        reason = str(error) or type(error).__name__
        raise DataError(
            tr(
                "{}: the cluster was lost: {}. What is done stays done: run the same command again",
                address,
                reason,
            )
        ) from error
    finally:
        executor.shutdown(wait=False)


@lru_cache(maxsize=1)
def _connected(address: str) -> Any:
    """A client of the scheduler, for all stages, once a worker has this version of tmt."""
    from distributed import Client

    try:
        place = address.replace("dask+tls://", "tls://").replace("dask://", "tcp://")
        client = Client(place, timeout=_WAIT_S, set_as_default=False)
        client.wait_for_workers(1, timeout=_WAIT_S)
    except OSError as error:  # a timeout is one
        raise DataError(tr("{}: no Dask scheduler with a worker: {}", address, error)) from error
    for worker, version in client.run(_version).items():
        if version != __version__:
            client.close()
            raise DataError(tr("{}: has tmt {}, but here is {}", worker, version, __version__))
    # Dask's workers give memory back after each operation, which makes those of numpy three times
    # as slow; this is for workers that take the place of dead ones, too.
    client.register_worker_callbacks(partial(keep_freed_memory, _KEPT_BYTES))
    return client


@contextmanager
def _mpi() -> Iterator[tuple[Executor, Callable[[], int]]]:
    """The processes that `mpiexec -n N python -m mpi4py.futures -m transformer_mt …` starts."""
    try:
        from mpi4py.futures import MPIPoolExecutor
    except ImportError as error:
        raise DataError(_missing("mpi", "mpi4py")) from error
    with MPIPoolExecutor() as pool:
        yield pool, lambda: pool.num_workers


def _missing(address: str, package: str) -> str:
    return tr("{}: cannot be used without a package: pip install '{}'", address, package)


def _version() -> str:
    return __version__


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
