"""Several processes train as one does: the same updates, the same end, an honest death."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from transformer_mt.pipeline.run_dir import Run

CLOCK = ("minutes", "eta_minutes", "tgt_tokens_per_s", "validation_s")
CONFIG = """
name: group
languages: {{src: zh, tgt: en}}
data:
  root: {root}
  train: [train]
  dev: [dev]
  test: {{toy: dev}}
  workers: 1
  clean: {{duplicate: false, overlap: false, mismatch: false, repeated: false, length_ratio: false}}
tokenizer: {{vocab_size: 400, joint: true, sampling: {sampling}}}
model: {{d_model: 32, heads: 4, ffn: 64, encoder_layers: 1, decoder_layers: 1, norm: pre,
         dropout: {dropout}}}
train: {{precision: fp32, max_tokens: 200, tokens_per_update: 500, lr: 1.0e-2, warmup_updates: 10,
         max_updates: 24, validate_every: 12, log_every: 1, average: 2}}
decode: {{beam: 2}}
"""


@pytest.fixture(scope="module")
def corpus_dir(tmp_path_factory: pytest.TempPathFactory, toy_pairs: list[tuple[str, str]]) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    for name, pairs in (("train", toy_pairs[:160]), ("dev", toy_pairs[160:])):
        for side, code in enumerate(("zh", "en")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (directory / f"{name}.{code}").write_text(text, encoding="utf-8")
    return directory


class Training:
    """`tmt train` of a tiny model, started as a user would start it."""

    def __init__(
        self, directory: Path, corpus_dir: Path, *, dropout: float = 0.0, sampling: float = 0.0
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.run = Run(directory / "run")
        self.config_path = directory / "config.yaml"
        self.config_path.write_text(
            CONFIG.format(root=corpus_dir, dropout=dropout, sampling=sampling)
        )

    def command(self, n_processes: int, *settings: str) -> list[str]:
        overrides = [text for setting in settings for text in ("--set", setting)]
        return [
            sys.executable, "-m", "transformer_mt", "train", str(self.config_path),
            "--run-dir", str(self.run.directory), "--processes", str(n_processes), *overrides,
        ]  # fmt: skip

    def do(self, n_processes: int, *settings: str) -> "Training":
        command = self.command(n_processes, *settings)
        found = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert found.returncode == 0, found.stderr
        if n_processes > 1 and self.run.metrics_path.stat().st_size:
            assert f"{n_processes} processes" in found.stderr
        return self

    def losses(self) -> list[float]:
        return [r["loss"] for r in self.records() if r["event"] == "train"]

    def records(self) -> list[dict[str, Any]]:
        lines = self.run.metrics_path.read_text(encoding="utf-8").splitlines()
        return [{k: v for k, v in json.loads(line).items() if k not in CLOCK} for line in lines]

    def state(self, update: int) -> dict[str, torch.Tensor]:
        directory = self.run.checkpoints_dir / f"{update:08d}"
        names = ("weights", "optimizer")
        return {
            f"{name}.{key}": tensor
            for name in names
            for key, tensor in load_file(directory / f"{name}.safetensors").items()
        }

    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run.model_dir / "metadata.json").read_text())
        return found


def assert_bit_equal(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    assert all(ours[name].equal(tensor) for name, tensor in theirs.items())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, corpus_dir: Path) -> Training:
    return Training(tmp_path_factory.mktemp("alone"), corpus_dir).do(1)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, corpus_dir: Path) -> Training:
    return Training(tmp_path_factory.mktemp("pair"), corpus_dir).do(2)


@pytest.mark.parametrize(
    ("n_processes", "settings"),
    [
        (4, ()),
        (2, ("train.shard_optimizer=true",)),
        (3, ("train.shard_optimizer=true",)),
    ],
)
def test_the_loss_curve_is_that_of_one_process(
    tmp_path: Path, corpus_dir: Path, alone: Training, n_processes: int, settings: tuple[str, ...]
) -> None:
    many = Training(tmp_path, corpus_dir).do(n_processes, *settings)
    assert many.losses() == pytest.approx(alone.losses(), rel=1e-4)
    assert many.losses()[-1] < 0.8 * many.losses()[0]
    assert many.metadata()["scores"].keys() == alone.metadata()["scores"].keys()


def test_two_processes_are_one_to_rounding(alone: Training, pair: Training) -> None:
    """Every loss, every gradient norm, and what validation says, which is done in shares."""
    ours, theirs = pair.records(), alone.records()
    assert [r["event"] for r in ours] == [r["event"] for r in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
        if one["event"] == "train":
            assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-2)
            assert (one["lr"], one["epoch"]) == (other["lr"], other["epoch"])
    assert pair.metadata()["trained"]["processes"] == 2


def test_rounded_gradients_lead_to_nearly_the_same_losses(
    tmp_path: Path, corpus_dir: Path, alone: Training
) -> None:
    rounded = Training(tmp_path, corpus_dir).do(2, "train.reduce_dtype=bf16")
    assert rounded.losses() == pytest.approx(alone.losses(), rel=3e-2)
    assert rounded.losses() != pytest.approx(alone.losses(), rel=1e-6), "nothing was rounded"


@pytest.mark.parametrize("settings", [(), ("train.shard_optimizer=true",)])
def test_resuming_is_bit_identical_at_an_equal_number(
    tmp_path: Path, corpus_dir: Path, settings: tuple[str, ...]
) -> None:
    """With dropout and with sub-words drawn anew, stopped in the middle of an epoch."""
    whole = Training(tmp_path / "whole", corpus_dir, dropout=0.1, sampling=0.1)
    parts = Training(tmp_path / "parts", corpus_dir, dropout=0.1, sampling=0.1)
    whole.do(2, *settings)
    parts.do(2, "train.max_updates=7", *settings)
    parts.do(2, *settings)
    assert_bit_equal(parts.state(24), whole.state(24))


def test_another_number_of_processes_goes_on(
    tmp_path: Path, corpus_dir: Path, alone: Training
) -> None:
    """A state that was saved by three, each with its part of Adam's moments, is taken up by one."""
    training = Training(tmp_path, corpus_dir)
    training.do(3, "train.max_updates=8", "train.shard_optimizer=true")
    training.do(1, "train.max_updates=16")
    training.do(2, "train.shard_optimizer=true")
    assert training.losses() == pytest.approx(alone.losses(), rel=1e-4)


