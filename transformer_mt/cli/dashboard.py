"""`tmt dashboard`: the runs of a folder in the browser."""

import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from transformer_mt.cli.options import say
from transformer_mt.cli.serve import address_of, listening
from transformer_mt.messages.catalogue import tr

_option: Any = typer.Option


def dashboard(
    directory: Annotated[
        Path, typer.Argument(metavar="RUNS", help="the folder of the runs")
    ] = Path("runs"),
    host: Annotated[str, _option(help="0.0.0.0: other machines may look, too")] = "127.0.0.1",
    port: Annotated[int, _option(min=0, max=65535, help="0: any that is free")] = 8081,
    open_it: Annotated[bool, _option("--open", help="open a browser with it")] = False,
) -> None:
    """Watch trainings in the browser: curves, sample translations, runs compared; read-only."""
    from transformer_mt.export.formats import require

    for package in ("fastapi", "uvicorn"):
        require(package, package, "serve")
    with listening(host, port) as listener:
        from transformer_mt.pipeline.run_list import runs_in
        from transformer_mt.serve.dashboard import run_dashboard
        from transformer_mt.serve.gate import LOOPBACK

        if not any(runs_in(directory)):
            say(
                tr(
                    "{}: no runs here yet; the page shows a training as soon as it begins",
                    directory,
                )
            )
        say(tr("{}: the runs; Ctrl-C ends", address_of(host, listener)))
        if open_it:
            webbrowser.open(address_of(host, listener))
        run_dashboard(directory, listener, LOOPBACK if host in LOOPBACK else ())
