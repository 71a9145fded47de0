"""Records of a training → TensorBoard, MLflow, Weights & Biases.

`tracking.json` in the run directory has the id of each tracked run, and the last update that it was
told. So a training that goes on goes on there as well, repeats no update, and tells a service that
is named later everything from the beginning.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from transformer_mt.config.experiment import Config
from transformer_mt.config.yaml_text import flattened
from transformer_mt.errors import TrainingError
from transformer_mt.export.formats import require
from transformer_mt.messages.catalogue import tr
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.system.output import write_json
from transformer_mt.system.state import read_json
from transformer_mt.system.terminal import Say

_MODULES = {"tensorboard": "torch.utils.tensorboard", "mlflow": "mlflow", "wandb": "wandb"}
# No reports to its makers; a server that is gone is given up within seconds.
_MLFLOW = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}


class Service(NamedTuple):
    """A tracked run: `id` finds it again, `end` is told whether the training has failed."""

    id: str
    log: Callable[[dict[str, float], int], object]
    end: Callable[[bool], object]


def import_service(name: str) -> Any:
    """The package of a name in `train.track`. Raises: TmtError: it is not installed."""
    for key, value in _MLFLOW.items():
        os.environ.setdefault(key, value)
    return require(_MODULES[name], name, "track")


def _tensorboard(package: Any, cfg: Config, run: Run, run_id: str) -> Service:
    # Where it begins, what another training has left in the folder is hidden.
    folder, purge_step = str(run.directory / "tensorboard"), None if run_id else 0
    writer = package.SummaryWriter(folder, purge_step=purge_step)

    def log(values: dict[str, float], update: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, update)
        writer.flush()

    return Service("tensorboard", log, lambda failed: writer.close())


def _mlflow(package: Any, cfg: Config, run: Run, run_id: str) -> Service:
    name = run.directory.absolute().name
    active = package.start_run(run_id=run_id or None, run_name=name, nested=True)
    if not run_id:
        package.log_params(dict(flattened(cfg.model_dump(mode="json"))))
    return Service(
        active.info.run_id,
        lambda values, update: package.log_metrics(values, step=update, run_id=active.info.run_id),
        lambda failed: package.end_run("FAILED" if failed else "FINISHED"),
    )


def _wandb(package: Any, cfg: Config, run: Run, run_id: str) -> Service:
    tracked = package.init(
        id=run_id or None, resume="allow" if run_id else None, dir=run.directory,
        project=os.environ.get("WANDB_PROJECT", "tmt"), name=run.directory.absolute().name,
        config=cfg.model_dump(mode="json"), settings=package.Settings(console="off"),
    )  # fmt: skip
    tracked.define_metric("*", step_metric="update")  # its own steps would have to rise
    return Service(
        tracked.id,
        lambda values, update: tracked.log({**values, "update": update}),
        lambda failed: tracked.finish(exit_code=int(failed)),
    )


_SERVICES = {"tensorboard": _tensorboard, "mlflow": _mlflow, "wandb": _wandb}


class Tracker:
    """A run at one service. A service that fails is given up; the training goes on."""

    def __init__(self, name: str, cfg: Config, run: Run, say: Say) -> None:
        """Raises: TmtError: the service cannot be used."""
        self._name, self._path, self._say = name, run.tracking_path, say
        known = (read_json(self._path) or {}).get(name, {})
        self._told: dict[str, int] = known.get("updates", {})  # event → the last update
        package = import_service(name)
        try:
            self._service: Service | None = _SERVICES[name](package, cfg, run, known.get("id", ""))
        except Exception as error:  # of a package that may raise anything
            raise TrainingError(tr("train.track: {}: {}", name, error)) from error
        self._keep()

    def follow(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Tell the numbers of records that are not told yet."""
        for record in records:
            event, update = record["event"], record["update"]
            if self._service is None or update <= self._told.get(event, -1):
                continue
            values = {
                f"{event}/{name}": value
                for name, value in record.items()
                if name != "update" and isinstance(value, int | float)
            }
            try:
                self._service.log(values, update)
                self._told[event] = update
                self._keep()
            except Exception as error:  # see above
                self._service = None
                self._say(tr("{}: {}; training goes on, and tells it the rest when it is resumed",
                             self._name, error))  # fmt: skip

    def end(self, failed: bool) -> None:
        try:
            if self._service is not None:
                self._service.end(failed)
        except Exception as error:  # see above
            self._say(f"{self._name}: {error}")

    def _keep(self) -> None:
        assert self._service is not None
        entry = {self._name: {"id": self._service.id, "updates": self._told}}
        write_json(self._path, {**(read_json(self._path) or {}), **entry})
