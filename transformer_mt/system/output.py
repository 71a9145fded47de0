"""Where results go: a file, a folder, several files in a folder. Nothing else is ever touched.

Comes in: a path that a user or a configuration names. Goes out: a temporary path to write to, whose
content then takes the place of the path in one step.

- A file: a folder is refused; an existing file keeps its permissions; links are written through,
  and so are pipes and character devices.
- A folder: replaced only where it is empty or carries the manifest that tmt writes; entries that
  the manifest does not list stay.
- Several files in a folder: each replaces only a file that tmt has put there before.
"""

import errno
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import Any

from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.failures import reason_of
from transformer_mt.system.staging import (
    exchange_folders,
    is_staged,
    remove_left_over,
    staging,
    sync_folder,
    target_of,
)
from transformer_mt.system.state import Damaged, files_below, read_json, read_manifest, sha256

_RECORD = ".tmt.json"  # in a folder that holds single files of tmt: their digests


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield a temporary path; on success its content becomes that of the file `path`.

    On failure, also of a full disk, a TmtError says why, and what stood there stands there still.
    """
    with explained(path):
        status = check_file_target(path)
        target = Path(os.path.realpath(path))
        descriptor = descriptor_of(path)
        if status is not None and (descriptor is not None or not stat.S_ISREG(status.st_mode)):
            with tempfile.TemporaryDirectory(prefix="tmt-") as private:
                yield (content := Path(private) / "content")
                sys.stdout.flush()
                file = path if descriptor is None else os.dup(descriptor)
                with content.open("rb") as source, open(file, "wb") as stream:
                    shutil.copyfileobj(source, stream)
        elif is_staged(target):  # what it is a part of takes its name as a whole
            target.parent.mkdir(parents=True, exist_ok=True)
            yield target
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            with staging(target.parent) as folder:
                yield folder / target.name
                _finish_files(folder)
                _put_file(folder / target.name, target, status)


@contextmanager
def writing_folder(path: Path, manifest: str | None, *, ours: bool = False) -> Iterator[Path]:
    """Yield a temporary folder; on success it takes the place of the folder `path`.

    Args:
        manifest: name of the manifest that the body writes, and that an existing folder must have;
            None: there is none, and `path` must be new or empty.
        ours: `path` is a place of tmt's own: a folder there without an intact manifest is set aside
            as `NAME.damaged`, and not refused.
    """
    with explained(path):
        refuse_foreign(path, manifest, ours=ours)
        target = Path(os.path.realpath(path))
        if is_staged(target):
            target.mkdir(parents=True, exist_ok=True)
            yield target
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with staging(target.parent) as folder:
            new = folder / target.name
            new.mkdir()
            yield new
            _finish_files(folder)
            foreign = _foreign_files(target, manifest)
            if foreign is None:
                _set_aside(target)
            if target.is_dir() and any(target.iterdir()):
                _refuse_clash(path, [name for name in foreign or () if os.path.lexists(new / name)])
                exchange_folders(new, target, foreign or ())
            else:
                os.rename(new, target)
            sync_folder(target.parent)


@contextmanager
def writing_files(directory: Path) -> Iterator[Path]:
    """Yield a temporary folder; on success its files move into `directory`, one by one.

    If a file is there that is neither the same nor written by tmt, nothing is moved.
    """
    with explained(directory):
        check_folder_target(directory)
        target = Path(os.path.realpath(directory))
        target.mkdir(parents=True, exist_ok=True)
        with staging(target) as folder:
            yield folder
            _finish_files(folder)
            names = list(files_below(folder))
            record = _read_record(target)
            taken = [name for name in names if os.path.lexists(target / name)]
            old = {name: _digest(target / name) for name in taken}
            new = {name: sha256(folder / name) for name in names}
            ours = {name: (new[name], *record.get(name, ())) for name in taken}
            _refuse_clash(directory, [name for name in taken if old[name] not in ours[name]])
            # Both digests, so that a process that is killed here leaves no file of nobody.
            digests = {name: [*filter(None, [old.get(name)]), new[name]] for name in names}
            write_json(target / _RECORD, record | digests)
            for name in names:
                place = Path(os.path.realpath(target / name))
                _put_file(folder / name, place, _status(place))


def descriptor_of(path: Path) -> int | None:
    """The number that `/dev/stdout`, `/dev/fd/3` and the like mean: the shell has opened it, and
    goes on to write where this process ends."""
    name = os.path.abspath(path)
    if name in ("/dev/stdout", "/dev/stderr"):
        return 1 if name.endswith("out") else 2
    found = re.fullmatch(r"/(?:dev|proc/self)/fd/([0-9]+)", name)
    return int(found[1]) if found else None


def check_file_target(path: Path) -> os.stat_result | None:
    """Status of the file at a path that is to be written, if any; better said before the work."""
    status = _status(path)
    if status is None:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise TmtError(tr("{}: is a folder; name a file", path))
    if stat.S_ISREG(status.st_mode) and not status.st_mode & 0o222:
        raise TmtError(tr("{}: is read-only; name another file", path))
    if stat.S_ISSOCK(status.st_mode) or stat.S_ISBLK(status.st_mode):
        raise TmtError(tr("{}: is neither a file nor a pipe; name a file", path))
    return status


def check_folder_target(path: Path) -> None:
    """Raise a TmtError where files cannot be put into a folder of that name."""
    status = _status(path)
    if status is not None and not stat.S_ISDIR(status.st_mode):
        raise TmtError(tr("{}: is not a folder; name another", path))


def refuse_foreign(path: Path, manifest: str | None, *, ours: bool = False) -> None:
    """Raise a TmtError unless a folder may be written at `path`; see `writing_folder`."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        text = tr(
            "{}: is not a UTF-8 name, which the libraries that write into the folder need; "
            "name another folder",
            path,
        )
        raise TmtError(text) from error
    remove_left_over(Path(os.path.realpath(path)).parent)
    check_folder_target(path)
    if not ours and os.path.ismount(os.path.realpath(path)):
        text = tr("{}: is a mount point, which cannot be replaced; name a folder in it", path)
        raise TmtError(text)
    known = manifest is not None and (path / manifest).is_file()
    if not ours and not known and path.is_dir() and any(path.iterdir()):
        raise TmtError(
            tr("{}: exists and was not written by tmt; name a folder that is new or empty", path)
        )


