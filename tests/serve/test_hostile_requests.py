"""Slow, cut, oversized, malformed and nested requests are answered or dropped within their limits.

Raw sockets, since clients would not send such. After all of them the server is as quick as before.
"""

import io
import json
import os
import socket
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from served import Server, serving, until

REQUEST_S = 1.5
HEAD = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GOOD = json.dumps({"q": "猫看见狗。", "source": "zh", "target": "en"}).encode()


@pytest.fixture(scope="module")
def server(toy_model: Path) -> Iterator[Server]:
    options = ("--workers", "1", "--request-time", str(REQUEST_S), "--file-size", "1")
    with serving("-m", toy_model, *options) as found:
        yield found
        assert found.process.poll() is None, "it has died"
        assert found.translate("猫看见狗。").status_code == 200


def exchange(server: Server, *parts: bytes, pause: float = 0.0) -> bytes:
    """Everything that comes back until the server closes, or for 5 s."""
    place = urlsplit(server.url)
    with socket.create_connection((place.hostname, place.port), timeout=5) as connection:
        answer = b""
        try:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
            while got := connection.recv(65536):
                answer += got
                if pause == 0 and b"\r\n\r\n" in answer and b"connection: close" not in answer:
                    break
        except (ConnectionError, TimeoutError):
            pass
        return answer


def status(answer: bytes) -> int:
    """0: dropped without an answer."""
    return int(answer.split()[1]) if answer else 0


def with_length(body: bytes, *, length: int | None = None, head: bytes = HEAD) -> bytes:
    size = len(body) if length is None else length
    return head + b"Content-Length: %d\r\n\r\n" % size + body


def test_what_is_slow_is_dropped(server: Server) -> None:
    slow_head = [bytes([byte]) for byte in HEAD[:40]]
    slow_body = [HEAD + b"Content-Length: 1000\r\n\r\n", *[b" "] * 40]
    cases = {"head": slow_head, "body": slow_body, "nothing": [b""], "chunks": [
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[b"1\r\n \r\n"] * 40]}  # fmt: skip
    with ThreadPoolExecutor(4) as pool:
        start = time.monotonic()
        asked = {
            name: pool.submit(exchange, server, *parts, pause=0.1) for name, parts in cases.items()
        }
        found = {name: status(one.result()) for name, one in asked.items()}
    assert found["head"] == found["nothing"] == 0
    # Who still sends when the server has closed may not see its answer.
    assert {found["body"], found["chunks"]} <= {0, 408}
    assert time.monotonic() - start < REQUEST_S + 8


