"""Copies of this process, which share its work.

They are made by `fork`, so they start in milliseconds and share the memory of whatever the work
needs, such as a model.
"""

import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

import torch

from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr

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
        """Results in the order of the calls; after an exception all copies are closed."""
        results: dict[int, T] = {}
        waiting = iter(enumerate(calls))
        doing: dict[Connection, int] = {}
        ready = list(self._connections)
        try:
            while ready:
                for connection, (index, arguments) in zip(ready, waiting, strict=False):
                    connection.send(arguments)
                    doing[connection] = index
                readable = wait(list(doing)) if doing else []
                ready = [one for one in readable if isinstance(one, Connection)]
                for connection in ready:
                    error, result = connection.recv()
                    if error is not None:
                        raise error
                    results[doing.pop(connection)] = result
        except (EOFError, ConnectionError) as error:
            self.close()
            text = tr(
                "a process that was translating has been ended by something else: for lack of "
                "memory, as a rule"
            )
            raise TmtError(text) from error
        except BaseException:
            self.close()
            raise
        return [results[index] for index in range(len(calls))]

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
    with suppress(EOFError, ConnectionError):  # the first process has gone: nobody reads an error
        while True:
            arguments = connection.recv()
            try:
                connection.send((None, work(*arguments)))
            except Exception as error:
                connection.send((error, None))
