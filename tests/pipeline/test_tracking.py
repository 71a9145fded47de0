"""Every number reaches every service once, under its update, however often training is resumed."""

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.errors import TmtError, TrainingError
from transformer_mt.pipeline import tracking
from transformer_mt.pipeline.log import TrainingLog
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.pipeline.tracking import Service, Tracker

PACKAGES = {"tensorboard": "tensorboard", "mlflow": "mlflow", "wandb": "wandb.proto"}


@pytest.fixture(params=PACKAGES)
def service(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each service, without a network."""
    name: str = request.param
    pytest.importorskip(PACKAGES[name], reason=f"{name} is not installed")
    if name == "mlflow":
        pytest.importorskip("alembic", reason="alembic is not installed")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    return name


def train(run: Run, cfg: Config, names: list[str], *, after: int, until: int) -> list[str]:
    """Log as a training does from one update to another; what it says."""
    said: list[str] = []
    trackers = [Tracker(name, cfg, run, said.append) for name in names]
    log = TrainingLog(run.metrics_path, resume_update=after, train=cfg.train, trackers=trackers)
    with log:
        for update in range(after + 10, until + 1, 10):
            log.record("train", update, {"loss": 10 - update / 100, "lr": float("nan")})
            if update % 20 == 0:
                samples = [{"src": "a", "hyp": "b", "ref": "c"}]
                log.record("validation", update, {"bleu.zh-en": update / 2, "samples": samples})
    return said


EXPECTED = {
    "train/loss": [(update, 10 - update / 100) for update in range(10, 61, 10)],
    "validation/bleu.zh-en": [(20, 10.0), (40, 20.0), (60, 30.0)],
}


def test_resumed_trainings_are_one_tracked_run(
    service: str, toy_config: Config, tmp_path: Path
) -> None:
    run = Run(tmp_path / "toy")
    assert train(run, toy_config, [service], after=0, until=30) == []
    tracked = json.loads(run.tracking_path.read_text())[service]
    assert tracked["updates"] == {"train": 30, "validation": 20}
    # The newest checkpoint was at 20: update 30 is trained again.
    assert train(run, toy_config, [service], after=20, until=60) == []
    assert json.loads(run.tracking_path.read_text())[service]["id"] == tracked["id"]
    assert dict(logged(service, run, tracked["id"])) == EXPECTED


def test_a_service_that_is_named_later_is_told_all(
    service: str, toy_config: Config, tmp_path: Path
) -> None:
    run = Run(tmp_path / "toy")
    train(run, toy_config, [], after=0, until=40)
    train(run, toy_config, [service], after=40, until=60)
    tracked = json.loads(run.tracking_path.read_text())[service]
    assert dict(logged(service, run, tracked["id"])) == EXPECTED
    run.forget_training()
    train(run, toy_config, [service], after=0, until=20)
    fresh = json.loads(run.tracking_path.read_text())[service]
    assert (fresh["id"] == tracked["id"]) == (service == "tensorboard"), "--fresh: another run"
    points = dict(logged(service, run, fresh["id"]))
    assert points == {"train/loss": EXPECTED["train/loss"][:2],
                      "validation/bleu.zh-en": [(20, 10.0)]}  # fmt: skip


def logged(service: str, run: Run, run_id: str) -> Iterator[tuple[str, list[tuple[int, float]]]]:
    """The curves of a tracked run that the service has: name → (update, value)."""
    if service == "tensorboard":
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        found = EventAccumulator(str(run.directory / "tensorboard")).Reload()
        for name in found.Tags()["scalars"]:
            yield name, [(one.step, pytest.approx(one.value)) for one in found.Scalars(name)]
    elif service == "mlflow":
        import mlflow

        client = mlflow.MlflowClient()
        data = client.get_run(run_id).data
        assert data.params["train.warmup_updates"] == "4000"
        for name in data.metrics:
            yield name, [(one.step, one.value) for one in client.get_metric_history(run_id, name)]
    else:
        yield from wandb_curves(sorted(run.directory.glob(f"wandb/*{run_id}/run-{run_id}.wandb")))


def wandb_curves(paths: list[Path]) -> Iterator[tuple[str, list[tuple[int, float]]]]:
    from wandb.proto.wandb_internal_pb2 import Record

    curves: dict[str, list[tuple[int, float]]] = {}
    for path in paths:
        deadline, kinds = time.monotonic() + 300, [""]
        while kinds[-1] != "exit":  # another process writes the file, and may be behind
            assert time.monotonic() < deadline, kinds
            time.sleep(0.05)
            records = [Record.FromString(data) for data in leveldb_records(path.read_bytes())]
            kinds = ["", *(record.WhichOneof("record_type") for record in records)]
        for record in records:
            items = record.history.item
            row = {one.key or ".".join(one.nested_key): json.loads(one.value_json) for one in items}
            for name in row.keys() - {"update"}:
                if not name.startswith("_"):
                    curves.setdefault(name, []).append((row["update"], row[name]))
    yield from curves.items()


def leveldb_records(data: bytes) -> Iterator[bytes]:
    """Records of a log of LevelDB, without checks: CRC (4 bytes), length (2), type (1), content."""
    size, at, whole = 32768, 7, b""  # of a block; behind the head of the file
    while at < len(data):
        if size - at % size < 7:
            at += size - at % size
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a full record, or the last part of one
            yield whole
            whole = b""


def test_a_service_that_fails_is_given_up(
    toy_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    is_gone = True

    def log(values: dict[str, float], update: int) -> None:
        if update == 30 and is_gone:
            raise ConnectionError("gone")
        told.append(update)

    service = Service("1", log, lambda failed: None)
    monkeypatch.setitem(tracking._MODULES, "mlflow", "json")
    monkeypatch.setitem(tracking._SERVICES, "mlflow", lambda *_: service)
    run = Run(tmp_path / "toy")
    (said,) = train(run, toy_config, ["mlflow"], after=0, until=60)
    assert said.startswith("mlflow: gone; training goes on")
    assert told == [10, 20, 20] and len(run.metrics_path.read_text().splitlines()) == 9
    is_gone = False
    train(run, toy_config, ["mlflow"], after=60, until=70)
    assert told == [10, 20, 20, 30, 40, 40, 50, 60, 60, 70]


def test_what_cannot_be_used_is_said_before_training(
    toy_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Service:
        raise ValueError("no such server")

    monkeypatch.setitem(tracking._SERVICES, "wandb", refuse)
    monkeypatch.setitem(tracking._MODULES, "wandb", "json")
    with pytest.raises(TrainingError, match=r"^train.track: wandb: no such server$"):
        Tracker("wandb", toy_config, Run(tmp_path), print)
    monkeypatch.setitem(tracking._MODULES, "wandb", "no_such_package")
    with pytest.raises(TmtError, match=r"wandb is not installed: .*'transformer-mt\[track\]'"):
        Tracker("wandb", toy_config, Run(tmp_path), print)


@pytest.mark.parametrize(("old", "track"), [(True, ["tensorboard"]), (False, [])])
def test_the_old_key_of_tensorboard_is_understood(
    toy_config: Config, old: bool, track: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    tree = toy_config.model_dump()
    del tree["train"]["track"]
    tree["train"]["tensorboard"] = old
    cfg = build_config(tree, "toy")
    assert cfg.train.track == track and "tensorboard:" not in cfg.to_yaml()
    assert ("train.track: [tensorboard]" in caplog.text) == old
