"""A real HTTP server on loopback that misbehaves as told: cuts, lies, changes, hangs, refuses."""

import hashlib
import io
import random
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BODY = random.Random(3).randbytes(300_000)
OTHER = random.Random(4).randbytes(300_000)


@dataclass(frozen=True)
class Reply:
    """How one request is answered."""

    body: bytes = b""
    status: int = 200
    etag: str | None = '"v1"'
    ranges: bool = True  # whether Range is honoured
    if_range: bool = True  # whether If-Range is honoured
    cut: int | None = None  # bytes of the answer's body after which the connection goes
    announce: int | None = None  # what Content-Length says instead of the truth
    most: int | None = None  # bytes of an answer to a Range, which may be fewer than asked for
    chunked: bool = False
    slow_s: float = 0.0  # after each 16 KiB
    hang_s: float = 0.0  # before the answer's body ends
    headers: dict[str, str] = field(default_factory=dict)


class Server(ThreadingHTTPServer):
    """Answers each path, with its query or without, with its replies in turn; the last stays."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: dict[str, list[Reply]] = {}
        self.missing = Reply(status=404)
        self.requests: list[tuple[str, str | None]] = []  # (path with query, Range)
        self.headers_seen: list[dict[str, str]] = []
        self.base = f"http://127.0.0.1:{self.server_port}"

    def serve(self, path: str, *replies: Reply | bytes) -> str:
        """Set the answers of a path; returns its URL."""
        self.replies[path] = [r if isinstance(r, Reply) else Reply(r) for r in replies]
        return self.base + path

    def asked(self, path: str) -> list[str | None]:
        """The Range of every request for a path."""
        return [wanted for asked, wanted in self.requests if asked == path]

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that has gone is no news here


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.requests.append((self.path, wanted))
        self.server.headers_seen.append(dict(self.headers))
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        known = self.server.replies
        bare = known.get(self.path.partition("?")[0], [self.server.missing])
        replies = known.get(self.path, bare)
        self._answer(replies.pop(0) if len(replies) > 1 else replies[0], wanted)

    do_HEAD = do_POST = do_GET

    def _answer(self, reply: Reply, wanted: str | None) -> None:
        status, body, extra = reply.status, reply.body, dict(reply.headers)
        same = not reply.if_range or self.headers.get("If-Range") in (None, reply.etag)
        if wanted and status == 200 and reply.ranges and same:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                status, body, extra = 416, b"", {"Content-Range": f"bytes */{len(body)}"}
            else:
                total = reply.announce or len(body)
                end = total if reply.most is None else min(total, start + reply.most)
                extra = {"Content-Range": f"bytes {start}-{end - 1}/{total}", **extra}
                status, body = 206, body[start:end]
        self.send_response(status)
        if reply.etag:
            extra["ETag"] = reply.etag
        if reply.chunked:
            extra["Transfer-Encoding"] = "chunked"
        else:
            lie = reply.announce is not None and status == 200
            extra["Content-Length"] = str(reply.announce if lie else len(body))
        for name, value in {**extra, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self._send(reply, body)
        self.close_connection = True

    def _send(self, reply: Reply, body: bytes) -> None:
        body = body[: reply.cut]
        for start in range(0, len(body), 1 << 14):
            piece = body[start : start + (1 << 14)]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if reply.chunked else piece)
            time.sleep(reply.slow_s)
        time.sleep(reply.hang_s)
        if reply.chunked and reply.cut is None:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return buffer.getvalue()


def tarred(
    files: dict[str, bytes], *members: tarfile.TarInfo, form: int = tarfile.PAX_FORMAT
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as file:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
        for member in members:
            file.addfile(member)
    return buffer.getvalue()


def start_fetch(url: str, cache_dir: Path, stderr: int | None = None) -> "subprocess.Popen[str]":
    """`Cache.fetch` in a process of its own, which prints its messages and then the digest."""
    code = (
        "import sys; from pathlib import Path\n"
        "from transformer_mt.corpus.sources.cache import Cache\n"
        "print(Cache(Path(sys.argv[2]), say=print).fetch(sys.argv[1]).sha256, flush=True)"
    )
    arguments = [sys.executable, "-u", "-c", code, url, str(cache_dir)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=stderr, text=True)
