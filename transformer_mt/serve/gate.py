"""What every request passes: time, size and Host are checked before, headers and a log line added.

Pure ASGI. The body is read here, as a whole and bounded; the handler of the request then gets it
at once. A client that disconnects cancels its work.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transformer_mt.messages.catalogue import tr
from transformer_mt.serve.limits import Limits, Refused
from transformer_mt.text.normalise import well_formed

LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")
FILE_PATHS = ("/translate_file",)
CLIENT_GONE = 499  # in the log and the metrics; nobody reads it
MOST_REQUESTS = 1000  # under way at once, besides those of GET, by which health is asked
MOST_BYTES = 256 << 20  # of the bodies of all requests under way
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; frame-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_log = logging.getLogger("tmt.requests")

Seen = Callable[[str, int, float], None]  # path of the route, status, seconds


def error_response(
    path: str, status: int, message: str, retry_after: int | None = None
) -> Response:
    """An error in the form of the interface that a path belongs to."""
    message = well_formed(message)
    if path.startswith("/v2/"):
        content: Any = {"message": message}
    elif path.startswith("/v1/"):
        status = 401 if status == 403 else status  # OpenAI's for a key that it does not know
        kind = "invalid_request_error" if status < 500 else "server_error"
        content = {"error": {"message": message, "type": kind, "param": None, "code": None}}
    else:
        content = {"error": message}
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return JSONResponse(content, status, headers)


class Gate:
    """The outermost application."""

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        *,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        seen: Seen = lambda *_: None,
    ) -> None:
        """
        Args:
            hosts: names of this server that requests may use; none: any. On loopback these are its
                own, so that no page of another site speaks to it by a name of its own.
            origins: sites whose pages may ask, besides the server's own.
            seen: called with each answered request.
        """
        self._app, self._limits, self._hosts, self._seen = app, limits, hosts, seen
        self._origins = origins
        self._n_open = self._n_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.monotonic(), CLIENT_GONE

        async def answered(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        self._n_open += scope["method"] != "GET"
        try:
            await self._pass(scope, receive, answered)
        finally:
            self._n_open -= scope["method"] != "GET"
            seconds = time.monotonic() - start
            self._tell(scope, status, seconds)
            self._seen(getattr(scope.get("route"), "path", "other"), status, seconds)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            headers = Headers(scope=scope)
            self._check_host(headers.get("host", ""))
            if scope["method"] not in ("GET", "HEAD"):
                self._check_site(headers)
            body = await self._body(scope, receive)
            if self._n_open > MOST_REQUESTS and scope["method"] != "GET":
                raise Refused(429, tr("too many requests wait; try again in {} s", 1), 1)
        except Refused as error:
            response = error_response(scope["path"], error.status, str(error), error.retry_after)
            response.headers["Connection"] = "close"  # the rest of the body is not wanted
            await response(scope, receive, send)
            return
        if body is not None:
            self._n_bytes += len(body)
            try:
                await self._run(scope, body, receive, send)
            finally:
                self._n_bytes -= len(body)

    def _check_host(self, host: str) -> None:
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if self._hosts and name.lower() not in self._hosts:
            raise Refused(400, tr("this server is not called {}", name[:80]))

    def _check_site(self, headers: Headers) -> None:
        """A browser asks nobody before a page of another site sends a form, or a text."""
        site, origin = headers.get("sec-fetch-site", ""), headers.get("origin", "")
        if site in ("cross-site", "same-site") and not {origin, "*"} & {*self._origins}:
            raise Refused(
                403, tr("pages of other sites may not ask here; --cors names those that may")
            )

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body; None: the client has gone.

        What is too much is read to its end and dropped: a connection that is closed before is
        reset, and the client does not see why.

        Raises:
            Refused: it is too large, or too slow, or there is no room for it.
        """
        is_file = scope["path"] in FILE_PATHS
        most = self._limits.file_bytes if is_file else self._limits.body_bytes
        room = max(MOST_BYTES, most)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.request_s):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part = message.get("body", b"")
                    size += len(part)
                    if size <= most and self._n_bytes + len(part) <= room:
                        parts.append(part)
                        self._n_bytes += len(part)
                    more = message.get("more_body", False)
        except TimeoutError as error:
            if size <= most:
                text = tr("the request was not there after {:g} s", self._limits.request_s)
                raise Refused(408, text) from error
        finally:
            self._n_bytes -= sum(map(len, parts))
        if size > most:
            raise Refused(413, tr("more than {:,} bytes", most))
        if sum(map(len, parts)) < size:
            raise Refused(429, tr("too many requests wait; try again in {} s", 1), 1)
        return b"".join(parts)

    async def _run(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Run the application until it is done or its client has gone."""
        gone = asyncio.ensure_future(_gone(receive))
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return unread.pop() if unread else await asyncio.shield(gone)

        work = asyncio.ensure_future(self._app(scope, replay, send))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                work.cancel()
            with suppress(asyncio.CancelledError):
                await work
        finally:
            work.cancel()
            gone.cancel()

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        """A line of the log; never a text, a key or a query."""
        client = scope.get("client") or ("", 0)
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "client": client[0], "method": scope["method"], "path": scope["path"][:100],
            "status": status, "ms": round(1000 * seconds, 1),
        }  # fmt: skip
        _log.info(
            "%s", json.dumps(line | scope.get("state", {}).get("log", {}), ensure_ascii=False)
        )


async def _gone(receive: Receive) -> Message:
    while (message := await receive())["type"] != "http.disconnect":
        pass
    return message
