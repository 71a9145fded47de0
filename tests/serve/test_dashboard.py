"""The dashboard: what it tells is what `tmt runs` and `tmt compare` say, live, and nothing else."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import AXE, headless_chromium
from command import tmt_here
from written_run import REFS, write_run

from transformer_mt.config.experiment import Config
from transformer_mt.pipeline.run_comparison import compare_runs
from transformer_mt.pipeline.run_list import run_states

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("httpx", reason="httpx is not installed")

from fastapi.testclient import TestClient

from transformer_mt.serve import run_watch
from transformer_mt.serve.app import new_app
from transformer_mt.serve.dashboard import dashboard_router
from transformer_mt.serve.run_watch import EventStream, Watch

SAMPLE = {"src": "<b>一只猫</b>", "hyp": "a <script>cat</script>", "ref": "the cat"}


def write_runs(folder: Path, cfg: Config) -> Path:
    """A finished run, and one whose training goes on."""
    scores = {"toy": {"bleu": {"score": 31.25}, "chrf": {"score": 52.5}}}
    write_run(folder / "done", cfg, hyps=REFS, model={"scores": scores})
    other = cfg.model_copy(update={"seed": 2})
    write_run(folder / "going", other, hyps=[ref.replace("old", "new") for ref in REFS])
    (folder / "done/data/report.html").write_text("<p>the data</p>")
    return folder


@pytest.fixture
def folder(toy_config: Config, tmp_path: Path) -> Path:
    return write_runs(tmp_path, toy_config)


@pytest.fixture
def client(folder: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Every look is a new one; an error of the server is an answer with 500."""
    monkeypatch.setattr(run_watch, "POLL_S", 0)
    app = new_app("test")
    app.include_router(dashboard_router(folder))
    return TestClient(app, raise_server_exceptions=False)


def append(path: Path, *records: object) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def test_it_tells_what_the_commands_tell(client: TestClient, folder: Path) -> None:
    told = {one["run"]: one for one in client.get("/api/runs").json()}
    for state in run_states(folder):
        assert told[state.run].items() >= state.to_json().items()
    assert told["done"]["finished"] and told["going"]["update"] == 80
    one = client.get("/api/runs/going").json()
    assert one["settings"]["seed"] == 2 and one["settings"]["languages.src"] == "zh"
    query = {"run": ["done", "going"]}
    found = client.get("/api/compare", params=query).json()
    assert found == compare_runs([folder / "done", folder / "going"]).to_json()
    assert found["settings"] == {"seed": [1, 2]}
    assert found["scores"]["toy"]["going"]["bleu"]["p_value"] < 0.05


def test_the_page_about_the_data_runs_no_script(client: TestClient, folder: Path) -> None:
    answer = client.get("/api/runs/done/report")
    assert answer.text == "<p>the data</p>"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'") and "sandbox" in policy
    assert "script" not in policy
    assert client.get("/api/runs/going/report").status_code == 404
    (folder / "going/data/report.html").symlink_to("/etc/hostname")
    assert client.get("/api/runs/going/report").status_code == 404, "it lies elsewhere"


@pytest.mark.parametrize(
    "name",
    ["nobody", "..", "%2e%2e", "..%2fdone", "%2fetc", "done%2f..%2fgoing", "%00", "%ff", "a" * 999],
)
def test_a_name_is_no_path(client: TestClient, name: str) -> None:
    for path in (f"/api/runs/{name}", f"/api/runs/{name}/report"):
        assert client.get(path).status_code == 404
    assert client.get(f"/api/compare?run=done&run={name}").status_code == 404


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.yaml", b"name: ["),
        ("config.yaml", b"\xff\xfe"),
        ("model/metadata.json", b'{"scores": [1]}'),
        ("model/metadata.json", b'{"scores": {"x": {"bleu": {"score": NaN}}}}'),
        ("model/metadata.json", b"{"),
        ("metrics.jsonl", b'{"event": "train", "update": 5, "loss": NaN, "x": Infinity}\n'),
        ("metrics.jsonl", b'{"event": "validation", "update": 1, "samples": ["\\udc80", 3]}\n'),
        ("metrics.jsonl", b'\x00\n[[[[\n{"event": 1}\n{"event": "train", "update": "x"}'),
        ("data/clean/test.toy.tgt", b"one line\n"),
    ],
)
def test_damage_is_no_error_of_the_server(
    client: TestClient, folder: Path, file: str, content: bytes
) -> None:
    assert client.get("/api/runs").status_code == 200
    (folder / "done" / file).write_bytes(content)
    (folder / os.fsdecode(b"\xff")).mkdir()
    shutil.copy(folder / "going/config.yaml", folder / os.fsdecode(b"\xff") / "config.yaml")
    assert {one["run"] for one in client.get("/api/runs").json()} == {"done", "going", "\ufffd"}
    for path in ("/api/runs/done", "/api/compare?run=done&run=going"):
        answer = client.get(path)
        assert answer.status_code in (200, 409)
        json.loads(answer.text, parse_constant=pytest.fail)
    news = EventStream(Watch(folder), ["done"]).news()
    for line in re.findall("^data: (.*)$", news, re.MULTILINE):
        json.loads(line, parse_constant=pytest.fail)


