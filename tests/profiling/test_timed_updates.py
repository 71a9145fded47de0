"""Processes that measure training: how Ctrl-C ends them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

MEASURING = """
import os, signal, sys, time
import torch.multiprocessing
from transformer_mt.profiling.timed_updates import in_new_processes

start = torch.multiprocessing.start_processes

def interrupted(*arguments, **options):
    group = start(*arguments, **options)
    os.kill(os.getpid(), signal.SIGINT)
    return group

def work(ranks):
    time.sleep(600)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job of a shell may ignore it
    if sys.argv[1] == "starting":
        torch.multiprocessing.start_processes = interrupted
    try:
        in_new_processes(work, 2, lambda _: print("waiting", flush=True))
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.parametrize("when", ["starting", "waiting"])
def test_ctrl_c_ends_all_of_them_without_a_traceback(tmp_path: Path, when: str) -> None:
    (tmp_path / "measuring.py").write_text(MEASURING)
    process = subprocess.Popen(
        [sys.executable, tmp_path / "measuring.py", when], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, encoding="utf-8", start_new_session=True,
    )  # fmt: skip
    if when == "waiting":
        assert process.stdout and process.stdout.readline() == "waiting\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 130
