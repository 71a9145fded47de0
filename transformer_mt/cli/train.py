"""The commands `tmt train`, `tmt plan` and `tmt config`."""

import gc
import json
import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_mt.cli.options import (
    Always,
    AsJson,
    ConfigName,
    Device,
    ExecutorAddress,
    Offline,
    Overrides,
    Processes,
    Quiet,
    Reverse,
    RunDir,
    read_config,
    say,
    show,
    with_executor,
)
from transformer_mt.errors import STOPPED, ConfigError, TrainingStopped
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.processes.environment import is_rank, own_meeting_dir, own_place
from transformer_mt.system.processes.executors import refuse_mpi_of_several
from transformer_mt.system.processes.launch import count_processes, launch

if TYPE_CHECKING:
    from transformer_mt.config.experiment import Config
    from transformer_mt.pipeline.log import Watch
    from transformer_mt.pipeline.run_dir import Run

_CONFIG_OR_FILES = (
    "a YAML file, a bundled configuration by name, two text files, or one with both sides"
)
OwnFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES", help="two text files, or one with both sides: CSV, TSV, XLSX, TMX, XLIFF"
    ),
]
TextOrConfig = Annotated[list[str], typer.Argument(metavar="CONFIG|FILES", help=_CONFIG_OR_FILES)]
Minutes = Annotated[
    float | None,
    typer.Option(help="of training: model and schedule are chosen for them, and the clock ends it"),
]


