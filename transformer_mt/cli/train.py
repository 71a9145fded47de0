"""The commands `tmt train`, `tmt plan` and `tmt config`."""

import gc
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from transformer_mt.cli.options import (
    Always,
    AsJson,
    ConfigName,
    Device,
    Offline,
    Overrides,
    Processes,
    Quiet,
    Reverse,
    RunDir,
    read_config,
    say,
    show,
)
from transformer_mt.errors import TrainingStopped
from transformer_mt.system.processes.environment import is_rank
from transformer_mt.system.processes.launch import count_processes, launch


def train(
    config: ConfigName,
    overrides: Overrides = None,
    reverse: Reverse = False,
    run_dir: RunDir = None,
    offline: Offline = False,
    fresh: Annotated[
        bool, typer.Option(help="forget checkpoints, metrics and model first")
    ] = False,
    processes: Processes = None,
    device: Device = "auto",
    minutes: Annotated[
        float | None, typer.Option(help="end training by the clock, as train.max_minutes does")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Do everything from raw text to a scored model that is not done yet; again: resume."""
    settings = [*(overrides or ()), *([] if minutes is None else [f"train.max_minutes={minutes}"])]
    cfg = read_config(config, settings, reverse=reverse, offline=offline)
    if not is_rank() and (n_processes := processes or count_processes()) > 1:
        raise typer.Exit(launch(n_processes, sys.argv[1:]))
    from transformer_mt.pipeline.run_dir import Run
    from transformer_mt.pipeline.start import STOPPED, is_first_rank, train_here

    gc.freeze()  # imported modules are never garbage; each look through them takes 0.2 s
    gc.set_threshold(700, 10, 10)  # Python's own, which frees memory soon
    run = Run(run_dir or Path("runs") / cfg.name)
    try:
        trained = train_here(cfg, run, fresh=fresh, say=say)
    except TrainingStopped as stopped:
        if not is_first_rank():
            return
        say(Always(f"{stopped}; the same command goes on"))
        raise typer.Exit(STOPPED) from stopped
    if is_first_rank():
        for line in trained.describe():
            say(Always(line))


def plan(
    config: ConfigName,
    overrides: Overrides = None,
    reverse: Reverse = False,
    run_dir: RunDir = None,
    processes: Processes = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Show what `train` would do, without doing it: sizes, memory, time, all problems at once."""
    cfg = read_config(config, overrides, reverse=reverse)
    from transformer_mt.pipeline.run_dir import Run
    from transformer_mt.profiling.plan import make_plan

    found = make_plan(cfg, Run(run_dir) if run_dir else None, processes)
    show(json.dumps(found.to_json(), indent=2) if as_json else found.render())


def config(
    name: Annotated[str | None, typer.Argument(help="default: list them, a line each")] = None,
) -> None:
    """Print a bundled configuration, to be edited: tmt config base > my.yaml."""
    from transformer_mt.config.presets import describe_presets, preset_path

    if name is None:
        show("\n".join(describe_presets()))
    else:
        show(preset_path(name).read_text(encoding="utf-8").removesuffix("\n"))
