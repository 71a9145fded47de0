"""The cache of downloads: whole files, fetched once, and what stands in for a file that is not."""

import glob
import json
import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from full_disk import limited_file_size
from loopback import BODY, OTHER, Reply, Server, digest, start_fetch

from transformer_mt.corpus.sources.cache import Cache, default_cache
from transformer_mt.corpus.sources.http import Unavailable
from transformer_mt.errors import DataError, TmtError


def test_a_file_comes_whole_and_once(server: Server, tmp_path: Path) -> None:
    url, said = server.serve("/corpora/a%20b.zh.gz?x=1", BODY), list[str]()
    got = Cache(tmp_path, say=said.append).fetch(url)
    assert (got.path.name, got.path.read_bytes()) == ("a_b.zh.gz", BODY)
    assert (got.url, got.size, got.sha256) == (url, len(BODY), digest(BODY))
    assert Cache(tmp_path, say=said.append).fetch(url) == got
    assert Cache(tmp_path, offline=True).fetch(url) == got
    assert said == [f"getting {url}", f"got {url}: 0.3 MiB"]
    assert len(server.requests) == 1
    assert server.headers_seen[0]["User-Agent"].startswith("tmt/")
    record = json.loads(got.path.parent.with_suffix(".json").read_text())
    assert (record["url"], record["size"], record["sha256"]) == (url, got.size, got.sha256)
    assert datetime.fromisoformat(record["date"]).tzinfo is UTC
    assert not list(tmp_path.rglob("*.part*")), "nothing is left over"


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://host/a", "a/b.zip", "http:///a", "http://[::1/\ud800",
            "http://host:port/a", f"http://{'a' * 99}/"]
)  # fmt: skip
def test_only_http(tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError, match=r"expected http://… or https://…|no usable address"):
        Cache(tmp_path).fetch(url)


def test_digests(server: Server, tmp_path: Path) -> None:
    url, cache = server.serve("/a.zip", BODY), Cache(tmp_path)
    with pytest.raises(DataError, match=f"has sha256 {digest(BODY)}, expected {digest(OTHER)}"):
        cache.fetch(url, digest(OTHER))
    with pytest.raises(Unavailable):
        Cache(tmp_path, offline=True).fetch(url)
    got = cache.fetch(url, digest(BODY).upper())
    got.path.write_bytes(OTHER)  # of the same size
    with pytest.raises(DataError, match=f"delete {got.path} to get the file again"):
        cache.fetch(url, digest(BODY))


def test_offline_says_how_to_get_it(server: Server, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=f"not in the cache {tmp_path}, .* data download CONFIG"):
        Cache(tmp_path, offline=True).fetch(server.serve("/a.zip", BODY))
    assert server.requests == []


def test_a_full_disk_keeps_what_has_arrived(server: Server, tmp_path: Path) -> None:
    url = server.serve("/a.bin", BODY)
    too_large = pytest.raises(TmtError, match=r"\.part: cannot be written: File too large")
    with limited_file_size(200_000), too_large:
        Cache(tmp_path).fetch(url)
    assert Cache(tmp_path).fetch(url).path.read_bytes() == BODY
    assert server.asked("/a.bin") == [None, "bytes=200000-"]


def test_places_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    url = server.serve("/a.bin", Reply(BODY, announce=10**18))
    with pytest.raises(DataError, match=r"MiB are to come, but .* has room for"):
        Cache(tmp_path).fetch(url)
    (tmp_path / "file").write_text("")
    with pytest.raises(TmtError, match=r"cannot be written: Not a directory; set data\.cache"):
        Cache(tmp_path / "file" / "cache").fetch(url)


def test_two_processes_fetch_once(server: Server, tmp_path: Path) -> None:
    url = server.serve("/a.bin", Reply(BODY, slow_s=0.1))
    processes = [start_fetch(url, tmp_path) for _ in range(2)]
    said = sorted(process.communicate(timeout=120)[0] for process in processes)
    assert [text.split()[-1] for text in said] == [digest(BODY)] * 2
    assert said[1].startswith(f"waiting for another process that is getting {url}")
    assert len(server.requests) == 1


def test_goes_on_after_kill(server: Server, tmp_path: Path) -> None:
    url = server.serve("/a.bin", Reply(BODY, slow_s=0.1))
    process = start_fetch(url, tmp_path)
    deadline = time.monotonic() + 120
    parts = f"{tmp_path}/**/*.part"  # glob passes over a folder that is renamed meanwhile
    while not any(os.path.getsize(part) > 50_000 for part in glob.iglob(parts, recursive=True)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (part,) = tmp_path.rglob("*.part")
    size = part.stat().st_size
    server.serve("/a.bin", BODY)
    got = Cache(tmp_path).fetch(url)
    assert got.path.read_bytes() == BODY
    assert server.asked("/a.bin") == [None, f"bytes={size}-"]
    got.path.rename(part)  # killed after the last byte, before the file had its name
    assert Cache(tmp_path).fetch(url) == got
    assert len(server.requests) == 2


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
        {"size": 7}, {"sha256": 7}, {"sha256": "x"}, "null", "[]", "{", "[" * 100_000, "\0",
        f'{{"size": {"9" * 5000}}}',
    ],
)  # fmt: skip
def test_a_damaged_record_is_no_record(
    server: Server, tmp_path: Path, change: dict[str, Any] | str
) -> None:
    url = server.serve("/a.txt", BODY)
    got = Cache(tmp_path).fetch(url)
    path = got.path.parent.with_suffix(".json")
    record = json.loads(path.read_text())
    path.write_text(change if isinstance(change, str) else json.dumps({**record, **change}))
    assert Cache(tmp_path).fetch(url) == got
    assert len(server.requests) == 2, "it was fetched again"


@pytest.mark.parametrize("etag", ["a\r\nHost: b", [], "é" * 10, "x" * 9999])
def test_a_damaged_mark_is_not_sent(server: Server, tmp_path: Path, etag: Any) -> None:
    url = server.serve("/a.txt", BODY)
    got = Cache(tmp_path).fetch(url)
    path = got.path.parent.with_suffix(".json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "etag": etag}))
    path.with_suffix(".part").write_bytes(OTHER[:99])
    got.path.unlink()
    assert Cache(tmp_path).fetch(url) == got
    assert server.asked("/a.txt") == [None, None]
