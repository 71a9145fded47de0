"""A URL → a file in the cache that all experiments share: whole, checked, fetched only once.

In the cache each address has a directory of its own, called by the digest of the address, with the
file under its own name (its ending tells the format). Beside it: `.json` (the record of the
download), `.part` (an incomplete download) and `.lock`. The network is in `http.py`.
"""

import hashlib
import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

from transformer_mt.corpus.readers.lines import expand
from transformer_mt.corpus.sources.archives import is_archive, unpack_archive
from transformer_mt.corpus.sources.http import Unavailable, read_record, transfer
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.locks import locked
from transformer_mt.system.output import remove, write_json
from transformer_mt.system.state import sha256 as digest_of
from transformer_mt.system.terminal import Say

_ADDRESS_CHARACTERS = "%/:=&?~+!$,;'@()*[]"  # these keep their meaning in a URL
_LICENCE_NAMES = re.compile(r"(licen[cs]e|copying)(\.(txt|md))?", re.IGNORECASE)
_README_NAMES = re.compile(r"readme(\.(txt|md))?", re.IGNORECASE)


@dataclass(frozen=True)
class Download:
    path: Path  # the file, or the directory with the content of an archive
    url: str
    sha256: str
    size: int  # bytes
    licence: str | None = None  # the line of an archive that names it, if one does


def default_cache() -> Path:
    """$TMT_CACHE, or `tmt` in the user's folder of caches."""
    if own := os.environ.get("TMT_CACHE"):
        return cache_folder(own)
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else expand("~/.cache")).absolute() / "tmt"


def cache_folder(name: str | None) -> Path:
    """The folder of this name, or the default one; absolute, since files of sources are."""
    return expand(name).absolute() if name else default_cache()


@dataclass(frozen=True)
class Cache:
    """The folder of all downloads."""

    folder: Path
    offline: bool = False  # use what is there, and never the network
    say: Say | None = None  # told of downloads and waits; None: be quiet
    patient: bool = True  # try again after a failure

    def fetch(self, url: str, sha256: str | None = None) -> Download:
        """The file at a URL, from the cache if it is there.

        Raises:
            Unavailable: the server does not give the file; or `offline`, and it is not cached.
            DataError: not of the digest `sha256`; no connection; no room; no http(s) URL.
        """
        address = quote(url.partition("#")[0], safe=_ADDRESS_CHARACTERS, errors="replace")
        if not re.match(r"https?://[^/?:]", address, re.IGNORECASE):
            raise DataError(tr("{}: expected http://… or https://…", url))
        name = hashlib.sha256(address.encode()).hexdigest()[:16]
        directory = self.folder / "downloads" / name
        if found := _cached(url, directory):
            if sha256 and (digest := digest_of(found.path)) != sha256.lower():
                raise DataError(
                    tr(
                        "{}: the file in the cache has sha256 {}, expected {}; correct "
                        "sha256, or delete {} to get the file again",
                        url,
                        digest,
                        sha256.lower(),
                        found.path,
                    )
                )
            return found
        if self.offline:
            raise Unavailable(
                tr(
                    "{}: not in the cache {}, and the network is not to be used; get "
                    "it with tmt data download CONFIG, or copy the cache of a machine "
                    "that has it",
                    url,
                    self.folder,
                )
            )
        with self.alone(directory, tr("getting {}", url)):
            return _cached(url, directory) or self._download(url, address, directory, sha256)

    def _download(self, url: str, address: str, directory: Path, sha256: str | None) -> Download:
        part, record_path = directory.with_suffix(".part"), directory.with_suffix(".json")
        record = transfer(address, part, record_path, self.say, patient=self.patient)
        digest = digest_of(part)
        if sha256 and digest != sha256.lower():
            remove(part)
            raise DataError(
                tr(
                    "{}: has sha256 {}, expected {}: it is another version, or was "
                    "damaged or replaced on the way; nothing was kept. If you trust "
                    "it, correct sha256",
                    url,
                    digest,
                    sha256.lower(),
                )
            )
        size = part.stat().st_size
        path = directory / record.name
        directory.mkdir(exist_ok=True)
        # The record first: a process that is killed between these lines leaves a complete part, and
        # the next process renames it without the network.
        write_json(record_path, {**record.model_dump(), "size": size, "sha256": digest})
        os.replace(part, path)
        return Download(path, url, digest, size)

    def content(self, url: str, sha256: str | None = None) -> Download:
        """`fetch`, and of an archive the directory with its content; equal archives share one."""
        download = self.fetch(url, sha256)
        if not is_archive(download.path):
            return download
        directory = self.folder / "unpacked" / download.sha256[:32]
        unpack = partial(unpack_archive, download.path, directory)
        self.make_once(directory, unpack, tr("unpacking {}", download.path.name))
        return replace(download, path=directory, licence=_licence_in(directory))

    def make_once(self, directory: Path, make: Callable[[], object], doing: str) -> None:
        """Let one process make a directory, unless it is there."""
        if not directory.is_dir():
            with self.alone(directory, doing):
                if not directory.is_dir():
                    if self.say:
                        self.say(doing)
                    make()

    def alone(self, directory: Path, doing: str) -> AbstractContextManager[None]:
        """Hold the lock of a directory; while another process has it, say so, and wait."""
        say = self.say or (lambda _: None)
        return locked(
            directory.with_name(f"{directory.name}.lock"),
            lambda: say(tr("waiting for another process that is {}", doing)),
            remedy=tr("; set data.cache to a directory of your own"),
        )


def _cached(url: str, directory: Path) -> Download | None:
    record = read_record(directory.with_suffix(".json"))
    if record is None or record.size is None or record.sha256 is None:
        return None
    path = directory / record.name
    if not path.is_file() or path.stat().st_size != record.size:
        return None
    return Download(path, url, record.sha256, record.size)


def _licence_in(directory: Path) -> str | None:
    """The first line of a licence file, or the line of a README that names a licence."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    for names, wanted in ((_LICENCE_NAMES, ""), (_README_NAMES, "licen[cs]e")):
        for path in files:
            if names.fullmatch(path.name):
                lines = _lines(path)
                return next((line for line in lines if re.search(wanted, line, re.I)), None)
    return None


def _lines(path: Path) -> list[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        text = file.read(1 << 16)
    return [" ".join(line.split())[:200] for line in text.split("\n") if line.strip(" #*=-\t\r")]
