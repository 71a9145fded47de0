"""What tmt keeps for itself on disk: JSON, records line by line, and manifests of folders.

A value is read as None where there is nothing, and as `Damaged` where tmt did not leave it so. A
manifest is a JSON file in a folder that tmt makes: it holds the size and the digest of each other
file, and a digest of itself, so that no bit that has changed is believed.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.failures import reason_of
from transformer_mt.system.staging import is_staged

MAX_BYTES = 256 << 20  # of one file of state; the metrics of a training take 200 bytes a record
_COMPARED = 1000  # bytes that show whether a file has only grown
_OWN = ("files", "file_sizes", "digest")  # keys of a manifest that are not its caller's


class Damaged(TmtError):
    """A file of tmt's own is not as tmt wrote it; the message names it."""


class Unreadable(Damaged):
    """The system does not let it be read, perhaps for a moment: nothing is known of its content."""


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None: there is no such file."""
    text = _read(path)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damaged(tr("{}: damaged: {}", path, error)) from error
    if not isinstance(value, dict):
        raise Damaged(
            tr("{}: damaged: expected a JSON object, found {}", path, type(value).__name__)
        )
    return value


def read_records(path: Path) -> list[dict[str, Any]]:
    """The objects of a file with one JSON object a line; what is damaged is left out."""
    growing = GrowingRecords(path)
    growing.read()
    return growing.records


class GrowingRecords:
    """The objects of a file that grows, one JSON object a line; a line is read once.

    Attributes:
        records: all so far; lines that are damaged, or not whole yet, are left out.
        n_begun: how often the file was read from its beginning; again after it was replaced.
    """

    def __init__(self, path: Path) -> None:
        self.records: list[dict[str, Any]] = []
        self.n_begun = 0
        self._path = path
        self._end, self._before_end = 0, b""  # bytes that are read, and the last of them
        self._seen: tuple[int, ...] = ()

    def read(self) -> bool:
        """Whether there was something new; a file that cannot be read has no records."""
        try:
            return self._read_on()
        except (Damaged, OSError):
            was_there, self._seen = self._seen != (), ()
            if was_there:
                self._begin()
            return was_there

    def _read_on(self) -> bool:
        with _open_file(self._path) as file:
            found = os.fstat(file.fileno())
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen == self._seen:
                return False
            file.seek(self._end - len(self._before_end))
            data = file.read()
            if not self._seen or not data.startswith(self._before_end):
                self._begin()
                file.seek(0)
                data = file.read()
        self._seen = seen
        self._take(data[len(self._before_end) :])
        return True

    def _begin(self) -> None:
        self.records, self._end, self._before_end = [], 0, b""
        self.n_begun += 1

    def _take(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        last = _parsed(rest)  # a whole line whose line break may be still to come
        self.records += [record for line in lines if (record := _parsed(line)) is not None]
        self.records += [] if last is None else [last]
        taken = data[: len(data) - len(rest)] if last is None else data
        self._end += len(taken)
        self._before_end = (self._before_end + taken)[-_COMPARED:]


def _parsed(line: bytes) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        record = json.loads(line.decode("utf-8", errors="surrogateescape"))
        return record if isinstance(record, dict) else None
    return None


def write_manifest(
    folder: Path, name: str, content: Mapping[str, Any], known: Mapping[str, str] | None = None
) -> None:
    """Write the manifest `name`, with plain values, of a folder whose other files are written.

    Args:
        known: digests of files that were taken when these were written.
    """
    known = known or {}
    files = {path: (folder / path) for path in files_below(folder) if path != name}
    manifest = {
        **content,
        "files": {path: known.get(path) or sha256(file) for path, file in files.items()},
        "file_sizes": {path: file.stat().st_size for path, file in files.items()},
    }
    (folder / name).write_bytes(sealed(manifest))


def sealed(manifest: Mapping[str, Any]) -> bytes:
    """The file of a manifest, which lists its files already: with a digest of its own."""
    content = json.loads(json.dumps(manifest))  # as it will be read: keys are text
    content["digest"] = _digest_of(content)
    text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    return text.encode(errors="surrogateescape")


def read_manifest(folder: Path, name: str) -> dict[str, Any] | None:
    """The manifest of a folder, itself intact; None: the folder or the manifest is absent.

    A manifest without a digest of its own, of a tmt that wrote none, is taken as it is.
    """
    manifest = read_json(folder / name)
    if manifest is None:
        return None
    if not all(isinstance(manifest.get(key, {}), dict) for key in ("files", "file_sizes")):
        raise Damaged(tr("{}: damaged: its list of files is no list of files", folder / name))
    has_digest = "digest" in manifest or "file_sizes" in manifest  # both are written, or neither
    if has_digest and manifest.get("digest") != _digest_of(manifest):
        raise Damaged(tr("{}: altered since it was written (its digest differs)", folder / name))
    return manifest


def damages(folder: Path, manifest: Mapping[str, Any], *, digests: bool = True) -> list[str]:
    """Faults of the files that a manifest lists, a line each; sizes alone, or `digests` as well."""
    sizes, problems = manifest.get("file_sizes", {}), []
    for name, digest in manifest.get("files", {}).items():
        file = folder / name
        if not name or Path(name).is_absolute() or ".." in Path(name).parts:
            problems.append(
                tr("{}: lists {!r}, which is not a name of a file inside", folder, name)
            )
        elif not file.is_file():
            problems.append(tr("{}: missing", file))
        elif file.stat().st_size != sizes.get(name, file.stat().st_size):
            problems.append(tr("{}: truncated or altered (its size differs)", file))
        elif digests and sha256(file) != digest:
            problems.append(tr("{}: truncated or altered (its SHA-256 differs)", file))
    return problems


def content_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the caller of `write_manifest` passed."""
    return {key: value for key, value in manifest.items() if key not in _OWN}


def files_below(folder: Path) -> Iterator[str]:
    """Relative names of all files and links of a folder, sorted, with slashes; none of staging
    folders, and none behind a link."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    names = (path.relative_to(folder) for path in paths)
    yield from sorted(name.as_posix() for name in names if not is_staged(name))


def sha256(path: Path) -> str:
    """Hexadecimal digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(*parts: Any) -> str:
    """16 digits for plain values; equal values give equal ones in every process."""
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def _digest_of(manifest: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> str | None:
    """The text of a regular file of bounded size; None: there is none."""
    try:
        with _open_file(path) as file:
            return file.read().decode("utf-8", errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreadable(tr("{}: cannot be read: {}", path, reason_of(error.errno))) from error


def _open_file(path: Path) -> BinaryIO:
    """Raises: OSError; Damaged: not a regular file, or a very large one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe is not waited for
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_BYTES:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise Damaged(tr("{}: is not a regular file", path))
    raise Damaged(tr("{}: has {:,} bytes; at most {:,} are read", path, found.st_size, MAX_BYTES))
