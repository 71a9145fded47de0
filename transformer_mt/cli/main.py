"""The command line: parse, load, call one function, print.

Results go to standard output, everything else to standard error. Heavy imports stand inside the
commands, so that `tmt --help` answers at once.
"""

import gc
import json
import math
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from transformer_mt import __version__
from transformer_mt.cli.bench import bench_app
from transformer_mt.cli.data import data_app, tokenizer_app
from transformer_mt.cli.eval import evaluate
from transformer_mt.cli.export import export
from transformer_mt.cli.options import (
    AsJson,
    ConfigPath,
    Into,
    ModelPath,
    Offline,
    Overrides,
    Processes,
    Reverse,
    RunDir,
    find_model_path,
    load_experiment,
    load_translator,
    say,
    show,
)
from transformer_mt.cli.translate import translate
from transformer_mt.errors import OUTSIDE, DataError, LostProcess, TmtError, describe
from transformer_mt.system.processes.environment import DEFAULTS, is_rank
from transformer_mt.system.processes.launch import (
    LOST,
    count_processes,
    end_with_launcher,
    launch,
)
from transformer_mt.system.terminal import prepare_streams

app = typer.Typer(
    name="tmt",
    help="Train, use, score and explain translation models, from two text files on.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(translate)
app.command("eval")(evaluate)
app.command()(export)
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
def train(
    config: ConfigPath,
    overrides: Overrides = None,
    reverse: Reverse = False,
    run_dir: RunDir = None,
    offline: Offline = False,
    fresh: Annotated[
        bool, typer.Option(help="forget checkpoints, metrics and model first")
    ] = False,
    processes: Processes = None,
) -> None:
    """Do everything from raw text to a scored model that is not done yet; again: resume."""
    cfg = load_experiment(config, overrides, reverse=reverse, offline=offline)
    if not is_rank():
        n_processes = processes or count_processes()
        if n_processes > 1:
            raise typer.Exit(launch(n_processes, sys.argv[1:]))
    from transformer_mt.pipeline.run_dir import Run
    from transformer_mt.pipeline.train import train_experiment
    from transformer_mt.system.processes.distributed import joined_ranks

    gc.freeze()  # what was imported is never garbage; to look through it takes 0.2 s each time
    run = Run(run_dir or Path("runs") / cfg.name)
    with joined_ranks() as ranks:
        result = train_experiment(cfg, run, fresh=fresh, say=say, ranks=ranks)
    if not ranks.is_main:
        return
    if result.metadata is None:
        say(
            f"stopped after update {result.outcome.progress.update}, everything is saved; "
            "the same command goes on"
        )
        raise typer.Exit(128 + signal.SIGINT)
    trained = result.metadata["trained"]
    say(
        f"[done] {trained['updates']} updates in {trained['minutes']:.1f} minutes "
        f"({trained['stopped_by']}); weights: {trained['weights']}"
    )
    for name, scores in result.metadata["scores"].items():
        for metric, score in scores.items():
            say(f"  {name}: {metric} {score['score']:.2f}  {score['signature']}")
    say(f"model: {run.model_dir}")
    say(f"next:  tmt translate -m {run.directory} TEXT")


@app.command()
def plan(
    config: ConfigPath,
    overrides: Overrides = None,
    reverse: Reverse = False,
    run_dir: RunDir = None,
    processes: Processes = None,
    as_json: AsJson = False,
) -> None:
    """Show what `train` would do, without doing it: sizes, memory, time, all problems at once."""
    cfg = load_experiment(config, overrides, reverse=reverse)
    from transformer_mt.pipeline.run_dir import Run
    from transformer_mt.profiling.plan import make_plan

    found = make_plan(cfg, Run(run_dir) if run_dir else None, processes)
    show(json.dumps(found.to_json(), indent=2) if as_json else found.render())


@app.command()
def score(
    src_path: Annotated[Path, typer.Option("--src", help="source texts, one per line")],
    tgt_path: Annotated[Path, typer.Option("--tgt", help="target texts, one per line")],
    model: ModelPath = None,
    to: Into = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per line")] = False,
) -> None:
    """Print the log-probability (nats) of each target given its source, and its tokens."""
    from transformer_mt.corpus.readers.pairs import split_lines

    srcs, tgts = list(split_lines(src_path)), list(split_lines(tgt_path))
    if len(srcs) != len(tgts):
        raise DataError(f"{src_path} has {len(srcs)} lines but {tgt_path} has {len(tgts)}")
    for pair in load_translator(model).score_pairs(srcs, tgts, to=to):
        if as_json:
            log_prob = None if math.isnan(pair.log_prob) else pair.log_prob
            show(json.dumps({"log_prob": log_prob, "n_tokens": pair.n_tokens}))
        else:
            show(f"{pair.log_prob:.4f}\t{pair.n_tokens}")


@app.command()
def average(
    run_dir: Annotated[Path, typer.Argument(help="a run directory")],
    out_dir: Annotated[Path, typer.Argument(help="the model directory to write")],
    last: Annotated[int, typer.Option(min=1, help="how many of the last checkpoints")] = 5,
) -> None:
    """Write a model directory whose weights are the mean of a run's last checkpoints."""
    from transformer_mt.pipeline.finish import average_run
    from transformer_mt.pipeline.run_dir import Run

    updates = average_run(Run(run_dir), out_dir, last, say)
    say(f"{out_dir}: mean of the checkpoints after updates {', '.join(map(str, updates))}")


@app.command()
def tune(
    model: ModelPath = None,
    src_path: Annotated[Path | None, typer.Option("--src", help="source texts")] = None,
    ref_path: Annotated[Path | None, typer.Option("--ref", help="their references")] = None,
    to: Into = None,
    metric: Annotated[str, typer.Option(help="bleu, chrf, …")] = "bleu",
    write: Annotated[
        bool, typer.Option("--write", help="make the best one the model's own")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the beam and length penalty that suit a model, on its run's dev set."""
    from transformer_mt.config.experiment import load_config
    from transformer_mt.evaluation.test_sets import files_test_set
    from transformer_mt.profiling.tune import tune as find_best
    from transformer_mt.profiling.tune import write_choice

    model_dir = find_model_path(model)
    tests = []
    if src_path is not None and ref_path is not None:
        languages = load_config(model_dir / "config.yaml").languages
        tests = [files_test_set(src_path, ref_path, languages, to)]
    elif src_path or ref_path:
        raise TmtError("--src and --ref go together")
    found = find_best(model_dir, metric, tests)
    show(json.dumps(found.to_json(), indent=2) if as_json else found.render())
    if write:
        write_choice(model_dir, found.best)
        say(f"{model_dir}: decode.beam and decode.length_penalty are these now")


@app.command()
def info(model: ModelPath = None, as_json: AsJson = False) -> None:
    """Say what a model directory is: languages, sizes, training, scores."""
    from transformer_mt.evaluation.test_sets import describe_model

    content = describe_model(find_model_path(model))
    show(json.dumps(content, ensure_ascii=False, indent=2) if as_json else _render_tree(content))


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Say what this machine can do, and what is missing."""
    from transformer_mt.profiling.doctor import examine_machine, render

    findings = examine_machine()
    show(json.dumps([f.to_json() for f in findings], indent=2) if as_json else render(findings))


@app.command()
def explain(
    text: Annotated[str | None, typer.Argument(help="one sentence")] = None,
    target: Annotated[
        str | None, typer.Option(help="what the decoder reads; default: its own translation")
    ] = None,
    model: ModelPath = None,
    to: Into = None,
    kind: Annotated[str, typer.Option(help="encoder, decoder or cross")] = "cross",
    layer: Annotated[str, typer.Option(help="a number from 1, or mean")] = "mean",
    head: Annotated[str, typer.Option(help="a number from 1, or mean")] = "mean",
    out_dir: Annotated[
        Path | None, typer.Option("-o", "--out", help="write the PNGs and the HTML page here")
    ] = None,
    numbers: Annotated[bool, typer.Option(help="print Q, K, scores, weights of one head")] = False,
    example: Annotated[
        str | None, typer.Option(help="two-words, thinking-machines or scaling")
    ] = None,
    contrast: Annotated[
        Path | None, typer.Option(help="a TSV of source, right, wrong: accuracy of the model")
    ] = None,
) -> None:
    """Show the attention of a translation: terminal, PNG, one HTML page; and worked examples."""
    from transformer_mt.explain import command as explain_command
    from transformer_mt.system.output import check_folder_target

    if example is not None:
        show(explain_command.example_text(example))
    elif contrast is not None:
        show(explain_command.contrast_text(load_translator(model), contrast, to=to))
    elif text is None:
        raise TmtError("give a sentence, --example NAME or --contrast FILE")
    else:
        view = explain_command.View.parse(kind, layer, head)
        if out_dir is not None:
            check_folder_target(out_dir)
        translator = load_translator(model, precision="fp32")
        if numbers:
            show(explain_command.numbers_text(translator, text, target, view, to=to))
        else:
            found = explain_command.attention_text(translator, text, target, view, out_dir, to=to)
            show(found, styled=True)
            if out_dir is not None:
                say(f"pictures and page: {out_dir}")


def _render_tree(value: Any, indent: int = 0) -> str:
    """Nested plain values as indented `key: value` lines."""
    lines = []
    for key, item in value.items():
        if isinstance(item, dict):
            lines += [f"{'  ' * indent}{key}:", _render_tree(item, indent + 1)]
        else:
            lines.append(f"{'  ' * indent}{key}: {item}")
    return "\n".join(line for line in lines if line)
