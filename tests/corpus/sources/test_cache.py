import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from loopback import Reply, Server, running

from transformer_mt.corpus.sources.cache import default_cache, fetch
from transformer_mt.corpus.sources.http import (
    Patience,
    Unavailable,
    _plain_name,
    _retry_after,
    read_record,
)
from transformer_mt.errors import DataError, TmtError

BODY = random.Random(3).randbytes(300_000)
OTHER = random.Random(4).randbytes(300_000)
QUICK = Patience(timeout_s=5.0, attempts=3, first_wait_s=0.01, longest_wait_s=0.2)


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as server:
        yield server


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


@pytest.mark.parametrize(
    ("replies", "ranges", "why"),
    [
        (
            [Reply(BODY, cut=100_000), Reply(BODY, cut=150_000), Reply(BODY)],
            [None, "bytes=100000-", "bytes=250000-"],
            "goes on where it was cut, each time",
        ),
        (
            [Reply(BODY, cut=k) for k in (10, 9, 8, 7, 6, 5)] + [Reply(BODY)],
            [None, *(f"bytes={k}-" for k in (10, 19, 27, 34, 40, 45))],
            "progress is no failure, however often",
        ),
        (
            [Reply(BODY, cut=100_000, ranges=False), Reply(BODY, ranges=False)],
            [None, "bytes=100000-"],
            "a server without ranges: from the start",
        ),
        (
            [Reply(OTHER, cut=100_000), Reply(BODY, etag='"v2"')],
            [None, "bytes=100000-"],
            "another version: If-Range makes the server send all of it",
        ),
        (
            [Reply(OTHER, cut=100_000), *[Reply(BODY, etag='"v2"', if_range=False)] * 2],
            [None, "bytes=100000-", None],
            "another version, and the server ignores If-Range: not glued",
        ),
        (
            [Reply(OTHER, cut=100_000, etag=None), Reply(BODY, etag=None)],
            [None, None],
            "nothing tells versions apart: from the start",
        ),
        (
            [Reply(OTHER, cut=100_000, etag='W/"v1"'), Reply(BODY, etag='W/"v1"')],
            [None, None],
            "a weak tag does not tell bytes apart",
        ),
        (
            [Reply(OTHER, cut=100_000), Reply(BODY[:50_000], if_range=False), Reply(BODY)],
            [None, "bytes=100000-", None],
            "it shrank: 416, then from the start",
        ),
        (
            [Reply(BODY, announce=len(BODY) + 7, ranges=False), Reply(BODY, ranges=False)],
            [None, f"bytes={len(BODY)}-"],
            "announced more than was sent",
        ),
        (
            [Reply(BODY, announce=len(BODY) - 7), Reply(BODY)],
            [None, None],
            "announced less than was sent",
        ),
        (
            [Reply(BODY, chunked=True, cut=100_000), Reply(BODY, chunked=True)],
            [None, "bytes=100000-"],
            "chunks, of which some are missing",
        ),
        ([Reply(status=500), Reply(status=503), Reply(BODY)], [None] * 3, "a server in trouble"),
    ],
)
def test_what_goes_wrong_on_the_way_is_mended(
    server: Server, tmp_path: Path, replies: list[Reply], ranges: list[str | None], why: str
) -> None:
    url = server.serve("/f.bin", *replies)
    got = fetch(url, tmp_path, patience=QUICK)
    assert got.path.read_bytes() == BODY, why
    assert (got.size, got.sha256) == (len(BODY), digest(BODY))
    assert server.asked("/f.bin") == ranges, why


