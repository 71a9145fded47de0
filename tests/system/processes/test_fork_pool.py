"""Copies of this process: the same results in the same order, and an end to everything."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import active_children

import pytest
from processes import process_of

from transformer_mt.errors import TmtError
from transformer_mt.system.processes.fork_pool import Workers, may_fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="copies are made on Linux only")

FACTOR = 10  # what the copies know of this process


def work(number: int, seconds: float) -> tuple[int, int]:
    """Waits, and fails for negative numbers; −1 ends the process."""
    time.sleep(seconds)
    if number == -1:
        os.kill(os.getpid(), signal.SIGKILL)
    if number < 0:
        raise TmtError(f"no {number}")
    return FACTOR * number, os.getpid()


@pytest.fixture
def workers() -> Iterator[Workers[tuple[int, int]]]:
    made = Workers(work, 3)
    yield made
    made.close()


def test_results_come_in_the_order_of_the_calls(workers: Workers[tuple[int, int]]) -> None:
    """Also if later ones are done first; and the work is done elsewhere, by all."""
    for _ in range(2):
        found = workers.map([(n, 0.3 if n == 0 else 0.01) for n in range(20)])
        assert [number for number, _ in found] == [10 * n for n in range(20)]
        pids = {pid for _, pid in found}
        assert os.getpid() not in pids
        assert len(pids) == 3
    slow = found[0][1]
    assert [pid for _, pid in found].count(slow) == 1, "who is busy gets nothing more to do"


@pytest.mark.parametrize(("number", "message"), [(-2, "no -2"), (-1, "has been ended")])
def test_an_exception_or_a_kill_is_told_and_nothing_is_left(
    workers: Workers[tuple[int, int]], number: int, message: str
) -> None:
    assert workers.map([]) == []
    with pytest.raises(TmtError, match=message):
        workers.map([(1, 0.0), (number, 0.0), (3, 5.0)])
    assert len(workers) == 0
    assert not active_children()


@pytest.mark.parametrize("busy", [False, True])
def test_copies_end_with_their_process(busy: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """Silently, even if it is killed: the connection ends, because no copy holds another's."""
    read, write = os.pipe()
    if not (parent := os.fork()):
        workers = Workers(work, 2)
        found = workers.map([(1, 0.1), (2, 0.1)])
        os.write(write, " ".join(str(pid) for _, pid in found).encode())
        if busy:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
            workers.map([(1, 1.0), (2, 1.0)])
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(parent, 0)
    pids = [int(pid) for pid in os.read(read, 100).split()]
    assert len(set(pids)) == 2
    deadline = time.monotonic() + 120
    while any(map(process_of, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(sys.platform != "linux", reason="copies are made on Linux alone")
def test_alone_copies_are_made() -> None:
    """In a process that has loaded torch, and has no thread of its own."""
    code = f"import torch; from {may_fork.__module__} import may_fork; print(may_fork())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "True\n"


def test_beside_other_threads_no_copy_is_made() -> None:
    thread = threading.Timer(60, print)
    thread.start()
    assert not may_fork()
    thread.cancel()