def start(training: Training, n_processes: int, *settings: str) -> "subprocess.Popen[str]":
    command = training.command(n_processes, "train.max_updates=5000", *settings)
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def wait_for_updates(process: "subprocess.Popen[str]", training: Training, n: int) -> None:
    deadline = time.monotonic() + 120
    while not training.run.metrics_path.exists() or len(training.records()) < n:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.05)


def children(pid: int) -> Iterator[tuple[int, dict[str, str]]]:
    """Process id and environment of every rank that `pid` has started."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = (entry / "status").read_text()
            environment = (entry / "environ").read_bytes().decode()
        except OSError:
            continue
        if f"\nPPid:\t{pid}\n" in status:
            pairs = (item.partition("=") for item in environment.split("\0") if item)
            yield int(entry.name), {name: value for name, _, value in pairs}


needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")


@needs_proc
@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_rank_that_is_killed_ends_the_job_with_its_reason(
    tmp_path: Path, corpus_dir: Path, rank: str
) -> None:
    training = Training(tmp_path, corpus_dir)
    process = start(training, 2)
    wait_for_updates(process, training, 30)
    ranks = {environment["RANK"]: pid for pid, environment in children(process.pid)}
    os.kill(ranks[rank], 9)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"process {rank} of 0 … 1 ended (killed by SIGKILL" in told
    assert "Traceback" not in told
    for pid in ranks.values():
        assert not Path(f"/proc/{pid}").exists(), "a process was left behind"
    newest = max(path.name for path in training.run.checkpoints_dir.iterdir())
    training.do(2, f"train.max_updates={int(newest) + 2}")  # goes on after its checkpoint
    assert len(training.losses()) == int(newest) + 2


@needs_proc
def test_when_the_first_process_is_killed_all_end(tmp_path: Path, corpus_dir: Path) -> None:
    training = Training(tmp_path, corpus_dir)
    process = start(training, 2)
    wait_for_updates(process, training, 3)
    pids = [pid for pid, _ in children(process.pid)]
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "a process was left behind"
        time.sleep(0.1)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_stop_is_agreed_upon_and_loses_nothing(
    tmp_path: Path, corpus_dir: Path, name: str
) -> None:
    import signal

    training = Training(tmp_path, corpus_dir)
    process = start(training, 2)
    wait_for_updates(process, training, 5)
    process.send_signal(signal.Signals[name])
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "everything is saved; the same command goes on" in told
    newest = max(path.name for path in training.run.checkpoints_dir.iterdir())
    assert len(training.losses()) == int(newest), "the last update that was done is saved"


def torchrun(training: Training, *settings: str, max_restarts: int = 0) -> list[str]:
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "--max-restarts", str(max_restarts), *training.command(2, *settings)[1:],
    ]  # fmt: skip


def test_torchrun_starts_the_same_training(
    tmp_path: Path, corpus_dir: Path, pair: Training
) -> None:
    training = Training(tmp_path, corpus_dir)
    found = subprocess.run(torchrun(training), capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert_bit_equal(training.state(24), pair.state(24))


@needs_proc
def test_torchrun_goes_on_by_itself_after_a_rank_was_killed(
    tmp_path: Path, corpus_dir: Path
) -> None:
    """All start anew, from the last checkpoint, and end where they would have ended anyway."""
    whole = Training(tmp_path / "whole", corpus_dir).do(2, "train.max_updates=80")
    training = Training(tmp_path / "killed", corpus_dir)
    command = torchrun(training, "train.max_updates=80", max_restarts=1)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_for_updates(process, training, 30)
    ranks = {environment["RANK"]: pid for pid, environment in children(process.pid)}
    os.kill(ranks["1"], 9)
    _, told = process.communicate(timeout=200)
    assert process.returncode == 0, told
    assert "going on after update" in told
    assert_bit_equal(training.state(80), whole.state(80))


def test_a_mistake_is_told_once(tmp_path: Path, corpus_dir: Path) -> None:
    training = Training(tmp_path, corpus_dir)
    command = training.command(2, "data.dev=[nowhere]")
    found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert found.returncode == 2
    assert found.stderr.count("tmt: ") == 1 and "nowhere" in found.stderr
    assert "process 1" not in found.stderr
