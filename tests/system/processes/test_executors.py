"""Executors: a Dask cluster makes the same files, whoever of its workers dies; errors say why."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import dask_workers

from transformer_mt.errors import DataError
from transformer_mt.system.processes import executors
from transformer_mt.system.processes.parallel import run_apart, run_shards


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with dask_workers(tmp_path_factory.mktemp("dask")) as address:
        yield address


def write_number(number: int, path: Path) -> None:
    if number == 13:
        raise DataError("thirteen")
    path.write_text(f"{number} {os.getpid()}")


def die_once(number: int, path: Path) -> None:
    """The first worker that makes number 2 is killed half way."""
    mark = path.parent.parent.parent / "killed"
    if number == 2 and not mark.exists():
        path.write_text("half")
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    path.write_text(f"{number}")


def double(number: int) -> int:
    return 2 * number


def test_files_are_made_by_workers_in_order(cluster: str, tmp_path: Path) -> None:
    jobs = [(tmp_path / f"{number}", number) for number in range(6)]
    assert list(run_shards(jobs, write_number, workers=cluster)) == [path for path, _ in jobs]
    found = [path.read_text().split() for path, _ in jobs]
    assert [number for number, _ in found] == list("012345")
    assert str(os.getpid()) not in {process for _, process in found}
    assert run_apart(double, [3, 1], workers=cluster) == [6, 2]


def test_the_task_of_a_killed_worker_is_done_again(cluster: str, tmp_path: Path) -> None:
    jobs = [(tmp_path / f"{number}", number) for number in range(5)]
    for path in run_shards(jobs, die_once, workers=cluster):
        assert path.read_text() == path.name
    assert (tmp_path / "killed").exists()


def test_an_error_of_a_task_comes_through(cluster: str, tmp_path: Path) -> None:
    jobs = [(tmp_path / f"{number}", number) for number in range(12, 16)]
    with pytest.raises(DataError, match="thirteen"):
        list(run_shards(jobs, write_number, workers=cluster))
    assert (tmp_path / "12").is_file()


def test_a_worker_with_another_version_is_refused(
    cluster: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executors._connected.cache_clear()
    monkeypatch.setattr(executors, "__version__", "0.0")
    with pytest.raises(DataError, match=r"tcp://127\.0\.0\.1:\d+: has tmt .*, but here is 0\.0"):
        list(run_shards([(tmp_path / "1", 1)], write_number, workers=cluster))


def test_where_nobody_listens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs the extra `cluster`")
    monkeypatch.setattr(executors, "_WAIT_S", 1)
    with pytest.raises(DataError, match=r"dask://127\.0\.0\.1:9: no Dask scheduler with a worker"):
        list(run_shards([(tmp_path / "1", 1)], write_number, workers="dask://127.0.0.1:9"))


@pytest.mark.parametrize(
    ("workers", "module", "package"),
    [("dask://h:1", "distributed", r"transformer-mt\[cluster\]"), ("mpi", "mpi4py", "mpi4py")],
)
def test_without_the_package_the_error_names_it(
    workers: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (module, f"{module}.futures"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(DataError, match=f"pip install '{package}'"):
        list(run_shards([(tmp_path / "1", 1)], write_number, workers=workers))
