"""The commands `tmt bench …`: parse, call one function, print."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from transformer_mt.cli.language import Group
from transformer_mt.cli.options import AsJson, Device, find_model_path, one_of, show
from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr

bench_app = typer.Typer(help="Measure this machine.", cls=Group, no_args_is_help=True)
_option: Any = typer.Option
Precision = Annotated[str, _option(help="auto, fp32, bf16 or fp16")]
_PROCESSES = "that share the work; default: as many as tmt train starts"


@bench_app.command("train")
def bench_train(
    size: Annotated[str, _option(help="tiny, small, base or big")] = "tiny",
    src_path: Annotated[Path | None, _option("--src", help="source text, e.g. train.en")] = None,
    tgt_path: Annotated[
        Path | None, _option("--tgt", help="its translation, e.g. train.de")
    ] = None,
    updates: Annotated[int, _option(min=1, help="that count, after some to warm up")] = 30,
    max_tokens: Annotated[int, _option(min=1, help="of a micro-batch, with padding")] = 4096,
    precision: Precision = "auto",
    processes: Annotated[int | None, _option(min=1, help=_PROCESSES)] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure training: tokens/s, where the time goes, share of the peak, memory, cold start."""
    from transformer_mt.profiling.bench_train import SIZES, bench_configuration, bench_training
    from transformer_mt.rendering.progress import ShownStages
    from transformer_mt.system.processes.launch import count_processes

    chosen, n_processes = one_of("--size", size, tuple(SIZES)), processes or count_processes()
    cfg = bench_configuration(
        chosen, src_path, tgt_path, max_tokens=max_tokens, precision=precision
    )
    with ShownStages() as stages:
        report = bench_training(
            cfg, chosen, n_updates=updates, processes=n_processes, stages=stages
        )
    show(json.dumps(asdict(report), indent=2) if as_json else report.render())


@bench_app.command("decode")
def bench_decode(
    size: Annotated[str, _option(help="tiny, small, base or big, with random weights")] = "tiny",
    model: Annotated[
        Path | None, _option("-m", "--model", help="a trained model instead of a size")
    ] = None,
    src_path: Annotated[
        Path | None, _option("--src", help="with a model: what it translates")
    ] = None,
    sentences: Annotated[int, _option(min=1, help="at most so many")] = 256,
    rounds: Annotated[int, _option(min=1, help="each rate is their median")] = 3,
    precision: Precision = "auto",
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure translating: sentences/s one by one and in batches, greedily and with a beam of 5."""
    from transformer_mt.config.model import ModelConfig
    from transformer_mt.model.encoder_decoder import resolve_tying
    from transformer_mt.profiling.bench_decode import bench_model, bench_size
    from transformer_mt.profiling.bench_train import SIZES
    from transformer_mt.rendering.progress import ShownStages

    if (model is None) != (src_path is None):
        raise TmtError(tr("-m MODEL and --src FILE go together"))
    with ShownStages() as stages:
        counts: Any = {"n_sentences": sentences, "rounds": rounds, "stages": stages}
        if model is not None and src_path is not None:
            report = bench_model(find_model_path(model), src_path, **counts)
        else:
            chosen = one_of("--size", size, tuple(SIZES))
            cfg = resolve_tying(ModelConfig.model_validate(SIZES[chosen]), joint=True)
            report = bench_size(chosen, cfg, precision=precision, **counts)
    show(json.dumps(asdict(report), indent=2) if as_json else report.render())
