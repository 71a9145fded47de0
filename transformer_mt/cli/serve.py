"""`tmt serve`: models behind the interfaces that programs speak, and a page."""

import logging
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transformer_mt.cli.options import (
    ModelPath,
    Quiet,
    SearchPrecision,
    find_model_path,
    one_of,
    say,
)
from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.machine import available_memory_bytes, usable_cores

if TYPE_CHECKING:
    from transformer_mt.serve.pool import WorkerPool

_PACKAGES = ("fastapi", "uvicorn", "httptools", "python_multipart", "sqlalchemy",
             "prometheus_client")  # fmt: skip
_WORKER_BYTES = 768 << 20
_option: Any = typer.Option
_limit: Any = partial(typer.Option, rich_help_panel="Limits")
_seconds: Any = partial(_limit, min=0.1, max=86_400)
_who: Any = partial(typer.Option, rich_help_panel="Who may ask")
_MODELS = "model or run directory, or hf:OWNER/NAME; repeatable; default: the newest finished run"
_WORKERS = "default: one per core, if there is as much memory: 768 MiB for each"
_WAIT = "ms that the last free worker waits for more texts"
_KEYS = "a file of API keys; --add-key writes it; default: everybody may ask"
_NAME = "as a proxy before this machine passes it on, besides localhost; repeatable"
_GLOSSARIES = "a database that keeps clients' glossaries, such as sqlite:///glossaries.db"


def serve(
    models: Annotated[list[Path] | None, _option("-m", "--model", help=_MODELS)] = None,
    host: Annotated[str, _option(help="0.0.0.0: other machines may ask, too")] = "127.0.0.1",
    port: Annotated[int, _option(min=0, max=65535, help="0: any that is free")] = 5000,
    workers: Annotated[int | None, _option(min=1, help=_WORKERS)] = None,
    engine: Annotated[
        str, _option(help="native, or ctranslate2 with an export, for instance int8")
    ] = "native",
    precision: SearchPrecision = "auto",
    wait: Annotated[float, _option(min=0, max=60_000, help=_WAIT)] = 5.0,
    glossaries: Annotated[str, _option(metavar="URL", help=_GLOSSARIES)] = "sqlite://",
    characters: Annotated[int, _limit(min=1, help="of the texts of a request")] = 5000,
    queue: Annotated[int, _limit(min=1, help="characters that may wait")] = 1_000_000,
    file_size: Annotated[int, _limit(min=1, help="of a document, in MiB")] = 16,
    cache: Annotated[int, _limit(min=0, help="translations that are kept")] = 4096,
    request_time: Annotated[float, _seconds(help="seconds for a request to come")] = 30.0,
    answer_time: Annotated[float, _seconds(help="seconds until an answer")] = 60.0,
    keys: Annotated[Path | None, _who(help=_KEYS)] = None,
    add_key: Annotated[
        str | None, _who("--add-key", metavar="NAME", help="make a key, print it, and end")
    ] = None,
    per_minute: Annotated[int, _who(min=1, help="requests, of the key made")] = 120,
    cors: Annotated[
        list[str] | None, _who(metavar="ORIGIN", help="a site whose pages may ask; repeatable")
    ] = None,
    names: Annotated[list[str] | None, _who("--name", metavar="HOST", help=_NAME)] = None,
    log_texts: Annotated[bool, _option("--log-texts", help="the log tells texts, too")] = False,
    quiet: Quiet = False,
) -> None:
    """Translate for other programs, over HTTP; a page for people is at /."""
    if add_key is not None:
        _add_key(keys, add_key, per_minute)
        return
    _require_packages()
    one_of("--engine", engine, ("native", "ctranslate2"))
    paths = [find_model_path(model) for model in models or (None,)]
    from transformer_mt.serve.pool import WorkerPool
    from transformer_mt.serve.text_queue import TextQueue

    waiting = TextQueue(most_characters=queue, wait_s=wait / 1000)
    n_workers = workers or count_workers(engine)
    pool = WorkerPool(waiting, paths, n_workers=n_workers, engine=engine, precision=precision)
    pool.batch_s = max(pool.batch_s, answer_time)
    # The models are loaded while the rest is imported.
    with listening(host, port) as listener, pool:
        from transformer_mt.serve.app import ServerSettings, make_app
        from transformer_mt.serve.gate import LOOPBACK
        from transformer_mt.serve.limits import Limits
        from transformer_mt.serve.listen import run_app

        limits = Limits(characters, file_bytes=file_size << 20, request_s=request_time,
                        answer_s=answer_time)  # fmt: skip
        hosts = (*LOOPBACK, *map(str.lower, names or ())) if host in LOOPBACK else ()
        settings = ServerSettings(limits, keys, glossaries, cors or (), hosts, log_texts, cache)
        app = make_app(settings, pool)
        _log_to_stderr()
        say(tr("{}: the page and every interface; Ctrl-C ends", address_of(host, listener)))
        run_app(app, listener, partial(_watch, pool), request_s=request_time)
    if pool.failed:
        raise typer.Exit(2)


def count_workers(engine: str) -> int:
    """One per core; of tmt's own, which are processes, as many as have memory for a small model."""
    room = available_memory_bytes() // _WORKER_BYTES if engine == "native" else usable_cores()
    return max(1, min(usable_cores(), room))


def _require_packages() -> None:
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        text = tr("{} is not installed: pip install 'transformer-mt[{}]'", missing[0], "serve")
        raise TmtError(text)


def _watch(pool: "WorkerPool", stop: Callable[[], None]) -> None:
    """Tell when the models are loaded; stop if they cannot be."""

    from transformer_mt.serve.detection import detect

    def wait() -> None:
        detect(["What is loaded here, no request waits for."])
        pool.started.wait()
        if pool.failed:
            stop()
            return
        for info in pool.models:
            pairs = ", ".join(f"{src} → {tgt}" for src, tgt in info.directions)
            say(tr("ready: {}: {}", info.name, pairs))

    threading.Thread(target=wait, daemon=True).start()


def listening(host: str, port: int) -> socket.socket:
    """Raises: TmtError: the port is taken, or the host is not of this machine."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        text = tr("--host {} --port {}: {}", host, port, error.strerror or error)
        raise TmtError(text) from error
    # What it accepts inherits this: else the body of an answer waits 40 ms until the client's
    # kernel has acknowledged its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address_of(host: str, listener: socket.socket) -> str:
    """What a browser is given."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def _add_key(path: Path | None, name: str, per_minute: int) -> None:
    from transformer_mt.cli.options import show
    from transformer_mt.serve.limits import ApiKeys

    if path is None:
        raise TmtError(tr("--add-key needs --keys FILE, the file that the key is written to"))
    show(ApiKeys.add(path, name, per_minute))
    say(tr("{}: has a key for {}; only this line shows it", path, name))


def _log_to_stderr() -> None:
    """Requests as JSON, and what happens to workers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    for name in ("tmt.requests", "transformer_mt.serve"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False


def mcp(model: ModelPath = None) -> None:
    """Give a model to an assistant as tools, over standard input and output (MCP)."""
    from transformer_mt.export.formats import require

    require("mcp", "mcp", "serve")
    from transformer_mt.serve.mcp import mcp_server

    mcp_server(find_model_path(model)).run()


def serve_workers() -> None:
    """Translate for the server that has started this process."""
    from transformer_mt.serve.jobs import WorkerSettings
    from transformer_mt.serve.worker import run_workers

    run_workers(WorkerSettings.from_json(sys.stdin.readline()))
