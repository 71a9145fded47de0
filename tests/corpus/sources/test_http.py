"""Downloads over broken connections: the same bytes, the same version, and no endless wait."""

import os
import random
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from loopback import BODY, OTHER, Reply, Server, digest, running, start_fetch

from transformer_mt.corpus.sources.cache import Cache
from transformer_mt.corpus.sources.http import Unavailable, _plain_name
from transformer_mt.errors import DataError

CUT, CUT_OTHER = Reply(BODY, cut=100_000), Reply(OTHER, cut=100_000)
REST = "bytes=100000-"
NEW = Reply(BODY, etag='"v2"', if_range=False)
RUNS_ON = Reply(BODY, announce=len(BODY) + 7, ranges=False)


@pytest.mark.parametrize(
    ("why", "replies", "ranges"),
    [
        ("goes on where it was cut, each time", [CUT, Reply(BODY, cut=150_000), Reply(BODY)],
         [None, REST, "bytes=250000-"]),
        ("progress is no failure, however often",
         [Reply(BODY, cut=k) for k in (10, 9, 8, 7, 6, 5)] + [Reply(BODY)],
         [None, *(f"bytes={k}-" for k in (10, 19, 27, 34, 40, 45))]),
        ("a server without ranges: from the start",
         [Reply(BODY, cut=100_000, ranges=False), Reply(BODY, ranges=False)], [None, REST]),
        ("another version: If-Range makes the server send all of it",
         [CUT_OTHER, Reply(BODY, etag='"v2"')], [None, REST]),
        ("another version, and the server ignores If-Range: not glued", [CUT_OTHER, NEW, NEW],
         [None, REST, None]),
        ("nothing tells versions apart: from the start",
         [Reply(OTHER, cut=100_000, etag=None), Reply(BODY, etag=None)], [None, None]),
        ("a weak tag does not tell bytes apart",
         [Reply(OTHER, cut=100_000, etag='W/"v1"'), Reply(BODY, etag='W/"v1"')], [None, None]),
        ("it shrank: 416, then from the start",
         [CUT_OTHER, Reply(BODY[:50_000], if_range=False), Reply(BODY)], [None, REST, None]),
        ("announced more than was sent", [RUNS_ON, Reply(BODY, ranges=False)],
         [None, f"bytes={len(BODY)}-"]),
        ("chunks, of which some are missing",
         [Reply(BODY, chunked=True, cut=100_000), Reply(BODY, chunked=True)], [None, REST]),
        ("ranges shorter than asked for",
         [Reply(BODY, cut=100_000), Reply(BODY, most=150_000)],
         [None, REST, "bytes=250000-"]),
        ("a silent server", [Reply(BODY, cut=100_000, hang_s=3), Reply(BODY)], [None, REST]),
        ("a server in trouble", [Reply(status=500), Reply(status=503), Reply(BODY)], [None] * 3),
    ],
)  # fmt: skip
def test_what_goes_wrong_on_the_way_is_mended(
    server: Server, tmp_path: Path, why: str, replies: list[Reply], ranges: list[str | None]
) -> None:
    got = Cache(tmp_path).fetch(server.serve("/f.bin", *replies))
    assert got.path.read_bytes() == BODY, why
    assert (got.size, got.sha256) == (len(BODY), digest(BODY))
    assert server.asked("/f.bin") == ranges, why


