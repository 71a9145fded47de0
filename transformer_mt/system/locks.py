"""Locks that go with the process that holds them, however it ends."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.failures import reason_of


@contextmanager
def locked(path: Path, busy: Callable[[], None], *, remedy: str = "") -> Iterator[None]:
    """Hold the lock file `path`. Its content is neither read nor written.

    `busy` is called when another process holds it; if it returns, this one waits. `remedy` ends the
    message that the place cannot be written, or is a link. On a file system without locks nobody
    holds one.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        where = path if path.is_symlink() else path.parent
        raise TmtError(
            tr("{}: cannot be written: {}{}", where, reason_of(error.errno), remedy)
        ) from error
    try:
        if not try_lock(descriptor, where_none=True):
            busy()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, *, where_none: bool = False) -> bool:
    """Take the lock of an open file or folder; False: another process has it.

    Args:
        where_none: the answer where the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return where_none
    return True
