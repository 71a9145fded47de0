"""`tmt serve` as a process: what is accepted is answered, whatever dies; what is wrong is told."""

import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from served import Server, children, lives, serving, until

from transformer_mt.cli.serve import listening
from transformer_mt.translation.translator import Translator


def test_it_translates_as_tmt_does(
    server: Server, toy_model: Path, toy_pairs: list[tuple[str, str]]
) -> None:
    texts = [zh for zh, _ in toy_pairs[:40]]
    own = Translator.load(toy_model, precision="fp32")
    expected = [one.text for one in own.translate(texts, retry=True)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: server.translate(text).json()["translatedText"], texts))
    assert found == expected
    at_once = server.client.post("/translate", json={"q": texts, "source": "zh", "target": "en"})
    assert at_once.json() == {"translatedText": expected}


def test_an_answer_leaves_at_once() -> None:
    """Its head and its body are two packets: the second must not wait for the client's ACK."""
    with listening("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_lines_and_markup_stay(server: Server) -> None:
    found = server.translate("猫看见狗。\n\n孩子喜欢船。").json()["translatedText"]
    assert found.split("\n")[1] == "" and len(found.split("\n")) == 3
    html = server.translate("<p>猫看见狗。</p><hr/>", format="html").json()["translatedText"]
    assert html.startswith("<p>") and html.endswith("</p><hr/>") and "猫" not in html


def test_a_term_typed_with_spaces_is_the_same_term(server: Server) -> None:
    """Keyboards of telephones add one after a word."""
    fields = {"text": "猫看见狗。", "source": "zh", "target": "en", "glossary": [["狗 ", " zebra"]]}
    assert "zebra" in server.client.post("/api/translate", json=fields).json()["translation"]


def test_killed_workers_lose_nothing(toy_model: Path, toy_pairs: list[tuple[str, str]]) -> None:
    """Workers and the process that has loaded the models die while 12 clients ask.

    Between two deaths much is answered: a text that ends three workers is given up.
    """
    texts = [f"{zh}{other}" for zh, _ in toy_pairs[:30] for other, _ in toy_pairs[:8]]
    n_killed = n_answered = 0
    with serving("-m", toy_model, "--workers", "2", "--cache", "0") as server:
        ended = threading.Event()

        def kill() -> None:
            nonlocal n_killed
            while not ended.wait(0.01):
                victims = server.workers if n_killed != 2 else children(server.process.pid)
                if victims and n_answered >= 40 * (n_killed + 1):
                    os.kill(victims[0], signal.SIGKILL)
                    n_killed += 1

        def translate(text: str) -> httpx.Response:
            nonlocal n_answered
            answer = server.translate(text)
            n_answered += 1
            return answer

        killer = threading.Thread(target=kill)
        killer.start()
        with ThreadPoolExecutor(12) as pool:
            found = list(pool.map(translate, texts))
        ended.set()
        killer.join()
    assert n_killed >= 3, "nothing was tried"
    assert [one.status_code for one in found] == [200] * len(texts)
    assert all(one.json()["translatedText"] for one in found)


def kill_the_first(server: Server) -> None:
    """Wait until another process has loaded the models, and begun three workers."""
    (first,) = children(server.process.pid)
    os.kill(first, signal.SIGKILL)
    until(lambda: len(server.workers) == 3 and first not in children(server.process.pid))


def test_workers_that_die_while_nobody_asks(toy_model: Path) -> None:
    """None of them takes a text, and the books hold those that are there."""
    with serving("-m", toy_model, "--workers", "3", "--cache", "0") as server:
        kill_the_first(server)
        kill_the_first(server)
        found = [server.translate(f"猫看见{i}。").status_code for i in range(6)]
        assert found == [200] * 6
        until(lambda: server.n_workers == 3)


def test_copies_of_a_dead_process_take_no_place(toy_model: Path) -> None:
    """They begin while the server accepts none of them, and come when others have their places."""
    with serving("-m", toy_model, "--workers", "2", "--cache", "0") as server:
        (first,) = children(server.process.pid)
        killed = set(server.workers)
        server.process.send_signal(signal.SIGSTOP)
        for worker in killed:
            os.kill(worker, signal.SIGKILL)
        until(lambda: len(set(server.workers) - killed) == 2)
        late = set(server.workers) - killed
        os.kill(first, signal.SIGKILL)
        server.process.send_signal(signal.SIGCONT)
        until(lambda: not any(map(lives, late)))
        until(lambda: len(server.workers) == 2 and server.n_workers == 2)
        assert server.translate("猫看见狗。").status_code == 200


def test_a_stop_finishes_what_was_accepted(toy_model: Path) -> None:
    with serving("-m", toy_model, "--workers", "1", "--wait", "1500") as server:

        def are_accepted() -> bool:
            metrics = server.client.get("/metrics").text
            return "tmt_waiting_texts 4.0" in metrics or "tmt_batch_texts_sum 0.0" not in metrics

        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(server.translate, f"猫看见{i}。") for i in range(4)]
            until(are_accepted)
            server.process.send_signal(signal.SIGTERM)
            assert [one.result().status_code for one in asked] == [200] * 4
        assert server.process.wait(30) == 0
        with pytest.raises(httpx.ConnectError):
            server.translate("猫。")


