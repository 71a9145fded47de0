"""Two groups of processes that work by turns, for machines whose speed drifts.

One group is stopped (SIGSTOP) while the other one works, so that both meet the same machine,
however fast it is.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path


class Clock:
    """Seconds of wall time, and core-seconds of the whole machine, while it runs."""

    def __init__(self) -> None:
        self._seconds = self._busy = 0.0
        self._since: tuple[float, float] | None = None
        self._lock = threading.Lock()

    def run(self) -> None:
        with self._lock:
            self._since = (time.monotonic(), busy_s())

    def stop(self) -> None:
        seconds, busy = self.read()
        with self._lock:
            self._seconds, self._busy, self._since = seconds, busy, None

    def read(self) -> tuple[float, float]:
        """Seconds and core-seconds up to now."""
        with self._lock:
            if self._since is None:
                return self._seconds, self._busy
            seconds, busy = self._since
            return self._seconds + time.monotonic() - seconds, self._busy + busy_s() - busy


class Side:
    """A job in a thread, and the sessions of processes that work for it."""

    def __init__(self, job: Callable[["Side"], None], *, turns: int = 1) -> None:
        """Args: turns: one after the other; a slower side with more keeps pace with the other."""
        self.turns, self.clock, self.leaders = turns, Clock(), list[int]()
        self.thread = threading.Thread(target=job, args=[self])

    def is_done(self) -> bool:
        return self.thread.ident is not None and not self.thread.is_alive()

    def go_on(self) -> None:
        self.clock.run()
        if self.thread.ident is None:
            self.thread.start()
        for process in self._processes():
            os.kill(process, signal.SIGCONT)

    def pause(self) -> None:
        """Stop all processes, those included that others start meanwhile."""
        while running := [
            process for process in self._processes() if state_of(process) not in "TZ"
        ]:
            for process in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGSTOP)
            time.sleep(0.001)
        self.clock.stop()

    def _processes(self) -> list[int]:
        return [process for leader in self.leaders for process in session_of(leader)]


def work_by_turns(sides: list[Side], turn_s: float) -> None:
    """Until all are done; the last one goes on without pauses.

    Args:
        turn_s: of wall time; 0: one side to its end, and then the next one.
    """
    while waiting := [side for side in sides if not side.is_done()]:
        for side in waiting:
            side.go_on()
            side.thread.join(side.turns * turn_s if turn_s and len(waiting) > 1 else None)
            if not side.is_done():
                side.pause()


def session_of(leader: int) -> list[int]:
    """The processes that live in a session."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if os.getsid(int(place.name)) == leader:
                found.append(int(place.name))
    return found


def state_of(process: int) -> str:
    """R, S, D, T (stopped), Z (ended and not yet waited for), as proc(5) names them."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return "Z"


def busy_s() -> float:
    """Core-seconds that this machine has worked, the kernel's own threads included."""
    user, nice, system, _, _, irq, soft_irq = Path("/proc/stat").read_text().split()[1:8]
    ticks = sum(map(int, (user, nice, system, irq, soft_irq)))
    return ticks / os.sysconf("SC_CLK_TCK")
