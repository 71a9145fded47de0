"""Two servers with one database stand in for each other; the manifests say what they need."""

import os
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import yaml
from served import serving

from transformer_mt.cli.main import app as command_line
from transformer_mt.serve.limits import Limits

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_one_is_killed_under_load(
    toy_model: Path, tmp_path: Path, toy_pairs: list[tuple[str, str]]
) -> None:
    options = ("-m", toy_model, "--workers", "1", "--glossaries", f"sqlite:///{tmp_path}/shared.db")
    with serving(*options) as one, serving(*options) as two:
        made = one.client.post(
            "/v2/glossaries",
            json={
                "name": "animals", "source_lang": "ZH", "target_lang": "EN",
                "entries": "狗\tzebra", "entries_format": "tsv",
            },
        ).json()  # fmt: skip
        assert two.client.get("/v2/glossaries").json()["glossaries"] == [made]
        fields = {
            "text": ["猫看见狗。"], "source_lang": "ZH", "target_lang": "EN-US",
            "glossary_id": made["glossary_id"],
        }  # fmt: skip
        found = two.client.post("/v2/translate", json=fields).json()
        assert "zebra" in found["translations"][0]["text"]
        done = threading.Event()

        def ask(item: tuple[int, str]) -> int:
            """As a load balancer does: who does not answer is not asked again."""
            number, text = item
            if number == 60:
                os.kill(one.process.pid, signal.SIGKILL)
                done.set()
            for server in (one, two) if number % 2 else (two, one):
                try:
                    return server.translate(text).status_code
                except httpx.TransportError:
                    continue
            return 0

        texts = list(enumerate(f"{zh}{i}" for i, (zh, _) in enumerate(toy_pairs[:160])))
        with ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(ask, texts))
        assert done.is_set() and one.process.poll() is not None
        assert statuses == [200] * len(texts)


def test_the_manifests_use_options_and_paths_that_exist() -> None:
    texts = [
        path.read_text(encoding="utf-8")
        for path in (DEPLOY / "compose.yaml", DEPLOY / "kubernetes.yaml")
    ]
    compose, deployment = (next(iter(yaml.safe_load_all(text))) for text in texts)
    assert compose["services"]["one"] == compose["services"]["two"]
    pod: Any = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    commands = [compose["services"]["one"]["command"].split(), container["args"]]
    import typer

    serve = typer.main.get_group(command_line).commands["serve"]
    known = {name for parameter in serve.params for name in parameter.opts}
    for command in commands:
        assert command[0] == "serve"
        assert {word for word in command if word.startswith("-")} <= known
    assert container["securityContext"]["readOnlyRootFilesystem"] and pod["securityContext"]
    paths = set(re.findall(r"/(?:health|metrics)\b", "".join(texts)))
    assert paths == {"/health", "/metrics"}


def front_directives() -> dict[str, str]:
    """Of nginx in front of the servers."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    front = compose["configs"]["front"]["content"]
    return dict(re.findall(r"^ *(proxy_\w+(?: Host)?) ([^;]+);", front, re.MULTILINE))


def test_a_slow_answer_is_awaited_and_not_asked_for_again() -> None:
    """A server says 504 by itself; the next one must not translate the same meanwhile."""
    timeout = front_directives().get("proxy_read_timeout", "60s")
    assert float(timeout.removesuffix("s")) > 2 * Limits().answer_s


def test_a_translated_file_is_fetched_from_the_server_that_has_it() -> None:
    """Its address has the port that the client asked at; who does not have it is not the last."""
    directives = front_directives()
    assert directives["proxy_set_header Host"] == "$$http_host"
    assert "http_404" in directives["proxy_next_upstream"].split()
    text = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
    (service,) = (one for one in yaml.safe_load_all(text) if one["kind"] == "Service")
    assert service["spec"]["sessionAffinity"] == "ClientIP"
