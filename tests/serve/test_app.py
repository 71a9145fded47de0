"""The whole application, before workers that answer nothing."""

import asyncio
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from transformer_mt.serve.app import ServerSettings, make_app
from transformer_mt.serve.jobs import ModelInfo, Translated
from transformer_mt.serve.limits import Limits
from transformer_mt.serve.service import Service
from transformer_mt.serve.text_queue import TextQueue

ORIGIN = "https://page.example"


def answers(
    settings: ServerSettings,
    *requests: tuple[str, str, bytes],
    sources: Sequence[str] = ("zh",),
    pids: Collection[int] = (1,),
    **others: str,
) -> list[httpx.Response]:
    """`sources`: of the models, which write English. `pids`: of the workers."""
    queue = TextQueue(most_characters=10**6, wait_s=0)
    models = [ModelInfo("m", ((src, "en"),), 99) for src in sources]
    pool: Any = SimpleNamespace(queue=queue, models=models, pids=pids)
    app: Any = make_app(settings, pool)

    async def ask() -> list[httpx.Response]:
        headers = {"origin": ORIGIN, "access-control-request-method": "POST", **others}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://here", headers=headers
        ) as client:
            return [await client.request(m, path, content=body) for m, path, body in requests]

    return asyncio.run(ask())


def test_a_page_that_may_ask_can_read_why_it_was_refused() -> None:
    """Without these headers a browser keeps the answer from the page: the network has failed."""
    found = answers(
        ServerSettings(Limits(body_bytes=10), cors=(ORIGIN,)),
        ("POST", "/translate", b"x" * 20),
        ("POST", "/translate", b"{}"),
        ("OPTIONS", "/translate", b""),
    )
    assert [one.status_code for one in found] == [413, 400, 200]
    for one in found:
        assert one.headers["access-control-allow-origin"] == ORIGIN
    assert found[0].headers["access-control-expose-headers"] == "Retry-After"


def test_headers_of_public_clients_in_pages_are_allowed() -> None:
    found = answers(
        ServerSettings(cors=(ORIGIN,)), ("OPTIONS", "/v1/chat/completions", b""),
        **{"access-control-request-headers": "authorization,x-stainless-lang,x-stainless-os"},
    )  # fmt: skip
    assert found[0].status_code == 200
    assert "x-stainless-lang" in found[0].headers["access-control-allow-headers"]


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "none"])
def test_pages_of_other_sites_write_nothing(site: str) -> None:
    """A browser sends their forms without a question before."""
    body = b'{"name": "a", "source_lang": "zh", "target_lang": "en", "entries": "a\\tb"}'
    requests = ("POST", "/v2/glossaries", body), ("GET", "/v2/glossaries", b"")
    is_other = site in ("cross-site", "same-site")
    made, all_ = answers(ServerSettings(), *requests, **{"sec-fetch-site": site})
    assert (made.status_code, all_.status_code) == (403 if is_other else 201, 200)
    assert len(all_.json()["glossaries"]) == (not is_other)
    named = answers(ServerSettings(cors=(ORIGIN,)), *requests, **{"sec-fetch-site": site})
    assert named[0].status_code == 201


async def number_of_model(_: object, call: Any, texts: list[str]) -> list[Translated]:
    """In place of `Service.ask`."""
    return [Translated(f"{call.model} {text}") for text in texts]


def test_odd_character_sets_of_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has some that raise an error of their own, or make half of a surrogate pair."""
    monkeypatch.setattr(Service, "ask", number_of_model)
    monkeypatch.setattr("secrets.token_urlsafe", lambda _: "id")
    part = '--x\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
    file = part.format('file"; filename="\\ud800.txt', "a") + part.format("target", "en")
    upload = "POST", "/translate_file", f"{file}--x--\r\n".encode()
    for name, statuses in (("undefined", [400, 404]), ("unicode_escape", [200, 200])):
        kind = {"content-type": f"multipart/form-data; boundary=x; charset={name}"}
        found = answers(ServerSettings(), upload, ("GET", "/download_file/id", b""), **kind)
        assert [one.status_code for one in found] == statuses
    assert found[1].text == "0 a" and "%EF%BF%BD.en.txt" in found[1].headers["content-disposition"]


def test_fields_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some clients always say that they send a form."""
    monkeypatch.setattr(Service, "ask", number_of_model)
    request = "POST", "/translate?q=a&target=en", b""
    for kind in ({}, {"content-type": "application/x-www-form-urlencoded"}):
        (found,) = answers(ServerSettings(), request, **kind)
        assert found.json()["translatedText"] == "0 a"