def test_random_cuts_never_change_a_byte(server: Server, tmp_path: Path) -> None:
    generator = random.Random(1)
    for turn in range(20):
        body = generator.randbytes(generator.choice([0, 1, 2, 5_000, 100_000]))
        replies = [
            Reply(
                body,
                cut=generator.randint(0, len(body)),
                ranges=generator.random() < 0.7,
                etag=generator.choice([None, f'"{turn}"']),
                chunked=generator.random() < 0.3,
            )
            for _ in range(2)
        ]
        url = server.serve(f"/{turn}", *replies, Reply(body, etag=f'"{turn}"'))
        assert fetch(url, tmp_path, patience=QUICK).path.read_bytes() == body


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (Reply(BODY, cut=1000, ranges=False), "cut 299,000 bytes before the end"),
        (Reply(BODY, announce=len(BODY) - 7), "sends more than it announced"),
        (Reply(BODY, announce=len(BODY) + 7, ranges=False), "cut 7 bytes before the end"),
        (Reply(status=502), "the server answers 502 Bad Gateway"),
        (Reply(status=429), "the server answers 429 Too Many Requests"),
    ],
)
def test_patience_ends(server: Server, tmp_path: Path, reply: Reply, found: str) -> None:
    url = server.serve("/f.bin", reply)
    with pytest.raises(DataError) as caught:
        fetch(url, tmp_path, patience=QUICK)
    message = str(caught.value)
    assert message.startswith(f"{url}: ")
    assert found in message
    assert "gave up after 3 attempts that brought nothing new" in message
    assert "run the same command again" in message


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (404, "404 Not Found: the name or the version may be wrong"),
        (410, "410 Gone: the name or the version may be wrong, or it was taken away"),
        (403, "403 Forbidden: it may need an account or an agreement"),
        (401, "401 Unauthorized: it may need an account"),
        (400, "400 Bad Request: nothing can be got there"),
    ],
)
def test_a_refusal_is_final(server: Server, tmp_path: Path, status: int, found: str) -> None:
    url = server.serve("/f.bin", Reply(status=status))
    with pytest.raises(Unavailable) as caught:
        fetch(url, tmp_path)
    assert f"{url}: the server answers {found}" in str(caught.value)
    assert "give files of your own" in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize("date", [False, True], ids=["seconds", "date"])
def test_waits_as_long_as_the_server_asks_but_no_longer_than_we_like(
    server: Server, tmp_path: Path, date: bool
) -> None:
    after = format_datetime(datetime.now(UTC) + timedelta(hours=1)) if date else "3600"
    busy = Reply(status=429, headers={"Retry-After": after})
    said: list[str] = []
    start = time.monotonic()
    fetch(server.serve("/a", busy, Reply(BODY)), tmp_path, patience=QUICK, say=said.append)
    assert 0.2 <= time.monotonic() - start < 3
    assert any("429 Too Many Requests; trying again in 0 s" in line for line in said)


def test_says_what_it_does(server: Server, tmp_path: Path) -> None:
    url = server.serve("/a.zip", BODY)
    said: list[str] = []
    fetch(url, tmp_path, say=said.append)
    fetch(url, tmp_path, say=said.append)
    assert said == [f"getting {url}", f"got {url}: 0.3 MiB"]