def test_a_run_copied_without_its_model_is_shown(client: TestClient, folder: Path) -> None:
    (folder / "copy").mkdir()
    for name in ("config.yaml", "metrics.jsonl"):
        shutil.copy(folder / "done" / name, folder / "copy")
    assert client.get("/api/runs/copy").json()["dev"]["bleu"] == 12.5
    shutil.rmtree(folder / "copy")
    assert client.get("/api/runs/copy").status_code == 404
    assert "copy" not in {one["run"] for one in client.get("/api/runs").json()}


def events(text: str) -> list[tuple[str, Any]]:
    found = re.findall(r"event: (\w+)\ndata: (.*)\n\n", text)
    return [(name, json.loads(data)) for name, data in found]


def test_each_record_is_told_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_watch, "POLL_S", 0)
    path = folder / "going/metrics.jsonl"
    watch = Watch(folder)
    stream = EventStream(watch, ["going", "later"])
    (_, states), (_, first) = events(stream.news())
    assert {one["run"] for one in states} == {"done", "going"}
    assert first["fresh"] and [one["update"] for one in first["records"]] == [40, 80]
    assert stream.news() == ""
    with path.open("a") as file:
        file.write('{"event": "train", "upda')
    assert [name for name, _ in events(stream.news())] in ([], ["runs"]), "half a line"
    with path.open("a") as file:
        file.write('te": 90, "loss": 1.5}\ndamage\n')
    append(path, {"event": "train", "update": 100, "loss": 1.25})
    (_, states), (_, told) = events(stream.news())
    assert next(one for one in states if one["run"] == "going")["update"] == 100
    assert not told["fresh"] and [one["update"] for one in told["records"]] == [90, 100]
    # A training that goes on from a checkpoint writes the file again.
    (folder / "new").write_text("".join(path.read_text().splitlines(keepends=True)[:1]))
    (folder / "new").replace(path)
    *_, (name, told) = events(stream.news())
    assert name == "metrics" and told["fresh"]
    assert [one["update"] for one in told["records"]] == [40]
    shutil.copytree(folder / "done", folder / "later")
    *_, (name, told) = events(stream.news())
    assert (name, told["run"], told["fresh"]) == ("metrics", "later", True)
    assert len(events(EventStream(watch, ["going"]).news())) == 2, "another page is told all"
    (folder / "later/metrics.jsonl").unlink()
    assert events(stream.news())[-1][1]["fresh"] and stream.news() == "", "nothing new"


def test_a_long_training_is_thinned_and_keeps_its_validations(folder: Path) -> None:
    records = [{"event": "train", "update": i, "loss": 1.0} for i in range(50_000)]
    append(folder / "going/metrics.jsonl", *records)
    _, (_, told) = events(EventStream(Watch(folder), ["going"]).news())
    assert len(told["records"]) < 2 * run_watch.MOST_RECORDS
    assert [one["update"] for one in told["records"] if one["event"] == "validation"] == [40, 80]


def test_the_stream_ends_with_the_server(folder: Path) -> None:
    app, asked = new_app("test"), iter([False, True])
    app.include_router(dashboard_router(folder, lambda: next(asked)))
    answer = TestClient(app).get("/api/events?run=done")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [name for name, _ in events(answer.text)] == ["runs", "metrics"]