@pytest.mark.parametrize(
    ("name", "request_", "allowed"),
    [
        ("no request", b"\x16\x03\x01\x02\x00\x01\x00" * 50, {0, 400}),
        ("a head of 100 kB", HEAD + b"X: " + b"a" * 100_000 + b"\r\n\r\n", {0, 400, 431}),
        ("10,000 headers", HEAD + b"X: a\r\n" * 10_000 + b"\r\n", {0, 400, 413, 431}),
        ("2 MiB", with_length(b" " * (2 << 20)), {413}),
        ("2 GiB announced", with_length(b"{}", length=2 << 30), {408, 413}),
        ("a length that lies", with_length(GOOD + b"GET / HTTP", length=len(GOOD)), {200}),
        ("a negative length", with_length(b"{}", length=-1), {400}),
        ("two lengths", HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", {400}),
        ("nested 100,000 times", with_length(b"[" * 100_000 + b"]" * 100_000), {400}),
        ("objects nested", with_length(b'{"q":' * 50_000 + b"1" + b"}" * 50_000), {400}),
        ("100,000 keys", with_length(json.dumps({str(i): i for i in range(10**5)})
                                     .encode()[:1 << 20]), {400, 413}),
        ("invalid UTF-8", with_length(b'{"q": "\xff\xfe", "target": "en"}'), {200, 400}),
        ("half a surrogate", with_length(b'{"q": "\\ud800 \\udfff", "target": "en"}'), {200}),
        ("NUL", with_length(b'{"q": "a\\u0000b", "target": "en"}'), {200}),
        ("a huge number", with_length(b'{"q": "a", "target": "en", "alternatives": 1e999}'), {400}),
        ("a long number", with_length(b'{"q": ' + b"9" * 10_000 + b', "target": "en"}'), {400}),
        ("cut", with_length(GOOD[:9], length=len(GOOD)), {408}),
    ],
)  # fmt: skip
def test_what_is_malformed_is_refused(
    server: Server, name: str, request_: bytes, allowed: set[int]
) -> None:
    start = time.monotonic()
    assert status(exchange(server, request_)) in allowed, name
    assert time.monotonic() - start < REQUEST_S + 4, name


def test_several_requests_in_one_packet(server: Server) -> None:
    last = HEAD + b"Connection: close\r\n"
    answer = exchange(server, with_length(GOOD) * 3 + with_length(GOOD, head=last), pause=0.01)
    assert answer.count(b"HTTP/1.1 200") == 4


def multipart(name: str, content: bytes, n_parts: int = 1) -> httpx.Request:
    files = [("file", (name, content))] * n_parts
    data = {"source": "zh", "target": "en"}
    return httpx.Request("POST", "http://localhost/translate_file", files=files, data=data)


def bomb() -> bytes:
    """A kilobyte that becomes a gigabyte of a Word document."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("word/document.xml", "w", force_zip64=True) as file,
    ):
        for _ in range(256):
            file.write(b" " * (1 << 20))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "n_parts", "allowed"),
    [
        ("../../../etc/passwd.txt", "猫看见狗。".encode(), 1, {200}),
        ("..\\..\\a\r\nb.txt", "猫看见狗。".encode(), 1, {200, 400}),
        ("a.exe", b"MZ", 1, {400}),
        ("a.docx", b"PK\x03\x04 no archive", 1, {400}),
        ("bomb.docx", bomb(), 1, {400, 413}),
        ("a.txt", b"\xff\xfe\x00", 1, {400}),
        ("a.txt", b" " * (2 << 20), 1, {413}),
        ("many.txt", b"a", 5000, {400}),
        ("a.html", b"<div>" * 20_000 + "猫".encode(), 1, {200, 400}),
    ],
)
def test_files(server: Server, name: str, content: bytes, n_parts: int, allowed: set[int]) -> None:
    request = multipart(name, content, n_parts)
    headers = dict(request.headers) | {"host": "localhost"}
    response = server.client.post("/translate_file", content=request.read(), headers=headers)
    assert response.status_code in allowed, response.text
    if response.status_code == 200:
        path = urlsplit(response.json()["translatedFileUrl"]).path
        found = server.client.get(path)
        assert "猫" not in found.text and "/" not in found.headers["content-disposition"][20:]


def test_300_connections_at_once(server: Server) -> None:
    with ThreadPoolExecutor(300) as pool:
        found = list(pool.map(lambda _: status(exchange(server, with_length(GOOD))), range(300)))
    assert found == [200] * 300


def test_nobody_translates_for_who_has_gone(toy_model: Path) -> None:
    with serving("-m", toy_model, "--workers", "1", "--wait", "1500") as server:
        place = urlsplit(server.url)
        for i in range(20):
            body = json.dumps({"q": f"猫看见狗{i}。", "target": "en"}).encode()
            with socket.create_connection((place.hostname, place.port)) as connection:
                connection.sendall(with_length(body))
                time.sleep(0.02)

        def metrics() -> str:
            return server.client.get("/metrics").text

        until(lambda: 'status="499"} 20.0' in metrics())
        until(lambda: "tmt_waiting_texts 0.0" in metrics())
        assert "tmt_batch_texts_sum 0.0" in metrics()


def test_memory_is_given_back(server: Server) -> None:
    """Of what many large bodies at once take."""

    def resident() -> int:
        pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    body = with_length(json.dumps({"q": "猫" * 200_000, "target": "en"}).encode()[: 1 << 20])
    exchange(server, body)
    before = resident()
    with ThreadPoolExecutor(20) as pool:
        found = set(pool.map(lambda _: status(exchange(server, body)), range(100)))
    assert found <= {400, 413} and resident() - before < 200 << 20
