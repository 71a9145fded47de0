"""Faults at every write, rename, … of five commands, one at a time.

    python scripts/faults/inject.py [--commands train translate …] [--every K | --most N]
    python scripts/faults/inject.py --commands export --only rename:2:SIGKILL --keep FOLDER

Runs `data prepare`, `train` (from the start, and on from a checkpoint), `translate -o`, `average`
and `export` on a toy corpus: once for each call that changes a file, which then fails with ENOSPC
(half of a write arrives, and from then on there is no room), EIO (once), EROFS (from then on
nothing can be changed), or at which the process is killed (half of a write arrives). Afterwards
everything must be as before or as after an undisturbed run, the command must have said in one line
what was wrong, and the same command again must end as if nothing had been.

Prints one line for each command, kind of call and fault, then what was wrong, with a command that
shows it again. Exits with 1 if anything was, and with 3 where faults cannot be made: this needs
Linux and a C compiler.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded: forks may have no other threads

from cases import CASES, Case, make_states, snapshot
from trial import (
    FAULTS,
    KINDS,
    Fault,
    Undisturbed,
    Wrong,
    run_command,
    try_fault,
)

UNABLE = 3
_PID = re.compile(r"\.\d+(?=\.(?:tmp|old)\b)|(?<=\.tmp)\w{6}$")  # what differs between runs
PLACES = 8  # shown of those where the same went wrong
# What the commands load when they need it: here once, for all trials.
_LOADED = ("ctranslate2", "matplotlib.font_manager", "matplotlib.figure",
           "matplotlib.backends.backend_agg", "PIL.PngImagePlugin", "sacrebleu",
           "transformer_mt.cli.main", "transformer_mt.pipeline.train",
           "transformer_mt.export.proof", "transformer_mt.export.ctranslate2_engine")  # fmt: skip

Trial = tuple[str, Fault]  # name of a case


def build_library(folder: Path) -> Path:
    """Compile inject.c; exits where that is impossible."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux" or compiler is None:
        print("faults cannot be made here: that needs Linux and a C compiler (cc)")
        sys.exit(UNABLE)
    library = folder / "inject.so"
    source = Path(__file__).with_name("inject.c")
    built = subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, source])
    if built.returncode:
        print("faults cannot be made here: inject.c does not compile")
        sys.exit(UNABLE)
    ended = run_command(["--version"], folder, library)
    if ended.status != 0:
        print(f"faults cannot be made here: {ended.said.strip().splitlines()[-1]}")
        sys.exit(UNABLE)
    return library


def run_plainly(argv: list[str], folder: Path) -> None:
    """Without faults; exits unless it succeeds."""
    if (ended := run_command(argv, folder)).status != 0:
        sys.exit(f"tmt {' '.join(argv)}: exit status {ended.status}\n{ended.said}")


def run_undisturbed(case: Case, state_dir: Path, folder: Path, library: Path) -> Undisturbed:
    """What a case does when nothing fails; exits if it does not do the same twice."""
    found = []
    for _ in range(2):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(state_dir, folder)
        ended = run_command(case.argv, folder, library)
        if ended.status != 0:
            sys.exit(f"{case.name}: exit status {ended.status}\n{ended.said}")
        found.append((snapshot(folder), ended.counts))
    (after, counts), (other, _) = found
    if differing := [path for path in {*after, *other} if after.get(path) != other.get(path)]:
        sys.exit(f"{case.name}: two undisturbed runs differ in {', '.join(sorted(differing))}")
    return Undisturbed(case, state_dir, snapshot(state_dir), after, counts)


