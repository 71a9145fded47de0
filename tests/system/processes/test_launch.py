"""Processes that are asked to stop, do stop: also those that are suspended or deaf."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from transformer_mt.errors import TrainingError
from transformer_mt.system.processes import launch as launching
from transformer_mt.system.processes.launch import _Group, launch

DEAF = (
    "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; "
    "print('ready', flush=True); time.sleep(60)"
)
POLITE = (
    "import signal, sys, time; signal.signal(15, lambda *_: (print('saved'), sys.exit(0))); "
    "print('ready', flush=True); time.sleep(60)"
)


def that_ends(status: int, *, after_s: float = 0.0) -> str:
    """A program that Ctrl-C ends with this status; a negative one: as a signal does."""
    handler = f"lambda *_: (time.sleep({after_s}), os._exit({status}))" if status >= 0 else "0"
    waits = "print('ready', flush=True); time.sleep(60)"
    return f"import os, signal, time; signal.signal(2, {handler}); {waits}"


@pytest.fixture
def outputs(tmp_path: Path) -> Iterator[list]:
    with (tmp_path / "0").open("w+b") as first, (tmp_path / "1").open("w+b") as second:
        yield [first, second]


def group_of(programs: list[str], outputs: list) -> _Group:
    group = _Group(outputs)
    for program in programs:
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        group.processes.append(process)
    return group


@pytest.mark.parametrize("asked", [True, False])
def test_a_suspended_process_stops_as_the_others(outputs: list, asked: bool) -> None:
    group = group_of([POLITE, POLITE], outputs)
    os.kill(group.processes[1].pid, signal.SIGSTOP)
    if asked:
        group.ask_to_stop(signal.SIGTERM)
        assert group.wait() == 0
    group.end()
    for process in group.processes:
        assert process.stdout is not None and process.stdout.read() == b"saved\n"


@pytest.mark.parametrize(("first", "second"), [(130, 130), (75, 130), (130, -2)])
def test_a_first_process_that_stops_late_is_waited_for(
    outputs: list, first: int, second: int
) -> None:
    """It prepares data, or scores, where the others only wait for it; one lost contact."""
    group = group_of([that_ends(first, after_s=0.5), that_ends(second)], outputs)
    group.ask_to_stop(signal.SIGINT)
    assert group.wait() == 130
    assert [process.returncode for process in group.processes] == [first, second]


def test_what_is_finished_when_the_stop_comes_is_finished(outputs: list) -> None:
    group = group_of([that_ends(0, after_s=0.3), that_ends(130)], outputs)
    group.ask_to_stop(signal.SIGINT)
    assert group.wait() == 0


def test_a_first_process_that_is_deaf_before_the_training_is_ended(
    outputs: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "START_PATIENCE_S", 1.0)
    group = group_of([DEAF, that_ends(130)], outputs)
    group.ask_to_stop(signal.SIGINT)
    with pytest.raises(TrainingError, match=r"asked to stop, processes 0 still ran after 1 s"):
        group.wait()
    group.end()


@pytest.mark.parametrize(("fresh", "how"), [(False, ""), (True, " without --fresh")])
def test_the_advice_after_a_death_loses_no_work(
    monkeypatch: pytest.MonkeyPatch, fresh: bool, how: str
) -> None:
    """A command with --fresh, repeated, would begin anew."""
    dies = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
    monkeypatch.setattr(launching, "python_command", lambda *_: dies)
    with pytest.raises(TrainingError, match=f"is kept, the same command{how} goes on"):
        launch(2, ["train", *(["--fresh"] if fresh else []), "--", "my.yaml"])


def test_a_fault_while_processes_stop_is_told(
    outputs: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "PATIENCE_S", 0.5)
    group = group_of([DEAF, that_ends(1)], outputs)
    group.ask_to_stop(signal.SIGINT)
    with pytest.raises(TrainingError, match=r"process 1 of 0 … 1 ended \(exit status 1\)"):
        group.wait()
    group.end()


def test_processes_that_do_not_stop_are_ended(
    outputs: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "STOP_PATIENCE_S", 0.3)
    group = group_of([POLITE, DEAF], outputs)
    group.ask_to_stop(signal.SIGTERM)
    with pytest.raises(TrainingError, match=r"asked to stop, processes 1 still ran after 0 s"):
        group.wait()
    group.end()
    assert [process.returncode for process in group.processes] == [0, -signal.SIGKILL]


def test_a_second_interrupt_ends_all_at_once(outputs: list) -> None:
    group = group_of([DEAF, DEAF], outputs)
    group.ask_to_stop(signal.SIGTERM)
    group.ask_to_stop(signal.SIGINT)
    threading.Timer(0.3, group.ask_to_stop, [signal.SIGINT]).start()
    started = time.monotonic()
    with pytest.raises(TrainingError, match=r"a second Ctrl-C ended the training at once"):
        group.wait()
    assert time.monotonic() - started < launching.PATIENCE_S
    group.end()


def test_nothing_stays_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert launch(2, ["--version"]) == 0
    with suppress(TrainingError):  # the second may be the first to fail
        assert launch(2, ["nonsense"]) == 2
    assert not list(tmp_path.iterdir())