def write_text(path: Path, text: str) -> None:
    """Write a whole UTF-8 file, at once."""
    with writing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, at once."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def remove(path: Path) -> None:
    """Delete a file or a folder of tmt's own, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()


def remove_made(path: Path, manifest: str) -> None:
    """Remove a folder that tmt made; other entries stay, and all where the manifest is damaged."""
    target = Path(os.path.realpath(path))
    if not target.is_dir():
        return
    with explained(target):
        foreign = _foreign_files(target, manifest)
        if foreign is None:
            _set_aside(target)
            return
        with staging(target.parent) as folder:
            rest = folder / target.name
            if foreign:
                rest.mkdir()
                exchange_folders(rest, target, foreign)
            else:
                os.rename(target, rest)


def remove_other_prints(directory: Path, wanted: Collection[str]) -> None:
    """Remove the folders that are called by a fingerprint, but by none of the wanted ones."""
    for folder in directory.iterdir() if directory.is_dir() else ():
        if re.fullmatch("[0-9a-f]{16}", folder.name) and folder.name not in wanted:
            remove(folder)


def _foreign_files(folder: Path, manifest: str | None) -> list[str] | None:
    """The files of a folder that are not tmt's; None: the manifest is damaged."""
    try:
        found = read_manifest(folder, manifest) if manifest else None
    except Damaged:
        return None
    if found is not None and "files" not in found:
        return []  # of a tmt that kept no list, and wrote nothing else into such a folder
    known = {manifest, *found["files"]} if found else set()
    return [name for name in files_below(folder) if name not in known]


def _refuse_clash(path: Path, names: list[str]) -> None:
    if names:
        text = tr(
            "{}: {} would be overwritten, but tmt did not write what stands there; name "
            "another folder",
            path,
            ", ".join(names),
        )
        raise TmtError(text)


def _set_aside(folder: Path) -> None:
    """Rename a folder of which nothing is known, so that nothing in it is lost."""
    names = (f"{folder.name}.damaged{number}" for number in chain([""], count(2)))
    free = (folder.with_name(name) for name in names)
    os.rename(folder, next(path for path in free if not os.path.lexists(path)))


def _status(path: Path) -> os.stat_result | None:
    """Of what a path leads to; None: there is nothing yet."""
    with explained(path):
        try:
            return path.stat()
        except FileNotFoundError:
            return None
        except ValueError as error:  # a NUL
            raise TmtError(tr("{}: not a name of a file: {}", path, error)) from error


def _put_file(temporary: Path, target: Path, status: os.stat_result | None) -> None:
    """Rename a finished file to its target, with the permissions that the target has."""
    if status is not None:
        temporary.chmod(stat.S_IMODE(status.st_mode))
        with suppress(OSError):  # only the administrator may give files away
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


def _digest(path: Path) -> str | None:
    """SHA-256 of a regular file; None: there is none."""
    return sha256(path) if path.is_file() else None


def _read_record(directory: Path) -> dict[str, list[str]]:
    """Digests, by name, of the files that tmt has put into a folder; damaged: of none."""
    try:
        record = read_json(directory / _RECORD) or {}
    except Damaged:
        return {}
    return {name: digests for name, digests in record.items() if isinstance(digests, list)}


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn a failed system call into an error that says which path is the trouble."""
    try:
        yield
    except (BrokenPipeError, TmtError):
        raise
    except Exception as error:
        # safetensors raises errors of its own, with the number in the text alone.
        found = re.search(r"\(os error (\d+)\)", str(error))
        if not isinstance(error, OSError) and not found:
            raise
        number = int(found[1]) if found else getattr(error, "errno", None)
        raise TmtError(_describe_failure(path, error, number)) from error


def _describe_failure(path: Path, error: Exception, number: int | None) -> str:
    path = target_of(path)
    if number in (errno.ENOSPC, errno.EDQUOT):
        existing = next(place for place in (path, *path.absolute().parents) if place.exists())
        free = shutil.disk_usage(existing).free / 2**20
        return tr(
            "{}: the disk is full ({:.0f} MiB free); nothing was overwritten. Make room and run "
            "the same command again",
            path,
            free,
        )
    reason = reason_of(number) if number else str(error)
    other = getattr(error, "filename", None)
    if isinstance(other, str) and other != str(path) and "/.tmt-" not in other:
        reason = f"{other}: {reason}"  # the trouble is with something that was to be read
    return tr("{}: cannot be written: {}", path, reason)
