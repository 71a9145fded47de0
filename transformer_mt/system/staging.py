"""A folder beside a target, in which new content is made before it takes the target's name.

Comes in: the folder of the target. Goes out: `.tmt-<16 hex digits>.tmp` in it, locked for as long
as the process lives, so that the folders of killed processes can be told from those in use. This
file knows neither what is written nor what may be replaced.

Within it, `new/` receives the content. A folder that replaces another one goes through `swap/`: the
two exchange their places in one step, where the system can do that, or else through `previous/`.
Entries of the old folder that are not tmt's, named in `keep.json`, move over to the new one.
"""

import ctypes
import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from transformer_mt.system.locks import try_lock, wait_for_lock

_NAME = re.compile(r"\.tmt-[0-9a-f]{16}\.tmp")
_KEEP = "keep.json"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of renameat2(2)
_CLEARED: set[Path] = set()  # by this process: a folder with many shards is looked through once
_OPEN_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """The folder `new` of a fresh staging folder below `parent`, which goes at the end."""
    folder, descriptor = _make(parent)
    try:
        new = folder / "new"
        new.mkdir()
        yield new
    finally:
        _clear(folder)
        os.close(descriptor)


def is_staging_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name))


def is_staged(path: Path) -> bool:
    """Whether a path lies in a staging folder."""
    return any(map(is_staging_name, path.parts))


def remove_left_over(parent: Path) -> None:
    """Remove the staging folders directly below `parent` that killed processes have left."""
    for folder in _staging_folders(parent):
        try:
            descriptor = os.open(folder, _OPEN_FOLDER)
        except OSError:  # another process has just removed it, or it is someone else's
            continue
        try:
            if try_lock(descriptor):
                _clear(folder)
        finally:
            os.close(descriptor)


def remove_all_left_over(directory: Path) -> None:
    """`remove_left_over` for a folder and all folders below it."""
    for parent in {path.parent for path in directory.rglob(".tmt-*.tmp")}:
        remove_left_over(parent)


def exchange_folders(new: Path, target: Path, keep: Sequence[str]) -> None:
    """Put the folder `new`, inside a staging folder, in the place of the folder `target`.

    At each moment `target` is the old folder or the new one, whole; where the system cannot
    exchange two folders it is absent in between, and `remove_left_over` brings the old one back.

    Args:
        keep: entries of the old folder, as relative paths, that the new one takes over.
    """
    folder = new.parents[1]
    swap = folder / "swap" / target.name
    swap.parent.mkdir()
    (folder / _KEEP).write_text(json.dumps([str(target), *keep]), encoding="utf-8")
    os.rename(new, swap)
    if not _exchange(swap, target):
        previous = folder / "previous" / target.name
        previous.parent.mkdir()
        os.rename(target, previous)
        os.rename(swap, target)
        os.rename(previous, swap)
    _keep_entries(folder)


def sync_folder(path: Path) -> None:
    """Force the names in a folder to the disk, where the file system can do that."""
    with suppress(OSError):
        descriptor = os.open(path, _OPEN_FOLDER)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _make(parent: Path) -> tuple[Path, int]:
    if parent not in _CLEARED:
        remove_left_over(parent)
        _CLEARED.add(parent)
    while True:
        folder = parent / f".tmt-{secrets.token_hex(8)}.tmp"
        folder.mkdir()
        try:
            descriptor = os.open(folder, _OPEN_FOLDER)
        except FileNotFoundError:  # removed as left over, between the two steps
            continue
        with suppress(OSError):  # a file system without locks: nobody clears it, either
            wait_for_lock(descriptor)
        if folder.exists():
            return folder, descriptor
        os.close(descriptor)


def _staging_folders(parent: Path) -> list[Path]:
    try:
        names = os.listdir(parent)
    except OSError:
        return []
    return [parent / name for name in names if _NAME.fullmatch(name)]


def _clear(folder: Path) -> None:
    """Finish or undo an exchange that was interrupted, then remove the folder."""
    _keep_entries(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _keep_entries(folder: Path) -> None:
    try:
        target_name, *keep = json.loads((folder / _KEEP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    target = folder.parent / Path(target_name).name
    previous = folder / "previous" / target.name
    if previous.exists() and not target.exists():
        os.rename(previous, target)
        return
    old = next((path for path in (previous, folder / "swap" / target.name) if path.exists()), None)
    for name in keep if old is not None else ():
        source, place = old / name, target / name
        if os.path.lexists(source) and not os.path.lexists(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            os.rename(source, place)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths in one step; False where the system cannot."""
    call = _renameat2()
    if call is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    if call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(other))


@lru_cache(maxsize=1)
def _renameat2() -> Any:
    """The function of the C library, if it has one."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return None
    call.argtypes = [
        ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint,
    ]  # fmt: skip
    return call
