"""Several processes train as one does: the same updates, the same end, an honest death."""

import json
import os
import shutil
import signal
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
tokenizer: {{vocab_size: 400, joint: true, sampling: 0}}
model: {{d_model: 32, heads: 4, ffn: 64, encoder_layers: 1, decoder_layers: 1, norm: pre,
         dropout: 0}}
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

    def __init__(self, directory: Path, config: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.run = Run(directory / "run")
        self.config = config
        self.config_path = directory / "config.yaml"
        self.config_path.write_text(config)

    def beside(self, directory: Path) -> "Training":
        """Another one that has the prepared corpus of this one, and nothing else."""
        other = Training(directory, self.config)
        other.run.claim()
        shutil.copytree(self.run.directory / "data", other.run.directory / "data")
        return other

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
    config = CONFIG.format(root=corpus_dir)
    return Training(tmp_path_factory.mktemp("alone"), config).do(1)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, alone: Training) -> Training:
    return alone.beside(tmp_path_factory.mktemp("pair")).do(2)


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


def test_rounded_gradients_lead_to_nearly_the_same_losses(tmp_path: Path, alone: Training) -> None:
    rounded = alone.beside(tmp_path).do(2, "train.reduce_dtype=bf16")
    assert rounded.losses() == pytest.approx(alone.losses(), rel=3e-2)
    assert rounded.losses() != pytest.approx(alone.losses(), rel=1e-6), "nothing was rounded"


def test_resuming_is_bit_identical_at_an_equal_number(tmp_path: Path, alone: Training) -> None:
    """With dropout and with sub-words drawn anew, stopped in the middle of an epoch."""
    changes = ("model.dropout=0.1", "tokenizer.sampling=0.1")
    whole = alone.beside(tmp_path / "whole").do(2, *changes)
    parts = alone.beside(tmp_path / "parts").do(2, "train.max_updates=7", *changes).do(2, *changes)
    assert_bit_equal(parts.state(24), whole.state(24))


def test_every_number_of_processes_goes_on_to_the_loss_curve_of_one(
    tmp_path: Path, alone: Training
) -> None:
    training = alone.beside(tmp_path)
    for n_processes, n_updates in ((4, 8), (1, 16), (3, 24)):
        training.do(n_processes, f"train.max_updates={n_updates}")
    assert training.losses() == pytest.approx(alone.losses(), rel=1e-4)
    assert training.losses()[-1] < 0.8 * training.losses()[0]
    assert training.metadata()["scores"].keys() == alone.metadata()["scores"].keys()


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
    tmp_path: Path, alone: Training, rank: str
) -> None:
    training = alone.beside(tmp_path)
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
def test_when_the_first_process_is_killed_all_end(tmp_path: Path, alone: Training) -> None:
    training = alone.beside(tmp_path)
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
    tmp_path: Path, alone: Training, name: str
) -> None:
    training = alone.beside(tmp_path)
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


def test_torchrun_starts_the_same_training(tmp_path: Path, alone: Training, pair: Training) -> None:
    training = alone.beside(tmp_path)
    found = subprocess.run(torchrun(training), capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert_bit_equal(training.state(24), pair.state(24))


@needs_proc
def test_torchrun_goes_on_by_itself_after_a_rank_was_killed(
    tmp_path: Path, alone: Training
) -> None:
    """All start anew, from the last checkpoint, and end where they would have ended anyway."""
    whole = alone.beside(tmp_path / "whole").do(2, "train.max_updates=80")
    training = alone.beside(tmp_path / "killed")
    command = torchrun(training, "train.max_updates=80", max_restarts=1)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_for_updates(process, training, 30)
    ranks = {environment["RANK"]: pid for pid, environment in children(process.pid)}
    os.kill(ranks["1"], 9)
    _, told = process.communicate(timeout=200)
    assert process.returncode == 0, told
    assert "going on after update" in told
    assert_bit_equal(training.state(80), whole.state(80))


def test_a_mistake_is_told_once(tmp_path: Path, alone: Training) -> None:
    training = alone.beside(tmp_path)
    command = training.command(2, "data.dev=[nowhere]")
    found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert found.returncode == 2
    assert found.stderr.count("tmt: ") == 1 and "nowhere" in found.stderr
    assert "process 1" not in found.stderr
