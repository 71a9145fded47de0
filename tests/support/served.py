"""`tmt serve` as a process of its own, and a client of it."""

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx


class Server:
    """A process of `tmt serve`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stderr is not None
        found = re.match(r"(http://\S+): the page", process.stderr.readline())
        assert found, process.stderr.read()
        self.url = found[1]
        self.said: list[str] = []
        ready = threading.Event()
        # Read to the end: a full pipe would stop the server at its next line of the log.
        self._reader = threading.Thread(target=self._read, args=(ready,), daemon=True)
        self._reader.start()
        ready.wait()
        self.client = httpx.Client(base_url=self.url, timeout=300)

    def _read(self, ready: threading.Event) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if line.startswith("ready:"):
                ready.set()
        ready.set()

    @property
    def workers(self) -> list[int]:
        """Process ids: children of the process that has loaded the models."""
        return [child for first in children(self.process.pid) for child in children(first)]

    @property
    def n_workers(self) -> int:
        """As the server counts them."""
        found = re.search(r"^tmt_workers (\d+)", self.client.get("/metrics").text, re.M)
        assert found
        return int(found[1])

    def translate(self, text: str, **fields: object) -> httpx.Response:
        return self.client.post("/translate", json={"q": text, "target": "en", **fields})


def children(pid: int) -> list[int]:
    found = []
    with suppress(OSError):  # it has ended
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


def lives(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition: Callable[[], bool]) -> None:
    """Wait, a minute at most."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def serving(*options: str | Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "transformer_mt", "serve", "--port", "0", *map(str, options)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield Server(process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=300)
