"""A folder beside a target, in which new content is made before it takes the target's name.

It is called `.tmt-<16 hex digits>.tmp`, and locked for as long as its process lives: so the folders
of killed processes can be told from those in use. Within it `new/` receives the content. Where the
system cannot exchange two folders in one step, the old one waits in `previous/` for a moment.
"""

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from transformer_mt.system.locks import try_lock

_NAME = re.compile(r"\.tmt-[0-9a-f]{16}\.tmp")
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of renameat2(2)
_CLEARED: set[Path] = set()  # by this process: a folder with many shards is looked through once
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """The folder `new` of a fresh staging folder below `parent`, which goes at the end."""
    if parent not in _CLEARED:
        remove_left_over(parent)
        _CLEARED.add(parent)
    folder, descriptor = _make(parent)
    try:
        new = folder / "new"
        new.mkdir()
        yield new
    finally:
        _clear(folder)
        os.close(descriptor)


def _make(parent: Path) -> tuple[Path, int]:
    while True:
        folder = parent / f".tmt-{secrets.token_hex(8)}.tmp"
        folder.mkdir()
        try:
            descriptor = os.open(folder, _OPEN_FOLDER)
        except FileNotFoundError:  # removed as left over, between the two steps
            continue
        with suppress(OSError):  # a file system without locks: nobody clears it, either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if folder.exists():
            return folder, descriptor
        os.close(descriptor)


def is_staged(path: Path) -> bool:
    """Whether a path lies in a staging folder, or is one."""
    return any(map(_NAME.fullmatch, path.parts))


def target_of(path: Path) -> Path:
    """The place that a path in a staging folder is made for; any other path as it is."""
    parts = list(path.parts)
    while staged := [n for n, part in enumerate(parts) if _NAME.fullmatch(part)]:
        del parts[staged[0] : staged[0] + 2]
    return Path(*parts)


def remove_left_over(parent: Path) -> None:
    """Remove the staging folders directly below `parent` that killed processes have left."""
    for folder in parent.glob(".tmt-*.tmp"):
        if not _NAME.fullmatch(folder.name):
            continue
        try:
            descriptor = os.open(folder, _OPEN_FOLDER)
        except OSError:  # another process has just removed it, or it is someone else's
            continue
        if try_lock(descriptor):
            _clear(folder)
        os.close(descriptor)


def remove_all_left_over(directory: Path) -> None:
    """`remove_left_over` for a folder and all folders below it."""
    for parent in {path.parent for path in directory.rglob(".tmt-*.tmp")}:
        remove_left_over(parent)


def _clear(folder: Path) -> None:
    """Undo an exchange that was interrupted, then remove the folder."""
    for previous in folder.glob("previous/*"):
        if not os.path.lexists(target := folder.parent / previous.name):
            os.rename(previous, target)
    shutil.rmtree(folder, ignore_errors=True)


def exchange_folders(new: Path, target: Path, keep: Sequence[str]) -> None:
    """Put the folder `new`, inside a staging folder, in the place of the folder `target`.

    The files `keep` of the old folder are in the new one as well. At each moment `target` is the
    old folder or the new one, whole; where the system cannot exchange two folders it is absent in
    between, and `remove_left_over` brings the old one back.
    """
    for name in keep:
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(target / name, new / name, follow_symlinks=False)
        except OSError:  # a file system without hard links
            shutil.copy2(target / name, new / name, follow_symlinks=False)
    if not _exchange(new, target):
        previous = new.parents[1] / "previous" / target.name
        previous.parent.mkdir()
        os.rename(target, previous)
        os.rename(new, target)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths in one step; False where the system cannot."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    names = os.fsencode(one), os.fsencode(other)
    if call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def sync_folder(path: Path) -> None:
    """Force the names in a folder to the disk, where the file system can do that."""
    with suppress(OSError):
        descriptor = os.open(path, _OPEN_FOLDER)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
