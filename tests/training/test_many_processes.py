"""Several processes train as one does: the same updates, the same end, an honest death."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from prepared_text import copy_prepared
from safetensors.torch import load_file
from two_machines import DEVICE, Machine, reason_against, two_machines

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
tokenizer: {{vocab_size: 400, joint: true, sampling: 0.1}}
model: {{d_model: 32, heads: 4, ffn: 64, encoder_layers: 1, decoder_layers: 1, norm: pre,
         dropout: 0}}
train: {{precision: fp32, max_tokens: 60, tokens_per_update: 150, lr: 1.0e-2, warmup_updates: 10,
         max_updates: 60, validate_every: 20, log_every: 1, average: 2, guided_attention: 0.5}}
decode: {{beam: 1}}
"""


@pytest.fixture(scope="module")
def corpus_dir(tmp_path_factory: pytest.TempPathFactory, toy_pairs: list[tuple[str, str]]) -> Path:
    directory = tmp_path_factory.mktemp("corpus")
    for name, pairs in (("train", toy_pairs[:160]), ("dev", toy_pairs[160:176])):
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
        copy_prepared(self.run, other.run.directory)
        return other

    def command(self, n_processes: int, *settings: str) -> list[str]:
        overrides = [text for setting in settings for text in ("--set", setting)]
        return [
            sys.executable, "-m", "transformer_mt", "train", str(self.config_path),
            "--run-dir", str(self.run.directory), "--processes", str(n_processes), *overrides,
        ]  # fmt: skip

    def do(self, n_processes: int, *settings: str, options: Sequence[str] = ()) -> "Training":
        command = [*self.command(n_processes, *settings), *options]
        found = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert found.returncode == 0, found.stderr
        if n_processes > 1:
            assert f"{n_processes} processes" in found.stderr
        self.said = found.stderr
        return self

    def start(self, command: list[str]) -> "subprocess.Popen[str]":
        """Start it, and wait until a few updates more than before are done, and a checkpoint."""
        n = len(self.records()) + 25  # update 20 is validated
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 300
        while len(self.records()) < n:
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()
            time.sleep(0.02)
        return process

    def losses(self) -> list[float]:
        return [r["loss"] for r in self.records() if r["event"] == "train"]

    def records(self) -> list[dict[str, Any]]:
        if not self.run.metrics_path.exists():
            return []
        lines = self.run.metrics_path.read_text(encoding="utf-8").splitlines()
        return [{k: v for k, v in json.loads(line).items() if k not in CLOCK} for line in lines]

    def newest(self) -> int:
        return max(int(path.name) for path in self.run.checkpoints_dir.iterdir())

    def weights_at(self, update: int) -> dict[str, torch.Tensor]:
        return load_file(self.run.checkpoints_dir / f"{update:08d}" / "weights.safetensors")

    def state(self) -> dict[str, torch.Tensor]:
        """Of the newest checkpoint."""
        directory = self.run.checkpoints_dir / f"{self.newest():08d}"
        return {
            f"{name}.{key}": tensor
            for name in ("weights", "optimizer")
            for key, tensor in load_file(directory / f"{name}.safetensors").items()
        }

    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run.model_dir / "metadata.json").read_text())
        return found


def assert_bit_equal(one: Training, other: Training) -> None:
    ours, theirs = one.state(), other.state()
    assert one.newest() == other.newest() and ours.keys() == theirs.keys()
    assert all(ours[name].equal(tensor) for name, tensor in theirs.items())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, corpus_dir: Path) -> Training:
    config = CONFIG.format(root=corpus_dir)
    return Training(tmp_path_factory.mktemp("alone"), config).do(1)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, alone: Training) -> Training:
    return alone.beside(tmp_path_factory.mktemp("pair")).do(2, options=["--profile", "3"])


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


def test_every_number_of_processes_goes_on_to_the_loss_curve_of_one(
    tmp_path: Path, alone: Training
) -> None:
    """Nearly, where gradients are rounded on their way."""
    training = alone.beside(tmp_path).do(3, "train.max_updates=20")
    training.do(2, "train.max_updates=40", "train.reduce_dtype=bf16")
    found, expected = training.losses(), alone.losses()[:40]
    assert found[:20] == pytest.approx(expected[:20], rel=1e-4)
    assert found[20:] == pytest.approx(expected[20:], rel=3e-2)
    assert found[20:] != pytest.approx(expected[20:], rel=1e-6), "nothing was rounded"
    assert found[-1] < 0.8 * found[0]
    assert training.metadata()["scores"].keys() == alone.metadata()["scores"].keys()


def test_three_updates_were_profiled(pair: Training) -> None:
    """Which changes none: the trainings below, without it, end in the same bits."""
    assert pair.said.count("[profile] 3 updates of the first process, ") == 1
    rows = re.findall(r"^  ([a-z]+) +([0-9.]+) ms +[0-9.]+%$", pair.said, re.MULTILINE)
    ms = {name: float(value) for name, value in rows}
    assert ms.keys() == {"data", "host", "kernels", "communication"}
    assert min(ms.values()) > 0
    events = json.loads(gzip.decompress(pair.run.trace_path.read_bytes()))["traceEvents"]
    assert sum(event["name"].startswith("ProfilerStep") for event in events) == 3


