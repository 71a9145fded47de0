"""Where fetched text came from, and where it is unpacked: once, for all experiments.

Comes in: downloads. Goes out: directories of the cache, licences, records for the report. This file
does not know how names become addresses.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_mt.config.data import SOURCE_KINDS, Languages, Source
from transformer_mt.corpus.readers.pairs import source_order
from transformer_mt.corpus.sources.archives import unpack_archive
from transformer_mt.corpus.sources.cache import Download, alone
from transformer_mt.system.terminal import Say

_LICENCE_NAMES = re.compile(r"(licen[cs]e|copying)(\.(txt|md))?", re.IGNORECASE)
_README_NAMES = re.compile(r"readme(\.(txt|md))?", re.IGNORECASE)


@dataclass(frozen=True)
class Origin:
    name: str  # as in the configuration
    url: str
    sha256: str
    size: int  # bytes
    licence: str | None  # the line that names it, if one does


@dataclass(frozen=True)
class Obtained:
    source: Source  # a local one
    origins: list[Origin]


def origin(name: str, download: Download, licence: str | None = None) -> Origin:
    return Origin(name, download.url, download.sha256, download.size, licence)


def local(source: Source, **place: Any) -> Source:
    """The same source, with its other settings, as local files."""
    away = {**dict.fromkeys(SOURCE_KINDS), "sha256": None}
    return source.model_copy(update={**away, **place})


def in_order(sides: dict[str, Path], source: Source, languages: Languages) -> list[str]:
    """Two files, by language, in the order in which `files` of this source are read."""
    first, second = source_order(source, languages)
    return [str(sides[first]), str(sides[second])]


def unpacked(download: Download, cache_dir: Path, say: Say | None) -> Path:
    """The directory with the content of an archive; equal archives share one.

    Raises:
        DataError: see `unpack_archive`.
    """
    directory = cache_dir / "unpacked" / download.sha256[:32]
    waiting = f"waiting for another process that is unpacking {download.path.name}"
    if not directory.is_dir():
        with alone(directory.with_suffix(".lock"), waiting, say):
            if not directory.is_dir():
                if say:
                    say(f"unpacking {download.path.name}")
                unpack_archive(download.path, directory)
    return directory


def licence_in(directory: Path) -> str | None:
    """The first line of a licence file, or the line of a README that names a licence."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    for path in files:
        if _LICENCE_NAMES.fullmatch(path.name):
            return next(iter(_lines(path)), None)
    for path in files:
        if _README_NAMES.fullmatch(path.name):
            return next((line for line in _lines(path) if re.search(r"(?i)licen[cs]e", line)), None)
    return None


def _lines(path: Path) -> list[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        text = file.read(1 << 16)
    return [" ".join(line.split())[:200] for line in text.split("\n") if line.strip(" #*=-\t\r")]
