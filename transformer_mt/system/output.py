"""Where results go: a file, a folder, several files in a folder. Nothing else is ever touched.

Comes in: a path that a user or a configuration names. Goes out: a temporary path to write to, whose
content then takes the place of the path in one step. This file does not know what is written.

- A file: a folder is refused; an existing file keeps its permissions; links are written through,
  and so are pipes and character devices.
- A folder: replaced only where it is empty or carries the manifest that tmt writes; entries that
  the manifest does not list stay.
- Several files in a folder: each replaces only a file that tmt has put there before.
"""

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from transformer_mt.errors import TmtError
from transformer_mt.system.failures import explained
from transformer_mt.system.staging import (
    exchange_folders,
    is_staged,
    remove_left_over,
    staging,
    sync_folder,
)
from transformer_mt.system.state import (
    Damaged,
    files_below,
    is_fingerprint,
    read_json,
    read_manifest,
    sha256,
)

_RECORD = ".tmt.json"  # in a folder that holds single files of tmt: their digests


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield a temporary path; on success its content becomes that of the file `path`.

    Raises:
        TmtError: `path` is a folder, read-only or cannot be written; the disk is full. What stood
            there stands there still.
    """
    with explained(path):
        status = check_file_target(path)
        if status is not None and not stat.S_ISREG(status.st_mode):
            with _writing_stream(path) as temporary:
                yield temporary
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        if is_staged(target):  # what it is a part of takes its name as a whole
            yield target
            return
        with staging(target.parent) as folder:
            temporary = folder / target.name
            yield temporary
            _finish_files(folder)
            _put_file(temporary, target, status)


@contextmanager
def writing_folder(path: Path, manifest: str | None, *, ours: bool = False) -> Iterator[Path]:
    """Yield a temporary folder; on success it takes the place of the folder `path`.

    Args:
        manifest: name of the manifest that the body writes, and that an existing folder must have;
            None: there is none, and `path` must be new or empty.
        ours: `path` is a place of tmt's own: a folder there without an intact manifest is set aside
            as `NAME.damaged`, and not refused.
    Raises:
        TmtError: `path` is no folder, or one that tmt did not write; see `writing`, too.
    """
    with explained(path):
        target = Path(os.path.realpath(path))
        refuse_foreign(path, manifest, ours=ours)
        target.parent.mkdir(parents=True, exist_ok=True)
        if is_staged(target):
            target.mkdir(exist_ok=True)
            yield target
            return
        with staging(target.parent) as folder:
            new = folder / target.name
            new.mkdir()
            yield new
            _finish_files(folder)
            known = _listed(target, manifest) if manifest else set()
            if known is None:
                _set_aside(target)
                os.rename(new, target)
            elif target.is_dir() and any(target.iterdir()):
                keep = [name for name in files_below(target) if name not in known]
                _refuse_clash(path, [name for name in keep if os.path.lexists(new / name)])
                exchange_folders(new, target, keep)
            else:
                os.rename(new, target)
            sync_folder(target.parent)


@contextmanager
def writing_files(directory: Path) -> Iterator[Path]:
    """Yield a temporary folder; on success its files move into `directory`, one by one.

    Raises:
        TmtError: a file of such a name is there, and is neither the same nor written by tmt; then
            nothing has been moved.
    """
    with explained(directory):
        check_folder_target(directory)
        target = Path(os.path.realpath(directory))
        target.mkdir(parents=True, exist_ok=True)
        with staging(target) as folder:
            yield folder
            _finish_files(folder)
            names = list(files_below(folder))
            digests = {name: sha256(folder / name) for name in names}
            record = _read_record(target)
            foreign = [
                name for name in names
                if os.path.lexists(target / name)
                and _digest(target / name) not in (digests[name], *record.get(name, ()))
            ]  # fmt: skip
            _refuse_clash(directory, foreign)
            before = {name: [*record.get(name, ())][-1:] for name in names}
            _write_record(target, record | {n: [*before[n], digests[n]] for n in names})
            for name in names:
                place = target / name
                _put_file(folder / name, Path(os.path.realpath(place)), _status(place))
            _write_record(target, record | {name: [digests[name]] for name in names})


def check_file_target(path: Path) -> os.stat_result | None:
    """What stands at a path that is to be written as a file; None: nothing yet.

    Raises:
        TmtError: it cannot be replaced by a file; better said before the work than after it.
    """
    with explained(path):
        status = _status(path)
    if status is None:
        return None
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        raise TmtError(f"{path}: is a folder; name a file")
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        raise TmtError(f"{path}: is neither a file nor a pipe; name a file")
    if stat.S_ISREG(mode) and not mode & 0o222:
        raise TmtError(f"{path}: is read-only; name another file")
    return status


def check_folder_target(path: Path) -> None:
    """Raise a TmtError where files cannot be put into a folder of that name."""
    with explained(path):
        status = _status(path)
    if status is not None and not stat.S_ISDIR(status.st_mode):
        raise TmtError(f"{path}: is not a folder; name another")


def write_text(path: Path, text: str) -> None:
    """Write a whole UTF-8 file, at once."""
    with writing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, at once."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def refuse_foreign(path: Path, manifest: str | None, *, ours: bool = False) -> None:
    """Raise a TmtError unless a folder may be written at `path`; see `writing_folder`."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise TmtError(
            f"{path}: is not a UTF-8 name, which the libraries that write into the folder need; "
            "name another folder"
        ) from error
    remove_left_over(Path(os.path.realpath(path)).parent)
    with explained(path):
        status = _status(path)
    if status is None:
        return
    if not stat.S_ISDIR(status.st_mode):
        raise TmtError(f"{path}: exists and is not a folder; name another")
    known = manifest is not None and (path / manifest).is_file()
    if not ours and not known and any(path.iterdir()):
        raise TmtError(
            f"{path}: exists and was not written by tmt; name a folder that is new or empty"
        )


