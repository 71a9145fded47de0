"""Processes that share the work of one, as copies of it.

Comes in: a function, and arguments for many calls. Goes out: its results. The copies are made by
`fork`, so they start in milliseconds and share the memory of whatever the function needs, such as a
model. This file knows nothing of what they do.
"""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

import torch

from transformer_mt.errors import TmtError

T = TypeVar("T")


def may_fork() -> bool:
    """Whether a copy of this process can be made safely: it would keep locks of other threads."""
    return sys.platform == "linux" and threading.active_count() == 1


class Workers(Generic[T]):
    """Copies of this process, with one thread each, that wait for work until they are closed."""

    def __init__(self, work: Callable[..., T], n: int) -> None:
        """Args: work: sees everything as it is now, and no later change."""
        context = get_context("fork")
        pairs = [context.Pipe() for _ in range(n)]
        self._connections = [ours for ours, _ in pairs]
        # A copy that kept an end of another's connection would keep it from seeing the end.
        self._processes = [
            context.Process(
                target=_serve,
                args=(theirs, [end for pair in pairs for end in pair if end is not theirs], work),
                daemon=True,
            )
            for _, theirs in pairs
        ]
        for process in self._processes:
            process.start()
        for _, theirs in pairs:
            theirs.close()

    def __len__(self) -> int:
        return len(self._connections)

    def map(self, calls: Sequence[tuple[Any, ...]]) -> list[T]:
        """The results of `work` for each tuple of arguments, in their order.

        Raises:
            TmtError: a copy was ended from outside.
            Exception: what `work` raised. After any exception the workers are closed.
        """
        try:
            return [result for _, result in sorted(self._results(calls), key=lambda pair: pair[0])]
        except (EOFError, ConnectionError) as error:
            self.close()
            raise TmtError(
                "a process that was translating has been ended by something else: for lack of "
                "memory, as a rule"
            ) from error
        except BaseException:
            self.close()
            raise

    def _results(self, calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, T]]:
        """Indices with results, as they come; a copy that is ready gets the next call."""
        waiting = iter(enumerate(calls))
        doing: dict[Connection, int] = {}

        def give(connection: Connection) -> None:
            for index, arguments in waiting:
                doing[connection] = index
                connection.send(arguments)
                return

        for connection in self._connections:
            give(connection)
        while doing:
            for ready in wait(list(doing)):
                assert isinstance(ready, Connection)  # and not a socket, as `wait` allows
                error, result = ready.recv()
                if error is not None:
                    raise error
                yield doing.pop(ready), result
                give(ready)

    def close(self) -> None:
        """End the copies, whatever they are doing."""
        for connection, process in zip(self._connections, self._processes, strict=True):
            process.terminate()
            process.join()
            connection.close()
        self._connections, self._processes = [], []


def _serve(connection: Connection, others: list[Connection], work: Callable[..., Any]) -> None:
    """What a copy does until the connection ends."""
    for other in others:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    while True:
        try:
            arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send((None, work(*arguments)))
        except Exception as error:
            connection.send((error, None))
