"""The server of the tests of downloads, and less patience with it."""

from collections.abc import Iterator

import pytest
from loopback import Server, running

from transformer_mt.corpus.sources import http


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_TIMEOUT_S", 0.5)
    monkeypatch.setattr(http, "_WAITS_S", (0.01, 0.01))
    monkeypatch.setattr(http, "_LONGEST_WAIT_S", 0.2)
