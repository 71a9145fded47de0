"""A disk that takes no more, for the time of a `with`: pytest writes to files, too."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def limited_file_size(n_bytes: int) -> Iterator[None]:
    """No file may become larger: a write error as from a full disk."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
