"""`tmt serve` under load: throughput, latency, memory, and what a killed worker costs.

    python scripts/bench/serve.py -m runs/tiny --src dev.zh [--minutes 10] [--engine ctranslate2]

Starts a server on loopback, waits for its first translation, and asks it over 1 and 64 connections,
each a sentence at a time, by turns; beside it `Translator.translate` with 64 sentences at a time,
the most that batches for 64 clients allow, and `tmt bench decode` in batches of 64, which are of
equal lengths. Then requests at half of that rate, at random times: --minutes / 2 for the latencies,
and as long while workers are killed and 3,000 requests come at once, which the bounded queue may
answer with 429. The cache is off.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from itertools import count, cycle, islice
from pathlib import Path

from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.pipeline.run_dir import find_model
from transformer_mt.translation.translator import Translator

TMT = [sys.executable, "-m", "transformer_mt"]
BURST = 3000  # requests
IDLE_S = 30.0  # of a connection; the server closes it after 75


class Client:
    """One connection, which is kept."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> "Client":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def ask(self, text: str) -> int:
        """The status of a translation."""
        body = json.dumps({"q": text, "source": "auto", "target": TARGET}).encode()
        self._writer.write(
            b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head)
        assert found, head
        await self._reader.readexactly(int(found[1]))
        if b"connection: close" in head.lower():
            await self.__aexit__()
            await self.__aenter__()
        return int(head.split()[1])


async def ask_once(port: int, text: str) -> int:
    async with Client(port) as client:
        return await client.ask(text)


Answer = tuple[float, int]  # seconds, status


async def closed_loop(port: int, texts: Iterator[str], n_clients: int, seconds: float) -> float:
    """Requests per second of clients who each ask again as soon as they have an answer."""
    answers, started = list[Answer](), time.monotonic()

    async def one() -> None:
        async with Client(port) as client:
            while (asked := time.monotonic()) < started + seconds:
                status = await client.ask(next(texts))
                assert status == 200
                answers.append((time.monotonic() - asked, status))

    await asyncio.gather(*(one() for _ in range(n_clients)))
    seconds = time.monotonic() - started
    tell(seconds, answers)
    return len(answers) / seconds


async def open_loop(port: int, texts: Iterator[str], rate: float, seconds: float) -> list[Answer]:
    """Requests at random times, so many a second."""
    idle: list[tuple[float, Client]] = []  # since when
    answers: list[Answer] = []

    async def one() -> None:
        started = time.monotonic()
        since, client = idle.pop() if idle else (started, await Client(port).__aenter__())
        if started - since > IDLE_S:
            await client.__aenter__()
        status = await client.ask(next(texts))
        answers.append((time.monotonic() - started, status))
        idle.append((time.monotonic(), client))

    async with asyncio.TaskGroup() as tasks:
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            tasks.create_task(one())
            await asyncio.sleep(random.expovariate(rate) - (time.monotonic() - now))
    for _, client in idle:
        await client.__aexit__()
    return answers


