"""What the server keeps in mind: translations, who has gone, keys and how often they asked."""

import asyncio
import io
import threading
import time
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session
from starlette.responses import Response

from transformer_mt.errors import TmtError
from transformer_mt.serve import gate, limits
from transformer_mt.serve.gate import MOST_REQUESTS, Gate
from transformer_mt.serve.glossaries import Glossaries, _Table
from transformer_mt.serve.jobs import ModelInfo, Translated
from transformer_mt.serve.libretranslate import _Files
from transformer_mt.serve.limits import ApiKeys, Limits, Refused
from transformer_mt.serve.openai import _chunks
from transformer_mt.serve.service import Direction, Service
from transformer_mt.serve.text_queue import TextQueue

ZH_EN = Direction(0, "zh", "en")


class OutsideOfTheLoop(zipfile.ZipFile):
    """The directory of an archive may have 16 MiB."""

    def __init__(self, *arguments: Any, **others: Any) -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        super().__init__(*arguments, **others)


def service(
    *, most_cached: int = 4, answer_s: float = 60.0, most_characters: int = 10**6
) -> tuple[Service, TextQueue]:
    """A service whose queue nobody takes from."""
    queue = TextQueue(most_characters=most_characters, wait_s=0)
    pool: Any = SimpleNamespace(queue=queue, models=(ModelInfo("m", (("zh", "en"),), 99),))
    return Service(pool, Limits(answer_s=answer_s), most_cached), queue


def test_a_translation_that_leaves_the_cache_while_others_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served, _ = service()

    async def ask(call: object, texts: list[str]) -> list[Translated]:
        await asyncio.sleep(0.05 if "slow" in texts else 0)
        return [Translated(text.upper()) for text in texts]

    monkeypatch.setattr(served, "ask", ask)

    async def clients() -> list[Translated]:
        await served.translate(["a", "b", "c", "d"], ZH_EN)
        first = asyncio.create_task(served.translate(["a", "slow"], ZH_EN))
        await asyncio.sleep(0)
        await served.translate(["e", "f", "g", "h"], ZH_EN)
        return await first

    assert [one.text for one in asyncio.run(clients())] == ["A", "SLOW"]


