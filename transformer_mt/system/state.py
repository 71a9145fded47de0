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
from typing import Any

from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.failures import reason_of
from transformer_mt.system.staging import is_staged

MAX_BYTES = 256 << 20  # of one file of state; the metrics of a training take 200 bytes a record
_OWN = ("files", "file_sizes", "digest")  # keys of a manifest that are not its caller's


class Damaged(TmtError):
    """A file of tmt's own is not as tmt wrote it; the message names it."""


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
    records: list[Any] = []
    with suppress(Damaged):
        for line in (_read(path) or "").split("\n"):
            with suppress(ValueError, RecursionError):
                records.append(json.loads(line))
    return [record for record in records if isinstance(record, dict)]


def write_manifest(folder: Path, name: str, content: Mapping[str, Any]) -> None:
    """Write the manifest `name`, with plain values, of a folder whose other files are written."""
    files = {path: (folder / path) for path in files_below(folder) if path != name}
    manifest = {
        **content,
        "files": {path: sha256(file) for path, file in files.items()},
        "file_sizes": {path: file.stat().st_size for path, file in files.items()},
    }
    manifest = json.loads(json.dumps(manifest))  # as it will be read: keys are text
    manifest["digest"] = _digest_of(manifest)
    text = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
    (folder / name).write_text(text, encoding="utf-8", errors="surrogateescape")


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
    """Relative names of all files of a folder, sorted, with slashes; none of staging folders."""
    names = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
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
        with open(path, "rb", opener=_open_at_once) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise Damaged(tr("{}: is not a regular file", path))
            if (size := found.st_size) > MAX_BYTES:
                raise Damaged(
                    tr("{}: has {:,} bytes; at most {:,} are read", path, size, MAX_BYTES)
                )
            return file.read().decode("utf-8", errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Damaged(tr("{}: cannot be read: {}", path, reason_of(error.errno))) from error


def _open_at_once(path: str, flags: int) -> int:
    """A pipe in the place of a file is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)