async def disturbed(server: "Server", texts: Iterator[str], rate: float, seconds: float) -> None:
    """Every 20 s by turns: a worker is killed, or thousands of requests come at once."""
    load = asyncio.create_task(open_loop(server.port, texts, rate, seconds))
    answers: list[Answer] = []
    for turn in count():
        await asyncio.wait({load}, timeout=20)
        if load.done():
            break
        if turn % 2:
            bursts = (burst(server.port, texts) for _ in range(BURST // 10))
            for found in await asyncio.gather(*bursts):
                answers += found
            print(f"  memory {server.memory_mib():.0f} MiB", flush=True)
        else:
            os.kill(server.workers()[0], signal.SIGKILL)
    answers += await load
    print("with killed workers and bursts:", dict(Counter(status for _, status in answers)))


def tell(seconds: float, answers: list[Answer]) -> None:
    shares = statistics.quantiles([waited for waited, _ in answers], n=100)
    p50, p95, p99 = (1000 * shares[i] for i in (49, 94, 98))
    statuses = dict(Counter(status for _, status in answers))
    rate = len(answers) / seconds
    print(f"{rate:.0f} requests/s: p50 {p50:.0f}, p95 {p95:.0f}, p99 {p99:.0f} ms; {statuses}")


async def burst(port: int, texts: Iterator[str]) -> list[Answer]:
    async with Client(port) as client:
        return [(0.0, await client.ask(next(texts))) for _ in range(10)]


class Server:
    def __init__(self, port: int, *options: str) -> None:
        self.port = port
        self.started = time.monotonic()
        command = [*TMT, "serve", "--port", str(port), "--cache", "0", *options]
        with Path("serve.log").open("w") as log:
            self.process = subprocess.Popen(command, stderr=log)

    def __enter__(self) -> "Server":
        deadline = time.monotonic() + 30
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health")
                return self
            except OSError:
                time.sleep(0.05)
        self.process.kill()
        raise SystemExit("the server does not start: see serve.log")

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        print("exit", self.process.wait())

    def family(self) -> list[int]:
        """The server, the process that loads the models, and the workers."""
        found = [self.process.pid]
        for pid in found:
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                found += map(int, task.read_text().split())
        return found

    def workers(self) -> list[int]:
        """Of CTranslate2, whose workers are threads, the process that they are in."""
        family = self.family()
        return family[2:] or family[1:]

    def memory_mib(self) -> float:
        """Proportional: what processes share counts once."""
        total = 0
        for pid in self.family():
            try:
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except (FileNotFoundError, ProcessLookupError):  # it has been killed
                continue
            total += sum(map(int, re.findall(r"^Pss:\s+(\d+)", text, re.MULTILINE)))
        return total / 1024


class Alone:
    """`Translator.translate` in a process of its own, without a server."""

    def __init__(self, model: str) -> None:
        self._translator = Translator.load(find_model(Path(model)))

    def speed(self, texts: Iterator[str], seconds: float) -> float:
        """Sentences per second, 64 at a time."""
        done, started = 0, time.monotonic()
        while time.monotonic() < started + seconds:
            self._translator.translate([*islice(texts, 64)], to=TARGET, retry=True)
            done += 64
        return done / (time.monotonic() - started)


def decode_speed(model: str, src: str) -> float:
    command = [*TMT, "bench", "decode", "-m", model, "--src", src, "--rounds", "1", "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    rates = {(rate["beam"], rate["batch"]): rate["sentences_per_s"] for rate in found["rates"]}
    return float(rates[5, 64])


def main() -> None:
    global TARGET
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--src", required=True)
    parser.add_argument("--target", default="en")
    parser.add_argument("--engine", default="native")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=10)
    args = parser.parse_args()
    TARGET = args.target
    sentences = [*split_lines(Path(args.src))]
    texts = cycle(sentences)
    with Server(5099, "-m", args.model, "--engine", args.engine, "--queue", "20000") as server:
        asyncio.run(ask_once(server.port, next(texts)))
        print(f"first translation after {time.monotonic() - server.started:.1f} s")
        measure(server, args, texts)


def measure(server: Server, args: argparse.Namespace, texts: Iterator[str]) -> None:
    alone = Alone(args.model)
    names = "1 client", "64 clients", "64 at a time", "bench decode"
    rates: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(args.rounds):
        rates["1 client"].append(asyncio.run(closed_loop(server.port, texts, 1, 8)))
        rates["64 clients"].append(asyncio.run(closed_loop(server.port, texts, 64, 8)))
        rates["64 at a time"].append(alone.speed(texts, 8))
        rates["bench decode"].append(decode_speed(args.model, args.src))
    for name, found in rates.items():
        print(
            f"{name}: {statistics.median(found):.1f} sentences/s of {[round(r, 1) for r in found]}"
        )
    rate = statistics.median(rates["64 clients"]) / 2
    print(f"memory {server.memory_mib():.0f} MiB after {sum(map(len, rates.values()))} rounds")
    seconds = 30 * args.minutes
    tell(seconds, asyncio.run(open_loop(server.port, texts, rate, seconds)))
    asyncio.run(disturbed(server, texts, rate, seconds))
    print(f"memory {server.memory_mib():.0f} MiB")


if __name__ == "__main__":
    main()
