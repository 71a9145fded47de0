"""Kill training with SIGKILL at random moments, resume it, and compare with a run left alone.

    python scripts/kill_resume.py [--kills 10] [--seed 1]

Trains a small model on the bundled corpus twice, in a temporary directory: once without a break,
and once killed again and again and started anew each time. Exits with 1 unless the weights of both
model directories, and of their last checkpoints with the optimizer's moments, are the same to the
last bit.
"""

import argparse
import hashlib
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = [
    "model.d_model=32", "model.ffn=64", "model.heads=2",
    "model.encoder_layers=1", "model.decoder_layers=1",
    "tokenizer.vocab_size=900", "train.max_minutes=null", "train.max_updates=120",
    "train.tokens_per_update=2000", "train.validate_every=12", "train.log_every=6",
    "train.keep_last=3", "train.average=3",
]  # fmt: skip
COMPARED = ["model/model.safetensors", "checkpoints/00000120/weights.safetensors",
            "checkpoints/00000120/optimizer.safetensors"]  # fmt: skip


def command(config: Path, run_dir: Path) -> list[str]:
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    train = [sys.executable, "-m", "transformer_mt", "train", str(config)]
    return [*train, "--run-dir", str(run_dir), *settings]


def run_whole(config: Path, run_dir: Path) -> float:
    """Train without a break; returns the seconds it took."""
    started = time.monotonic()
    subprocess.run(command(config, run_dir), check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - started


def run_killed(config: Path, run_dir: Path, kills: int, seconds: float, seed: int) -> int:
    """Start and kill at random moments, then let it finish; returns how many kills hit training."""
    moments = random.Random(seed)
    hit = 0
    for _ in range(kills):
        process = subprocess.Popen(command(config, run_dir), stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=moments.uniform(0.25, 0.6) * seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            done = sorted(path.name for path in (run_dir / "checkpoints").glob("0*"))
            hit += bool(done)
            print(f"killed; newest checkpoint: {done[-1] if done else 'none'}", flush=True)
    subprocess.run(command(config, run_dir), check=True, stderr=subprocess.DEVNULL)
    return hit


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", type=Path, default=Path("configs/tiny.yaml"))
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        whole, killed = Path(directory, "whole"), Path(directory, "killed")
        seconds = run_whole(arguments.config, whole)
        print(f"uninterrupted: {seconds:.0f} s", flush=True)
        hit = run_killed(arguments.config, killed, arguments.kills, seconds, arguments.seed)
        print(f"{hit} of {arguments.kills} kills came after the first checkpoint")
        equal = True
        for name in COMPARED:
            one, other = digest(whole / name), digest(killed / name)
            equal &= one == other
            print(f"{'equal  ' if one == other else 'DIFFERS'} {one} {other}  {name}")
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
