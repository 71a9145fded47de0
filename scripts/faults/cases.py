"""The five commands, what lies there before each, and what may stand there afterwards.

Comes in: a folder, and a way to run a command. Goes out: a `Case` for each command, and `snapshot`,
which tells two folders apart. This file knows nothing of how faults are made.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import toy

Run = Callable[[list[str], Path], None]  # a command line, without faults; exits unless it succeeds
Snapshot = dict[str, str]  # path below a folder → what is in it, but for what a clock has written

# What differs from run to run, because it tells of time or memory, or of the bytes that do.
_CLOCK = {
    "minutes", "seconds", "validation_s", "eta_minutes", "tgt_tokens_per_s", "peak_memory_mib",
    "split_batches", "processes",
    "digest", "report.json", "report.html",  # in a manifest: of itself, and of files with a clock
}  # fmt: skip
_ENDS = {".html": b"</html>", ".png": b"IEND\xaeB`\x82"}  # of a whole file


@dataclass(frozen=True)
class Case:
    """One command: from the state in a folder, with one process.

    Args:
        units: files and directories that are old or new as a whole; `*` is any name.
        free: what may be anything until the next run has ended: work that goes on, and logs.
        spare: units without which the command may end with 0; the next run makes them.
    """

    name: str
    argv: list[str]
    units: tuple[str, ...]
    free: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()


_RUN = ["toy.yaml", "--run-dir", "run"]
_TRAIN = ["train", *_RUN, "--processes", "1"]
_DATA = ("run/data/clean", "run/data/tokenizer", "run/data/encoded", "run/data/report.html",
         "run/data/report.json")  # fmt: skip
_TRAINED = ("run/model", "run/translations/*", "run/config.yaml", "run/curves.png")
_GOING_ON = ("run/checkpoints", "run/metrics.jsonl", "run/max_tokens.json", "run/data/work")

CASES = [
    Case("data prepare", ["data", "prepare", *_RUN], _DATA, ("run/data/work",)),
    Case("train", _TRAIN, _TRAINED, _GOING_ON, ("run/curves.png",)),
    Case("train on", _TRAIN, _TRAINED, _GOING_ON, ("run/curves.png",)),
    Case("translate", ["translate", "-m", "run/model", "-i", "in.txt", "-o", "out.txt"],
         ("out.txt",)),
    Case("average", ["average", "run", "mean", "--last", "2"], ("mean",)),
    Case("export", ["export", "-m", "run/model", "-o", "exported", "--src", "in.txt"],
         ("exported",)),
]  # fmt: skip


def make_states(folder: Path, run: Run, names: Collection[str]) -> dict[str, Path]:
    """Of the cases with these names the folder with what lies there before the command."""
    states = {case.name: folder / case.name.replace(" ", "-") for case in CASES}

    def copied(source: str, name: str) -> Path:
        shutil.copytree(states[source], states[name])
        return states[name]

    prepared = states["train"]
    toy.write_experiment(prepared)
    run(["data", "prepare", *_RUN], prepared)
    halfway = copied("train", "train on")
    run([*_TRAIN, "--set", "train.max_updates=3"], halfway)
    if not {"translate", "average", "export"}.isdisjoint(names):
        trained = copied("train on", "translate")
        (trained / "in.txt").write_text("".join(f"{zh}\n" for zh, _ in toy.pairs(400, 4)), "utf-8")
        (trained / "out.txt").write_text("what was here before\n", "utf-8")
        if "export" in names:
            run(["export", "-m", "run/model", "-o", "exported", "--src", "in.txt"], trained)
        run(_TRAIN, trained)
        copied("translate", "average")
        copied("translate", "export")
    if "data prepare" in names:
        older = states["data prepare"]
        toy.write_experiment(older, n_train=150)
        run(["data", "prepare", *_RUN], older)
        toy.write_corpus(older, n_train=200)
    return states


def snapshot(folder: Path) -> Snapshot:
    """Everything below a folder but locks."""
    return {
        str(path.relative_to(folder)): "" if path.is_dir() else _content(path)
        for path in sorted(folder.rglob("*"))
        if not path.name.endswith(".lock")
    }


def _content(path: Path) -> str:
    raw = path.read_bytes()
    end = _ENDS.get(path.suffix)
    if end is not None:  # they tell of time as well
        return "whole" if raw.rstrip().endswith(end) else "cut off"
    try:
        if path.suffix == ".json":
            return json.dumps(_without_clock(json.loads(raw)), sort_keys=True)
        if path.suffix == ".jsonl":
            records = [_without_clock(json.loads(line)) for line in raw.splitlines()]
            return json.dumps(records, sort_keys=True)
    except ValueError:
        return f"no {path.suffix}: {hashlib.sha256(raw).hexdigest()}"
    return hashlib.sha256(raw).hexdigest()


def _without_clock(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_clock(part) for key, part in value.items() if key not in _CLOCK}
    return [_without_clock(part) for part in value] if isinstance(value, list) else value
