"""A URL → a file on this disk, however often the connection breaks on the way.

Comes in: an address, and the name of the file. Goes out: the whole file, and its name, size and
version as the server gave them. Beside an incomplete file lies a record of its version: another
attempt, or another process, continues the same version and never joins two. This file knows HTTP;
it knows neither the cache nor the content of the files.
"""

import errno
import http.client
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
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from transformer_mt import __version__
from transformer_mt.errors import DataError
from transformer_mt.system.output import remove, write_json
from transformer_mt.system.state import Damaged, read_json
from transformer_mt.system.terminal import Say, visible

Version = dict[str, Any]  # name, size, etag, last_modified, as the server gave them
_Show = Callable[[int, int | None], None]

_BLOCK = 1 << 18
_LONGEST_NAME = 150  # bytes of a file's name; a file system takes 255
_SIZE = re.compile(r"[0-9]{1,24}")  # of a file, in a header
_RANGE = re.compile(r"bytes ([0-9]{1,24})-[0-9]{1,24}/([0-9]{1,24}|\*)")


class Unavailable(DataError):
    """The server does not have the file, or does not give it."""


@dataclass(frozen=True)
class Patience:
    """Time limits and retries of a download."""

    timeout_s: float = 60.0  # without a byte
    attempts: int = 6  # in a row that bring nothing new
    first_wait_s: float = 1.0  # after a failure; doubles with each further one
    longest_wait_s: float = 60.0  # even if the server asks for more


PATIENT = Patience()


class _Interrupted(Exception):
    """An attempt failed in a way that another one may not."""

    def __init__(self, reason: str, *, wait_s: float = 0.0, start_over: bool = False) -> None:
        super().__init__(reason + ", starting over" * start_over)
        self.wait_s = wait_s  # at least, as the server asked
        self.start_over = start_over  # the bytes so far are of no use


def transfer(url: str, part: Path, patience: Patience, say: Say | None) -> Version:
    """Download the rest of `part`. The file and its record, `part_record(part)`, stay in place.

    Raises:
        Unavailable: the server does not have the file, or does not give it.
        DataError: no connection, or no room.
    """
    furthest, failures = _received(part), 0
    with _progress(url, part, say) as show:
        while True:
            try:
                return _receive(url, part, patience.timeout_s, show)
            except _Interrupted as interruption:
                if interruption.start_over:
                    remove(part)
                size = part.stat().st_size if part.is_file() else 0
                failures = 1 if size > furthest else failures + 1
                furthest = max(size, furthest)
                if failures >= patience.attempts:
                    raise DataError(_giving_up(url, interruption, failures, size)) from interruption
                wait_s = max(patience.first_wait_s * 2 ** (failures - 1), interruption.wait_s)
                wait_s = min(wait_s, patience.longest_wait_s)
                if say:
                    say(f"{url}: {interruption}; trying again in {wait_s:.0f} s")
                time.sleep(wait_s)


def part_record(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def read_record(path: Path) -> Version:
    """The record of a file; empty if it is missing or damaged."""
    try:
        record = read_json(path)
    except Damaged:
        return {}
    return record if record and _is_version(record) else {}


def _is_version(record: dict[str, Any]) -> bool:
    name, size = record.get("name"), record.get("size")
    marks = (record.get("etag"), record.get("last_modified"))
    return (
        isinstance(name, str)
        and name == _plain_name(name)
        and (size is None or (type(size) is int and size >= 0))
        and all(mark is None or (isinstance(mark, str) and _is_mark(mark)) for mark in marks)
    )


def _is_mark(text: str) -> bool:
    """Whether a text can be sent back to the server in a header."""
    return 0 < len(text) <= 1000 and text.isascii() and text.isprintable()


def _giving_up(url: str, reason: Exception, failures: int, size: int) -> str:
    message = (
        f"{url}: {reason}; gave up after {failures} attempts that brought nothing new; check the "
        "network, and HTTPS_PROXY if there is a proxy, and run the same command again"
    )
    return message + (f": it goes on from the {size:,} bytes that have arrived" if size else "")


def _received(part: Path) -> int:
    """Bytes of an incomplete file that a download can continue; 0 if their version is unknown."""
    version = read_record(part_record(part))
    size = part.stat().st_size if part.is_file() else 0
    known = version.get("etag") or version.get("last_modified")
    return size if known and size <= (version["size"] or size) else 0


def _receive(url: str, part: Path, timeout_s: float, show: _Show) -> Version:
    """One attempt; on return the part is complete.

    Raises:
        _Interrupted: it is incomplete; another attempt may succeed.
    """
    done, version = _received(part), read_record(part_record(part))
    if done and done == version["size"]:
        return version
    headers = {"User-Agent": f"tmt/{__version__}"}
    if done:
        headers["Range"] = f"bytes={done}-"
        headers["If-Range"] = version["etag"] or version["last_modified"]
    with _answer(urllib.request.Request(url, headers=headers), timeout_s) as response:
        length = response.headers.get("Content-Length", "")
        left = int(length) if _SIZE.fullmatch(length) else None
        if response.status == 206:
            _check_range(response, done, version)
        else:
            remove(part)
            done, version = 0, _version(response, url, left)
            write_json(part_record(part), version)
        _check_room(url, part, left or 0)
        with _writing_to(part), part.open("ab") as file:
            for block in _blocks(response, left):
                file.write(block)
                done += len(block)
                show(done, version["size"])
            file.flush()
            os.fsync(file.fileno())
    return version


@contextmanager
def _answer(
    request: urllib.request.Request, timeout_s: float
) -> Iterator[http.client.HTTPResponse]:
    url = request.full_url
    try:
        response = urllib.request.urlopen(request, timeout=timeout_s)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(error, url) from error
    except (http.client.InvalidURL, ValueError) as error:
        raise DataError(f"{url}: no usable address: {error}") from error
    except (OSError, http.client.HTTPException) as error:
        cause = getattr(error, "reason", error)
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise DataError(
                f"{url}: the certificate of the server cannot be verified: "
                f"{cause.verify_message}; set SSL_CERT_FILE to your network's certificates"
            ) from error
        raise _Interrupted(_reason(cause)) from error
    with response:
        if response.status not in (200, 206):
            raise Unavailable(f"{url}: the server answers {response.status}, without a file")
        yield response


def _reason(error: object) -> str:
    if isinstance(error, socket.gaierror):
        return "the server's name cannot be resolved"
    if isinstance(error, TimeoutError):
        return "the server is silent"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection was cut"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")


