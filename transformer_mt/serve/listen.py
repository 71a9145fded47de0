"""An application listens, by uvicorn: connections that dawdle are dropped, a stop finishes what was
accepted.
"""

import asyncio
import resource
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

STOP_S = 30  # seconds to finish what was accepted
MOST_HEAD = 65536  # bytes of it
MOST_CONNECTIONS = 2048  # `MOST_REQUESTS` of them may be busy
KEEP_ALIVE_S = 75


class _Protocol(HttpToolsProtocol):
    """Closes connections whose request does not get on."""

    request_s = 30.0  # in which the head must have come
    _waiting: asyncio.TimerHandle | None = None
    _head_bytes: int | None = None  # of a head that is not complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._end_waiting()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD + len(data):
                self.transport.close()
                return
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._end_waiting()
        self._head_bytes = 0
        self._waiting = self.loop.call_later(self.request_s, self.transport.close)

    def _end_waiting(self) -> None:
        self._head_bytes = None
        if self._waiting is not None:
            self._waiting.cancel()


def run_app(
    app: ASGIApp,
    listener: socket.socket,
    begin: Callable[[Callable[[], None]], None],
    *,
    request_s: float,
) -> None:
    """Until SIGINT or SIGTERM, or the stop that `begin` is given; a second SIGINT does not wait.

    Args:
        request_s: see `Limits`.
        begin: called before anything is answered, with a function that stops.
    """
    _Protocol.request_s = request_s
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, http=_Protocol,
        timeout_keep_alive=KEEP_ALIVE_S, timeout_graceful_shutdown=STOP_S, ws="none",
        limit_concurrency=MOST_CONNECTIONS, lifespan="on",
    )  # fmt: skip
    _allow_open_files(2 * MOST_CONNECTIONS)
    server = uvicorn.Server(config)

    def stop() -> None:
        server.should_exit = True

    # uvicorn raises again, behind its end, the signals that it has caught.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    begin(stop)
    server.run(sockets=[listener])


def _allow_open_files(n: int) -> None:
    """As many as there are connections, as far as the system lets this user."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < n:
        allowed = n if hard == resource.RLIM_INFINITY else min(n, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
