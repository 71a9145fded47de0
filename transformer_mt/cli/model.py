"""The commands about a trained model: `tmt score`, `average`, `info`, `explain`."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from transformer_mt.cli.options import (
    Device,
    Into,
    ModelPath,
    find_model_path,
    load_translator,
    say,
    show,
)
from transformer_mt.errors import DataError, TmtError
from transformer_mt.messages.catalogue import tr

_option: Any = typer.Option


def score(
    src_path: Annotated[Path, _option("--src", help="source texts, one per line")],
    tgt_path: Annotated[Path, _option("--tgt", help="target texts, one per line")],
    model: ModelPath = None,
    to: Into = None,
    device: Device = "auto",
    as_json: Annotated[bool, _option("--json", help="one JSON object per line")] = False,
) -> None:
    """Print the log-probability (nats) of each target given its source, and its tokens."""
    from transformer_mt.corpus.readers.pairs import split_lines

    srcs, tgts = list(split_lines(src_path)), list(split_lines(tgt_path))
    if len(srcs) != len(tgts):
        raise DataError(
            tr("{} has {} lines but {} has {}", src_path, len(srcs), tgt_path, len(tgts))
        )
    for pair in load_translator(model).score_pairs(srcs, tgts, to=to):
        if as_json:
            log_prob = None if math.isnan(pair.log_prob) else pair.log_prob
            show(json.dumps({"log_prob": log_prob, "n_tokens": pair.n_tokens}))
        else:
            show(f"{pair.log_prob:.4f}\t{pair.n_tokens}")


def average(
    run_dir: Annotated[Path, typer.Argument(help="a run directory")],
    out_dir: Annotated[Path, typer.Argument(help="the model directory to write")],
    last: Annotated[int, _option(min=1, help="how many of the last checkpoints")] = 5,
) -> None:
    """Write a model directory whose weights are the mean of a run's last checkpoints."""
    from transformer_mt.pipeline.finish import average_run
    from transformer_mt.pipeline.run_dir import Run
    from transformer_mt.rendering.progress import ShownStages

    with ShownStages() as stages:
        stages.begin(tr("averaging the last {} checkpoints of {}", last, run_dir))
        updates = average_run(Run(run_dir), out_dir, last, say)
    say(tr("{}: mean of the checkpoints after updates {}", out_dir, ", ".join(map(str, updates))))


_MODELS = (
    "model or run directory, or hf:OWNER/NAME; may be repeated; default: the newest finished run"
)


def info(
    models: Annotated[list[Path] | None, _option("-m", "--model", help=_MODELS)] = None,
    as_json: Annotated[
        bool, _option("--json", help="print JSON; of several models a list")
    ] = False,
) -> None:
    """Say what model directories are: languages, sizes, training, scores."""
    from transformer_mt.evaluation.test_sets import describe_model

    paths = [find_model_path(model) for model in models or ()] or [find_model_path(None)]
    found = [describe_model(path) for path in paths]
    if as_json:
        shown = found if len(found) > 1 else found[0]
        show(json.dumps(shown, ensure_ascii=False, indent=2))
        return
    show("\n\n".join(map(_render_tree, found)))
    if len(found) > 1:
        say(tr("what differs between runs: tmt compare RUN RUN"))


_FIND = "the heads in which the first looks most at the second"
_TARGET = "what the decoder reads; default: its own translation"
_CONTRAST = "a TSV of source, right, wrong: accuracy of the model"
_NUMBER = "a number from 1, or mean"


def explain(
    text: Annotated[str | None, typer.Argument(help="one sentence")] = None,
    target: Annotated[str | None, _option(help=_TARGET)] = None,
    model: ModelPath = None,
    to: Into = None,
    device: Device = "auto",
    find: Annotated[tuple[str, str] | None, _option(metavar="WORD WORD", help=_FIND)] = None,
    kind: Annotated[
        str | None, _option(help="encoder, decoder or cross; default: the most telling")
    ] = None,
    layer: Annotated[str | None, _option(help=_NUMBER)] = None,
    head: Annotated[str | None, _option(help=_NUMBER)] = None,
    out_dir: Annotated[
        Path | None, _option("-o", "--out", help="write the PNGs and the HTML page here")
    ] = None,
    numbers: Annotated[bool, _option(help="print Q, K, scores, weights of one head")] = False,
    example: Annotated[str | None, _option(help="two-words, thinking-machines or scaling")] = None,
    contrast: Annotated[Path | None, _option(help=_CONTRAST)] = None,
) -> None:
    """Show the attention of a translation: terminal, PNG, one HTML page; and worked examples.

    Without --kind, --layer and --head: the head and row that tell most about a pronoun, and why.
    """
    from transformer_mt.explain import command as explain_command
    from transformer_mt.explain.worked_examples import example_text
    from transformer_mt.system.output import check_folder_target

    chosen = (kind, layer, head) != (None, None, None)
    if find is not None and (chosen or numbers):
        raise TmtError(
            tr(
                "--find says which layer and head: leave out --kind, --layer and --head, and "
                "--numbers"
            )
        )
    if out_dir is not None and (numbers or example is not None or contrast is not None):
        raise TmtError(tr("only a sentence without --numbers has pictures: leave out -o"))
    if example is not None:
        show(example_text(example))
    elif contrast is not None:
        show(explain_command.contrast_text(load_translator(model), contrast, to=to))
    elif text is None:
        raise TmtError(tr("give a sentence, --example NAME or --contrast FILE"))
    else:
        view = explain_command.View.parse(kind, layer, head)
        if out_dir is not None:
            check_folder_target(out_dir)
        translator = load_translator(model, precision="fp32")
        if numbers:
            show(explain_command.numbers_text(translator, text, target, view, to=to))
        else:
            found = explain_command.attention_text(
                translator, text, target, view if chosen else None, out_dir, to=to, find=find
            )
            show(found, styled=True)
            if out_dir is not None:
                say(tr("pictures and page: {}", out_dir))


def _render_tree(value: Any, indent: int = 0) -> str:
    """Nested plain values as indented `key: value` lines."""
    lines = []
    for key, item in value.items():
        if isinstance(item, dict):
            lines += [f"{'  ' * indent}{key}:", _render_tree(item, indent + 1)]
        else:
            lines.append(f"{'  ' * indent}{key}: {item}")
    return "\n".join(line for line in lines if line)
