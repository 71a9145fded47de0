"""The commands about a trained model: `tmt score`, `average`, `info`, `explain`."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from transformer_mt.cli.options import (
    AsJson,
    Device,
    Into,
    ModelPath,
    find_model_path,
    load_translator,
    say,
    show,
)
from transformer_mt.errors import DataError, TmtError


def score(
    src_path: Annotated[Path, typer.Option("--src", help="source texts, one per line")],
    tgt_path: Annotated[Path, typer.Option("--tgt", help="target texts, one per line")],
    model: ModelPath = None,
    to: Into = None,
    device: Device = "auto",
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


def info(model: ModelPath = None, as_json: AsJson = False) -> None:
    """Say what a model directory is: languages, sizes, training, scores."""
    from transformer_mt.evaluation.test_sets import describe_model

    content = describe_model(find_model_path(model))
    show(json.dumps(content, ensure_ascii=False, indent=2) if as_json else _render_tree(content))


def explain(
    text: Annotated[str | None, typer.Argument(help="one sentence")] = None,
    target: Annotated[
        str | None, typer.Option(help="what the decoder reads; default: its own translation")
    ] = None,
    model: ModelPath = None,
    to: Into = None,
    device: Device = "auto",
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
    from transformer_mt.explain.worked_examples import example_text
    from transformer_mt.system.output import check_folder_target

    if example is not None:
        show(example_text(example))
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