def test_the_cache_keeps_no_long_glossaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request brings its own: 4,096 of a megabyte would be kept."""
    served, _ = service()
    n_asked = 0

    async def ask(call: object, texts: list[str]) -> list[Translated]:
        nonlocal n_asked
        n_asked += len(texts)
        return [Translated(text.upper()) for text in texts]

    monkeypatch.setattr(served, "ask", ask)
    short, long = ((("猫", "cat"),), tuple((f"猫{i}", "cat") for i in range(500)))
    for terms, n_expected in ((short, 1), (short, 1), (long, 2), (long, 3)):
        (found,) = asyncio.run(served.translate(["a"], ZH_EN, terms=terms))
        assert (found.text, n_asked) == ("A", n_expected)
    assert all(len(call.terms) < 2 for call, _ in served._cache)


@pytest.mark.parametrize("content", [b"a document", b"one line\nand another"])
def test_nobody_translates_a_document_for_who_has_gone(content: bytes) -> None:
    served, queue = service()

    async def client() -> None:
        asked = asyncio.create_task(served.document(content, "text", ZH_EN))
        while not len(queue):
            await asyncio.sleep(0.01)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await asyncio.sleep(0.05)

    started = time.monotonic()
    asyncio.run(client())  # waits for threads that still work
    assert time.monotonic() - started < 10
    assert not [text for text in queue._texts if text.is_wanted()]


def test_nobody_translates_the_rest_of_a_request_that_is_refused() -> None:
    """There is room for its first text, and none for its second."""
    served, queue = service(most_characters=100)

    async def client() -> None:
        with pytest.raises(Refused) as refused:
            await served.translate(["a" * 60, "b" * 60 + "\nc"], ZH_EN)
        assert refused.value.status == 429
        await asyncio.sleep(0.05)
        assert not [text for text in queue._texts if text.is_wanted()]

    asyncio.run(asyncio.wait_for(client(), 20))


def test_a_language_is_detected_while_documents_are_translated() -> None:
    """However many there are: each has a thread, and detection another."""
    served, queue = service()

    async def clients() -> Direction:
        documents = [
            asyncio.create_task(served.document(b"a line\nanother", "text", ZH_EN))
            for _ in range(40)
        ]
        while len(queue) < 12:
            await asyncio.sleep(0.01)
        try:
            return await asyncio.wait_for(served.direction(["这是什么语言？"], "auto", "en"), 20)
        finally:
            for document in documents:
                document.cancel()

    assert asyncio.run(clients()).src == "zh"


def test_what_is_translated_for_want_of_another_language_is_not_called_detected() -> None:
    served, _ = service()
    french = "Bonjour tout le monde, comment allez-vous aujourd'hui ?"
    found = asyncio.run(served.direction([french], "auto", "en"))
    assert (found.src, found.certainty) == ("zh", 0.0)
    certainty = asyncio.run(served.direction(["这是什么语言？"], "auto", "en")).certainty
    assert certainty is not None and certainty > 50


def test_a_short_text_is_in_one_of_the_languages_that_can_be_translated() -> None:
    served, _ = service()
    pool: Any = served.pool
    pool.models = (ModelInfo("m", (("zh", "en"),), 99), ModelInfo("n", (("de", "en"),), 99))
    for text in ("Привет", "こんにちは", "12 + 30"):
        with pytest.raises(Refused, match="zh → en"):
            asyncio.run(served.direction([text], "auto", "en"))
    for text, src in (("Hallo", "de"), ("Ja, das ist gut.", "de"), ("你好", "zh"), ("漢語", "zh")):
        assert asyncio.run(served.direction([text], "auto", "en")).src == src
    french = "Bonjour tout le monde, comment allez-vous aujourd'hui ? Je vous remercie beaucoup."
    with pytest.raises(Refused, match="fr → en"):
        asyncio.run(served.direction([french], "auto", "en"))


def test_lines_keep_what_is_said_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    served, _ = service()

    async def ask(call: object, texts: list[str]) -> list[Translated]:
        return [
            Translated(text.upper(), faults=("loop",), notes=(f"odd: {text}",)) for text in texts
        ]

    monkeypatch.setattr(served, "ask", ask)
    (found,) = asyncio.run(served.translate(["a\n\nb\n"], ZH_EN))
    assert found.text == "A\n\nB\n"
    assert found.faults == ("loop",) and set(found.notes) == {"odd: a", "odd: b"}


def test_what_is_not_translated_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that waits asks again and again."""
    served, _ = service()
    n_refused = 3

    async def ask(call: object, texts: list[str]) -> list[Translated]:
        nonlocal n_refused
        if texts == ["later"] and n_refused:
            n_refused -= 1
            raise Refused(429, "busy", 1)
        return [Translated(text) for text in texts]

    monkeypatch.setattr(served, "ask", ask)
    monkeypatch.setattr("transformer_mt.serve.service._BUSY_S", 0.01)
    monkeypatch.setattr("transformer_mt.serve.service._SEGMENTS_AT_ONCE", 1)
    asyncio.run(served.document(b"first\nlater", "text", ZH_EN))
    assert n_refused == 0 and served.n_characters == len("firstlater")


def test_a_translated_document_is_not_lost_for_its_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they cannot be aligned in time, their places are guessed."""
    served, _ = service(answer_s=2)

    async def ask(call: Any, texts: list[str]) -> list[Any]:
        if call.does == "align":
            raise Refused(429, "busy", 1)
        return [Translated(text) for text in texts]

    monkeypatch.setattr(served, "ask", ask)
    content = b"<p>one <b>two</b> three</p>"
    assert asyncio.run(served.document(content, "html", ZH_EN)) == content


def test_a_line_that_would_hold_a_worker_for_minutes() -> None:
    served, queue = service()
    most = 20_000
    with pytest.raises(Refused, match=f"{most + 1:,} characters; at most {most:,}") as refused:
        asyncio.run(served.document(b"short\n" + b"x" * (most + 1), "text", ZH_EN))
    assert refused.value.status == 413 and not len(queue)


def test_a_database_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for something else does not wait for it."""
    monkeypatch.setattr("transformer_mt.serve.glossaries._PATIENCE_S", 0.1)
    glossaries, released = Glossaries(), threading.Event()

    async def ask() -> None:
        with pytest.raises(Refused, match="cannot be reached"):
            await glossaries.ask(released.wait)

    asyncio.run(ask())
    released.set()


