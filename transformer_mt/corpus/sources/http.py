"""A URL → a file on this disk, however often the connection breaks on the way.

Beside an incomplete file lies a record of its version: another attempt, or another process,
continues the same version and never joins two. This file knows HTTP; it knows neither the cache nor
the content of the files.
"""

import http.client
import math
import os
import re
import shutil
import socket
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    NonNegativeInt,
    ValidationError,
)

from transformer_mt import __version__
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import explained, remove, write_json
from transformer_mt.system.state import Damaged, read_json
from transformer_mt.system.terminal import Say, visible

_TIMEOUT_S = 60.0  # without a byte
_WAITS_S = (1.0, 2.0, 4.0, 8.0, 16.0)  # after failures in a row that bring nothing new
_LONGEST_WAIT_S = 60.0  # even if the server asks for more
_BLOCK = 1 << 18
_LONGEST_NAME = 150  # bytes of a file's name; a file system takes 255
_Show = Callable[..., None]  # of the keywords `completed` and `total`, in bytes
_RANGE = re.compile(r"bytes ([0-9]{1,24})-[0-9]{1,24}/([0-9]{1,24}|\*)")


class Unavailable(DataError):
    """The server does not have the file, or does not give it."""


class _Interrupted(Exception):
    """An attempt failed in a way that another one may not."""

    def __init__(self, reason: str, *, wait_s: float = 0.0, start_over: bool = False) -> None:
        super().__init__(reason + tr(", starting over") * start_over)
        self.wait_s = wait_s  # at least, as the server asked
        self.start_over = start_over  # the bytes so far are of no use


def _plain_name(name: str) -> str:
    """A file name that is valid on every system, and is no path, no option and not hidden."""
    plain = re.sub(r"[^\w.+=@-]+", "_", name)
    ending = plain.encode(errors="replace")[-_LONGEST_NAME:].decode(errors="ignore")
    return ending.lstrip(".-") or "file"


def _mark(value: Any) -> str | None:
    """A header that tells versions apart byte by byte, and can be sent back to the server."""
    usable = isinstance(value, str) and value.isascii() and value.isprintable()
    return value if usable and 0 < len(value) <= 1000 and not value.startswith("W/") else None


