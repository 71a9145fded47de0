"""The command line: parse, load, call one function, print.

Results go to standard output, everything else to standard error. Heavy imports stand inside the
commands, so that `tmt --help` answers at once.
"""

import json
import os
import sys
from typing import Annotated

import typer
from typer.main import get_command

from transformer_mt import __version__
from transformer_mt.cli.bench import bench_app
from transformer_mt.cli.dashboard import dashboard
from transformer_mt.cli.data import data_app, tokenizer_app
from transformer_mt.cli.distill import distill
from transformer_mt.cli.eval import evaluate
from transformer_mt.cli.export import export
from transformer_mt.cli.hub import pull, push
from transformer_mt.cli.language import Command, Group, in_users_language
from transformer_mt.cli.model import average, explain, info, score
from transformer_mt.cli.options import Always, AsJson, say, show
from transformer_mt.cli.runs import compare, runs
from transformer_mt.cli.serve import mcp, serve, serve_workers
from transformer_mt.cli.train import config, init, plan, train
from transformer_mt.cli.translate import translate
from transformer_mt.errors import OUTSIDE, LostProcess, describe
from transformer_mt.messages.catalogue import LANGUAGE, tr
from transformer_mt.system.processes.environment import DEFAULTS
from transformer_mt.system.processes.launch import LOST, end_with_launcher
from transformer_mt.system.terminal import prepare_streams, set_quiet, show_folded

# Groups of `tmt --help`.
TRAIN, USE, JUDGE, HERE = "Train", "Use a model", "Judge a model", "This machine"
# What follows the name of a command in the example of its help.
EXAMPLES = {
    "train": "tiny --minutes 5 --run-dir runs/try",
    "init": "my.zh my.en --minutes 30",
    "plan": "my.yaml",
    "config": "base",
    "average": "runs/tiny averaged --last 5",
    "distill": "-m runs/big --mono news.zh --run-dir runs/student",
    "translate": "-m runs/tiny -i input.zh -o output.en",
    "explain": '-m runs/tiny "这只动物没有穿过街道，因为它太累了。" -o tired',
    "export": "-m runs/tiny --quantization int8",
    "serve": "-m runs/tiny --port 5000",
    "mcp": "-m runs/tiny",
    "push": "alice/zh-en -m runs/tiny --license apache-2.0",
    "pull": "alice/zh-en -o zh-en",
    "eval": "-m runs/a -m runs/b --bleu --confidence --report ab",
    "score": "-m runs/tiny --src test.zh --tgt test.en",
    "info": "-m runs/tiny",
    "runs": "runs --json",
    "compare": "runs/one runs/two -o curves.png",
    "dashboard": "runs --open",
    "doctor": "--json",
    "data check": "my.zh my.en --src zh --tgt en --page check.html",
    "data find": "zh en",
    "data download": "zh-en",
    "data clean": "my.yaml clean --explain",
    "data prepare": "my.yaml",
    "data sample": "my.yaml -n 20",
    "data backtranslate": "-m runs/en-zh --mono news.zh -o data/back",
    "data distill": "-m runs/big --mono news.zh -o data/distilled",
    "data demo": "demo",
    "tokenizer train": "my.en en.model --lang en --vocab-size 8000",
    "tokenizer encode": 'en.model "a sentence"',
    "tokenizer decode": 'en.model "12 7 431"',
    "bench train": "--size small",
    "bench decode": "-m runs/tiny --src test.zh",
}

app = typer.Typer(
    name="tmt",
    cls=Group,
    help="Train, use, score and explain translation models, from two text files on.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, command, group in (
    ("train", train, TRAIN), ("init", init, TRAIN), ("plan", plan, TRAIN),
    ("config", config, TRAIN), ("average", average, TRAIN), ("distill", distill, TRAIN),
    ("translate", translate, USE), ("explain", explain, USE), ("export", export, USE),
    ("serve", serve, USE), ("mcp", mcp, USE), ("push", push, USE), ("pull", pull, USE),
    ("eval", evaluate, JUDGE), ("score", score, JUDGE), ("info", info, JUDGE),
    ("runs", runs, JUDGE), ("compare", compare, JUDGE), ("dashboard", dashboard, JUDGE),
):  # fmt: skip
    app.command(name, rich_help_panel=group)(command)
app.command("serve-workers", hidden=True)(serve_workers)
app.add_typer(data_app, name="data", rich_help_panel=TRAIN)
app.add_typer(tokenizer_app, name="tokenizer", rich_help_panel=TRAIN)
app.add_typer(bench_app, name="bench", rich_help_panel=HERE)


def main() -> None:
    """Run a command; a mistake of the user becomes one message and exit status 2."""
    prepare_streams()
    os.environ.update(DEFAULTS | dict(os.environ))  # before torch is loaded
    end_with_launcher()
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        command = app if LANGUAGE == "en" else in_users_language(get_command(app))
        command(arguments, prog_name="tmt")  # also where `python -m` has started it
    except BrokenPipeError:  # the reader of our output has gone, e.g. `| head`
        _drop_output()
        sys.exit(1)
    except OUTSIDE as error:
        if debug:
            raise
        _drop_output()
        say(Always(f"tmt: {describe(error)}"))
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
    set_quiet(False)
    if version:
        show(__version__)
        raise typer.Exit


@app.command("doctor", rich_help_panel=HERE)
def doctor(as_json: AsJson = False) -> None:
    """Say what this machine can do, and what is missing."""
    from transformer_mt.profiling.doctor import examine_machine, render

    findings = examine_machine()
    if as_json:
        show(json.dumps([vars(fact) for fact in findings], indent=2))
    else:
        show_folded(render(findings))


for prefix, commands in (
    ("", app), ("data ", data_app), ("tokenizer ", tokenizer_app), ("bench ", bench_app)
):  # fmt: skip
    for entry in commands.registered_commands:
        entry.cls = Command
        if (whole_name := f"{prefix}{entry.name}") in EXAMPLES:
            entry.epilog = tr("Example: {}", f"tmt {whole_name} {EXAMPLES[whole_name]}")