@pytest.mark.parametrize(
    ("name", "n_mib"), [("word/document.xml", 5), ("word/media/a.bin", 65)], ids=["xml", "other"]
)
def test_heavy_documents_are_few_at_once(
    monkeypatch: pytest.MonkeyPatch, name: str, n_mib: int
) -> None:
    """Also where their clients have gone: what a thread reads, it reads to the end."""
    served, _ = service()
    monkeypatch.setattr("transformer_mt.serve.service._HEAVY_WAIT_S", 0.2)
    monkeypatch.setattr("transformer_mt.serve.service.zipfile.ZipFile", OutsideOfTheLoop)
    stream, going = io.BytesIO(), threading.Event()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(name, bytes(n_mib << 20))
    heavy, light = stream.getvalue(), b"no archive"
    n_reading = 0

    def read() -> int:
        nonlocal n_reading
        n_reading += 1
        going.wait(20)
        return 1

    async def clients() -> None:
        asked = [asyncio.create_task(served._in_thread(heavy, "docx", read)) for _ in range(2)]
        while n_reading < 2:
            await asyncio.sleep(0.01)
        for one in asked:
            one.cancel()
        with pytest.raises(Refused) as refused:
            await served._in_thread(heavy, "docx", read)
        assert refused.value.status == 429 and n_reading == 2
        assert await served._in_thread(light, "docx", lambda: 2) == 2
        going.set()
        await asyncio.sleep(0.1)
        assert await served._in_thread(heavy, "docx", read) == 1

    asyncio.run(asyncio.wait_for(clients(), 20))


@pytest.mark.parametrize("source", ["zh", "auto"])
def test_no_document_waits_for_a_thread_longer_than_for_an_answer(
    monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setattr("transformer_mt.serve.service._MOST_DOCUMENTS", 1)
    served, queue = service(answer_s=0.2)
    released = threading.Event()

    async def client() -> None:
        served._threads.submit(released.wait)
        with pytest.raises(Refused, match="longer than") as refused:
            direction = await served.direction_of_document(b"a line", "text", source, "en")
            await served.document(b"a line", "text", direction)
        assert refused.value.status == 504 and not len(queue)

    try:
        asyncio.run(asyncio.wait_for(client(), 20))
    finally:
        released.set()


def test_the_lines_of_a_stream_have_one_end(monkeypatch: pytest.MonkeyPatch) -> None:
    served, _ = service(answer_s=60)
    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("transformer_mt.serve.service.time", clock)
    monkeypatch.setattr("transformer_mt.serve.openai.time", clock)

    async def ask(call: Any, texts: list[str]) -> list[Translated]:
        clock.now += 40
        return [Translated(text.upper()) for text in texts]

    monkeypatch.setattr(served, "ask", ask)

    async def client() -> list[str]:
        return [one async for one in _chunks(served, ZH_EN, "a\nb\nc\nd", {}, with_usage=False)]

    _, first, second, error = asyncio.run(client())
    assert '"A"' in first and '"\\nB"' in second and "longer than 60 s" in error


def test_a_database_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    glossaries = Glossaries()
    stored = glossaries.add("me", "animals", "zh", "en", (("猫", "cat"),))

    def refuse(*_: object, **__: object) -> None:
        raise OperationalError("select", {}, OSError("gone"))

    monkeypatch.setattr(Session, "scalars", refuse)
    with pytest.raises(Refused) as refused:
        glossaries.get("me", stored.id)
    assert (refused.value.status, refused.value.retry_after) == (503, 5)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_glossaries_in_memory_are_shared_by_threads(url: str) -> None:
    glossaries = Glossaries(url)

    def make(number: int) -> str:
        made = glossaries.add("me", f"{number}", "zh", "en", (("猫", "cat"),))
        assert glossaries.get("me", made.id).name == f"{number}"
        return made.id

    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(make, range(40)))
    assert {one.id for one in glossaries.all("me")} == made and len(made) == 40


def test_more_requests_than_may_wait() -> None:
    """Who comes too late is told so in the form of its interface, and health is still answered."""
    sent: list[tuple[str, Any]] = []

    async def clients() -> None:
        release = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["method"] == "POST":
                await release.wait()
            await Response("translated")(scope, receive, send)

        entered = Gate(app, Limits())

        async def client(method: str, path: str) -> None:
            unread = [{"type": "http.request", "body": b"", "more_body": False}]

            async def receive() -> Any:
                return unread.pop() if unread else await asyncio.Event().wait()

            async def send(message: Any) -> None:
                sent.append((path, message))

            scope = {"type": "http", "method": method, "path": path, "headers": []}
            await entered(scope, receive, send)

        waiting = [asyncio.create_task(client("POST", "/early")) for _ in range(MOST_REQUESTS)]
        await asyncio.sleep(0.1)
        await client("POST", "/translate")
        await client("GET", "/health")
        release.set()
        await asyncio.gather(*waiting)
        await client("POST", "/late")

    asyncio.run(clients())
    starts = [(path, message) for path, message in sent if "status" in message]
    counts = Counter((path, message["status"]) for path, message in starts)
    assert counts == {
        ("/early", 200): MOST_REQUESTS, ("/translate", 429): 1,
        ("/health", 200): 1, ("/late", 200): 1,
    }  # fmt: skip
    (headers,) = [dict(message["headers"]) for path, message in starts if path == "/translate"]
    assert headers[b"retry-after"] == b"1"
    bodies = [message.get("body") for path, message in sent if path == "/translate"]
    assert b'{"error":"too many requests' in bodies[1]