class Record(BaseModel, strict=True):
    """A version of a file, as the server gave it."""

    url: str = ""
    date: str = ""
    name: Annotated[str, AfterValidator(_plain_name)]
    size: NonNegativeInt | None
    etag: Annotated[str | None, BeforeValidator(_mark)]
    last_modified: Annotated[str | None, BeforeValidator(_mark)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None  # once it is whole


def read_record(path: Path) -> Record | None:
    """The record of a file; None if it is missing or damaged."""
    try:
        return Record.model_validate(read_json(path))
    except (Damaged, ValidationError):
        return None


def transfer(
    url: str, part: Path, record_path: Path, say: Say | None, *, patient: bool = True
) -> Record:
    """Download the rest of `part`, whose record is written before its first byte.

    Args:
        patient: try again after a failure.
    """
    waits = _WAITS_S if patient else ()
    furthest = failures = 0
    with _progress(url, part, say) as show:
        while True:
            try:
                return _receive(url, part, record_path, show)
            except _Interrupted as interruption:
                if interruption.start_over:
                    remove(part)
                size = _size(part)
                failures = 1 if size > furthest else failures + 1
                furthest = max(size, furthest)
                if failures > len(waits):
                    tried = tr("; gave up after {} attempts that brought nothing new", failures)
                    raise DataError(
                        tr(
                            "{}: {}{}; check the network, and HTTPS_PROXY if there is "
                            "a proxy, and run the same command again",
                            url,
                            interruption,
                            tried * patient,
                        )
                        + (
                            tr(": it goes on from the {:,} bytes that have arrived", size)
                            * bool(size)
                        )
                    ) from interruption
                wait_s = max(waits[failures - 1], interruption.wait_s)
                wait_s = min(wait_s, _LONGEST_WAIT_S)
                if say:
                    say(tr("{}: {}; trying again in {:.0f} s", url, interruption, wait_s))
                time.sleep(wait_s)


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _receive(url: str, part: Path, record_path: Path, show: _Show) -> Record:
    """One attempt; on return the part is complete, otherwise it raises `_Interrupted`."""
    record, done = read_record(record_path), _size(part)
    mark = record and (record.etag or record.last_modified)
    if record is None or not mark or done > (record.size or math.inf):
        done = 0  # another version, perhaps
    elif done and done == record.size:
        return record
    headers = {"User-Agent": f"tmt/{__version__}"}
    if done and mark:
        headers |= {"Range": f"bytes={done}-", "If-Range": mark}
    with _answer(url, headers) as response:
        if response.status == 206:
            if record is None or not _continues(response, done, record):
                reason = tr("the server sent another part than the one asked for")
                raise _Interrupted(reason, start_over=True)
        else:
            remove(part)
            done, record = 0, _new_record(url, response)
            write_json(record_path, record.model_dump())
        needed, free = response.length or 0, shutil.disk_usage(part.parent).free
        if needed > free:
            raise DataError(
                tr(
                    "{}: {:,} MiB are to come, but {} has room for {:,}; make room, or "
                    "set data.cache to another disk",
                    url,
                    needed >> 20,
                    part.parent,
                    free >> 20,
                )
            )
        with explained(part), part.open("ab") as file:
            for block in _blocks(response):
                file.write(block)
                done += len(block)
                show(completed=done, total=record.size)
            file.flush()
            os.fsync(file.fileno())
    if record.size not in (None, done):  # servers may send less of a part than was asked for
        raise _Interrupted(
            tr("the connection was cut {:,} bytes before the end", record.size - done)
        )
    return record


@contextmanager
def _answer(url: str, headers: dict[str, str]) -> Iterator[http.client.HTTPResponse]:
    try:
        request = urllib.request.Request(url, headers=headers)
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(error, url) from error
    except (http.client.InvalidURL, ValueError) as error:
        raise DataError(tr("{}: no usable address: {}", url, error)) from error
    except (OSError, http.client.HTTPException) as error:
        cause = getattr(error, "reason", error)
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise DataError(
                tr(
                    "{}: the certificate of the server cannot be verified: {}; set "
                    "SSL_CERT_FILE to your network's certificates",
                    url,
                    cause.verify_message,
                )
            ) from error
        raise _Interrupted(_reason(cause)) from error
    with response:
        if response.status not in (200, 206):
            raise Unavailable(tr("{}: the server answers {}, without a file", url, response.status))
        yield response


def _reason(error: object) -> str:
    if isinstance(error, socket.gaierror):
        return tr("the server's name cannot be resolved")
    if isinstance(error, TimeoutError):
        return tr("the server is silent")
    if isinstance(error, http.client.IncompleteRead):
        return tr("the connection was cut")
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")


def _refusal(error: urllib.error.HTTPError, url: str) -> Exception:
    answer = tr("the server answers {} {}", error.code, error.reason)
    if error.code == 416:  # the file has changed since the first bytes
        return _Interrupted(answer, start_over=True)
    if error.code in (408, 425, 429) or error.code >= 500:
        asked = error.headers.get("Retry-After", "")
        return _Interrupted(answer, wait_s=float(asked) if re.fullmatch("[0-9]+", asked) else 0.0)
    if error.code in (401, 403):
        what = tr("it may need an account or an agreement")
    elif error.code in (404, 410):
        what = tr("the name or the version may be wrong, or it was taken away")
    else:
        what = tr("nothing can be got there")
    return Unavailable(
        tr("{}: {}: {}; open it in a browser, or give files of your own instead", url, answer, what)
    )


def _continues(response: http.client.HTTPResponse, done: int, record: Record) -> bool:
    """Whether an answer goes on where the bytes so far end, in the same version."""
    found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    etag = response.headers.get("ETag")
    return (
        found is not None
        and int(found[1]) == done > 0
        and found[2] in ("*", str(record.size or found[2]))
        and etag in (None, record.etag or etag)
    )


def _new_record(url: str, response: http.client.HTTPResponse) -> Record:
    headers, name = response.headers, _last_part(url)
    if "." not in name:  # the server's name for the file may have an ending
        name = headers.get_filename() or name
    return Record(
        url=url,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        name=name,
        size=response.length,
        etag=headers.get("ETag"),
        last_modified=headers.get("Last-Modified"),
    )


def _last_part(url: str) -> str:
    return unquote(PurePosixPath(url.partition("?")[0]).name)


def _blocks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body, which must be as long as announced."""
    left = math.inf if response.length is None else response.length
    while left:
        try:
            block = response.read1(int(min(_BLOCK, left)))
        except (OSError, http.client.HTTPException) as error:
            raise _Interrupted(_reason(error)) from error
        if not block and left < math.inf:
            raise _Interrupted(tr("the connection was cut {:,} bytes before the end", left))
        if not block:
            return
        left -= len(block)
        yield block


@contextmanager
def _progress(url: str, part: Path, say: Say | None) -> Iterator[_Show]:
    """Show bytes so far, of how many: a bar on a terminal, elsewhere a line before and after."""
    from rich import progress
    from rich.console import Console

    on_terminal = sys.stderr.isatty()
    lines = say if say and not on_terminal else lambda _: None
    lines(tr("getting {}", url))
    with progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        redirect_stdout=False,
        disable=not (say and on_terminal),
    ) as bar:
        yield partial(bar.update, bar.add_task(visible(_last_part(url)), total=None))
    lines(tr("got {}: {:,.1f} MiB", url, _size(part) / 2**20))
