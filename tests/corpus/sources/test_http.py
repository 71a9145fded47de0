"""Downloads over broken connections: the same bytes, the same version, and no endless wait."""

import os
import random
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from loopback import BODY, OTHER, QUICK, Reply, Server, digest, running, start_fetch

from transformer_mt.corpus.sources.cache import fetch
from transformer_mt.corpus.sources.http import (
    Patience,
    Unavailable,
    _plain_name,
    _retry_after,
    read_record,
)
from transformer_mt.errors import DataError


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
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the process has ended
        while block := os.read(ours, 1 << 16):
            shown += block
    os.close(ours)
    said = process.communicate(timeout=30)[0]
    assert b"corpus.zip" in shown
    assert b"300.0/300.0 kB" in shown
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