def remove_made(path: Path, manifest: str) -> None:
    """Remove a folder that tmt made; entries of it that the manifest does not list stay.

    Where the manifest is damaged, nothing is known of the entries: the folder is set aside.
    """
    path = Path(os.path.realpath(path))
    if not path.is_dir():
        return
    with explained(path):
        known = _listed(path, manifest)
        if known is None:
            _set_aside(path)
            return
        keep = [name for name in files_below(path) if name not in known]
        with staging(path.parent) as folder:
            gone = folder / path.name
            if keep:
                gone.mkdir()
                exchange_folders(gone, path, keep)
            else:
                os.rename(path, gone)


def remove(path: Path) -> None:
    """Delete a file or a folder of tmt's own, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()


def remove_other_prints(directory: Path, wanted: Collection[str]) -> None:
    """Remove the folders that are called by a fingerprint, but by none of the wanted ones."""
    for folder in directory.iterdir() if directory.is_dir() else ():
        if is_fingerprint(folder.name) and folder.name not in wanted:
            remove(folder)


def _listed(folder: Path, manifest: str) -> set[str] | None:
    """The files of a folder that are tmt's; None: the manifest is damaged."""
    try:
        found = read_manifest(folder, manifest)
    except Damaged:
        return None
    if found is None:
        return set()
    # A manifest without a list is of a tmt that wrote nothing else into such a folder.
    return {*(found["files"] if "files" in found else files_below(folder)), manifest}


def _refuse_clash(path: Path, names: list[str]) -> None:
    if names:
        raise TmtError(
            f"{path}: {', '.join(names)} would be overwritten, but tmt did not write what stands "
            "there; name another folder"
        )


def _set_aside(folder: Path) -> None:
    """Rename a folder of which nothing is known, so that nothing in it is lost."""
    number, aside = 1, folder.with_name(f"{folder.name}.damaged")
    while os.path.lexists(aside):
        number += 1
        aside = folder.with_name(f"{folder.name}.damaged{number}")
    os.rename(folder, aside)


def _status(path: Path) -> os.stat_result | None:
    """Of what a path leads to; None: there is nothing yet."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None
    except ValueError as error:  # a NUL
        raise TmtError(f"{path}: not a name of a file: {error}") from error


def _put_file(temporary: Path, target: Path, status: os.stat_result | None) -> None:
    """Rename a finished file to its target, with the permissions that the target has."""
    if status is not None:
        temporary.chmod(stat.S_IMODE(status.st_mode))
        with suppress(OSError, AttributeError):  # only the administrator may give files away
            os.chown(temporary, status.st_uid, status.st_gid)
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(temporary, target)
    sync_folder(target.parent)


def _finish_files(folder: Path) -> None:
    """Give new files the usual permissions, and force their bytes to the disk before any rename."""
    mode = stat.S_IMODE(folder.stat().st_mode)  # 777 without the umask
    for name in files_below(folder):
        with (folder / name).open("rb") as file:
            os.fchmod(file.fileno(), mode & 0o666)
            os.fsync(file.fileno())


@contextmanager
def _writing_stream(path: Path) -> Iterator[Path]:
    """Collect what goes to a pipe or a device, and write it there at the end."""
    with tempfile.TemporaryDirectory(prefix="tmt-") as folder:
        temporary = Path(folder) / "content"
        yield temporary
        with temporary.open("rb") as content, path.open("wb") as stream:
            shutil.copyfileobj(content, stream)


def _digest(path: Path) -> str | None:
    """SHA-256 of a regular file; None: it is something else."""
    return sha256(path) if path.is_file() else None


def _read_record(directory: Path) -> dict[str, list[str]]:
    """Digests, by name, of the files that tmt has put into a folder; damaged: of none."""
    try:
        record = read_json(directory / _RECORD) or {}
    except Damaged:
        return {}
    return {name: digests for name, digests in record.items() if isinstance(digests, list)}


def _write_record(directory: Path, record: dict[str, list[str]]) -> None:
    write_json(directory / _RECORD, record)
