"""`scripts/faults/kill.py`: which process is which, and one training that is killed and resumed.

All kinds of processes: python scripts/faults/kill.py
"""

import subprocess
import sys
import time
from pathlib import Path

import kill
import processes
import pytest
from places import ROOT

from transformer_mt.system.processes.child_python import TMT

FAULTS = ROOT / "scripts" / "faults"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

FAMILY = """
import multiprocessing, subprocess, sys, time
def sleep():
    time.sleep(60)
if __name__ == "__main__":
    for how in ("fork", "spawn"):
        multiprocessing.get_context(how).Process(target=sleep, daemon=True).start()
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "TMT"])
    time.sleep(60)
"""


def test_processes_are_told_apart_by_how_they_were_made(tmp_path: Path) -> None:
    script = tmp_path / "family.py"
    script.write_text(FAMILY.replace("TMT", str(TMT)))
    command = subprocess.Popen([sys.executable, str(script)])
    try:
        deadline = time.monotonic() + 30
        while (
            not (processes.spawned(command.pid) and processes.ranks(command.pid))
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        (spawned,) = processes.spawned(command.pid)
        (copy,) = processes.copies(command.pid)
        (own,) = processes.alone(command.pid)
        (rank,) = processes.ranks(command.pid)
        assert len({spawned.pid, copy.pid, rank.pid, own.pid}) == 4 and own.pid == command.pid
        members = processes.family(command.pid)
        assert {own, spawned, copy} <= set(members)
        assert processes.wait_for_end([copy], 0) == [copy]
    finally:
        for process in reversed(processes.family(command.pid)):
            subprocess.run(["kill", "-9", str(process.pid)], check=False)
        command.wait()
    assert processes.wait_for_end(members, 30) == []


def test_where_a_training_stands_is_read_from_what_it_said() -> None:
    assert kill.phase("") == "start-up"
    assert kill.phase("[data] making x\n  train 1\n[tokenizer] making y\n") == "tokenizer"
    assert kill.phase("[encode] up to date\n[train] 0.0 M\nupdate 1\n") == "training"


def test_what_differs_is_wrong_but_for_a_record_that_was_lost() -> None:
    tally = kill.Tally()
    whole = {"model/model.safetensors": "a", "metrics.jsonl": "b", "gone": "c"}
    kill.compare(whole, {"model/model.safetensors": "x", "metrics.jsonl": "y", ".tmp": "z"}, tally)
    assert set(tally.problems) == {
        "differs: model/model.safetensors", "missing: gone", "left over: .tmp",
    }  # fmt: skip
    assert set(tally.notes) == {"differs: metrics.jsonl"}


def test_a_killed_training_ends_in_the_same_bits() -> None:
    ended = subprocess.run(
        [sys.executable, FAULTS / "kill.py", "--kills", "1", "--kinds", "command"],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 kills" in ended.stdout
