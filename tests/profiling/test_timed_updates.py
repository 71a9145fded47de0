"""Processes that measure training: how Ctrl-C ends them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

MEASURING = """
import signal, sys, time
from transformer_mt.profiling.timed_updates import in_new_processes

def work(ranks):
    time.sleep(600)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job of a shell may ignore it
    try:
        in_new_processes(work, 2, lambda _: print("waiting", flush=True))
    except KeyboardInterrupt:
        sys.exit(130)
"""


def test_ctrl_c_ends_all_of_them_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "measuring.py").write_text(MEASURING)
    process = subprocess.Popen(
        [sys.executable, tmp_path / "measuring.py"], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, encoding="utf-8", start_new_session=True,
    )  # fmt: skip
    assert process.stdout and process.stdout.readline() == "waiting\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 130
