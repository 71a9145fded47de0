"""Strangers on the same machine: nobody but the ranks of a training can connect, read or write."""

import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from transformer_mt.system.processes.environment import meeting_dir, place_variables

needs_proc = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc here")
RANK = """
import sys, time
from datetime import timedelta
import torch
from transformer_mt.system.processes import distributed
from transformer_mt.system.processes.distributed import joined_ranks
from transformer_mt.errors import TmtError

distributed.PROOF_TIMEOUT = timedelta(seconds=3)
try:
    with joined_ranks() as ranks:
        print("joined", flush=True)
        sys.stdin.readline()
        for _ in range(20):
            assert ranks.gather(ranks.rank) == [0, 1]
            assert ranks.sum(torch.ones(1000)).tolist() == [2.0] * 1000
        print("done", flush=True)
except TmtError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def start(rank: int, folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-P", "-c", RANK],
        env={**os.environ, **place_variables(rank, 2, folder)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def listening(pid: int) -> Iterator[tuple[str, int]]:
    """Addresses, in hexadecimal, and ports on which a process listens."""
    inodes = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            inodes.add(os.readlink(path).removeprefix("socket:[").removesuffix("]"))
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, _, port = fields[1].partition(":")
                yield address, int(port, 16)


LOOPBACK = ("0100007F", "00000000000000000000000001000000")


class Mark:
    """As a pickle: a program that writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.path}",)


def greetings(mark: Path) -> list[bytes]:
    """Garbage, a pickle, the first words of TCPStore's and of gloo's protocols."""
    pickled = pickle.dumps(Mark(mark))
    numbers = [struct.pack("<q", number) for number in range(4)]
    return [
        b"x", b"\xff" * 4000, pickled, struct.pack("<q", len(pickled)) + pickled,
        b"\x00" + struct.pack("<I", 0x3C85F7CE), *numbers, *(n + b"\0" * 100 for n in numbers),
    ]  # fmt: skip


def call(port: int, greeting: bytes) -> socket.socket:
    stranger = socket.create_connection(("127.0.0.1", port), timeout=0.2)
    stranger.sendall(greeting)
    return stranger


def end(processes: "list[subprocess.Popen[str]]") -> list[tuple[int, str, str]]:
    """Exit status and output of each, which must end by itself."""
    for process in processes:
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.write("go\n")
            process.stdin.flush()
    found = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=300)
        finally:
            process.kill()
        found.append((process.returncode, out, err))
    return found


@needs_proc
def test_ranks_listen_on_loopback_and_strangers_stay_outside(tmp_path: Path) -> None:
    with meeting_dir() as folder:
        ranks = [start(rank, folder) for rank in range(2)]
        for rank in ranks:
            assert rank.stdout is not None and rank.stdout.readline() == "joined\n"
        doors = [door for rank in ranks for door in listening(rank.pid)]
        assert doors and all(address in LOOPBACK for address, _ in doors)
        for _, port in doors:
            for greeting in greetings(tmp_path / "mark"):
                with pytest.raises(OSError):
                    call(port, greeting)
        for status, out, err in end(ranks):
            assert (status, out) == (0, "done\n"), err
    assert not (tmp_path / "mark").exists()


@needs_proc
@pytest.mark.parametrize("quiet", [True, False])
def test_a_stranger_who_comes_first_does_not_get_in(tmp_path: Path, quiet: bool) -> None:
    """Each rank is told by number which connection is whose: numbers that anybody can guess."""
    with meeting_dir() as folder:
        first = start(1, folder)
        deadline = time.monotonic() + 300
        while not (doors := list(listening(first.pid))):
            assert first.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        hellos = greetings(tmp_path / "mark")
        numbers = [hello for hello in hellos if len(hello) == 8]
        strangers = [call(doors[0][1], hello) for hello in (numbers if quiet else hellos)]
        found = end([start(0, folder), first])
        for stranger in strangers:
            stranger.close()
    assert not (tmp_path / "mark").exists()
    if all(status == 0 for status, _, _ in found):  # this rank was not the one who is called
        assert [out for _, out, _ in found] == ["joined\ndone\n"] * 2
        return
    for status, out, err in found:
        if status == -signal.SIGABRT:  # gloo ends it; the launcher says so
            continue
        assert status == 1 and "joined" not in out, "a stranger is a member"
        assert err.count("\n") == 1 and "could not connect to each other alone" in err, err
