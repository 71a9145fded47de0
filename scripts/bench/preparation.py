"""How fast, and in how much memory, a corpus of any size goes from a download to token ids.

Writes a corpus of N pairs (an invented lexicon with Zipf's frequencies; 3 % repetitions, 1 % pairs
that do not belong together), serves it on loopback as an archive in the form of OPUS, and runs
`tmt data prepare` on it: download, clean, tokenizer, encode. Every process is watched. With
--kills, the command is also killed (SIGKILL, with all its processes) in every stage, and started
again until it ends; what comes out must be the same. With --executor dask, the corpus is prepared
by one process on one core, and then by a Dask cluster of --workers processes on loopback. Every
--kill-every seconds or so one of them is killed, each fifth time the scheduler, and the command is
started again; what comes out must be the same. With --at-once N, one process on one core is
compared with N such processes that have nothing to do with each other, a core for each: what the
machine itself takes from every core that works beside others. With --by-turns SECONDS, both sides
of a comparison work by turns, the single process for --workers turns at a time beside a cluster:
so both are in the same stage, and a machine whose speed drifts is equally fast for both.

    python scripts/bench/preparation.py --pairs 20000000 --dir FOLDER [--kills | --executor dask]
    python scripts/bench/preparation.py --pairs 2000000 --dir FOLDER --at-once 2 --by-turns 20
"""

import argparse
import contextlib
import functools
import http.server
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from turns import Clock, Side, session_of, work_by_turns

