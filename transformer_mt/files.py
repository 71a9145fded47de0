"""Writing so that nothing half-written is ever read: temporary name, flush, rename.

This file knows paths and bytes only.
"""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from transformer_mt.errors import TmtError


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it becomes `path`, on failure it goes.

    The body may create a file or a directory there. An existing directory at `path` is replaced.
    Raises:
        TmtError: the disk is full, or the place cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove(temporary)
        yield temporary
        _flush(temporary)
        if path.is_dir():
            # Between these two steps `path` is absent, which readers treat as not yet made.
            old = path.with_name(f".{path.name}.{os.getpid()}.old")
            remove(old)
            os.replace(path, old)
            os.replace(temporary, path)
            remove(old)
        else:
            os.replace(temporary, path)
    except Exception as error:
        remove(temporary)
        number = _error_number(error)
        if number is None:
            raise
        raise TmtError(_describe_failure(path, temporary, error, number)) from error
    except BaseException:
        remove(temporary)
        raise


def _error_number(error: Exception) -> int | None:
    """The errno of a failed system call, 0 if unknown; None: the error is none of the system."""
    if isinstance(error, OSError):
        return error.errno or 0
    # safetensors raises errors of its own, with the number in the text alone.
    found = None if isinstance(error, TmtError) else re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None


def _describe_failure(path: Path, temporary: Path, error: Exception, number: int) -> str:
    if number in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(_nearest_existing(path)).free / 2**20
        return (
            f"{path}: the disk is full ({free:.0f} MiB free); nothing was overwritten. "
            "Make room and run the same command again"
        )
    reason = os.strerror(number) if number else str(error)
    other = getattr(error, "filename", None)
    if isinstance(other, str) and not Path(other).is_relative_to(temporary):
        reason = f"{other}: {reason}"  # the trouble is with something that was to be read
    return f"{path}: cannot be written: {reason}"


@contextmanager
def locked(path: Path, busy: Callable[[], None], *, remedy: str = "") -> Iterator[None]:
    """Hold the lock file `path`; it goes with the process, however that ends.

    Args:
        busy: called when another process holds it. If it returns, this one waits.
        remedy: what a user can do where the place cannot be written.
    Raises:
        TmtError: the place cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise TmtError(f"{path.parent}: cannot be written: {error.strerror}{remedy}") from error
    with file:
        try:
            import fcntl
        except ModuleNotFoundError:  # no such locks on this system
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            busy()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_text(path: Path, text: str) -> None:
    """Write a whole UTF-8 file atomically."""
    with writing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def remove(path: Path) -> None:
    """Delete a file or a directory, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file's bytes."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fingerprint(*parts: Any) -> str:
    """Short digest of plain values; equal values give equal digests in every process."""
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _flush(path: Path) -> None:
    """Force the bytes to the disk, so that a rename never outlives the content."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    for file in files:
        with file.open("rb") as handle:
            os.fsync(handle.fileno())


def _nearest_existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
