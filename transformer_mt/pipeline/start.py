"""Start a training, in this process or in several, and say where its model is."""

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_mt.config.experiment import Config, load_experiment
from transformer_mt.config.presets import find_config
from transformer_mt.errors import STOPPED, TmtError, TrainingError, TrainingStopped
from transformer_mt.messages.catalogue import tr
from transformer_mt.model_dir import read_metadata
from transformer_mt.pipeline.log import Watch, ignore_update
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.pipeline.train import train_experiment
from transformer_mt.system.processes.distributed import joined_ranks
from transformer_mt.system.processes.environment import is_rank, own_place
from transformer_mt.system.processes.executors import refuse_mpi_of_several
from transformer_mt.system.processes.launch import count_processes, launch
from transformer_mt.system.terminal import Say, say


@dataclass(frozen=True)
class TrainedModel:
    """Where a training has left its results."""

    run_dir: Path  # data, checkpoints, metrics and curves
    model_dir: Path  # what `load` takes; can be copied elsewhere
    metadata: dict[str, Any]  # `trained`, `data`, `decode`, and `scores` with signatures

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """The scores on each test set by metric."""
        return {
            test: {metric: score["score"] for metric, score in by_metric.items()}
            for test, by_metric in self.metadata["scores"].items()
        }

    def to_json(self) -> dict[str, Any]:
        """Where the results lie, how training ended, and every score with its signature."""
        places = {"run": str(self.run_dir), "model": str(self.model_dir)}
        return places | {key: self.metadata[key] for key in ("name", "trained", "data", "scores")}

    def describe(self) -> list[str]:
        """Lines for people: how training ended, every score with its signature, what comes next."""
        trained = self.metadata["trained"]
        return [
            tr(
                "[done] {} updates in {:.1f} minutes ({}); weights: {}",
                trained["updates"],
                trained["minutes"],
                trained["stopped_by"],
                trained["weights"],
            ),
            *(
                f"  {test}: {metric} {score['score']:.2f}  {score['signature']}"
                for test, by_metric in self.metadata["scores"].items()
                for metric, score in by_metric.items()
            ),
            tr("model: {}", self.model_dir),
            tr("next:  tmt translate -m {} TEXT", self.run_dir),
        ]


def start_training(
    config: str | os.PathLike[str],
    settings: Mapping[str, object],
    *,
    run_dir: Path | None = None,
    reverse: bool = False,
    offline: bool = False,
    fresh: bool = False,
    processes: int | None = None,
) -> TrainedModel:
    """Train in as many processes as `tmt train` would; see `transformer_mt.train`."""
    overrides = as_overrides(settings)
    cfg = load_experiment(config, overrides, reverse=reverse, offline=offline)
    run = Run(run_dir or Path("runs") / cfg.name)
    if threading.current_thread() is not threading.main_thread():
        raise TmtError(
            tr("a training needs the main thread, where Ctrl-C can stop it; or a process")
        )
    n_processes = 1 if is_rank() else processes or count_processes()
    if n_processes == 1:
        return train_here(cfg, run, fresh=fresh, say=say)
    refuse_mpi_of_several(cfg.data.workers)
    flags = {"--reverse": reverse, "--offline": offline, "--fresh": fresh}
    arguments = ["train", str(find_config(config).absolute()), "--run-dir", str(run.directory)]
    arguments += [word for override in overrides for word in ("--set", override)]
    status = launch(n_processes, [*arguments, *(flag for flag, on in flags.items() if on)])
    if status == STOPPED:
        raise TrainingStopped(tr("{}: stopped, everything is saved", run.directory))
    if status:
        raise TrainingError(tr("{}: training failed; standard error says why", run.directory))
    return TrainedModel(run.directory, run.model_dir, read_metadata(run.model_dir))


def train_here(
    cfg: Config, run: Run, *, fresh: bool, say: Say, watch: Watch = ignore_update
) -> TrainedModel:
    """Train in this process, and in those that it was started with, if any."""
    with joined_ranks() as ranks:
        metadata = train_experiment(cfg, run, fresh=fresh, say=say, ranks=ranks, watch=watch)
    return TrainedModel(run.directory, run.model_dir, metadata)


def as_overrides(settings: Mapping[str, object]) -> list[str]:
    """`{"a.b": c}` as `a.b=c` texts; JSON is YAML, so that lists and sections survive as well."""
    return [
        f"{key}={json.dumps(value, ensure_ascii=False, default=str)}"
        for key, value in settings.items()
    ]


def is_first_rank() -> bool:
    """Is this process alone, or the first of those that train together?"""
    return (place := own_place()) is None or place.rank == 0
