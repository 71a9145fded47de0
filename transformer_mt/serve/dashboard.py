"""`tmt dashboard`: the runs of a folder in a browser, read-only, while they train.

Requests name runs. A name is looked up in the listing of the folder; no path of a request is
opened. A run that vanishes, or is damaged, is no error of the server.
"""

import json
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import APIRouter, HTTPException, Query
from starlette.responses import Response, StreamingResponse

from transformer_mt.config.experiment import load_config
from transformer_mt.config.yaml_text import flattened
from transformer_mt.errors import OUTSIDE, describe
from transformer_mt.messages.catalogue import tr
from transformer_mt.pipeline.run_comparison import compare_runs
from transformer_mt.rendering.pages import SHARED_PAGE
from transformer_mt.serve.app import new_app
from transformer_mt.serve.gate import Gate
from transformer_mt.serve.limits import Limits
from transformer_mt.serve.page_routes import serve_file
from transformer_mt.serve.run_watch import EventStream, Watch, WatchedRun, plain

MOST_RUNS = 12  # that are watched or compared at once
_OWN = Path(__file__).parent / "page"
_FILES = {f"page/dashboard.{kind}": _OWN / f"dashboard.{kind}" for kind in ("js", "css")}
_FILES |= {f"page/parts.{kind}": SHARED_PAGE / f"parts.{kind}" for kind in ("js", "css")}
_FILES |= {"": _OWN / "dashboard.html"}
# The page of the data has its styles in it, and no script.
_REPORT_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"
}
Names = Annotated[list[str], Query(max_length=MOST_RUNS)]
NamesOrNone = Annotated[list[str], Query(max_length=MOST_RUNS, default_factory=list)]


def dashboard_router(directory: Path, is_ending: Callable[[], bool] = lambda: False) -> APIRouter:
    """The page and what it asks for.

    Args:
        directory: of the runs; it need not be there yet.
        is_ending: whether the server waits for its streams to end.
    """
    router, watch, comparing = APIRouter(), Watch(directory), threading.Lock()
    for name, path in _FILES.items():
        serve_file(router, f"/{name}", path)

    def find(name: str) -> WatchedRun:
        if watched := watch.runs().get(name):
            return watched
        raise HTTPException(404, tr("there is no run of this name"))

    @lru_cache(maxsize=16)
    def compared(found: tuple[tuple[WatchedRun, int], ...]) -> dict[str, Any]:
        return compare_runs([watched.run.directory for watched, _ in found]).to_json()

    @router.get("/api/runs")
    def runs() -> Response:
        return _json(watch.states())

    @router.get("/api/runs/{name}")
    def run(name: str) -> Response:
        watched = find(name)
        with _told():
            settings = load_config(watched.run.config_path).model_dump(mode="json")
        return _json({**watched.told, "run": name, "settings": dict(flattened(settings))})

    @router.get("/api/runs/{name}/report")
    def report(name: str) -> Response:
        run = find(name).run
        path = run.report_path.resolve()
        if not path.is_file() or not path.is_relative_to(run.directory.resolve()):
            raise HTTPException(404, tr("this run has no page about its data"))
        with _told():
            return Response(path.read_bytes(), media_type="text/html", headers=_REPORT_HEADERS)

    @router.get("/api/compare")
    def compare(run: Names) -> Response:
        found = [find(name) for name in run]
        with _told(), comparing:
            return _json(compared(tuple((one, one.version) for one in found)))

    @router.get("/api/events")
    async def events(run: NamesOrNone) -> Response:
        stream = EventStream(watch, dict.fromkeys(run))
        return StreamingResponse(stream.events(is_ending), media_type="text/event-stream")

    return router


def run_dashboard(directory: Path, listener: socket.socket, hosts: Collection[str]) -> None:
    """Answer until SIGINT or SIGTERM. Args: hosts: see `Gate`."""
    app = new_app("tmt dashboard")
    app.include_router(dashboard_router(directory, lambda: server.should_exit))
    config = uvicorn.Config(
        Gate(app, Limits(), hosts=hosts), log_config=None, access_log=False, server_header=False,
        lifespan="off", ws="none", timeout_graceful_shutdown=5,
    )  # fmt: skip
    server = uvicorn.Server(config)
    for number in (signal.SIGINT, signal.SIGTERM):  # which uvicorn raises again at its end
        signal.signal(number, lambda *_: None)
    server.run(sockets=[listener])


@contextmanager
def _told() -> Iterator[None]:
    """What is wrong with a run is the answer."""
    try:
        yield
    except OUTSIDE as error:
        raise HTTPException(409, describe(error)) from error


def _json(value: Any) -> Response:
    """In ASCII, since names and texts of a damaged file may hold what UTF-8 cannot."""
    return Response(json.dumps(plain(value)), media_type="application/json")