def _refusal(error: urllib.error.HTTPError, url: str) -> Exception:
    answer = f"the server answers {error.code} {error.reason}"
    if error.code == 416:  # the file has changed since the first bytes
        return _Interrupted(answer, start_over=True)
    if error.code in (408, 425, 429) or error.code >= 500:
        return _Interrupted(answer, wait_s=_retry_after(error.headers.get("Retry-After", "")))
    if error.code in (401, 403):
        what = "it may need an account or an agreement"
    elif error.code in (404, 410):
        what = "the name or the version may be wrong, or it was taken away"
    else:
        what = "nothing can be got there"
    return Unavailable(
        f"{url}: {answer}: {what}; open it in a browser, or give files of your own instead"
    )


def _retry_after(value: str) -> float:
    """Seconds, of a number or a date; 0 if it is neither."""
    if _SIZE.fullmatch(value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value[:100]).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError, IndexError):
        return 0.0


def _check_range(response: http.client.HTTPResponse, done: int, version: Version) -> None:
    """Refuse an answer that does not continue the bytes so far."""
    found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
    etag = response.headers.get("ETag")
    if (
        not done
        or found is None
        or int(found[1]) != done
        or (version["size"] and found[2] not in ("*", str(version["size"])))
        or (etag and version["etag"] and etag != version["etag"])
    ):
        raise _Interrupted("the server sent another part than the one asked for", start_over=True)


def _version(response: http.client.HTTPResponse, url: str, size: int | None) -> Version:
    etag, date = (response.headers.get(key, "") for key in ("ETag", "Last-Modified"))
    return {
        "name": _file_name(url, response),
        "size": size,
        # Weak ones do not tell bytes.
        "etag": etag if _is_mark(etag) and not etag.startswith("W/") else None,
        "last_modified": date if _is_mark(date) else None,
    }


def _file_name(url: str, response: http.client.HTTPResponse) -> str:
    """The last part of the address, or the server's name for the file if that has no ending."""
    name = _last_part(url)
    if "." not in name:
        name = response.headers.get_filename() or name
    return _plain_name(name)


def _plain_name(name: str) -> str:
    """A file name that is valid on every system, and is no path, no option and not hidden."""
    plain = re.sub(r"[^\w.+=@-]+", "_", name)
    ending = plain.encode(errors="replace")[-_LONGEST_NAME:].decode(errors="ignore")
    return ending.lstrip(".-") or "file"


def _last_part(url: str) -> str:
    return unquote(PurePosixPath(urlsplit(url).path).name)


def _blocks(response: http.client.HTTPResponse, left: int | None) -> Iterator[bytes]:
    """The body, which must be as long as announced."""
    while left != 0:
        try:
            # Before its last byte one can see whether more follows, after it no longer.
            if left == 1 and len(response.peek(2)) > 1:
                raise _Interrupted("the server sends more than it announced", start_over=True)
            block = response.read1(_BLOCK if left is None else min(_BLOCK, max(left - 1, 1)))
        except (OSError, http.client.HTTPException) as error:
            raise _Interrupted(_reason(error)) from error
        if not block and left is None:
            return
        if not block:
            raise _Interrupted(f"the connection was cut {left:,} bytes before the end")
        left = None if left is None else left - len(block)
        yield block


def _check_room(url: str, part: Path, needed: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise DataError(
            f"{url}: {needed / 2**20:,.0f} MiB are to come, but {part.parent} has room for "
            f"{free / 2**20:,.0f}; make room, or set data.cache to another disk"
        )


@contextmanager
def _writing_to(part: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        what = "the disk is full" if full else f"cannot be written: {error.strerror}"
        raise DataError(
            f"{part}: {what}; make room, or set data.cache to another disk, and run the same "
            "command again: what has arrived is kept"
        ) from error


@contextmanager
def _progress(url: str, part: Path, say: Say | None) -> Iterator[_Show]:
    """Show (bytes so far, of how many): a bar on a terminal, elsewhere a line before and after."""
    if say is None:
        yield lambda done, total: None
    elif not sys.stderr.isatty():
        say(f"getting {url}")
        yield lambda done, total: None
        say(f"got {url}: {part.stat().st_size / 2**20:,.1f} MiB")
    else:
        from rich import progress
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
        )
        console = Console(stderr=True)
        with progress.Progress(*columns, console=console, redirect_stdout=False) as bar:
            task = bar.add_task(visible(_last_part(url)), total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
