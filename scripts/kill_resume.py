"""Kill training with SIGKILL at random moments, resume it, and compare with a run left alone.

    python scripts/kill_resume.py [--kills 10] [--seed 1] [--processes 2]

Trains a small model on the bundled corpus twice, in a temporary directory: once without a break,
and once killed again and again and started anew each time. With several processes the victim is by
turns the command itself and one of those that share the work; the others must end, too. Exits with
1 unless the weights of both model directories, and of their last checkpoints with the optimizer's
moments, are the same to the last bit.
"""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from transformer_mt.training.log import read_metrics

N_UPDATES = 300

SETTINGS = [
    "model.d_model=32", "model.ffn=64", "model.heads=2",
    "model.encoder_layers=1", "model.decoder_layers=1",
    "train.max_minutes=null", f"train.max_updates={N_UPDATES}",
    "train.tokens_per_update=2000", "train.validate_every=20", "train.log_every=2",
    "train.keep_last=3", "train.average=3",
]  # fmt: skip
COMPARED = ["model/model.safetensors", f"checkpoints/{N_UPDATES:08d}/weights.safetensors",
            f"checkpoints/{N_UPDATES:08d}/optimizer.safetensors"]  # fmt: skip


def command(config: Path, run_dir: Path, processes: int) -> list[str]:
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    train = [sys.executable, "-m", "transformer_mt", "train", str(config)]
    return [*train, "--run-dir", str(run_dir), "--processes", str(processes), *settings]


def run_whole(whole: list[str]) -> float:
    """Train without a break; returns the seconds it took."""
    started = time.monotonic()
    subprocess.run(whole, check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - started


def run_killed(train: list[str], run_dir: Path, kills: int, seed: int) -> None:
    """Start and kill at random moments, then let it finish.

    The first moment is some seconds after the start, while data is prepared; the others are random
    updates, each later than the one before, and up to half a second.
    """
    random = Random(seed)
    targets = sorted(random.sample(range(5, N_UPDATES - 20), kills - 1))
    for n_before, target in enumerate([0, *targets]):
        process = subprocess.Popen(train, stderr=subprocess.DEVNULL)
        if target:
            while newest_update(run_dir) < target:
                if process.poll() is not None:
                    sys.exit(f"training ended by itself before update {target}")
                time.sleep(0.02)
        time.sleep(random.uniform(0, 0.5 if target else 6))
        sharers = children(process.pid)
        victim = random.choice(sharers) if sharers and n_before % 2 else process.pid
        os.kill(victim, signal.SIGKILL)
        status = process.wait()
        wait_for_end(sharers)
        checkpoints = sorted(path.name for path in (run_dir / "checkpoints").glob("0*"))
        print(
            f"killed {'the command' if victim == process.pid else 'one of the processes'} "
            f"after update {newest_update(run_dir)}, exit status {status}; "
            f"newest checkpoint: {checkpoints[-1] if checkpoints else 'none'}",
            flush=True,
        )
    subprocess.run(train, check=True, stderr=subprocess.DEVNULL)


def children(pid: int) -> list[int]:
    """Processes that this one started and that still run."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for_end(pids: list[int], timeout_s: float = 60) -> None:
    """Until none of them is left; exits if one stays behind."""
    deadline = time.monotonic() + timeout_s
    while left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        if time.monotonic() > deadline:
            sys.exit(f"still running after {timeout_s:.0f} s: {left}")
        time.sleep(0.05)


def newest_update(run_dir: Path) -> int:
    """The last update that the run has told of."""
    return max((record["update"] for record in read_metrics(run_dir / "metrics.jsonl")), default=0)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", type=Path, default=Path("configs/tiny.yaml"))
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1, help="that share the work")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        whole, killed = Path(directory, "whole"), Path(directory, "killed")
        config, processes = arguments.config, arguments.processes
        seconds = run_whole(command(config, whole, processes))
        print(f"uninterrupted: {seconds:.0f} s", flush=True)
        run_killed(command(config, killed, processes), killed, arguments.kills, arguments.seed)
        equal = True
        for name in COMPARED:
            one, other = digest(whole / name), digest(killed / name)
            equal &= one == other
            print(f"{'equal  ' if one == other else 'DIFFERS'} {one} {other}  {name}")
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
