"""Files made side by side: order, resume, errors, death of a worker or of the parent."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from processes import process_of

from transformer_mt.errors import DataError
from transformer_mt.system.processes import parallel
from transformer_mt.system.processes.parallel import run_apart, run_shards


def write_number(number: int, path: Path) -> None:
    """Early jobs take longer, so that they finish out of order; records who made it."""
    time.sleep(0.02 * max(0, 4 - number))
    if number == 13:
        raise DataError("thirteen")
    if number == 99:
        os.kill(os.getpid(), signal.SIGKILL)
    path.write_text(f"{number} {os.getpid()}")


def write_whether_garbage_is_looked_for(number: int, path: Path) -> None:
    path.write_text(str(gc.isenabled()))
    if number:
        raise DataError("an error")


def jobs(folder: Path, numbers: range | list[int]) -> list[tuple[Path, int]]:
    return [(folder / f"{number:02}", number) for number in numbers]


@pytest.mark.parametrize("workers", [1, 2])
def test_every_file_is_made_and_named_in_order(tmp_path: Path, workers: int) -> None:
    wanted = jobs(tmp_path, range(8))
    assert list(run_shards(wanted, write_number, workers=workers)) == [path for path, _ in wanted]
    assert [path.read_text().split()[0] for path, _ in wanted] == list("01234567")
    makers = {int(path.read_text().split()[1]) for path, _ in wanted}
    assert (makers == {os.getpid()}) == (workers == 1)
    list(run_shards(jobs(tmp_path, [9]), write_number, workers=workers))
    assert (tmp_path / "09").read_text() == f"9 {os.getpid()}", "one job needs no process"


def begin_long_work(_: bytes, begun: Path, path: Path) -> None:
    path.write_text("half")
    begun.touch()
    time.sleep(60)


def test_an_interrupt_waits_for_no_task(tmp_path: Path) -> None:
    marks = [tmp_path / f"begun{number}" for number in range(3)]

    def interrupt() -> None:
        while not all(begun.exists() for begun in marks[:2]):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # xdist ignores it
    threading.Thread(target=interrupt, daemon=True).start()
    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            made = [(tmp_path / mark.name[-1], mark) for mark in marks]
            # More than a pipe holds: what hands jobs over waits for a worker to read.
            work = partial(begin_long_work, bytes(1 << 20))
            list(run_shards(made, work, workers=2))
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - started < 40
    assert not list(tmp_path.glob("[0-9]*")), "nothing that is half done"


def test_no_task_waits_for_a_look_for_garbage(tmp_path: Path) -> None:
    (made,) = run_shards([(tmp_path / "0", 0)], write_whether_garbage_is_looked_for, workers=1)
    assert made.read_text() == "False" and gc.isenabled()
    with pytest.raises(DataError):
        list(run_shards([(tmp_path / "1", 1)], write_whether_garbage_is_looked_for, workers=1))
    assert gc.isenabled(), "also after an error"


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_there_is_not_made_again(tmp_path: Path, workers: int) -> None:
    made = list(run_shards(jobs(tmp_path, range(3)), write_number, workers=workers))
    before = [path.stat().st_ino for path in made]
    (tmp_path / "01").write_text("one bit is another one")
    (tmp_path / "02.sha256").unlink()
    assert list(run_shards(jobs(tmp_path, range(3)), write_number, workers=workers)) == made
    after = [path.stat().st_ino for path in made]
    assert [a == b for a, b in zip(after, before, strict=True)] == [True, False, False]
    assert [path.read_text().split()[0] for path in made] == ["0", "1", "2"]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_comes_through_and_what_was_done_stays(tmp_path: Path, workers: int) -> None:
    with pytest.raises(DataError, match="thirteen"):
        list(run_shards(jobs(tmp_path, range(10, 16)), write_number, workers=workers))
    assert {"10", "11", "12"} <= {path.name for path in tmp_path.iterdir()}
    assert not (tmp_path / "13").exists()


def test_a_killed_worker_is_an_error_that_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.workers=1"):
        list(run_shards(jobs(tmp_path, [1, 2, 99, 3]), write_number, workers=2))


def test_jobs_are_read_as_they_are_needed(tmp_path: Path) -> None:
    n_read = 0

    def reading() -> Iterator[tuple[Path, int]]:
        nonlocal n_read
        for job in jobs(tmp_path, range(40, 60)):
            n_read += 1
            assert n_read - len([*tmp_path.glob("*.sha256")]) <= 5, "four are not finished"
            yield job

    made = run_shards(reading(), write_number, workers=2)
    next(made)
    list(made)
    assert n_read == 20


def wait_for_file(other: Path | None, path: Path) -> None:
    deadline = time.monotonic() + 60
    while other and not other.exists():
        assert time.monotonic() < deadline, "nobody works beside it"
        time.sleep(0.01)
    path.touch()


def test_a_long_job_lets_no_worker_wait(tmp_path: Path) -> None:
    """The first one ends when the last one has been done."""
    paths = [tmp_path / f"{number:02}" for number in range(20)]
    wanted = [(path, paths[-1] if path == paths[0] else None) for path in paths]
    assert list(run_shards(iter(wanted), wait_for_file, workers=2)) == paths


def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    """And the next start goes on after what was finished."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, time\nfrom pathlib import Path\n"
        "from transformer_mt.system.processes.parallel import run_shards\n"
        "def slow(number, path):\n"
        "    Path(f'pid{number}').write_text(str(os.getpid()))\n"
        "    time.sleep(0 if number == 0 else 60)\n"
        "    path.write_text('x')\n"
        "if __name__ == '__main__':\n"
        "    list(run_shards([(Path(str(n)), n) for n in range(3)], slow, workers=2))\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path)
    wait_for(lambda: (tmp_path / "0").exists() and (tmp_path / "pid1").exists())
    time.sleep(0.1)
    worker = int((tmp_path / "pid1").read_text())
    parent.kill()
    parent.wait()
    wait_for(lambda: process_of(worker) is None)
    assert not (tmp_path / "1").exists()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def whoami(ending: str) -> str:
    if ending == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if ending == "wrong":
        raise DataError("wrong")
    return f"{os.getpid()}"


def test_a_function_in_a_process_of_its_own() -> None:
    assert os.getpid() not in map(int, run_apart(whoami, ["well", "well"]))
    with pytest.raises(DataError, match="wrong"):
        run_apart(whoami, ["wrong"])
    with pytest.raises(DataError, match="for want of memory"):
        run_apart(whoami, ["killed"])


def meet(files: tuple[Path, Path]) -> int:
    own, other = files
    own.touch()
    wait_for(other.exists)
    return os.getpid()


def test_functions_apart_run_at_once_as_far_as_memory_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that wait for each other end; with less room one process carries out one by one."""

    def run(function: Callable[..., object], args: list[Any], gib: int, workers: int) -> int:
        monkeypatch.setattr(parallel, "available_memory_bytes", lambda: gib << 30)
        return len({*run_apart(function, args, workers=workers)})

    files = tmp_path / "one", tmp_path / "other"
    assert run(meet, [files, files[::-1]], gib=6, workers=3) == 2
    for gib, workers in ((1, 3), (5, 3), (64, 1)):
        assert run(whoami, ["well"] * 3, gib, workers) == 1
