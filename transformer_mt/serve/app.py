"""`tmt serve`: one service behind every interface, in one application."""

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from transformer_mt import __version__
from transformer_mt.messages.catalogue import tr
from transformer_mt.serve.access import Access
from transformer_mt.serve.deepl import deepl_router
from transformer_mt.serve.fields import problems_of
from transformer_mt.serve.gate import Gate, error_response
from transformer_mt.serve.glossaries import Glossaries
from transformer_mt.serve.libretranslate import libretranslate_router
from transformer_mt.serve.limits import ApiKeys, Limits, Refused
from transformer_mt.serve.metrics import CONTENT_TYPE, Metrics
from transformer_mt.serve.openai import openai_router
from transformer_mt.serve.page_routes import page_router
from transformer_mt.serve.pool import WorkerPool
from transformer_mt.serve.service import Service

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerSettings:
    """
    Attributes:
        keys: a file of API keys; None: everybody may ask.
        glossaries: a database, as SQLAlchemy names it.
        cors: origins whose pages may ask.
        hosts: names of this server that requests may use; none: any.
        log_texts: the log tells the texts.
        n_cached: translations that are kept, the latest.
    """

    limits: Limits = field(default_factory=Limits)
    keys: Path | None = None
    glossaries: str = "sqlite://"
    cors: Collection[str] = ()
    hosts: Collection[str] = ()
    log_texts: bool = False
    n_cached: int = 4096


def make_app(settings: ServerSettings, pool: WorkerPool) -> ASGIApp:
    """The application before some workers.

    Raises:
        TmtError: the file of keys makes no sense.
    """
    service, metrics = Service(pool, settings.limits, settings.n_cached), Metrics()
    metrics.watch(service, pool)
    keys = None if settings.keys is None else ApiKeys(settings.keys)
    access = Access(keys, log_texts=settings.log_texts)

    app = new_app("tmt serve")
    app.include_router(libretranslate_router(service, access))
    app.include_router(deepl_router(service, access, Glossaries(settings.glossaries)))
    app.include_router(openai_router(service, access))
    app.include_router(page_router(service, access))

    @app.get("/metrics", include_in_schema=False)
    async def told() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    gate: ASGIApp = Gate(
        app, settings.limits, hosts=settings.hosts, origins=settings.cors, seen=metrics.request
    )
    if not settings.cors:
        return gate
    return CORSMiddleware(  # outside of the gate, so that a page can read why it was refused
        gate, allow_origins=list(settings.cors), allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["*"], expose_headers=["Retry-After"],  # clients name their versions
    )  # fmt: skip


def new_app(title: str) -> FastAPI:
    """An application without pages of others, whose errors are in the form of each interface."""
    app = FastAPI(title=title, version=__version__, docs_url=None, redoc_url=None)

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return error_response(request.url.path, error.status, str(error), error.retry_after)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return error_response(request.url.path, 400, problems_of(error))

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> Response:
        response = error_response(request.url.path, error.status_code, str(error.detail))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        _log.error("%s %s", request.method, request.url.path, exc_info=error)
        return error_response(request.url.path, 500, tr("an error of the server"))

    return app
