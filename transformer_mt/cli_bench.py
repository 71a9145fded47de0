"""The commands `tmt bench …`: parse, call one function, print."""

import json
from pathlib import Path
from typing import Annotated

import typer

from transformer_mt.cli_common import AsJson

bench_app = typer.Typer(help="Measure this machine.", no_args_is_help=True)


@bench_app.callback()
def _bench() -> None:
    """Measure this machine."""


@bench_app.command("train")
def bench_train(
    size: Annotated[str, typer.Option(help="tiny, small, base or big")] = "tiny",
    src_path: Annotated[
        Path | None, typer.Option("--src", help="source text, e.g. train.en")
    ] = None,
    tgt_path: Annotated[
        Path | None, typer.Option("--tgt", help="its translation, e.g. train.de")
    ] = None,
    updates: Annotated[int, typer.Option(min=1, help="that count, after some to warm up")] = 30,
    max_tokens: Annotated[int, typer.Option(min=1, help="of a micro-batch, with padding")] = 4096,
    precision: Annotated[str, typer.Option(help="auto, fp32, bf16 or fp16")] = "auto",
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="that share the work; default: as many as tmt train starts"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure training: tokens/s, where the time goes, share of the peak, memory, cold start."""
    from transformer_mt.bench import bench_configuration, bench_training, parse_size
    from transformer_mt.launch import count_processes

    chosen = parse_size(size)
    cfg = bench_configuration(
        chosen, src_path, tgt_path, max_tokens=max_tokens, precision=precision
    )
    report = bench_training(
        cfg, chosen, n_updates=updates, processes=processes or count_processes()
    )
    print(json.dumps(report.to_json(), indent=2) if as_json else report.render())