def test_random_cuts_never_change_a_byte(server: Server, tmp_path: Path) -> None:
    choose = random.Random(1)
    for turn in range(20):
        body = choose.randbytes(choose.choice([0, 1, 2, 5_000, 100_000]))
        replies = [
            Reply(
                body,
                cut=choose.randint(0, len(body)),
                ranges=choose.random() < 0.7,
                etag=choose.choice([None, f'"{turn}"']),
                chunked=choose.random() < 0.3,
            )
            for _ in range(2)
        ]
        url = server.serve(f"/{turn}", *replies, Reply(body, etag=f'"{turn}"'))
        assert Cache(tmp_path).fetch(url).path.read_bytes() == body


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (Reply(BODY, cut=1000, ranges=False), "cut 299,000 bytes before the end"),
        (RUNS_ON, "cut 7 bytes before the end"),
        (Reply(status=502), "the server answers 502 Bad Gateway"),
    ],
)
def test_patience_ends(server: Server, tmp_path: Path, reply: Reply, found: str) -> None:
    gave_up = f"{found}; gave up after 3 attempts that brought nothing new; .* same command again"
    with pytest.raises(DataError, match=gave_up):
        Cache(tmp_path).fetch(server.serve("/f.bin", reply))


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (404, "404 Not Found: the name or the version may be wrong"),
        (403, "403 Forbidden: it may need an account or an agreement"),
        (400, "400 Bad Request: nothing can be got there"),
    ],
)
def test_a_refusal_is_final(server: Server, tmp_path: Path, status: int, found: str) -> None:
    with pytest.raises(Unavailable, match=f"{found}.* give files of your own"):
        Cache(tmp_path).fetch(server.serve("/f.bin", Reply(status=status)))
    assert len(server.requests) == 1


def test_waits_as_the_server_asks_but_no_longer_than_we_like(
    server: Server, tmp_path: Path
) -> None:
    busy = Reply(status=429, headers={"Retry-After": "3600"})
    said: list[str] = []
    start = time.monotonic()
    Cache(tmp_path, say=said.append).fetch(server.serve("/a", busy, Reply(BODY)))
    assert 0.2 <= time.monotonic() - start < 3
    assert "429 Too Many Requests; trying again in 0 s" in said[1]


def test_a_terminal_gets_a_progress_bar(server: Server, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    process = start_fetch(server.serve("/corpus.zip", CUT, Reply(BODY)), tmp_path, stderr=theirs)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # the process has ended
        while block := os.read(ours, 1 << 16):
            shown += block
    os.close(ours)
    said = process.communicate(timeout=120)[0]
    assert b"corpus.zip" in shown and b"300.0/300.0 kB" in shown
    assert "getting" not in said
    assert "cut 200,000 bytes before the end; trying again in 1 s" in said


def test_goes_through_a_proxy(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.base)
    monkeypatch.delenv("no_proxy", raising=False)
    server.serve("http://far.away.example/a.zip", BODY)
    said = start_fetch("http://far.away.example/a.zip", tmp_path).communicate(timeout=120)[0]
    assert said.split()[-1] == digest(BODY)


def test_nobody_there(tmp_path: Path) -> None:
    with running() as server:
        url = server.base + "/a"
    with pytest.raises(DataError, match="Connection refused; gave up after 3 attempts"):
        Cache(tmp_path).fetch(url)


def test_redirects(server: Server, tmp_path: Path) -> None:
    moved = Reply(status=302, headers={"Location": server.serve("/real.zip", CUT, Reply(BODY))})
    got = Cache(tmp_path).fetch(server.serve("/latest.zip", moved))
    assert (got.path.name, got.path.read_bytes()) == ("latest.zip", BODY)
    assert server.asked("/real.zip") == [None, REST]
    for place, found in (("file:///etc/passwd", "nothing can be got there"), ("/round", "302")):
        away = Reply(status=302, headers={"Location": place})
        with pytest.raises(DataError, match=found):
            Cache(tmp_path).fetch(server.serve("/round", away))


def test_the_name_tells_the_format(server: Server, tmp_path: Path) -> None:
    """Where the address has no ending, the server's name of the file counts."""
    named = Reply(BODY, headers={"Content-Disposition": 'attachment; filename="../x/c.tmx.gz"'})
    got = Cache(tmp_path).fetch(server.serve("/download/5", named))
    assert got.path.name.endswith("c.tmx.gz")
    assert got.path.parent.parent == tmp_path / "downloads", "never outside of its place"


@given(st.text(st.characters()))
@example("..")
@example("a/b")
@example("-rf")
@example(".bashrc")
@example("\u202egnp.exe")
@example("\udcff")
@example("好" * 200)
def test_no_server_names_a_path(name: str) -> None:
    plain = _plain_name(name)
    assert plain == _plain_name(plain) and plain[0] not in ".-"
    assert not set(plain) & set("/\\\0\n\x1b:\u202e") and len(plain.encode()) <= 150