def test_each_text_for_deepl_is_in_its_own_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the README of its client sends Japanese and Spanish; short texts go with the others."""

    monkeypatch.setattr(Service, "ask", number_of_model)
    texts = ["お元気ですか？", "¿Cómo estás?", "日本語が好きです。", "OK"]
    fields: dict[str, Any] = {"text": texts, "target_lang": "EN-US"}
    glossary = {"name": "a", "source_lang": "ja", "target_lang": "en", "entries": "a\tb"}
    settings = ServerSettings(glossaries=f"sqlite:///{tmp_path}/shared.db")

    def asked(path: str, content: dict[str, Any]) -> Any:
        request = "POST", f"/v2/{path}", json.dumps(content).encode()
        (found,) = answers(settings, request, sources=("es", "ja", "de"))
        return found.json()

    expected = list(zip(["JA", "ES", "JA", "JA"], [1, 0, 1, 1], texts, strict=True))
    for form in (None, "html"):
        found = asked("translate", {**fields, "tag_handling": form})["translations"]
        told = [(one["detected_source_language"], one["text"]) for one in found]
        assert told == [(code, f"{model} {text}") for code, model, text in expected]
    (only,) = asked("translate", {**fields, "text": "Hallo"})["translations"]
    assert only["detected_source_language"] in ("DE", "ES"), "the likeliest"
    fields["glossary_id"] = asked("glossaries", glossary)["glossary_id"]
    assert "is for ja → en" in asked("translate", fields)["message"]
    assert "translations" in asked("translate", {**fields, "text": [texts[0], "12"]})


def test_a_request_has_so_many_texts_at_most() -> None:
    body = json.dumps({"q": ["a"] * (Limits().texts + 1), "target": "en"}).encode()
    (found,) = answers(ServerSettings(), ("POST", "/translate", body))
    assert found.status_code == 413 and "at most 128" in found.text


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/translate", '"target": "en", "q": %s'),
        ("/v2/translate", '"target_lang": "EN", "text": ["a"], "ignore_tags": %s'),
        ("/v1/chat/completions", '"model": "m", "messages": %s'),
        ("/v1/chat/completions", '"model": "m", "messages": [{"role": "user", "content": %s}]'),
    ],
)
def test_of_many_wrong_items_one_is_told(path: str, fields: str) -> None:
    """Half a million errors would take a gigabyte, and seconds in which nobody is answered."""
    body = f"{{{fields % json.dumps([0] * 10_000)}}}".encode()
    kind = {"content-type": "application/json"}
    (found,) = answers(ServerSettings(), ("POST", path, body), **kind)
    assert found.status_code == 400 and "0: Input should be" in found.text
    assert "1: Input should be" not in found.text and len(found.text) < 300


def test_health_metrics_and_pages_need_no_key(tmp_path: Path) -> None:
    """A load balancer has none."""
    (tmp_path / "keys").write_text("")
    paths = ("/health", "/metrics", "/", "/languages", "/api/languages", "/frontend/settings",
             "/openapi.json")  # fmt: skip
    found = answers(ServerSettings(keys=tmp_path / "keys"), *(("GET", p, b"") for p in paths))
    assert [one.status_code for one in found] == [200] * len(paths)


def test_without_a_worker_a_server_is_not_ready() -> None:
    """Its models were loaded once, and the process that had them has died."""
    (found,) = answers(ServerSettings(), ("GET", "/health", b""), pids=())
    assert found.status_code == 503 and found.headers["retry-after"] == "1"


def test_a_key_that_is_not_known_is_told_as_each_interface_does(tmp_path: Path) -> None:
    """Clients of OpenAI raise AuthenticationError at 401, those of DeepL at 403."""
    (tmp_path / "keys").write_text("")
    paths = {"/v1/models": 401, "/v2/usage": 403, "/translate": 403}
    requests = [
        ("GET" if path != "/translate" else "POST", path, b'{"q": "a", "target": "en"}')
        for path in paths
    ]
    found = answers(ServerSettings(keys=tmp_path / "keys"), *requests)
    assert [one.status_code for one in found] == list(paths.values())