def trials_of(whole: Undisturbed, every: int, most: int | None) -> list[Trial]:
    """Every call of every kind with every fault, or a part of that, spread evenly."""
    found = [
        (whole.case.name, Fault(kind, n, fault))
        for kind in KINDS
        for fault in FAULTS
        if (kind, fault) != ("remove", "ENOSPC")  # it needs no room
        for n in range(1, whole.counts[kind] + 1, every)
    ]
    if most is None or most >= len(found):
        return found
    return [found[i * len(found) // most] for i in range(most)]


_wholes: dict[str, Undisturbed] = {}  # for the workers, which are forks
_library = Path()


def _try(trial: Trial) -> tuple[Trial, list[Wrong]]:
    name, fault = trial
    folder = _library.parent / f"trial-{os.getpid()}"
    return trial, try_fault(_wholes[name], fault, folder, _library)


def _start_worker(cores: Any) -> None:
    """One core for each worker: on one core nothing forks copies of itself to translate."""
    os.sched_setaffinity(0, {cores.get()})


def sweep(trials: list[Trial], workers: int) -> Iterator[tuple[Trial, list[Wrong]]]:
    context = get_context("fork")
    usable = sorted(os.sched_getaffinity(0))
    cores = context.SimpleQueue()
    for worker in range(workers):
        cores.put(usable[worker % len(usable)])
    started = time.monotonic()
    with ProcessPoolExecutor(workers, context, _start_worker, (cores,)) as pool:
        for n, result in enumerate(pool.map(_try, trials), 1):
            if n % 100 == 0:
                spent = time.monotonic() - started
                print(f"… {n} of {len(trials)} trials, {spent:.0f} s", file=sys.stderr, flush=True)
            yield result


def show(results: Iterable[tuple[Trial, list[Wrong]]]) -> int:
    """Print the table and what was wrong; returns how much was."""
    tried: Counter[tuple[str, str, str]] = Counter()
    wrong: Counter[tuple[str, str, str]] = Counter()
    examples: dict[tuple[str, str], list[tuple[Fault, Wrong]]] = defaultdict(list)
    for (name, fault), found in results:
        tried[name, fault.kind, fault.name] += 1
        wrong[name, fault.kind, fault.name] += bool(found)
        for one in found:
            examples[name, one.what].append((fault, one))
    print(f"{'command':13} {'call':7} {'fault':8} {'trials':>7} {'wrong':>6}")
    for key, n in tried.items():
        print(f"{key[0]:13} {key[1]:7} {key[2]:8} {n:7} {wrong[key]:6}")
    print(f"{'all':30} {tried.total():7} {wrong.total():6}")
    for (name, what), shown in examples.items():
        kinds = Counter(f"{fault.kind}:{fault.name}" for fault, _ in shown)
        places = Counter(_PID.sub("", one.at) for _, one in shown)
        fault, one = shown[0]
        print(f"\n{name}: {what}: {len(shown)} times")
        print("  " + ", ".join(f"{kind} {n}" for kind, n in kinds.items()))
        print("  at " + ", ".join(f"{place} {n}" for place, n in places.most_common(PLACES)))
        print(f"  {one.detail}")
        print(f'  python scripts/faults/inject.py --commands "{name}" --only {fault} --keep FOLDER')
    return wrong.total()


def parse_arguments() -> argparse.Namespace:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--commands", nargs="+", choices=names, default=names)
    parser.add_argument("--every", type=int, default=1, help="only every K-th call")
    parser.add_argument("--most", type=int, help="trials of each command, spread over all")
    parser.add_argument("--workers", type=int, default=2, help="trials at a time")
    parser.add_argument("--only", help="one trial, as KIND:N:FAULT")
    parser.add_argument("--keep", type=Path, help="with --only: leave its folder here")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="faults-") as directory:
        sys.exit(1 if run(arguments, Path(directory)) else 0)


def run(arguments: argparse.Namespace, place: Path) -> int:
    """How much was wrong."""
    global _library
    _library = build_library(place)
    for module in _LOADED:
        import_module(module)
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(everywhere)})  # as the workers
    states = make_states(place, run_plainly, arguments.commands)
    trials: list[Trial] = []
    for case in CASES:
        if case.name in arguments.commands:
            whole = run_undisturbed(case, states[case.name], place / "undisturbed", _library)
            _wholes[case.name] = whole
            counts = ", ".join(f"{n} {kind}" for kind, n in whole.counts.items())
            print(f"{case.name}: {counts}", flush=True)
            trials += trials_of(whole, arguments.every, arguments.most)
    if arguments.only is None:
        os.sched_setaffinity(0, everywhere)
        return show(sweep(trials, arguments.workers))
    kind, n, name = arguments.only.split(":")
    fault = Fault(kind, int(n), name)
    kept = arguments.keep or place
    kept.mkdir(parents=True, exist_ok=True)
    return show(
        ((case, fault), try_fault(whole, fault, kept / "trial", _library))
        for case, whole in _wholes.items()
    )


if __name__ == "__main__":
    main()
