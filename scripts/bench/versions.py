"""Two versions of tmt by turns: training, decoding, cleaning and the start of a command.

    git worktree add /tmp/before COMMIT
    python scripts/bench/versions.py /tmp/before [--rounds 5] [--data FOLDER] [--model MODEL]

Runs both checkouts with this Python, each round in the other order, so that a machine whose speed
drifts slows both. Only commands are run, so that the modules of both may have other names. FOLDER
has train.zh and train.en; without it the bundled corpus is cleaned. MODEL translates one text.
Prints, for each measure, the medians and the median of the ratios of the rounds, larger is better.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
CLEANING = """\
name: cleaning
languages: {src: zh, tgt: en}
data: {root: ROOT, train: [train], workers: 1, clean: {mismatch: false}}
"""
FEW, MANY = 1_000, 60_000  # pairs; the difference leaves out what every command costs


def run(checkout: Path, *arguments: str) -> str:
    """What a Python prints that takes tmt from a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, cwd=folder, check=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
    return done.stdout


def training(checkout: Path) -> dict[str, float]:
    words = ("bench", "train", "--updates", "30", "--json")
    report = json.loads(run(checkout, "-m", "transformer_mt", *words))
    return {
        "training, target tokens/s": float(report["tgt_tokens_per_s"]),
        "training, starts to the first update, 1/s": 1 / float(report["first_update_s"]),
    }


def decoding(checkout: Path) -> dict[str, float]:
    report = json.loads(run(checkout, "-m", "transformer_mt", "bench", "decode", "--json"))
    found = {}
    for row in report["rates"]:
        name = f"decoding, batch {row['batch']}, beam {row['beam']}, sentences/s"
        found[name] = float(row["sentences_per_s"])
    return found


def cleaning(checkout: Path, folders: list[Path]) -> dict[str, float]:
    """Pairs per second of CPU time, of `tmt data clean` with one worker."""
    seconds = []
    for folder in folders:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        config = str(folder / "cleaning.yaml")
        run(checkout, "-m", "transformer_mt", "data", "clean", config, "clean")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"cleaning, pairs/s": (MANY - FEW) / (seconds[1] - seconds[0])}


def write_corpora(data: Path, folder: Path) -> list[Path]:
    """A folder with FEW pairs and one with MANY, repeated if there are not so many."""
    folders = [folder / "few", folder / "many"]
    for n_pairs, place in zip((FEW, MANY), folders, strict=True):
        place.mkdir()
        (place / "cleaning.yaml").write_text(CLEANING.replace("ROOT", str(place)))
        for code in ("zh", "en"):
            lines = (data / f"train.{code}").read_bytes().split(b"\n")[:-1]
            repeated = b"\n".join(islice(cycle(lines), n_pairs))
            (place / f"train.{code}").write_bytes(repeated + b"\n")
    return folders


def start(checkout: Path, model: Path | None) -> dict[str, float]:
    found = {}
    translate = [("translate", "-m", str(model.absolute()), "你好")] if model else []
    for words in [("--help",), ("doctor", "--json"), *translate]:
        started = time.monotonic()
        run(checkout, "-m", "transformer_mt", *words)
        found[f"start, tmt {words[0]}, 1/s"] = 1 / (time.monotonic() - started)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", type=Path, help="a checkout of the other version")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--model", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = arguments.data
        if data is None:
            run(ROOT, "-m", "transformer_mt", "data", "demo", f"{folder}/demo")
            data = Path(folder, "demo")
        corpora = write_corpora(data, Path(folder))
        measures: list[Callable[[Path], dict[str, float]]] = [
            lambda checkout: start(checkout, arguments.model),
            lambda checkout: cleaning(checkout, corpora), decoding, training,
        ]  # fmt: skip
        found: dict[str, list[tuple[float, float]]] = {}
        for number in range(arguments.rounds):
            for measure in measures:
                order = [arguments.before.absolute(), ROOT]
                values = {place: measure(place) for place in order[:: 1 if number % 2 else -1]}
                for name in values[ROOT]:
                    pair = values[order[0]][name], values[ROOT][name]
                    found.setdefault(name, []).append(pair)
            print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
    print(f"{'':48}{'before':>10}{'now':>10}{'ratio':>8}   ratios of the rounds")
    for name, pairs in found.items():
        before, now = (median(pair[i] for pair in pairs) for i in (0, 1))
        ratios = [new / old for old, new in pairs]
        shown = " ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
        print(f"{name:48}{before:10,.1f}{now:10,.1f}{median(ratios):8.3f}   {shown}")


if __name__ == "__main__":
    main()
