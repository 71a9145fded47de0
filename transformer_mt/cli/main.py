"""The command line: parse, load, call one function, print.

Results go to standard output, everything else to standard error. Heavy imports stand inside the
commands, so that `tmt --help` answers at once.
"""

import json
import os
import sys
from typing import Annotated

import typer

from transformer_mt import __version__
from transformer_mt.cli.bench import bench_app
from transformer_mt.cli.data import data_app, tokenizer_app
from transformer_mt.cli.eval import evaluate
from transformer_mt.cli.export import export
from transformer_mt.cli.model import average, explain, info, score
from transformer_mt.cli.options import AsJson, say, show
from transformer_mt.cli.runs import compare, runs
from transformer_mt.cli.train import config, init, plan, train
from transformer_mt.cli.translate import translate
from transformer_mt.errors import OUTSIDE, LostProcess, describe
from transformer_mt.system.processes.environment import DEFAULTS
from transformer_mt.system.processes.launch import LOST, end_with_launcher
from transformer_mt.system.terminal import prepare_streams

app = typer.Typer(
    name="tmt",
    help="Train, use, score and explain translation models, from two text files on.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
commands = (train, init, plan, config, translate, score, explain, info, average, export, runs)
for command in commands:
    app.command()(command)
app.command("eval")(evaluate)
app.command()(compare)
app.add_typer(data_app, name="data")
app.add_typer(tokenizer_app, name="tokenizer")
app.add_typer(bench_app, name="bench")


def main() -> None:
    """Run a command; a mistake of the user becomes one message and exit status 2."""
    prepare_streams()
    os.environ.update(DEFAULTS | dict(os.environ))  # before torch is loaded
    end_with_launcher()
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        app(arguments)
    except BrokenPipeError:  # the reader of our output has gone, e.g. `| head`
        _drop_output()
        sys.exit(1)
    except OUTSIDE as error:
        if debug:
            raise
        _drop_output()
        say(f"tmt: {describe(error)}")
        sys.exit(LOST if isinstance(error, LostProcess) else 2)


def _drop_output() -> None:
    """Let go of output that cannot be printed, or Python would try again when it ends."""
    try:
        sys.stdout.flush()
    except (OSError, UnicodeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="show the traceback of an error; anywhere on the line")
    ] = False,
) -> None:
    if version:
        show(__version__)
        raise typer.Exit


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Say what this machine can do, and what is missing."""
    from transformer_mt.profiling.doctor import examine_machine, render

    findings = examine_machine()
    show(json.dumps([vars(fact) for fact in findings], indent=2) if as_json else render(findings))
