"""Start one command as several processes of one machine, as `torchrun` would.

Comes in: a command line and a number. Goes out: an exit status. The processes learn their places
from the same environment variables as under `torchrun`, and meet in a private folder; when one ends
badly, the others are stopped. This file does not know the command's work, and does not load torch.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from transformer_mt.errors import TrainingError
from transformer_mt.system.machine import usable_cores
from transformer_mt.system.processes.child_python import TMT, child_environment, python_command
from transformer_mt.system.processes.environment import (
    meeting_dir,
    own_meeting_dir,
    place_variables,
    remove_meeting_dir,
)

# More than a handful of processes share the small updates of a CPU badly.
MAX_CPU_PROCESSES = 8
PATIENCE_S = 10.0  # between asking the others to stop and ending them
# Between Ctrl-C, or SIGTERM, and ending processes that still run. Each finishes its update, which
# may take minutes, and the first writes a checkpoint.
STOP_PATIENCE_S = 900.0
LOST = 75  # exit status of a process that lost contact with another one


def count_processes() -> int:
    """How many processes train fastest here: one per GPU; without one, one per core."""
    if Path("/proc/driver/nvidia").exists():
        import torch

        if torch.cuda.is_available():
            return torch.cuda.device_count()
    return min(usable_cores(), MAX_CPU_PROCESSES)


def launch(n_processes: int, arguments: Sequence[str]) -> int:
    """Run `tmt ARGUMENTS` as ranks 0 … n − 1, and wait for them.

    Rank 0 has the terminal; what the others write to it is shown if one of them is the first to
    fail. Ctrl-C and SIGTERM reach all of them, and each ends as it would alone; a second Ctrl-C
    ends all at once.

    Returns:
        The exit status of rank 0.
    Raises:
        TrainingError: a process other than rank 0 failed, or one was killed.
    """
    with ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(n_processes)]
        folder = stack.enter_context(meeting_dir())
        group = _Group(outputs)
        previous = {
            number: signal.signal(number, lambda number, _: group.ask_to_stop(number))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            for rank in range(n_processes):
                variables = place_variables(rank, n_processes, folder)
                group.processes.append(_start(rank, variables, arguments, outputs[rank]))
            return group.wait()
        finally:
            group.end()
            for number, handler in previous.items():
                signal.signal(number, handler)


def end_with_launcher() -> None:
    """In a process that `launch` has started: end when that ends, however it ends."""
    if (folder := own_meeting_dir()) is not None and sys.stdin is not None:
        threading.Thread(target=_end_with_launcher, args=(folder,), daemon=True).start()


def _end_with_launcher(folder: Path) -> None:
    with suppress(OSError):
        os.read(sys.stdin.fileno(), 1)  # nothing comes until the other end is closed
    with suppress(OSError):  # another process may be about to do the same
        remove_meeting_dir(folder)
    os._exit(1)


def _start(
    rank: int, variables: dict[str, str], arguments: Sequence[str], output: IO[bytes]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        python_command(TMT, *arguments),
        env=child_environment(**variables),
        stdin=subprocess.PIPE,  # nothing is ever written: it closes when this process ends
        stdout=None if rank == 0 else output,
        stderr=None if rank == 0 else output,
        start_new_session=True,  # Ctrl-C comes from here, once, and not from the terminal as well
    )


class _Group:
    """The processes of one training, and the signals that were passed on to them."""

    def __init__(self, outputs: Sequence[IO[bytes]]) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self._outputs = outputs
        self._missed_since: float | None = None
        self._stop_since: float | None = None
        self._n_interrupts = 0

    def ask_to_stop(self, number: int) -> None:
        """Pass a signal on; the second Ctrl-C ends them."""
        self._n_interrupts += number == signal.SIGINT
        self._stop_since = self._stop_since or time.monotonic()
        self._signal(number)

    def wait(self) -> int:
        """Until all have ended well, one has ended badly, or they do not stop though asked to."""
        while True:
            codes = [process.poll() for process in self.processes]
            if all(code == 0 for code in codes):
                return 0
            if (rank := self._cause(codes)) is not None:
                code = codes[rank]
                assert code is not None
                if rank == 0 and code > 0:
                    return code  # it has said why
                raise TrainingError(_describe(rank, len(codes), code, self._outputs[rank]))
            self._check_stopping(codes)
            time.sleep(0.1)

    def _cause(self, codes: Sequence[int | None]) -> int | None:
        """The process that has ended badly first, if one has."""
        causes = [rank for rank, code in enumerate(codes) if code not in (None, 0, LOST)]
        if not causes and LOST in codes:  # give the lost process a moment to end and be seen
            self._missed_since = self._missed_since or time.monotonic()
            if time.monotonic() - self._missed_since > PATIENCE_S:
                causes = [codes.index(LOST)]
        return causes[0] if causes else None

    def _check_stopping(self, codes: Sequence[int | None]) -> None:
        if self._stop_since is None:
            return
        at_once = self._n_interrupts > 1
        if not at_once and time.monotonic() - self._stop_since < STOP_PATIENCE_S:
            return
        for process in self.processes:
            process.kill()
        running = ", ".join(str(rank) for rank, code in enumerate(codes) if code is None)
        why = (
            "a second Ctrl-C ended the training at once"
            if at_once
            else f"asked to stop, processes {running} still ran after {STOP_PATIENCE_S:.0f} s, "
            "and so all were ended"
        )
        raise TrainingError(f"{why}. The newest checkpoint is kept, the same command goes on")

    def end(self) -> None:
        """Stop what still runs: a process that waits for one that has gone would never end."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_S
        for process in self.processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _signal(self, number: int) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)
                process.send_signal(signal.SIGCONT)  # one that is suspended would not notice


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
