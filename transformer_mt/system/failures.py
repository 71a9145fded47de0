"""Failed system calls while something is written → an error for people.

Comes in: the path that is written, and an exception. Goes out: a `TmtError` that says which path is
the trouble, and what to do. This file does not know what is written.
"""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformer_mt.errors import TmtError


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn a failed system call into an error for people."""
    try:
        yield
    except BrokenPipeError:
        raise
    except Exception as error:
        number = _error_number(error)
        if number is None:
            raise
        raise TmtError(_describe_failure(path, error, number)) from error


def _error_number(error: Exception) -> int | None:
    """The errno of a failed system call, 0 if unknown; None: the error is none of the system."""
    if isinstance(error, OSError):
        return error.errno or 0
    # safetensors raises errors of its own, with the number in the text alone.
    found = None if isinstance(error, TmtError) else re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None


def _describe_failure(path: Path, error: Exception, number: int) -> str:
    if number in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(_nearest_existing(path)).free / 2**20
        return (
            f"{path}: the disk is full ({free:.0f} MiB free); nothing was overwritten. "
            "Make room and run the same command again"
        )
    reason = os.strerror(number) if number else str(error)
    other = getattr(error, "filename", None)
    if isinstance(other, str) and other != str(path) and "/.tmt-" not in other:
        reason = f"{other}: {reason}"  # the trouble is with something that was to be read
    return f"{path}: cannot be written: {reason}"


def _nearest_existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
