"""Start one command as several processes of one machine, as `torchrun` would, without torch.

The processes learn their places from the same environment variables as under `torchrun`, and meet
in a private folder; when one ends badly, the others are stopped.
"""

import os
import shutil
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

from transformer_mt.errors import STOPPED, TrainingError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.machine import usable_cores
from transformer_mt.system.processes.child_python import TMT, child_environment, python_command
from transformer_mt.system.processes.environment import (
    DEFAULTS,
    allocator_variables,
    meeting_dir,
    own_meeting_dir,
    place_variables,
)

# More than a handful of processes share the small updates of a CPU badly.
MAX_CPU_PROCESSES = 8
# One of them is there where a GPU is, so that torch is not loaded in vain: NVIDIA's driver, that of
# Windows below WSL, AMD's, Jetson's.
_GPUS = [
    Path("/proc/driver/nvidia"), Path("/dev/dxg"), Path("/dev/kfd"), Path("/dev/nvhost-gpu"),
    Path("/dev/nvgpu"),
]  # fmt: skip
PATIENCE_S = 10.0  # between asking the others to stop and ending them
# Between Ctrl-C, or SIGTERM, and ending processes that still run. Each finishes its update, which
# may take minutes, and the first writes a checkpoint.
STOP_PATIENCE_S = 900.0
_GOES_ON = tr("The newest checkpoint is kept, the same command goes on")
_GOES_ON_WITHOUT = tr("The newest checkpoint is kept, the same command without --fresh goes on")
START_PATIENCE_S = 60.0  # before it: the first of them has nothing to save
_AS_ASKED = (STOPPED, -signal.SIGINT, -signal.SIGTERM)  # how processes end that are asked to stop
LOST = 75  # exit status of a process that lost contact with another one


def count_processes() -> int:
    """How many processes train fastest here: one per GPU; without one, one per core."""
    if any(path.exists() for path in _GPUS):
        import torch

        if torch.cuda.is_available():
            return torch.cuda.device_count()
    return min(usable_cores(), MAX_CPU_PROCESSES)


def launch(n_processes: int, arguments: Sequence[str]) -> int:
    """Run `tmt ARGUMENTS` as ranks 0 … n − 1, and wait for them; the exit status of rank 0.

    Rank 0 has the terminal; what the others write to it is shown if one of them is the first to
    fail. Ctrl-C and SIGTERM reach all of them, and each ends as it would alone; a second Ctrl-C
    ends all at once.
    """
    with ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(n_processes)]
        folder = stack.enter_context(meeting_dir())
        allocator = allocator_variables()
        group = _Group(outputs, _GOES_ON_WITHOUT if "--fresh" in arguments else _GOES_ON)
        previous = {
            number: signal.signal(number, lambda number, _: group.ask_to_stop(number))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            for rank in range(n_processes):
                output = None if rank == 0 else outputs[rank]
                process = subprocess.Popen(
                    python_command(TMT, *arguments),
                    env=DEFAULTS
                    | child_environment(**place_variables(rank, n_processes, folder), **allocator),
                    stdin=subprocess.PIPE,  # nothing is written: it closes when this process ends
                    stdout=output,
                    stderr=output,
                    start_new_session=True,  # so that Ctrl-C comes from here alone, and once
                )
                group.processes.append(process)
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
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


class _Group:
    """The processes of one training, and the signals that were passed on to them."""

    def __init__(self, outputs: Sequence[IO[bytes]], goes_on: str = _GOES_ON) -> None:
        """Args: goes_on: what the user does after an end that is none of a finished training."""
        self.processes: list[subprocess.Popen[bytes]] = []
        self._outputs, self._goes_on = outputs, goes_on
        self._lost_since: float | None = None
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
            if self._stop_since and codes[0] in _AS_ASKED:
                return STOPPED  # it has saved; nothing of the others is needed
            if self._stop_since and set(codes) <= {0, LOST, *_AS_ASKED}:
                return STOPPED if codes[0] else 0
            if (rank := self._cause(codes)) is not None:
                code = codes[rank] or 0
                if rank == 0 and code > 0:
                    return code  # it has said why
                raise TrainingError(self._describe(rank, code))
            self._check_stopping(codes)
            time.sleep(0.1)

    def _cause(self, codes: Sequence[int | None]) -> int | None:
        """The process that has ended badly first, if one has; not one that was asked to stop.

        The first of them may need longer than the others: it prepares data, and scores.
        """
        well = {None, 0, LOST, *(_AS_ASKED if self._stop_since else ())}
        causes = [rank for rank, code in enumerate(codes) if code not in well]
        if not causes and LOST in codes and not self._stop_since:
            # The process that is lost needs a moment to end and to be seen.
            self._lost_since = self._lost_since or time.monotonic()
            if time.monotonic() - self._lost_since > PATIENCE_S:
                causes = [codes.index(LOST)]
        return causes[0] if causes else None

    def _check_stopping(self, codes: Sequence[int | None]) -> None:
        # In the middle of a training none ends before the first.
        before = any(code in _AS_ASKED for code in codes[1:])
        patience_s = START_PATIENCE_S if before else STOP_PATIENCE_S
        running = ", ".join(str(rank) for rank, code in enumerate(codes) if code is None)
        if self._n_interrupts > 1:
            why = tr("a second Ctrl-C ended the training at once. {}", self._goes_on)
        elif self._stop_since and time.monotonic() - self._stop_since >= patience_s:
            why = tr(
                "asked to stop, processes {} still ran after {:.0f} s, and so all were ended. {}",
                running,
                patience_s,
                self._goes_on,
            )
        else:
            return
        for process in self.processes:
            process.kill()
        raise TrainingError(why)

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
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)  # one that is suspended would not notice

    def _describe(self, rank: int, code: int) -> str:
        if code == -signal.SIGKILL:
            how = tr("killed by SIGKILL, perhaps by the system because memory was short")
        else:
            name = signal.Signals(-code).name if code < 0 else ""
            how = tr("killed by {}", name) if name else tr("exit status {}", code)
        self._outputs[rank].seek(0)
        words = self._outputs[rank].read().decode(errors="replace").strip()
        ended = tr(
            "process {} of 0 … {} ended ({}), and so the others were stopped. {}",
            rank,
            len(self.processes) - 1,
            how,
            self._goes_on,
        )
        return "\n".join([ended, *([tr("its last words:"), words[-2000:]] if words else [])])