def test_a_terminal_gets_a_progress_bar(server: Server, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    url = server.serve("/corpus.zip", Reply(BODY, cut=100_000), Reply(BODY))
    ours, theirs = pty.openpty()
    process = start_fetch(url, tmp_path, stderr=theirs)
    said = process.communicate(timeout=30)[0]
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    os.close(theirs)
    assert "corpus.zip" in shown
    assert "300.0/300.0 kB" in shown
    assert "getting" not in said
    assert "cut 200,000 bytes before the end; trying again in 1 s" in said


def test_goes_through_a_proxy(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.base)
    monkeypatch.delenv("no_proxy", raising=False)
    server.serve("http://far.away.example/a.zip", BODY)
    said = start_fetch("http://far.away.example/a.zip", tmp_path).communicate(timeout=30)[0]
    assert said.split()[-1] == digest(BODY)


def test_a_silent_server_is_not_waited_for_forever(server: Server, tmp_path: Path) -> None:
    url = server.serve("/a", Reply(BODY, cut=1000, hang_s=3), Reply(BODY))
    start = time.monotonic()
    short = Patience(timeout_s=0.3, attempts=2, first_wait_s=0.01)
    assert fetch(url, tmp_path, patience=short).path.read_bytes() == BODY
    assert time.monotonic() - start < 2
    assert server.asked("/a") == [None, "bytes=1000-"]


def test_nobody_there(tmp_path: Path) -> None:
    with running() as server:
        url = server.base + "/a"
    with pytest.raises(DataError, match="Connection refused; gave up after 3 attempts"):
        fetch(url, tmp_path, patience=QUICK)


def test_redirects(server: Server, tmp_path: Path) -> None:
    target = server.serve("/real.zip", Reply(BODY, cut=1000), Reply(BODY))
    moved = Reply(status=302, headers={"Location": target})
    got = fetch(server.serve("/latest.zip", moved), tmp_path, patience=QUICK)
    assert got.path.name == "latest.zip"
    assert got.path.read_bytes() == BODY
    assert server.asked("/real.zip") == [None, "bytes=1000-"]
    inward = Reply(status=302, headers={"Location": "file:///etc/passwd"})
    with pytest.raises(DataError, match="nothing can be got there"):
        fetch(server.serve("/inward", inward), tmp_path)
    circle = server.serve("/circle", Reply(status=302, headers={"Location": "/circle"}))
    with pytest.raises(DataError, match="302"):
        fetch(circle, tmp_path)


def test_the_name_tells_the_format(server: Server, tmp_path: Path) -> None:
    """Where the address has no ending, what the server calls the file counts."""
    named = Reply(BODY, headers={"Content-Disposition": 'attachment; filename="../x/c.tmx.gz"'})
    got = fetch(server.serve("/download/5", named), tmp_path)
    assert got.path.name.endswith("c.tmx.gz")
    assert got.path.parent.parent == tmp_path / "downloads", "never outside of its place"
    assert fetch(server.serve("/get/", BODY), tmp_path).path.read_bytes() == BODY
    assert fetch(server.serve("/%2e%2e%2f%2e%2e%2fetc", BODY), tmp_path).path.name == "_.._etc"


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


def start_fetch(url: str, cache_dir: Path, stderr: int | None = None) -> "subprocess.Popen[str]":
    code = (
        "import sys; from pathlib import Path\n"
        "from transformer_mt.corpus.sources.cache import fetch\n"
        "print(fetch(sys.argv[1], Path(sys.argv[2]), say=print).sha256, flush=True)"
    )
    arguments = [sys.executable, "-u", "-c", code, url, str(cache_dir)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=stderr, text=True)


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


def test_records_beyond_measure(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    for content in (b"[" * 100_000, b"[" * 1000, b" " * (1 << 20) + b"{}", b"\xff", b"\0"):
        path.write_bytes(content)
        assert read_record(path) == {}


@pytest.mark.parametrize(
    "name",
    ["..", ".", "a/b", "/etc/passwd", ".bashrc", "-rf", "好" * 200, "x" * 999, "a\0b", "a\nb",
     "a\x1b[31mb", "\udcff", "C:\\x", "\u202egnp.exe", "", "." * 500, "%2e%2e"],
)  # fmt: skip
def test_no_server_names_a_path(name: str) -> None:
    plain = _plain_name(name)
    assert plain == _plain_name(plain)
    assert plain and plain not in (".", "..") and plain[0] not in ".-"
    assert not set(plain) & set("/\\\0\n\x1b:\u202e") and len(plain.encode()) <= 150


@pytest.mark.parametrize(
    "value",
    ["9" * 5000, "-1", "²", "x", "Mon, 99 Jan 99999999999 00:00:00 GMT", "1 Jan 10000 0:0:0 +99999",
     "Mon, 1 Jan 1 00:00:00 -2359", "," * 1000, ""],
)  # fmt: skip
def test_waits_of_any_form(value: str) -> None:
    assert 0 <= _retry_after(value) < float("inf") or value.isdecimal()