def test_a_port_that_is_taken_is_said(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = tmt_here("dashboard", folder, "--port", str(port), code=2).stderr
    assert f"--port {port}" in said and "in use" in said


def test_missing_packages_are_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    said = tmt_here("dashboard", folder, code=2).stderr
    assert "pip install 'transformer-mt[serve]'" in said


# In a browser


browser = pytest.fixture(scope="module")(headless_chromium)


@pytest.fixture(scope="module")
def watched(browser: Any, toy_config: Config, tmp_path_factory: Any) -> Iterator[tuple[str, Path]]:
    """Address and folder of a `tmt dashboard`; it ends at once, although pages listen to it."""
    folder = write_runs(tmp_path_factory.mktemp("runs"), toy_config)
    command = [sys.executable, "-m", "transformer_mt", "dashboard", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    found = re.match(r"(http://\S+): the runs", process.stderr.readline())
    assert found, process.stderr.read()
    listening = browser.new_page()
    listening.goto(found[1])
    listening.wait_for_selector("[data-say=live]")
    yield found[1], folder
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=120)[1] == "" and process.returncode == 0


@pytest.fixture
def opened(browser: Any, watched: tuple[str, Path]) -> Iterator[Callable[..., Any]]:
    """Opens a place of the page; whatever goes wrong on it, and every request elsewhere, fails."""
    wrong: list[str] = []
    contexts = []

    def open_page(place: str = "", width: int = 1280, **options: Any) -> Any:
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, **options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text))
        page.on("request", lambda r: r.url.startswith(watched[0]) or wrong.append(r.url))
        page.goto(f"{watched[0]}/{place}")
        page.wait_for_selector("[data-say=live]")
        page.wait_for_selector("#charts path.curve.c0[d^=M]" if place else "#table tbody")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def test_a_training_is_watched_without_reloading(
    opened: Callable[..., Any], watched: tuple[str, Path], toy_config: Config
) -> None:
    folder, listed, page = watched[1], opened(), opened("#going")
    assert "12.5 at 40" in page.inner_text("#charts")
    loaded = page.evaluate("performance.timeOrigin")
    append(
        folder / "going/metrics.jsonl",
        {"event": "train", "update": 120, "loss": 2.125, "lr": 0.001, "tgt_tokens_per_s": 777.0},
        {"event": "validation", "update": 120, "loss": 2.5, "bleu": 45.75, "chrf": 60.0,
         "minutes": 12.0, "samples": [SAMPLE]},
    )  # fmt: skip
    page.wait_for_selector("#charts figcaption:has-text('45.75 at 120')")
    assert "2.125 at 120" in page.inner_text("#charts") and "777" in page.inner_text("#charts")
    assert SAMPLE["hyp"] in page.inner_text("#samples"), "text stays text"
    assert SAMPLE["src"] in page.inner_text("#samples")
    listed.wait_for_selector("#table td:has-text('45.75')")
    compared = opened("#done&going")
    (folder / "going/translations/toy.txt").write_text("".join(f"{ref}\n" for ref in REFS))
    (folder / "going/model").mkdir()
    (folder / "going/model/metadata.json").write_text('{"scores": {}}')
    compared.wait_for_selector("#facts td:has-text('finished, 120 updates')")
    compared.wait_for_selector("#facts td:has-text('+0.00, p = 1.000')")
    write_run(folder / "next", toy_config)
    listed.wait_for_selector("#table a[href='#next']")
    page.wait_for_selector("#facts td:has-text('finished, 120 updates')")
    wide = page.get_attribute("#charts svg >> nth=0", "width")
    page.set_viewport_size({"width": 390, "height": 700})
    page.wait_for_selector(f"#charts:not(:has(svg[width='{wide}'])) svg")
    page.evaluate("scrollTo(0, 600); getSelection().selectAllChildren($('samples'))")
    state = "[performance.timeOrigin, scrollY, String(getSelection())]"
    _, at, text = page.evaluate(state)
    assert at > 300 and SAMPLE["hyp"] in text
    append(folder / "going/metrics.jsonl", {"event": "train", "update": 130, "loss": 2.0})
    page.wait_for_selector("#charts figcaption:has-text('2 at 130')")
    assert page.evaluate(state) == [loaded, at, text]
    is_left = """() => { const [figure, was] = [$("charts").firstChild, waiting];
        const data = JSON.stringify([...states, { run: "of no interest here" }]);
        source.dispatchEvent(new MessageEvent("runs", { data }));
        dispatchEvent(new Event("resize"));
        return figure.isConnected && waiting === was; }"""
    assert page.evaluate(is_left), "what is drawn is as it was"


def test_no_other_site_reads_it(watched: tuple[str, Path]) -> None:
    httpx = pytest.importorskip("httpx", reason="httpx is not installed")
    answer = httpx.get(f"{watched[0]}/api/runs")
    assert answer.status_code == 200 and "access-control-allow-origin" not in answer.headers
    policy = httpx.get(watched[0]).headers["content-security-policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy
    assert httpx.get(f"{watched[0]}/api/runs", headers={"Host": "evil.example"}).status_code == 400


def test_runs_are_compared_by_keyboard(opened: Callable[..., Any]) -> None:
    page = opened()
    for name in ("done", "going"):
        page.focus(f"[data-key='tick {name}']")
        page.keyboard.press("Space")
        assert page.evaluate("document.activeElement.dataset.key") == f"tick {name}"
    page.focus("#compare")
    page.keyboard.press("Enter")
    page.wait_for_selector("#differences:not([hidden])")
    assert "seed" in page.inner_text("#differences") and ", p " in page.inner_text("#facts")
    page.focus("#charts svg >> nth=1")
    for _ in range(5):  # to the first place
        page.keyboard.press("ArrowLeft")
    assert "done 12.5 at 40" in page.inner_text("#charts")
    page.click("[data-key=minutes]")
    assert "done 12.5 at 4" in page.inner_text("#charts")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_speaks_chinese_and_has_no_serious_fault(
    opened: Callable[..., Any], width: int, theme: str
) -> None:
    for place in ("", "#done", "#done&going"):
        page = opened(place, width, color_scheme=theme, locale="zh-CN", bypass_csp=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert "开发集" in page.inner_text("main") and "dev" not in page.inner_text("#charts")
        if AXE.is_file():
            page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
            found = page.evaluate("async () => (await axe.run()).violations")
            serious = [one for one in found if one["impact"] in ("serious", "critical")]
            assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []
    page.click("#language")
    page.reload()
    page.wait_for_selector("#axis:has-text('Horizontal axis')")
    assert page.evaluate("[6, 7].map((color) => look({ color }))") == ["c6", "c0 dashed"]