def test_too_much_is_429_and_a_slow_answer_504(toy_model: Path) -> None:
    options = ("--workers", "1", "--queue", "60", "--answer-time", "1", "--wait", "3000")
    with serving("-m", toy_model, *options) as server, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(server.translate, [f"{'猫看见狗，' * 6}{i}" for i in range(8)]))
        statuses = sorted(one.status_code for one in found)
        assert set(statuses) == {429, 504}, statuses
        refused = next(one for one in found if one.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1 and "error" in refused.json()


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "told"),
    [
        ("POST", "/translate", b"", 400, "target"),
        ("POST", "/translate", b"[" * 100_000, 400, "neither JSON"),
        ("POST", "/translate", b"[1]", 400, "no JSON object"),
        ("POST", "/translate", b'{"q": 7, "target": "en"}', 400, "q"),
        ("POST", "/translate", b'{"q": "a", "target": "xx"}', 400, "xx"),
        ("POST", "/translate", b'{"q": "a", "target": "fr"}', 400, "zh → en"),
        ("POST", "/translate", b'{"q": "a", "target": "en", "alternatives": 99}', 400, "at most"),
        ("POST", "/translate", b'{"q": "%b", "target": "en"}' % (b"a" * 6000), 413, "6,000"),
        ("POST", "/translate", b" " * (2 << 20), 413, "bytes"),
        ("GET", "/download_file/../../etc/passwd", b"", 404, ""),
        ("GET", "/v2/glossaries/none", b"", 404, "none"),
        ("POST", "/v1/chat/completions", b'{"model": "xy", "messages": []}', 400, "messages"),
        ("GET", "/v1/models/xy", b"", 404, "xy"),
        ("POST", "/v1/chat/completions", b'{"model": "\\ud800", "messages": '
         b'[{"role": "user", "content": "a"}]}', 404, "model"),
        ("POST", "/v2/translate", b'{"text": ["a"], "target_lang": "EN", '
         b'"glossary_id": "\\ud800"}', 404, "glossary"),
        ("POST", "/v2/glossaries", b'{"name": "a", "source_lang": "zh", "target_lang": "en", '
         b'"entries": "\\ud800", "entries_format": "tsv"}', 400, "entry 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(
    server: Server, method: str, path: str, content: bytes, status: int, told: str
) -> None:
    headers = {"content-type": "application/json"}
    response = server.client.request(method, path, content=content, headers=headers)
    assert response.status_code == status
    assert told in response.text and "Traceback" not in response.text


def test_a_busy_server_says_so_before_a_stream(toy_model: Path) -> None:
    """Clients ask again by a status, not by an event."""
    options = ("--workers", "1", "--queue", "60", "--wait", "3000")
    with serving("-m", toy_model, *options) as server, ThreadPoolExecutor(8) as pool:
        (model,) = [one["id"] for one in server.client.get("/v1/models").json()["data"]]

        def ask(number: int) -> int:
            message = {"role": "user", "content": f"{'猫看见狗，' * 6}{number}"}
            body = {"model": model, "messages": [message], "stream": True}
            return server.client.post("/v1/chat/completions", json=body).status_code

        assert {*pool.map(ask, range(8))} == {200, 429}


def test_texts_of_clients_stay_out_of_the_log(toy_model: Path) -> None:
    for options, n_told in (((), 0), (("--log-texts",), 1)):
        with serving("-m", toy_model, "--workers", "1", *options) as server:
            assert server.translate("猫看见机密。").status_code == 200
            until(lambda server=server: any("/translate" in line for line in server.said))
        assert sum("机密" in line for line in server.said) == n_told


def test_a_proxy_may_call_it_by_its_own_name(toy_model: Path) -> None:
    with serving("-m", toy_model, "--workers", "1", "--name", "mt.example") as server:
        for host, status in (("mt.example", 200), ("other.example", 400), ("localhost:1", 200)):
            found = server.client.get("/languages", headers={"host": host})
            assert found.status_code == status


def test_what_is_too_short_to_tell_is_told_all_the_same(server: Server) -> None:
    """Clients of LibreTranslate take the first language of the list."""
    for text in ("Hello", "12", ""):
        (found,) = server.client.post("/detect", json={"q": text}).json()
        assert found["language"] and 0 <= found["confidence"] <= 100


def test_a_picture_of_the_attention_has_a_limit(server: Server) -> None:
    fields = {
        "text": "猫看见狗。" * 200,
        "translation": "the cat sees the dog " * 150,
        "target": "en",
    }
    found = server.client.post("/api/explain", json=fields)
    assert found.status_code == 400 and "too long" in found.text


def test_headers_keep_pages_of_others_out(server: Server) -> None:
    response = server.client.get("/", headers={"host": "evil.example"})
    assert response.status_code == 400
    ours = server.client.get("/health", headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in ours.headers
    assert "default-src 'none'" in ours.headers["content-security-policy"]
    assert ours.headers["x-content-type-options"] == "nosniff" and "server" not in ours.headers


def test_keys(toy_model: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    keys = tmp_path / "keys"
    make = [sys.executable, "-m", "transformer_mt", "serve", "--keys", str(keys)]
    key, other = (
        subprocess.run(
            [*make, "--add-key", name, "--per-minute", "3"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for name in ("alice", "bob")
    )  # fmt: skip
    assert key not in keys.read_text() and "alice" in keys.read_text()
    assert keys.stat().st_mode & 0o077 == 0
    with serving("-m", toy_model, "--keys", keys) as server:
        assert server.translate("猫。").status_code == 403
        assert server.translate("猫。", api_key="wrong").status_code == 403
        assert server.translate("猫。", api_key=key).status_code == 200
        headers = {"authorization": f"DeepL-Auth-Key {other}"}
        texts = {"text": "猫。", "target_lang": "EN"}
        assert server.client.post("/v2/translate", data=texts, headers=headers).status_code == 200
        for one, expected in ((key, 0), (other, 2)):
            headers = {"authorization": f"DeepL-Auth-Key {one}"}
            told = server.client.get("/v2/usage", headers=headers).json()
            assert told["character_count"] == expected
        headers = {"authorization": f"Bearer {key}"}
        assert server.client.get("/v1/models", headers=headers).status_code == 200
        refused = server.translate("猫。", api_key=key)
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1


def test_a_model_that_cannot_be_loaded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import subprocess
    import sys

    (tmp_path / "metadata.json").write_text("{")
    command = [sys.executable, "-m", "transformer_mt", "serve", "-m", str(tmp_path), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "metadata.json" in done.stderr
    assert "Traceback" not in done.stderr