def ranks_of(pid: int) -> dict[str, int]:
    """Process id of every rank that `pid` has started."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = (entry / "status").read_text()
            environment = (entry / "environ").read_bytes().decode()
        except OSError:
            continue
        if f"\nPPid:\t{pid}\n" in status:
            pairs = (item.partition("=") for item in environment.split("\0") if item)
            found[{name: value for name, _, value in pairs}["RANK"]] = int(entry.name)
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")


@needs_proc
def test_whoever_is_killed_all_end_with_the_reason(tmp_path: Path, alone: Training) -> None:
    """The process that has started them, or one of them; the same command goes on after each."""
    training = alone.beside(tmp_path)
    for rank in (None, "0", "1"):
        process = training.start(training.command(2, "train.max_updates=5000"))
        pids = ranks_of(process.pid)
        assert pids.keys() == {"0", "1"}
        os.kill(process.pid if rank is None else pids[rank], signal.SIGKILL)
        _, told = process.communicate(timeout=300)
        assert process.returncode == (-signal.SIGKILL if rank is None else 2)
        if rank is not None:
            assert f"process {rank} of 0 … 1 ended (killed by SIGKILL" in told
        # multiprocessing prints a traceback of its own where a process is killed between starting
        # another one and telling it what to do.
        assert "transformer_mt/" not in told, "a traceback through tmt"
        deadline = time.monotonic() + 120
        while any(Path(f"/proc/{pid}").exists() for pid in pids.values()):
            assert rank is None and time.monotonic() < deadline, "a process was left behind"
            time.sleep(0.1)


@pytest.mark.parametrize("n_processes", [1, 2])
def test_a_stop_is_agreed_upon_and_resuming_is_bit_identical(
    tmp_path: Path, alone: Training, pair: Training, n_processes: int
) -> None:
    """Stopped anywhere in an epoch, with sub-words drawn anew in each."""
    training = alone.beside(tmp_path)
    process = training.start(training.command(n_processes))
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=300)
    assert process.returncode == 130, told
    assert "everything is saved; the same command goes on" in told
    assert len(training.losses()) == training.newest(), "the last update that was done is saved"
    assert not training.run.model_dir.exists()
    killed_while_saving = training.run.directory / ".tmt-0123456789abcdef.tmp"
    killed_while_saving.mkdir()
    assert_bit_equal(training.do(n_processes), alone if n_processes == 1 else pair)
    assert not list(training.run.directory.rglob("*.tmp"))


@needs_proc
def test_torchrun_is_the_same_training_and_goes_on_after_a_rank_was_killed(
    tmp_path: Path, alone: Training, pair: Training
) -> None:
    """All start anew, from the last checkpoint, and end where they would have ended anyway."""
    training = alone.beside(tmp_path)
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    command = training.command(2)
    process = training.start([*command[:2], *torchrun, *command[1:]])
    os.kill(ranks_of(process.pid)["1"], signal.SIGKILL)
    _, told = process.communicate(timeout=600)
    assert process.returncode == 0, told
    assert "going on after update" in told
    assert_bit_equal(training, pair)


def torchrun_on(machines: list[Machine], training: Training, *settings: str) -> list[list[str]]:
    """The command of each machine; the first one is where they meet."""
    meeting = f"--rdzv-endpoint={machines[0].address}:29500"
    train = training.command(1, *settings)
    return [
        machine.command(
            "env", f"GLOO_SOCKET_IFNAME={DEVICE}", sys.executable, "-m", "torch.distributed.run",
            "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", meeting,
            f"--rdzv-conf=is_host={int(machine is machines[0])}", f"--local-addr={machine.address}",
            *train[1:],
        )
        for machine in machines
    ]  # fmt: skip


@needs_proc
@pytest.mark.skipif(reason_against() is not None, reason=str(reason_against()))
def test_two_machines_are_one_whatever_the_link_does(tmp_path: Path, alone: Training) -> None:
    """It is slow, loses packets and is cut for a second: the losses are those of one process."""
    training = alone.beside(tmp_path)
    with two_machines() as machines:
        first, second = torchrun_on(machines, training, "train.max_updates=80")
        other = subprocess.Popen(second, stderr=subprocess.PIPE, text=True)
        process = training.start(first)
        machines[1].ip(f"link set {DEVICE} down")
        time.sleep(1)
        n = len(training.records())
        machines[1].ip(f"link set {DEVICE} up")
        for ended in (process, other):
            _, told = ended.communicate(timeout=240)
            assert ended.returncode == 0, told
        assert len(training.records()) > n + 1, "it was cut while it trained"
        assert sum(machine.lost_packets() for machine in machines) > 0
    assert training.losses()[:60] == pytest.approx(alone.losses(), rel=1e-4)


def test_a_mistake_is_told_once(tmp_path: Path, alone: Training) -> None:
    command = alone.beside(tmp_path).command(2, "data.dev=[nowhere]")
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert found.returncode == 2
    assert found.stderr.count("tmt: ") == 1 and "nowhere" in found.stderr
    assert "process 1" not in found.stderr
