"""The command `tmt distill`: parse, call, print."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transformer_mt.cli.options import (
    Always,
    AsJson,
    Device,
    Into,
    Overrides,
    Processes,
    RunDir,
    say,
    show,
)
from transformer_mt.cli.train import free_memory_soon, goes_on
from transformer_mt.errors import STOPPED, TrainingStopped
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.processes.launch import count_processes

if TYPE_CHECKING:
    from transformer_mt.config.experiment import Config
    from transformer_mt.pipeline.run_dir import Run

_option: Any = typer.Option
_TEACHERS = "the teacher: a finished run, or hf:OWNER/NAME; repeat it for models that vote"
_MONO = "more text of the source language for the teacher to translate, line by line; repeatable"
_BEAM = "of the teacher; default: its own"
_MINUTES = "of training: a schedule is chosen for them, and the clock ends it"


def distill(
    models: Annotated[list[Path], _option("-m", "--model", help=_TEACHERS)],
    mono: Annotated[list[Path] | None, _option("--mono", help=_MONO)] = None,
    minutes: Annotated[float | None, _option(help=_MINUTES)] = None,
    overrides: Overrides = None,
    run_dir: RunDir = None,
    to: Into = None,
    beam: Annotated[int | None, _option(min=1, help=_BEAM)] = None,
    fresh: Annotated[bool, _option(help="forget the student's checkpoints and model")] = False,
    processes: Processes = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Make a smaller, faster model from a run's own translations; run it again to resume."""
    from transformer_mt.config.yaml_text import parse_setting
    from transformer_mt.pipeline.distill import Teacher, begin_student, compare_with_teacher
    from transformer_mt.pipeline.run_dir import Run
    from transformer_mt.pipeline.start import start_training
    from transformer_mt.rendering.progress import ShownStages

    free_memory_soon()
    teacher = Teacher.find(models, to)
    run = Run(run_dir or Path("runs") / teacher.student_name)

    def check(cfg: "Config") -> None:
        if minutes is not None:
            _check_minutes(cfg, overrides or (), minutes, run, fresh=fresh)

    config = begin_student(
        teacher, mono or (), run, overrides or (), beam=beam, say=say, fresh=fresh, check=check
    )
    n_processes = processes or count_processes()
    settings = dict(map(parse_setting, overrides or ()))
    if minutes is not None:
        config = for_minutes(
            config, overrides or (), minutes, n_processes, run.directory, fresh=fresh
        )
        settings = {"train.max_minutes": minutes, **settings}
    try:
        start_training(config, settings, run_dir=run.directory, fresh=fresh, processes=n_processes)
    except TrainingStopped as stopped:
        say(Always(goes_on(stopped, fresh=fresh)))
        raise typer.Exit(STOPPED) from stopped
    with ShownStages() as stages:
        found = compare_with_teacher(teacher, run, mono or (), stages)
    show(json.dumps(found, ensure_ascii=False, indent=2) if as_json else _table(found))
    say(tr("model: {}", run.model_dir))
    say(tr("next:  tmt translate -m {} TEXT", run.directory))


def _check_minutes(
    cfg: "Config", overrides: Sequence[str], minutes: float, run: "Run", *, fresh: bool
) -> None:
    from transformer_mt.config.experiment import changed_config
    from transformer_mt.profiling.timed_start import check_start

    settings = [f"train.max_minutes={minutes}", *overrides]
    check_start(changed_config(cfg.model_dump(), cfg.name, settings), run, minutes, fresh=fresh)


def for_minutes(
    config: Path, overrides: Sequence[str], minutes: float, processes: int, run_dir: Path, *,
    fresh: bool,
) -> Path:  # fmt: skip
    """The student with a schedule for the time; its size stays, and what `overrides` say."""
    from transformer_mt.config.experiment import load_config
    from transformer_mt.profiling.timed_start import configuration_for_minutes

    sizes = load_config(config).model.model_dump(exclude={"dropout"})
    kept = [f"model.{key}={value}" for key, value in sizes.items()]
    kept += [f"train.max_minutes={minutes}", *overrides]  # these may give it more time later
    made = configuration_for_minutes(
        str(config), kept, minutes, processes=processes, say=say, run_dir=run_dir, fresh=fresh
    )
    return Path(made)


def _table(found: dict[str, Any]) -> str:
    """Teacher and student beside each other."""
    from transformer_mt.rendering.cells import align_columns

    both = (found["teacher"], found["student"])
    speed = tr("sentences/s, one core") if found["device"] == "cpu" else tr("sentences/s")
    rows = [
        ("", tr("teacher"), tr("student")),
        (tr("parameters"), *(f"{one['parameters'] / 1e6:.1f} M" for one in both)),
        (tr("size"), *(f"{one['bytes'] / 1e6:,.1f} MB" for one in both)),
        (tr("beam"), *(str(one["beam"]) for one in both)),
        (speed, *(f"{one['sentences_per_s']:,.0f}" for one in both)),
    ]
    for name, metrics in both[1]["scores"].items():
        for metric in metrics:
            scores = (f"{one['scores'][name][metric]['score']:.2f}" for one in both)
            rows.append((f"{name} {metric}", *scores))
    return align_columns(rows, numbers=(1, 2))
