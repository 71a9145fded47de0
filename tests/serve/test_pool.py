"""The server's side of its workers."""

import sys
import time
from pathlib import Path

import pytest

from transformer_mt.cli import serve
from transformer_mt.serve import pool
from transformer_mt.serve.pool import WorkerPool
from transformer_mt.serve.text_queue import TextQueue


@pytest.mark.parametrize(("free_mib", "workers"), [(100, 1), (1600, 2), (64_000, 16)])
def test_as_many_workers_as_have_room(
    monkeypatch: pytest.MonkeyPatch, free_mib: int, workers: int
) -> None:
    monkeypatch.setattr(serve, "usable_cores", lambda: 16)
    monkeypatch.setattr(serve, "available_memory_bytes", lambda: free_mib << 20)
    assert serve.count_workers("native") == workers
    assert serve.count_workers("ctranslate2") == 16, "threads of one process"


def test_a_process_that_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And one that is killed while it loads the models is told of."""
    commands = iter([["/nowhere/python"], ["sh", "-c", "kill -KILL $$"]])
    monkeypatch.setattr(pool, "python_command", lambda *_: next(commands))
    monkeypatch.setattr(pool, "_PAUSE_S", 0.01)
    queue = TextQueue(most_characters=1, wait_s=0)
    with WorkerPool(queue, [tmp_path], n_workers=1) as workers:
        assert workers.started.wait(60) and workers.failed
    assert "no worker can be started: No such file" in caplog.text
    assert "signal 9 ended the loading of models (9: lack of memory?)" in caplog.text


def test_a_stop_while_a_large_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that loads it does not see that its input has ended: it is killed."""
    loading = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(pool, "python_command", lambda *_: loading)
    monkeypatch.setattr(pool, "END_S", 0.2)
    queue = TextQueue(most_characters=1, wait_s=0)
    with WorkerPool(queue, [tmp_path], n_workers=1) as workers:
        while (process := workers._process) is None:
            time.sleep(0.01)
    assert process.wait(10) == -9
    assert not workers.failed, "nobody is told that the model cannot be loaded"
