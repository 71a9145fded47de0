"""Does what `tmt plan` predicts come true? Plans, then trains a while in fresh processes.

    python scripts/bench/check_plan.py CONFIG [--set A.B=C …] [--updates 60] [--processes N]

The plan is made from raw text, as by a user who has not prepared anything. Then the corpus is
prepared and trained on in a temporary run directory, with one validation at the end. Printed are
both numbers and predicted / actual. Memory is that of the largest process, as the system counts it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

TMT = [sys.executable, "-m", "transformer_mt"]
WARM_UP = 5  # log lines that are not counted


def predict(arguments: argparse.Namespace, processes: int) -> dict[str, Any]:
    """The plan, as JSON, from a folder without runs."""
    code = (
        "import dataclasses, json, sys; from pathlib import Path\n"
        "from transformer_mt.config.experiment import load_experiment\n"
        "from transformer_mt.pipeline.run_dir import Run\n"
        "from transformer_mt.profiling.plan import make_plan\n"
        "if __name__ == '__main__':\n"
        "    cfg = load_experiment(sys.argv[1], sys.argv[3:])\n"
        "    plan = make_plan(cfg, Run(Path('no-such-run')), int(sys.argv[2]))\n"
        "    print(json.dumps(dataclasses.asdict(plan)))"
    )
    command = [sys.executable, "-c", code, str(arguments.config), str(processes), *arguments.set]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return dict(json.loads(found.stdout))


def train(arguments: argparse.Namespace, processes: int, run_dir: Path) -> float:
    """Prepare, then train in fresh processes. Returns the peak memory of the largest, in MiB."""
    settings = [f"--set={setting}" for setting in arguments.set]
    common = [str(arguments.config), *settings, "--run-dir", str(run_dir)]
    subprocess.run([*TMT, "data", "prepare", *common], check=True)
    n = arguments.updates
    few = [f"train.max_updates={n}", f"train.validate_every={n}", "train.log_every=1",
           "train.max_minutes=null", "decode.beam=1", "decode.max_length_ratio=0.1"]  # fmt: skip
    command = [*TMT, "train", *common, *(f"--set={setting}" for setting in few)]
    process = subprocess.Popen([*command, "--processes", str(processes)])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"tmt train ended with status {status}")
    return usage.ru_maxrss / 2**10


def actual(run_dir: Path) -> dict[str, float]:
    """Speed and size of an epoch, from what training logged and encoded."""
    lines = (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    logged = [record for record in records if record["event"] == "train"]
    seconds = [60 * (b["minutes"] - a["minutes"]) for a, b in pairwise(logged)]
    speeds = [record["tgt_tokens_per_s"] for record in logged[1:]]
    counted = list(zip(seconds, speeds, strict=True))[WARM_UP:]
    tokens = sum(duration * speed for duration, speed in counted)
    return {
        "tgt_tokens_per_s": tokens / sum(duration for duration, _ in counted),
        "updates_per_epoch": statistics.median(r["update"] / r["epoch"] for r in logged),
    }


def tokens_per_epoch(run_dir: Path) -> int:
    """Target tokens of the first epoch as it was encoded, by the weights of its sources."""
    from transformer_mt.config.experiment import load_config
    from transformer_mt.encoding.encoded_corpus import open_corpus
    from transformer_mt.encoding.mixing import describe_epoch

    cfg = load_config(run_dir / "config.yaml")
    corpus = open_corpus(run_dir / "data" / "encoded" / "train")
    return sum(share.tokens_in_epoch for share in describe_epoch(cfg, corpus, 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C")
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--processes", type=int)
    arguments = parser.parse_args()
    from transformer_mt.system.processes.launch import count_processes

    processes = arguments.processes or count_processes()
    with tempfile.TemporaryDirectory() as folder:
        predicted = predict(arguments, processes)
        memory_mib = train(arguments, processes, Path(folder))
        found = {**actual(Path(folder)), "tgt_tokens_per_epoch": tokens_per_epoch(Path(folder)),
                 "peak_memory_mib": memory_mib}  # fmt: skip
    predicted["peak_memory_mib"] /= processes
    print(f"{'':<22} {'predicted':>12} {'actual':>12} {'ratio':>7}")
    for key, value in found.items():
        ratio = predicted[key] / value
        print(f"{key:<22} {predicted[key]:>12,.0f} {value:>12,.0f} {ratio:>7.3f}")


if __name__ == "__main__":
    main()