CHUNK = 100_000
N_WORDS = 20_000
WATCH_S = 0.4  # a look at all processes takes some milliseconds of a core that works
SMALLEST_WORKER_MIB = 60  # Python's resource tracker has less
Stages = dict[str, dict[str, float]]  # of each stage: seconds, busy, MiB, parent
QUIET_DASK = {  # as in docs/cluster.md
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
}
CONFIG = """\
name: bench
languages: {{src: zh, tgt: en}}
data:
  train: ["opus:Bench/v1"]
  cache: {cache}
tokenizer: {{vocab_size: 16000}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--executor", choices=["dask"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-every", type=float, default=0, help="seconds; 0: never")
    parser.add_argument("--at-once", type=int, metavar="N")
    parser.add_argument("--by-turns", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.by_turns and args.kill_every:
        parser.error("--by-turns needs processes that live to their end: leave out --kill-every")
    args.dir.mkdir(parents=True, exist_ok=True)
    if done := [path.parent.name for path in args.dir.glob("*/run")]:
        parser.error(f"{args.dir} has results, which would be taken up: remove {', '.join(done)}")
    served = args.dir / f"served-{args.pairs}"
    archive = served / "OPUS-Bench/v1/moses/en-zh.txt.zip"
    if not archive.exists():
        write_archive(archive, args.pairs)
    with serving(served) as url:
        os.environ["TMT_OPUS_URL"] = url
        if args.executor or args.at_once:
            sys.exit(compare_sides(args))
        whole, n_cores = prepare(args.dir / "whole"), len(os.sched_getaffinity(0))
        print(report(whole, args.pairs, n_cores), flush=True)
        if args.kills:
            generator = random.Random(args.seed)
            stages = ["download", "score", "evidence", "clean", "tokenizer", "encode"]
            broken = prepare(args.dir / "killed", kill_in=stages, generator=generator)
            same = fingerprints(args.dir / "whole") == fingerprints(args.dir / "killed")
            print(report(broken, args.pairs, n_cores))
            print("the same text, vocabularies and token ids" if same else "DIFFERENT")
            sys.exit(not same)


def compare_sides(args: argparse.Namespace) -> int:
    """One process on one core, and a cluster, or several such processes; the exit status."""
    cores = sorted(os.sched_getaffinity(0))
    if args.at_once and args.at_once > len(cores):
        sys.exit(f"--at-once {args.at_once}: here are {len(cores)} cores")
    others: list[Stages] = []

    def alone(side: Side) -> None:
        whole.update(prepare(args.dir / "whole", side=side, core=cores[0]))
        print(report(whole, args.pairs, 1), flush=True)

    def beside(side: Side) -> None:
        with ThreadPoolExecutor() as pool:
            jobs = [
                pool.submit(prepare, args.dir / f"beside-{core}", side=side, core=core)
                for core in cores[: args.at_once]
            ]
        others.extend(job.result() for job in jobs)

    def shared(side: Side) -> None:
        options = ["--executor", f"dask://127.0.0.1:{cluster.port}"]
        with cluster.watched(args.kill_every, args.seed):
            side.leaders += [cluster.scheduler.pid, cluster.nannies.pid]
            folder = args.dir / "shared"
            others.append(prepare(folder, side=side, options=options, cluster=cluster))

    whole: Stages = {}
    cluster = Cluster(args.dir / "dask", args.workers)
    n_turns = 1 if args.at_once else args.workers
    sides = [Side(alone, turns=n_turns), Side(beside if args.at_once else shared)]
    work_by_turns(sides, args.by_turns)
    if not (whole and others):
        return 1
    for other in others:
        print(report(other, args.pairs, args.workers if args.executor else 1))
        print(compare(whole, other, args.workers if args.executor else 1))
    if not args.executor:
        return 0
    same = fingerprints(args.dir / "whole") == fingerprints(args.dir / "shared")
    print(f"largest worker: {cluster.peak:,.0f} MiB; killed: {cluster.killed}")
    print("the same text, vocabularies and token ids" if same else "DIFFERENT")
    return int(not same)


def write_archive(path: Path, n_pairs: int) -> None:
    """A zip of two aligned files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    zh_words, en_words = lexicon(rng)
    rank = np.arange(1, N_WORDS + 1)
    share = (1 / rank) / (1 / rank).sum()
    cumulative = np.cumsum(share)
    texts = [path.with_suffix(f".{code}") for code in ("zh", "en")]
    with texts[0].open("w", encoding="utf-8") as zh, texts[1].open("w", encoding="utf-8") as en:
        for start in range(0, n_pairs, CHUNK):
            lengths = rng.integers(4, 22, min(CHUNK, n_pairs - start))
            words = np.searchsorted(cumulative, rng.random(lengths.sum())).clip(max=N_WORDS - 1)
            ends = np.cumsum(lengths)
            rows = [row.tolist() for row in np.split(words, ends[:-1])]
            for i in np.flatnonzero(rng.random(len(rows)) < 0.03).tolist():
                rows[i] = rows[i // 2]
            others = list(rows)
            for i in np.flatnonzero(rng.random(len(rows)) < 0.01).tolist():
                others[i] = rows[-1 - i]
            zh.writelines("".join([zh_words[w] for w in row]) + "。\n" for row in rows)
            en.writelines(" ".join([en_words[w] for w in row]) + ".\n" for row in others)
    part = path.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for text, code in zip(texts, ("zh", "en"), strict=True):
            archive.write(text, f"Bench.en-zh.{code}")
            text.unlink()
    part.rename(path)


def lexicon(rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Invented words and their translations: one or two characters, one to three syllables."""
    syllables = [c + v + e for c in "bdfgklmnprstvw" for v in "aeiou" for e in ("", "n", "r", "s")]
    han = [
        bytes((high, low)).decode("gb2312")
        for high in range(0xB0, 0xD7)
        for low in range(0xA1, 0xFF)
    ]  # the commonest 3,666 characters
    zh, en = [], []
    for n_syllables in rng.integers(1, 4, N_WORDS).tolist():
        en.append("".join(rng.choice(syllables, n_syllables).tolist()))
        zh.append("".join(rng.choice(han, 1 + n_syllables // 2).tolist()))
    return zh, en


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def prepare(
    folder: Path,
    *,
    side: Side | None = None,
    kill_in: Sequence[str] = (),
    core: int | None = None,
    generator: random.Random | None = None,
    options: Sequence[str] = (),
    cluster: "Cluster | None" = None,
) -> Stages:
    """Run the command until it ends by itself.

    Args:
        side: it may be paused, and then its clock is too.
        core: the only one that it may use.
    Returns:
        By stage: seconds, core-seconds that the machine worked, and the largest resident memory in
        MiB of any process and of the command.
    """
    folder.mkdir(exist_ok=True)
    config = folder / "bench.yaml"
    config.write_text(CONFIG.format(cache=folder / "cache"))
    command = [sys.executable, "-m", "transformer_mt", "data", "prepare", str(config)]
    command += ["--run-dir", str(folder / "run"), *options]
    if core is not None:
        command = ["taskset", "--cpu-list", str(core), *command]
    clock = side.clock if side else Clock()
    if not side:
        clock.run()
    stages: Stages = {}
    to_kill, n_starts = list(kill_in), 0
    while True:
        n_starts += 1
        process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
        if side:
            side.leaders.append(process.pid)
        (last, last_busy), deadline = clock.read(), None
        while process.poll() is None:
            time.sleep(WATCH_S)
            now, busy = clock.read()
            name = stage(folder)
            row = stages.setdefault(name, {"seconds": 0.0, "busy": 0.0, "MiB": 0.0, "parent": 0.0})
            row["seconds"] += now - last
            row["busy"] += busy - last_busy
            row["MiB"] = max(row["MiB"], largest_process(process.pid))
            row["parent"] = max(row["parent"], peak_of(process.pid))
            last, last_busy = now, busy
            if name in to_kill and deadline is None:
                assert generator is not None
                deadline = now + generator.uniform(0.05, 1.0)
            if deadline is not None and now > deadline:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                print(f"killed in {name}", flush=True)
                to_kill = [other for other in to_kill if other != name]
                break
        else:
            n_kills = cluster.killed["scheduler"] if cluster else 0  # workers are replaced
            if process.returncode and n_starts > n_kills:
                raise RuntimeError(f"tmt ended with {process.returncode}")
            if not process.returncode and to_kill:
                raise RuntimeError(f"too short to be killed in: {', '.join(to_kill)}")
            if not process.returncode:
                print(f"started {n_starts} times", flush=True)
                return stages


def stage(folder: Path) -> str:
    """What is being made, by what lies there."""
    data = folder / "run" / "data"
    work = data / "work"
    if (data / "encoded" / "stage.json").exists() or (data / "tokenizer" / "stage.json").exists():
        return "encode"
    if (data / "clean" / "stage.json").exists():
        return "tokenizer"
    if list(work.glob("text/*")):
        return "clean"
    if list(work.glob("evidence/*")):
        return "evidence"
    if list(work.glob("scored/*/done.json")):
        return "duplicates"
    if (work / "scored").exists():
        return "score"
    return "download"


def largest_process(group: int) -> float:
    """Peak resident MiB of the processes of a session that are alive, the largest one."""
    return max(map(peak_of, session_of(group)), default=0.0)


def peak_of(process: int) -> float:
    """Peak resident MiB of a process; 0 after its end."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{process}/status").read_text()
        return max(
            (int(peak) / 1024 for peak in re.findall(r"VmHWM:\s+(\d+) kB", status)), default=0
        )
    return 0.0


class Cluster:
    """A Dask scheduler and workers on loopback, started as docs/cluster.md says."""

    def __init__(self, folder: Path, n_workers: int) -> None:
        self.folder, self.n_workers = folder, n_workers
        self.peak = 0.0  # MiB, of any worker
        self.killed = {"worker": 0, "scheduler": 0}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]

    def start(self) -> None:
        address = f"tcp://127.0.0.1:{self.port}"
        words = ["worker", address, "--nworkers", str(self.n_workers), "--nthreads", "1"]
        words += ["--memory-limit", "2GiB", "--local-directory", str(self.folder)]
        scheduler = ["scheduler", "--host", "127.0.0.1", "--port", str(self.port)]
        self.scheduler, self.nannies = (
            subprocess.Popen(
                [str(Path(sys.executable).with_name("dask")), *command, "--no-dashboard"],
                env=os.environ | QUIET_DASK, start_new_session=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            for command in (scheduler, words)
        )  # fmt: skip

    def stop(self) -> None:
        for process in (self.nannies, self.scheduler):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def workers(self) -> list[int]:
        """Processes that the nannies have started, but for Python's own helpers."""
        found = session_of(self.nannies.pid)
        return [p for p in found if p != self.nannies.pid and peak_of(p) > SMALLEST_WORKER_MIB]

    def kill_one(self, generator: random.Random) -> None:
        """A worker, or each fifth time the scheduler, after which all is started anew."""
        if sum(self.killed.values()) % 5 == 4:
            self.killed["scheduler"] += 1
            self.scheduler.kill()
            self.stop()
            self.start()
        elif workers := self.workers():
            self.killed["worker"] += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(generator.choice(workers), signal.SIGKILL)

    @contextlib.contextmanager
    def watched(self, kill_every: float, seed: int) -> Iterator[None]:
        done, generator = threading.Event(), random.Random(seed)

        def due() -> float:
            return time.monotonic() + kill_every * generator.uniform(0.5, 1.5)

        def watch() -> None:
            next_kill = due()
            while not done.wait(WATCH_S):
                self.peak = max([self.peak, *map(peak_of, self.workers())])
                if kill_every and time.monotonic() > next_kill:
                    self.kill_one(generator)
                    next_kill = due()

        self.start()
        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self.stop()


def compare(one: Stages, shared: Stages, n_workers: int) -> str:
    """Throughput per core of several workers, against one process; the duplicates' share.

    One process on one core leaves another one to the kernel, which writes its files, and to this
    script, and so keeps more than one core busy: the second ratio counts these.
    """
    lines = []
    total = sum(row["seconds"] for row in one.values())
    groups = {name: [name] for name in one}
    groups["all"] = [name for name in one if name != "download"]
    for name, stages in groups.items():
        rows = [one[stage] for stage in stages]
        seconds, busy = (sum(row[key] for row in rows) for key in ("seconds", "busy"))
        cores = n_workers * max(1e-9, sum(shared.get(s, one[s])["seconds"] for s in stages))
        lines.append(
            f"{name:<12} {seconds / cores:5.2f} per core, {busy / cores:5.2f} with all that was "
            f"busy; {seconds / total:6.1%} of one process"
        )
    return "\n".join(lines)


def report(stages: Stages, n_pairs: int, n_cores: int) -> str:
    lines = [
        f"{'stage':<12} {'seconds':>8} {'cores':>6} {'pairs/s':>10} {'per core':>10} "
        f"{'peak MiB':>9} {'parent':>9}"
    ]
    for name, row in stages.items():
        speed = n_pairs / max(row["seconds"], 1e-9)
        lines.append(
            f"{name:<12} {row['seconds']:8.1f} {row['busy'] / max(row['seconds'], 1e-9):6.2f} "
            f"{speed:10,.0f} {speed / n_cores:10,.0f} {row['MiB']:9,.0f} {row['parent']:9,.0f}"
        )
    return "\n".join(lines)


def fingerprints(folder: Path) -> list[object]:
    """Of the clean text, the vocabularies and the token ids."""
    data = folder / "run" / "data"
    report = json.loads((data / "clean" / "report.json").read_text(encoding="utf-8"))
    names = [*data.glob("tokenizer/*.model"), *data.glob("encoded/*/*.ids")]
    sums = subprocess.run(["sha256sum", *map(str, sorted(names))], capture_output=True, text=True)
    return [report["fingerprint"], [line.split()[0] for line in sums.stdout.splitlines()]]


if __name__ == "__main__":
    main()
