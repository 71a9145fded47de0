"""A URL → a file in the cache that all experiments share: whole, checked, fetched only once.

Comes in: an address. Goes out: the file, with its size and digest. This file knows the places
in the cache and their locks; the network is in `http.py`.

In the cache each address has a directory of its own, called by the digest of the address, with the
file under its own name (its ending tells the format). Beside it: `.json` (the record of the
download), `.part` with `.part.json` (an incomplete download) and `.lock`.
"""

import hashlib
import os
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urldefrag, urlsplit

from transformer_mt.corpus.readers.lines import expand
from transformer_mt.corpus.sources.http import (
    PATIENT,
    Patience,
    Unavailable,
    part_record,
    read_record,
    transfer,
)
from transformer_mt.errors import DataError
from transformer_mt.system.locks import locked
from transformer_mt.system.output import remove, write_json
from transformer_mt.system.state import sha256 as digest_of
from transformer_mt.system.terminal import Say

_DIGEST = re.compile("[0-9a-f]{64}")
_ADDRESS_CHARACTERS = "%/:=&?~+!$,;'@()*[]"  # these keep their meaning in a URL


@dataclass(frozen=True)
class Download:
    path: Path
    url: str
    sha256: str
    size: int  # bytes


def default_cache() -> Path:
    """$TMT_CACHE, or `tmt` in the user's folder of caches."""
    if own := os.environ.get("TMT_CACHE"):
        return expand(own)
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else expand("~/.cache")) / "tmt"


def fetch(
    url: str,
    cache_dir: Path,
    *,
    sha256: str | None = None,
    offline: bool = False,
    say: Say | None = None,
    patience: Patience = PATIENT,
) -> Download:
    """The file at a URL, from the cache if it is there.

    Args:
        sha256: digest that the file must have, in hexadecimal; compared with the bytes each time.
        offline: use the cache alone.
        say: told of the download, unless a progress bar shows it; None: be quiet.
    Raises:
        Unavailable: the server does not give the file; or `offline`, and it is not cached.
        DataError: wrong digest; no connection; the disk is full; no http(s) URL.
    """
    place = _Place(cache_dir, url)
    found = place.cached()
    if found is not None:
        if sha256 and (digest := digest_of(found.path)) != sha256.lower():
            raise DataError(
                f"{url}: the file in the cache has sha256 {digest}, expected {sha256.lower()}; "
                f"correct sha256, or delete {found.path} to get the file again"
            )
        return found
    if offline:
        raise Unavailable(
            f"{url}: not in the cache {cache_dir}, and the network is not to be used; get it with "
            "tmt data download CONFIG, or copy the cache of a machine that has it"
        )
    with alone(place.lock, f"waiting for another process that is getting {url}", say):
        return place.cached() or _download(place, sha256, patience, say)


def alone(path: Path, waiting: str, say: Say | None) -> AbstractContextManager[None]:
    """Hold a lock in the cache; if another process has it, say the text `waiting`, and wait."""
    remedy = "; set data.cache to a directory of your own"
    return locked(path, lambda: say(waiting) if say else None, remedy=remedy)


class _Place:
    """Where the file of one URL lies in the cache, whole or in part."""

    def __init__(self, cache_dir: Path, url: str) -> None:
        self.url = url
        try:
            self.address = quote(urldefrag(url).url, safe=_ADDRESS_CHARACTERS)
            parts = urlsplit(self.address)
        except ValueError as error:  # half a character, half an IPv6 address
            raise DataError(f"{url}: no usable address: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise DataError(f"{url}: expected http://… or https://…")
        digest = hashlib.sha256(self.address.encode()).hexdigest()[:16]
        self.directory = cache_dir / "downloads" / digest
        self.part = self.directory.with_suffix(".part")
        self.record = self.directory.with_suffix(".json")
        self.lock = self.directory.with_suffix(".lock")

    def cached(self) -> Download | None:
        record = read_record(self.record)
        size, digest = record.get("size"), record.get("sha256")
        if size is None or not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            return None  # the record is missing or damaged
        path = self.directory / record["name"]
        if not path.is_file() or path.stat().st_size != size:
            return None
        return Download(path, self.url, digest, size)


def _download(place: _Place, sha256: str | None, patience: Patience, say: Say | None) -> Download:
    version = transfer(place.address, place.part, patience, say)
    digest = digest_of(place.part)
    if sha256 and digest != sha256.lower():
        remove(place.part)
        raise DataError(
            f"{place.url}: has sha256 {digest}, expected {sha256.lower()}: it is another version, "
            "or was damaged or replaced on the way; nothing was kept. If you trust it, correct "
            "sha256"
        )
    size = place.part.stat().st_size
    date = datetime.now(UTC).isoformat(timespec="seconds")
    record = {**version, "url": place.url, "size": size, "sha256": digest, "date": date}
    path = place.directory / version["name"]
    path.parent.mkdir(exist_ok=True)
    # The record first: a process that is killed between these lines leaves a complete part, and
    # the next process renames it without the network.
    write_json(place.record, record)
    os.replace(place.part, path)
    remove(part_record(place.part))
    return Download(path, place.url, digest, size)
