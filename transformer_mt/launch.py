"""Start one command as several processes of one machine, as `torchrun` would.

Comes in: a command line and a number. Goes out: an exit status. The processes find each other
through the same environment variables as under `torchrun`; when one ends badly, the others are
stopped. This file knows nothing of what the command does, and does not load torch.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from transformer_mt.errors import TrainingError

# More than a handful of processes share the small updates of a CPU badly.
MAX_CPU_PROCESSES = 8
PATIENCE_S = 10.0  # between asking the others to stop and ending them
LOST = 75  # exit status of a process that ended because it missed another one
_LAUNCHED = "TMT_LAUNCHED"


def count_processes() -> int:
    """How many processes train fastest here: one per GPU; without one, one per core."""
    if Path("/proc/driver/nvidia").exists():
        import torch

        if torch.cuda.is_available():
            return torch.cuda.device_count()
    return min(usable_cores(), MAX_CPU_PROCESSES)


def is_launched() -> bool:
    """Is this one of the processes that `launch` or `torchrun` has started?"""
    return "WORLD_SIZE" in os.environ and "RANK" in os.environ


def launch(n_processes: int, arguments: Sequence[str]) -> int:
    """Run `python -m transformer_mt ARGUMENTS` as ranks 0 … n − 1, and wait for them.

    Rank 0 has the terminal; what the others write to it is shown if one of them is the first to
    fail. Ctrl-C and SIGTERM reach all of them, and each ends as it would alone.

    Returns:
        The exit status of rank 0.
    Raises:
        TrainingError: a process other than rank 0 failed, or one was killed.
    """
    with ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(n_processes)]
        port = _free_port()
        processes: list[subprocess.Popen[bytes]] = []
        previous = {
            number: signal.signal(number, lambda number, _: _signal_all(processes, number))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            for rank in range(n_processes):
                processes.append(_start(rank, n_processes, port, arguments, outputs[rank]))
            return _wait(processes, outputs)
        finally:
            _end(processes)
            for number, handler in previous.items():
                signal.signal(number, handler)


def end_with_launcher() -> None:
    """In a process that `launch` has started: end when that ends, however it ends."""
    if _LAUNCHED in os.environ:
        threading.Thread(target=_end_with_launcher, daemon=True).start()


def _end_with_launcher() -> None:
    os.read(sys.stdin.fileno(), 1)  # nothing comes until the other end is closed
    os._exit(1)


def _start(
    rank: int, n_processes: int, port: int, arguments: Sequence[str], output: IO[bytes]
) -> "subprocess.Popen[bytes]":
    threads = str(max(1, usable_cores() // n_processes))
    environment = {
        "OMP_NUM_THREADS": threads,
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(n_processes),
        "LOCAL_WORLD_SIZE": str(n_processes),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        _LAUNCHED: "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "transformer_mt", *arguments],
        env=environment,
        stdin=subprocess.PIPE,  # nothing is ever written: it closes when this process ends
        stdout=None if rank == 0 else output,
        stderr=None if rank == 0 else output,
        start_new_session=True,  # Ctrl-C comes from here, once, and not from the terminal as well
    )


def _wait(processes: "list[subprocess.Popen[bytes]]", outputs: Sequence[IO[bytes]]) -> int:
    missed_since: float | None = None
    while True:
        codes = [process.poll() for process in processes]
        if all(code == 0 for code in codes):
            return 0
        causes = [rank for rank, code in enumerate(codes) if code not in (None, 0, LOST)]
        if not causes and LOST in codes:  # who is missed will have ended in a moment
            missed_since = missed_since or time.monotonic()
            if time.monotonic() - missed_since > PATIENCE_S:
                causes = [codes.index(LOST)]
        if causes:
            rank = causes[0]
            code = codes[rank]
            assert code is not None
            if rank == 0 and code > 0:
                return code  # it has said why
            raise TrainingError(_describe(rank, len(processes), code, outputs[rank]))
        time.sleep(0.1)


def _describe(rank: int, n_processes: int, code: int, output: IO[bytes]) -> str:
    how = f"exit status {code}"
    if code < 0:
        how = f"killed by {signal.Signals(-code).name}"
        if -code == signal.SIGKILL:
            how += ", perhaps by the system because memory was short"
    output.seek(0)
    words = output.read().decode(errors="replace").strip()
    return (
        f"process {rank} of 0 … {n_processes - 1} ended ({how}), and so the others were stopped. "
        "The newest checkpoint is kept, the same command goes on"
        + (f"\nits last words:\n{words[-2000:]}" if words else "")
    )


def _signal_all(processes: "list[subprocess.Popen[bytes]]", number: int) -> None:
    for process in processes:
        if process.poll() is None:
            process.send_signal(number)


def _end(processes: "list[subprocess.Popen[bytes]]") -> None:
    """Stop what still runs: a process that waits for one that has gone would never end."""
    _signal_all(processes, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_S
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
