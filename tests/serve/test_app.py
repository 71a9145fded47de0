"""The whole application, before workers that answer nothing."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx

from transformer_mt.serve.app import ServerSettings, make_app
from transformer_mt.serve.jobs import ModelInfo
from transformer_mt.serve.limits import Limits
from transformer_mt.serve.text_queue import TextQueue

ORIGIN = "https://page.example"


def answers(settings: ServerSettings, *requests: tuple[str, str, bytes]) -> list[httpx.Response]:
    queue = TextQueue(most_characters=10**6, wait_s=0)
    models = (ModelInfo("m", (("zh", "en"),), 99),)
    pool: Any = SimpleNamespace(queue=queue, models=models, pids=set())
    app: Any = make_app(settings, pool)

    async def ask() -> list[httpx.Response]:
        headers = {"origin": ORIGIN, "access-control-request-method": "POST"}
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
