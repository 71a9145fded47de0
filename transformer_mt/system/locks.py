"""Locks that go with the process that holds them, however it ends.

Comes in: the path of a lock file, or an open folder. This file does not know what is protected.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from transformer_mt.errors import TmtError

try:
    import fcntl
except ModuleNotFoundError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def locked(path: Path, busy: Callable[[], None], *, remedy: str = "") -> Iterator[None]:
    """Hold the lock file `path`. Its content is neither read nor written.

    Args:
        busy: called when another process holds it. If it returns, this one waits.
        remedy: what a user can do where the place cannot be written.
    Raises:
        TmtError: the place cannot be written, or `path` is a link.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, _FLAGS, 0o666)
    except OSError as error:
        where = path if path.is_symlink() else path.parent
        raise TmtError(f"{where}: cannot be written: {error.strerror}{remedy}") from error
    try:
        if not try_lock(descriptor):
            busy()
            wait_for_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file or folder; False: another process has it, or none can be."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def wait_for_lock(descriptor: int) -> None:
    """Take the lock of an open file or folder once it is free."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