def train(
    config: TextOrConfig,
    overrides: Overrides = None,
    reverse: Reverse = False,
    run_dir: RunDir = None,
    offline: Offline = False,
    fresh: Annotated[
        bool, typer.Option(help="forget checkpoints, metrics and model first")
    ] = False,
    processes: Processes = None,
    executor: ExecutorAddress = None,
    device: Device = "auto",
    minutes: Minutes = None,
    profile: Annotated[
        int | None,
        typer.Option(
            min=1, help="record so many updates: a Chrome trace, and where their time goes"
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Do all that is not done yet, from raw text to a scored model; run it again to resume."""
    from transformer_mt.config.yaml_text import apply_setting
    from transformer_mt.corpus.readers.paths import tells_languages

    settings = with_executor(overrides, executor)
    if minutes is not None:  # --set may give it more time later
        settings.insert(0, f"train.max_minutes={minutes}")
    for setting in settings:  # a value after a space would be taken for a second file
        apply_setting({}, setting)
    n_processes = 1 if is_rank() else processes or count_processes()
    if len(config) > 1 or tells_languages(Path(config[0])):
        made = _configuration_of(
            config, settings, run_dir, minutes, n_processes, reverse=reverse, fresh=fresh
        )
        config = [str(made)]
    elif minutes is not None:
        from transformer_mt.profiling.timed_start import configuration_for_minutes

        config = [
            configuration_for_minutes(
                config[0], settings, minutes, processes=n_processes, say=say, run_dir=run_dir,
                reverse=reverse, offline=offline, fresh=fresh,
            )
        ]  # fmt: skip
    if own_meeting_dir() is not None:  # the process that started this one has shown the notes
        logging.getLogger("transformer_mt.config").setLevel(logging.ERROR)
    cfg = read_config(config[0], settings, reverse=reverse, offline=offline)
    if n_processes > 1:
        refuse_mpi_of_several(cfg.data.workers)
        flags = {"reverse": reverse, "offline": offline, "fresh": fresh, "json": as_json,
                 "quiet": quiet, "debug": "--debug" in sys.argv}  # fmt: skip
        options = _options(settings, flags, {"run-dir": run_dir, "profile": profile})
        raise typer.Exit(launch(n_processes, ["train", *options, "--", *config]))
    _train_here(cfg, run_dir or Path("runs") / cfg.name, profile, fresh=fresh, as_json=as_json)


def _train_here(
    cfg: "Config", directory: Path, profile: int | None, *, fresh: bool, as_json: bool
) -> None:
    """In this process, which may be one of several; the first of them tells."""
    from transformer_mt.pipeline.run_dir import Run
    from transformer_mt.pipeline.start import is_first_rank, train_here

    free_memory_soon()
    run = Run(directory)
    try:
        with _watching(run, profile) as watch:
            trained = train_here(cfg, run, fresh=fresh, say=say, watch=watch)
    except TrainingStopped as stopped:
        if not is_first_rank():
            if (
                own_meeting_dir() is None
            ):  # of torchrun: a machine that ends well is not started again
                raise typer.Exit(STOPPED) from stopped
            return
        say(Always(goes_on(stopped, fresh=fresh)))
        raise typer.Exit(STOPPED) from stopped
    if not is_first_rank():
        return
    for line in trained.describe():
        say(Always(line))
    if as_json:
        show(json.dumps(trained.to_json(), indent=2))


def goes_on(stopped: TrainingStopped, *, fresh: bool) -> str:
    """What to type to go on with a training that was stopped."""
    if fresh:
        return tr("{}; the same command without --fresh goes on", stopped)
    return tr("{}; the same command goes on", stopped)


def _options(
    settings: list[str], flags: dict[str, bool], values: dict[str, Path | int | None]
) -> list[str]:
    """The command line of each process of a training that one command starts."""
    return [
        *(f"--set={setting}" for setting in settings),
        *(f"--{name}={value}" for name, value in values.items() if value is not None),
        *(f"--{flag}" for flag, is_on in flags.items() if is_on),
    ]


def free_memory_soon() -> None:
    """Python's own thresholds, which `__main__` has raised for the imports."""
    gc.freeze()  # imported modules are never garbage; each look through them takes 0.2 s
    gc.set_threshold(700, 10, 10)


@contextmanager
def _watching(run: "Run", n_updates: int | None) -> "Iterator[Watch]":
    """What is called after each update of a training: a trace of some, if one is asked for."""
    from transformer_mt.pipeline.log import ignore_update
    from transformer_mt.pipeline.start import is_first_rank

    if n_updates is None or not is_first_rank():
        yield ignore_update
        return
    from transformer_mt.profiling.update_trace import UpdateTrace

    with UpdateTrace(run.trace_path, n_updates, say) as trace:
        yield trace.watch


def _configuration_of(
    files: list[str], settings: list[str], run_dir: Path | None, minutes: float | None,
    processes: int, *, reverse: bool, fresh: bool,
) -> Path:  # fmt: skip
    """The configuration made for a user's own text, in the run directory of its training.

    Args:
        reverse: the training is one of the other direction.
        fresh: with `minutes` an older one is replaced, which may have been edited.
    Raises:
        ConfigError: `torchrun` has started several processes, and each would make its own.
        TmtError: a training is at work in the run directory.
    """
    if own_place() is not None:
        raise ConfigError(
            tr(
                "torchrun takes a configuration: tmt init {} > my.yaml, and then "
                "torchrun … train my.yaml",
                shlex.join(files),
            )
        )
    from transformer_mt.config.experiment import reversed_name
    from transformer_mt.config.yaml_text import parse_setting
    from transformer_mt.pipeline.run_dir import Run
    from transformer_mt.profiling.quick_start import check_is_of, follows, make_start, read_own_text
    from transformer_mt.system.output import write_text

    own = read_own_text([Path(file) for file in files])
    name = str(dict(map(parse_setting, settings)).get("name", own.name))
    name = reversed_name(name, own.languages) if reverse else name
    run = Run(run_dir or Path("runs") / name)
    path = run.directory / "start.yaml"
    say(own.note)
    is_kept = path.is_file() and not (fresh and minutes is not None)
    if is_kept:
        kept = check_is_of(own, path)
        begun = any(run.checkpoints_dir.glob("*"))
        is_of_them = kept.train.max_minutes == minutes and follows(kept, settings)
        if begun or (own.is_as_long_as(path) and is_of_them):
            say(tr("settings of the first start: {}", path))
            return path
    run.claim()  # before some updates are timed
    run.refuse_while_held()
    if is_kept:
        before = path.with_name("start.before.yaml")
        path.replace(before)  # it may have been edited
        say(tr("{}: the settings before, which were never used", before))
    text = make_start(own, minutes=minutes, processes=processes, overrides=settings)
    write_text(path, text)
    say(
        tr(
            "settings for this text and machine: {}; to edit them: tmt init {}",
            path,
            shlex.join(files),
        )
    )
    return path


def init(files: OwnFiles, minutes: Minutes = None, processes: Processes = None) -> None:
    """Print a configuration for your own text, with a reason for each setting, to be edited."""
    from transformer_mt.profiling.quick_start import make_start, read_own_text

    own = read_own_text([Path(file) for file in files])
    show(make_start(own, minutes=minutes, processes=processes or count_processes()).rstrip("\n"))


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
    from transformer_mt.rendering.progress import ShownStages

    with ShownStages() as stages:
        found = make_plan(cfg, Run(run_dir) if run_dir else None, processes, stages=stages)
    show(json.dumps(asdict(found), indent=2) if as_json else found.render())


def config(
    name: Annotated[str | None, typer.Argument(help="default: list them, a line each")] = None,
) -> None:
    """Print a bundled configuration, to be edited: tmt config base > my.yaml."""
    from transformer_mt.config.presets import describe_presets, preset_path

    if name is None:
        show("\n".join(describe_presets()))
    else:
        show(preset_path(name).read_text(encoding="utf-8").removesuffix("\n"))
