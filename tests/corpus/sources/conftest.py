"""The server of the tests of downloads."""

from collections.abc import Iterator

import pytest
from loopback import Server, running


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as server:
        yield server
