"""A Dask cluster of two processes on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from transformer_mt.system.processes import executors


@contextmanager
def dask_workers(folder: Path) -> Iterator[str]:
    """Its address, as `data.workers` takes it; the test is skipped where Dask is missing."""
    distributed = pytest.importorskip("distributed", reason="needs the extra `cluster`")
    executors._connected.cache_clear()
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None,
        local_directory=str(folder), silence_logs=50,
    ) as found:  # fmt: skip
        address = found.scheduler_address.replace("tcp://", "dask://")
        yield address
        executors._connected(address).close()
        executors._connected.cache_clear()