def test_bodies_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand requests may wait, each with a file of 16 MiB."""
    monkeypatch.setattr(gate, "MOST_BYTES", 250)
    statuses: list[int] = []

    async def clients() -> None:
        release = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await release.wait()
            await Response("translated")(scope, receive, send)

        entered = Gate(app, Limits(body_bytes=100))

        async def client() -> None:
            unread = [
                {"type": "http.request", "body": b"x" * 50, "more_body": more}
                for more in (False, True)
            ]

            async def receive() -> Any:
                return unread.pop() if unread else await asyncio.Event().wait()

            async def send(message: Any) -> None:
                statuses.extend([message["status"]] if "status" in message else [])

            scope = {"type": "http", "method": "POST", "path": "/translate", "headers": []}
            await entered(scope, receive, send)

        waiting = [asyncio.create_task(client()) for _ in range(4)]
        await asyncio.sleep(0.1)
        assert statuses == [429, 429]
        release.set()
        await asyncio.gather(*waiting)
        await client()

    asyncio.run(clients())
    assert statuses == [429, 429, 200, 200, 200]


def test_a_file_that_nobody_fetches_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no other file comes after it."""
    monkeypatch.setattr("transformer_mt.serve.libretranslate.FILE_S", 0.01)

    async def client() -> None:
        files = _Files()
        id_ = files.keep("a.txt", b"a")
        assert files.take(id_) == files.take(id_) == ("a.txt", b"a")
        while files._files:
            await asyncio.sleep(0.01)
        with pytest.raises(Refused, match="no such file"):
            files.take(id_)

    asyncio.run(asyncio.wait_for(client(), 20))


def keys_of(path: Path, monkeypatch: pytest.MonkeyPatch, per_minute: int) -> tuple[ApiKeys, Any]:
    """Keys, `alice`'s among them, and a clock that stands."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(limits.time, "monotonic", lambda: clock.now)
    clock.key = ApiKeys.add(path, "alice", per_minute)
    return ApiKeys(path), clock


@pytest.mark.parametrize("per_s", [1, 2, 9])
def test_who_asks_too_often_still_gets_what_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_s: int
) -> None:
    keys, clock = keys_of(tmp_path / "keys", monkeypatch, 60)
    n_admitted = 0
    for i in range(600 * per_s):
        clock.now = i / per_s
        try:
            n_admitted += keys.admit(clock.key) == "alice"
        except Refused as refused:
            assert refused.status == 429
    assert 600 <= n_admitted <= 660  # a minute's worth at first, and one each second


def test_who_waits_as_told_is_admitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, clock = keys_of(tmp_path / "keys", monkeypatch, 6)
    for _ in range(6):
        keys.admit(clock.key)
    for _ in range(20):
        with pytest.raises(Refused) as refused:
            keys.admit(clock.key)
        clock.now += refused.value.retry_after
        keys.admit(clock.key)


def test_a_key_is_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    first = ApiKeys.add(path, "alice", 5)
    path.write_text(path.read_text().rstrip("\n"))
    second = ApiKeys.add(path, "bob the second", 5)
    for name in ("", " ", "a\nb", "a\u2028b"):
        with pytest.raises(TmtError, match="the name of a key is a word"):
            ApiKeys.add(path, name, 5)
    keys = ApiKeys(path)
    assert [keys.admit(first), keys.admit(second)] == ["alice", "bob the second"]


def test_two_servers_make_the_table_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_all, n_calls = _Table.metadata.create_all, 0

    def made_by_another(engine: Any) -> None:
        nonlocal n_calls
        n_calls += 1
        create_all(engine)
        if n_calls == 1:
            raise OperationalError("create table", {}, OSError("table glossaries already exists"))

    monkeypatch.setattr(_Table.metadata, "create_all", made_by_another)
    glossaries = Glossaries(f"sqlite:///{tmp_path}/shared.db")
    assert glossaries.all("me") == [] and n_calls == 2


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("foo", "foo"),
        ("sqlite:////nowhere/at/all/x.db", "sqlite:////nowhere/at/all/x.db"),
        ("nothing://me:secret@x", "nothing://me:***@x"),
    ],
)
def test_a_database_that_cannot_be_had(url: str, shown: str) -> None:
    """The message goes to a log, which is no place for its password."""
    with pytest.raises(TmtError) as error:
        Glossaries(url)
    assert str(error.value).startswith(f"--glossaries {shown}: ")
    assert "secret" not in str(error.value)
