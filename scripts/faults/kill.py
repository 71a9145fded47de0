"""SIGKILL at random moments of whole trainings, for every kind of process that takes part.

    python scripts/faults/kill.py [--kills 100] [--kinds command rank …] [--seed 1] [--parallel 2]

A training of some seconds on a toy corpus is started, killed, and started again, up to four times,
then left to finish; and so on with the next one until there were so many kills. The victim is by
turns the command, the launcher of two processes, one of these, a worker that prepares data, the
process that draws an epoch's sub-words ahead, and a copy that translates at a validation. The
moment is uniform over all the time in which such a process lives. Where a part dies, the command
must end with 0 or with 2 and no traceback; then nothing it had started may be left. At the end of
each training the weights, the checkpoints with the optimizer, and the names of all files must be
those of a training that was left alone.

Prints what was killed when, and what was wrong. Exits with 1 if anything was, or if a kind of
process was never caught or hardly lived. Linux only.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import toy
from cases import Snapshot, snapshot
from processes import (
    Process,
    alone,
    copies,
    family,
    ranks,
    spawned,
    wait_for_end,
)

KILLS_PER_TRAINING = 4
END_S = 30.0  # after a kill, until nothing may be left; the launcher's patience is 10 s
TIMEOUT_S = 180.0  # of one start
POLL_S = 0.003
FAILED = 2  # exit status of a command that has said why

_SETTINGS = ("train.max_updates=40", "train.validate_every=10", "train.log_every=5",
             "train.keep_last=3", "train.average=3")  # fmt: skip
_TMT = ("-m", "transformer_mt")
_SMALL_SHARDS = (str(Path(__file__).with_name("small_shards.py")),)


@dataclass(frozen=True)
class Kind:
    """A kind of process, and a training in which it takes part."""

    name: str
    find: Callable[[int], list[Process]]  # victims, from the id of the command
    processes: int = 1
    program: tuple[str, ...] = _TMT
    settings: tuple[str, ...] = ()
    threads: int = 1

    def argv(self) -> list[str]:
        settings = [part for one in (*_SETTINGS, *self.settings) for part in ("--set", one)]
        return [sys.executable, *self.program, "train", "toy.yaml", "--run-dir", "run",
                "--processes", str(self.processes), *settings]  # fmt: skip


MIN_LIFE_S = 0.2  # of a kind's processes in one training; less, and something else was recognised

KINDS = [
    Kind("command", alone),
    Kind("launcher", alone, processes=2),
    Kind("rank", ranks, processes=2),
    Kind("data worker", spawned, program=_SMALL_SHARDS, settings=("data.workers=2",)),
    Kind("sampler", spawned, settings=("tokenizer.sampling=0.1",)),
    Kind("translator", copies, threads=2),
]


@dataclass
class Whole:
    """A training that was left alone."""

    files: Snapshot
    seconds: float  # in which there was a process of the kind


@dataclass
class Tally:
    """What was done to one kind, and what was wrong."""

    kills: int = 0
    under_way: int = 0
    trainings: int = 0
    slowest_end_s: float = 0.0  # from a kill until nothing was left, unless the work went on
    phases: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)

    def note_end(
        self, victim: Process | None, phase: str, status: int | None, seconds: float
    ) -> None:
        """Args: phase: when it was killed. seconds: from then on."""
        self.endings[f"{status} {'when killed' if victim else 'alone'}"] += 1
        if victim is None:
            return
        self.kills += 1
        self.phases[phase] += 1
        if status != 0:  # else it did without its victim, and went on
            self.slowest_end_s = max(self.slowest_end_s, seconds)
            if seconds > END_S:
                self.problems[f"still there {END_S:.0f} s after the kill"] += 1

    def judge_end(self, victim: Process | None, status: int | None, said: str) -> None:
        """Exit status and words of a start."""
        last = said.strip().split("\n")[-1]
        if "Traceback" in said:
            self.problems[f"traceback: {last}"] += 1
        if status not in (0, FAILED) and not (victim and status == -signal.SIGKILL):
            self.problems[f"exit status {status}: {last}"] += 1
        if victim is None and status != 0:
            self.problems[f"does not go on: {last}"] += 1


class Start:
    """One start of the command of a kind, in a folder with its corpus."""

    def __init__(self, kind: Kind, folder: Path) -> None:
        self._kind = kind
        self._said_path = folder / "said"
        self._family: dict[Process, None] = {}
        environment = {**os.environ, "OMP_NUM_THREADS": str(kind.threads)}
        with self._said_path.open("wb") as said:
            self._popen = subprocess.Popen(
                kind.argv(), cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip

    def run(self, kill_after_s: float) -> tuple[Process | None, float]:
        """Kill a victim once there have been victims for so long; or let it end.

        Returns:
            The victim, if it came to that, and for how long there were any.
        """
        lived, before = 0.0, time.monotonic()
        deadline = before + TIMEOUT_S
        while self._popen.poll() is None and time.monotonic() < deadline:
            victims = self._kind.find(self._popen.pid)
            now = time.monotonic()
            lived += now - before if victims else 0.0
            before = now
            if victims and lived >= kill_after_s:
                victim = victims[int(now * 1e6) % len(victims)]
                self._family = dict.fromkeys(family(self._popen.pid))
                with suppress(ProcessLookupError):  # it has ended just now
                    os.kill(victim.pid, signal.SIGKILL)
                    return victim, lived
            time.sleep(POLL_S)
        return None, lived

    def end(self) -> tuple[int | None, list[Process]]:
        """The exit status (None: not in time), and which processes are left."""
        try:
            status: int | None = self._popen.wait(END_S + TIMEOUT_S)
        except subprocess.TimeoutExpired:
            status = None
            self._family |= dict.fromkeys(family(self._popen.pid))
        left = wait_for_end(list(self._family), END_S if status is not None else 0)
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self._popen.wait()
        return status, left

    @property
    def said(self) -> str:
        return self._said_path.read_text(encoding="utf-8", errors="replace")


def phase(said: str) -> str:
    """Where a training stood, by the last that it told."""
    marks = {"[data]": "cleaning", "[tokenizer]": "tokenizer", "[encode]": "encoding",
             "[train]": "training", "[choose]": "finishing", "[done]": "done"}  # fmt: skip
    at = {said.rfind(mark): name for mark, name in marks.items() if mark in said}
    return at[max(at)] if at else "start-up"


def files_of(folder: Path) -> Snapshot:
    """Of a run; which epochs were drawn ahead is a matter of time."""
    found = snapshot(folder / "run")
    return {path: content for path, content in found.items()
            if not path.startswith("data/encoded/epochs/")}  # fmt: skip


def new_folder(place: Path, name: str) -> Path:
    folder = place / name
    shutil.rmtree(folder, ignore_errors=True)
    toy.write_experiment(folder, n_dev=80)
    return folder


def train_whole(kind: Kind, place: Path) -> Whole:
    """Exits unless it succeeds, and there was a process of the kind."""
    start = Start(kind, new_folder(place, f"whole-{kind.name}"))
    _, lived = start.run(float("inf"))
    status, _ = start.end()
    if status != 0 or not lived:
        sys.exit(f"{kind.name}: exit status {status}, there for {lived:.2f} s\n{start.said}")
    return Whole(files_of(place / f"whole-{kind.name}"), lived)


def train_killed(
    kind: Kind, whole: Whole, folder: Path, kills: int, random: Random, tally: Tally
) -> None:
    """One training: at most so many kills, then let it finish, then compare."""
    n_killed, status = 0, None
    while status != 0:
        start = Start(kind, folder)
        moment = random.uniform(0, whole.seconds) if n_killed < kills else float("inf")
        victim, _ = start.run(moment)
        now, began = phase(start.said), time.monotonic()
        status, left = start.end()
        n_killed += victim is not None
        tally.note_end(victim, now, status, time.monotonic() - began)
        tally.judge_end(victim, status, start.said)
        for process in left:
            tally.problems[f"left behind: {' '.join(process.command)[:80]}"] += 1
        if status != 0 and victim is None:
            return
    compare(whole.files, files_of(folder), tally)


def compare(whole: Snapshot, killed: Snapshot, tally: Tally) -> None:
    for path in sorted({*whole, *killed}):
        if whole.get(path) == killed.get(path):
            continue
        how = "differs" if path in whole and path in killed else "missing"
        if path not in whole:
            how = "left over"
        kept = tally.notes if path == "metrics.jsonl" else tally.problems
        kept[f"{how}: {path}"] += 1


def kill_all(
    kinds: list[Kind], wholes: dict[str, Whole], place: Path, arguments: argparse.Namespace
) -> dict[str, Tally]:
    """Trainings of the kinds by turns, some at a time, until there were enough kills of each."""
    tallies = {kind.name: Tally() for kind in kinds}
    wanted = {kind.name: len(range(i, arguments.kills, len(kinds))) for i, kind in enumerate(kinds)}
    lock = threading.Lock()

    def missing(kind: Kind) -> int:
        tally = tallies[kind.name]
        if tally.trainings > 2 * wanted[kind.name] + 3:
            return 0  # it is hardly ever there
        return wanted[kind.name] - tally.kills - tally.under_way

    def work(worker: int) -> None:
        for n in range(10 * arguments.kills):
            with lock:
                kind = max(kinds, key=missing)
                kills = min(KILLS_PER_TRAINING, missing(kind))
                if kills <= 0:
                    return
                tally = tallies[kind.name]
                tally.trainings += 1
                tally.under_way += kills
            random = Random(f"{arguments.seed} {worker} {n}")
            folder = new_folder(place, f"killed-{worker}")
            own = Tally()
            train_killed(kind, wholes[kind.name], folder, kills, random, own)
            with lock:
                tally.under_way -= kills
                tally.kills += own.kills
                tally.slowest_end_s = max(tally.slowest_end_s, own.slowest_end_s)
                for name in ("phases", "endings", "problems", "notes"):
                    getattr(tally, name).update(getattr(own, name))
                total = sum(t.kills for t in tallies.values())
                print(f"… {kind.name}: {own.kills} kills ({total} in all)"
                      f"{' · ' + '; '.join(own.problems) if own.problems else ''}",
                      file=sys.stderr, flush=True)  # fmt: skip

    with ThreadPoolExecutor(arguments.parallel) as pool:
        list(pool.map(work, range(arguments.parallel)))
    return tallies


def show(tallies: dict[str, Tally], wholes: dict[str, Whole]) -> bool:
    """Print what was done; whether everything was well."""
    well = True
    for name, tally in tallies.items():
        if wholes[name].seconds < MIN_LIFE_S:
            tally.problems["such processes were not recognised"] += 1
        print(f"\n{name}: {tally.kills} kills in {tally.trainings} trainings; "
              f"lives {wholes[name].seconds:.1f} s of one")  # fmt: skip
        print("  while: " + ", ".join(f"{p} {n}" for p, n in tally.phases.most_common()))
        print(f"  nothing was left after {tally.slowest_end_s:.1f} s, at most")
        print("  exit status: " + ", ".join(f"{e} ×{n}" for e, n in tally.endings.most_common()))
        for what, n in tally.problems.items():
            print(f"  WRONG {n} times: {what}")
        for what, n in tally.notes.items():
            print(f"  note, {n} times: {what}")
        if not tally.problems:
            print("  all trainings ended in the same bits, with nothing left over")
        well = well and not tally.problems and tally.kills > 0
    print(f"\n{sum(tally.kills for tally in tallies.values())} kills")
    return well


def main() -> None:
    names = [kind.name for kind in KINDS]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="in all, divided among the kinds")
    parser.add_argument("--kinds", nargs="+", choices=names, default=names)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=2, help="trainings at a time")
    arguments = parser.parse_args()
    kinds = [kind for kind in KINDS if kind.name in arguments.kinds]
    with tempfile.TemporaryDirectory(prefix="kills-") as directory:
        place = Path(directory)
        wholes = {kind.name: train_whole(kind, place) for kind in kinds}
        tallies = kill_all(kinds, wholes, place, arguments)
    sys.exit(0 if show(tallies, wholes) else 1)


if __name__ == "__main__":
    main()
