"""The cache of downloads: whole files, fetched once, and what stands in for a file that is not."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from loopback import BODY, OTHER, Reply, Server, digest, start_fetch

from transformer_mt.corpus.sources.cache import default_cache, fetch
from transformer_mt.corpus.sources.http import (
    Unavailable,
)
from transformer_mt.errors import DataError, TmtError


def test_a_file_comes_whole_and_once(server: Server, tmp_path: Path) -> None:
    url = server.serve("/corpora/a%20b.zh.gz?x=1", BODY)
    got = fetch(url, tmp_path)
    assert (got.path.name, got.path.read_bytes()) == ("a_b.zh.gz", BODY)
    assert (got.url, got.size, got.sha256) == (url, len(BODY), digest(BODY))
    assert fetch(url, tmp_path) == got
    assert fetch(url, tmp_path, offline=True) == got
    assert len(server.requests) == 1
    assert server.headers_seen[0]["User-Agent"].startswith("tmt/")
    record = json.loads(got.path.parent.with_suffix(".json").read_text())
    assert record["url"] == url
    assert (record["size"], record["sha256"], record["etag"]) == (got.size, got.sha256, '"v1"')
    assert datetime.fromisoformat(record["date"]).tzinfo is UTC
    assert not list(tmp_path.rglob("*.part*")), "nothing is left over"


def test_a_damaged_cache_is_not_used(server: Server, tmp_path: Path) -> None:
    url = server.serve("/a", BODY)
    got = fetch(url, tmp_path)
    got.path.write_bytes(BODY[:-1])
    assert fetch(url, tmp_path).path.read_bytes() == BODY, "another size"
    got.path.parent.with_suffix(".json").write_text("{")
    assert fetch(url, tmp_path).path.read_bytes() == BODY, "a damaged record"
    assert len(server.requests) == 3


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/a", "a/b.zip", "http:///a"])
def test_only_http(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError, match="expected http://… or https://…"):
        fetch(url, tmp_path)


def test_digests(server: Server, tmp_path: Path) -> None:
    url = server.serve("/a.zip", BODY)
    with pytest.raises(DataError) as caught:
        fetch(url, tmp_path, sha256=digest(OTHER))
    assert f"has sha256 {digest(BODY)}, expected {digest(OTHER)}" in str(caught.value)
    with pytest.raises(Unavailable):
        fetch(url, tmp_path, offline=True)
    got = fetch(url, tmp_path, sha256=digest(BODY).upper())
    got.path.write_bytes(OTHER)  # of the same size
    with pytest.raises(DataError) as caught:
        fetch(url, tmp_path, sha256=digest(BODY))
    assert f"delete {got.path} to get the file again" in str(caught.value)


def test_offline_says_how_to_get_it(server: Server, tmp_path: Path) -> None:
    url = server.serve("/a.zip", BODY)
    with pytest.raises(Unavailable) as caught:
        fetch(url, tmp_path, offline=True)
    assert f"{url}: not in the cache {tmp_path}" in str(caught.value)
    assert "tmt data download CONFIG" in str(caught.value)
    assert server.requests == []


def test_a_full_disk_keeps_what_has_arrived(
    server: Server, tmp_path: Path, limit_file_size: Callable[[int], None]
) -> None:
    url = server.serve("/a.bin", BODY)
    limit_file_size(200_000)
    with pytest.raises(DataError, match=r"the disk is full; make room, or set data\.cache"):
        fetch(url, tmp_path)
    limit_file_size(1_000_000)
    assert fetch(url, tmp_path).path.read_bytes() == BODY
    assert server.asked("/a.bin") == [None, "bytes=200000-"]


def test_no_room_is_known_before(server: Server, tmp_path: Path) -> None:
    url = server.serve("/a.bin", Reply(BODY, announce=10**18))
    with pytest.raises(DataError, match=r"MiB are to come, but .* has room for"):
        fetch(url, tmp_path)


def test_a_cache_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TmtError, match=r"cannot be written: Not a directory; set data\.cache"):
        fetch(server.serve("/a", BODY), tmp_path / "file" / "cache")


def test_two_processes_fetch_once(server: Server, tmp_path: Path) -> None:
    url = server.serve("/a.bin", Reply(BODY, slow_s=0.1))
    processes = [start_fetch(url, tmp_path) for _ in range(2)]
    said = sorted(process.communicate(timeout=30)[0] for process in processes)
    assert [text.split()[-1] for text in said] == [digest(BODY)] * 2
    assert said[1].startswith(f"waiting for another process that is getting {url}")
    assert len(server.requests) == 1


def test_goes_on_after_kill(server: Server, tmp_path: Path) -> None:
    url = server.serve("/a.bin", Reply(BODY, slow_s=0.1))
    process = start_fetch(url, tmp_path)
    deadline = time.monotonic() + 20
    while not any(part.stat().st_size > 50_000 for part in tmp_path.rglob("*.part")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (part,) = tmp_path.rglob("*.part")
    size = part.stat().st_size
    server.serve("/a.bin", BODY)
    assert fetch(url, tmp_path).path.read_bytes() == BODY
    assert server.asked("/a.bin") == [None, f"bytes={size}-"]
    assert 0 < size < len(BODY)


def test_a_part_that_was_whole_needs_no_network(server: Server, tmp_path: Path) -> None:
    """Killed after the last byte, before the file had its name."""
    url = server.serve("/a.bin", BODY)
    got = fetch(url, tmp_path)
    place = got.path.parent
    record = place.with_suffix(".json").read_text()
    got.path.rename(place.with_suffix(".part"))
    place.with_suffix(".part.json").write_text(record)
    assert fetch(url, tmp_path).path.read_bytes() == BODY
    assert len(server.requests) == 1


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TMT_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_cache() == tmp_path / ".cache" / "tmt"
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_cache() == Path("/caches/tmt")
    monkeypatch.setenv("TMT_CACHE", "~/mine")
    assert default_cache() == tmp_path / "mine"


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../../elsewhere"}, {"name": ".hidden"}, {"name": "x" * 300}, {"name": 3},
        {"name": None}, {"size": "many"}, {"size": -1}, {"size": None}, {"size": True},
        {"sha256": 7}, {"sha256": "x"}, {"etag": "a\r\nHost: b"}, {"etag": []},
        {"last_modified": "é" * 10}, {"size": 10**5000}, None, [], "text", 3,
    ],
)  # fmt: skip
def test_a_damaged_record_is_no_record(server: Server, tmp_path: Path, change: Any) -> None:
    url = server.serve("/a.txt", BODY)
    got = fetch(url, tmp_path)
    path = got.path.parent.with_suffix(".json")
    sys.set_int_max_str_digits(0)
    record = {**json.loads(path.read_text()), **change} if isinstance(change, dict) else change
    path.write_text(json.dumps(record))
    sys.set_int_max_str_digits(4300)
    assert fetch(url, tmp_path) == got
    assert len(server.requests) == 2, "it was fetched again"
