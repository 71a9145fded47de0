"""`tmt push`, `tmt pull` and `-m hf:…`, with a Hub on loopback."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import toy_hub
import yaml
from command import tmt_here
from toy_hub import Hub

import transformer_mt as tmt
from transformer_mt.errors import TmtError
from transformer_mt.export.card import licence_of
from transformer_mt.export.proof import ExportOrigin
from transformer_mt.model_dir import METADATA, load_model_dir, weights_digest
from transformer_mt.system.state import read_manifest, write_manifest

TEXT = "猫看见狗。"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """This process uses it, too; huggingface_hub reads its variables when it is imported."""
    from huggingface_hub import constants

    with toy_hub.running() as hub:
        url = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, hub.base)
        monkeypatch.setattr(constants, "ENDPOINT", hub.base)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True, raising=False)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
        for name, value in toy_hub.environment(hub, str(tmp_path)).items():
            monkeypatch.setenv(name, value)
        yield hub


@pytest.fixture
def model_dir(place: Path, tmp_path: Path) -> Path:
    return shutil.copytree(place / "toy" / "model", tmp_path / "toy")


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def export_of(model_dir: Path, path: Path, kind: str = "int8") -> Path:
    """What `tmt export` leaves, with an engine's file that is none."""
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "model.bin").write_bytes(b"weights")
    proof = {"texts": 9, "identical": 1.0, "worst_log_prob": 1e-6}
    ExportOrigin(weights_digest(model_dir), kind, proof=proof).write(path)
    return path


def refusal(*words: str | Path) -> str:
    done = tmt_here(*words, code=2)
    assert "Traceback" not in done.stderr
    return done.stderr.split("\n")[-2]


def test_what_is_pushed_is_pulled(hub: Hub, model_dir: Path, tmp_path: Path) -> None:
    export = export_of(model_dir, tmp_path / "toy.ct2")
    (export / "foreign.txt").write_text("mine")
    words = "push", "ann/toy", "-m", model_dir, "--license", "Apache-2.0"
    said = tmt_here(*words, "--export", export).stderr
    assert f"{hub.base}/ann/toy; next: tmt translate -m hf:ann/toy TEXT" in said
    there = hub.models["ann/toy"]
    assert not there.private and len(there.commits) == 2
    pushed = {f"ctranslate2-int8/{name}" for name in ("deep/model.bin", "made_from.json")}
    assert (
        there.files.keys() - content(model_dir).keys() == {".gitattributes", "README.md"} | pushed
    )
    assert [*hub.large.values()] == [(model_dir / "model.safetensors").read_bytes()]

    shown = tmt_here("pull", "ann/toy", "-o", tmp_path / "back").stdout
    assert shown.strip() == str(tmp_path / "back")
    back = content(tmp_path / "back")
    assert back.pop("README.md") == there.files["README.md"]
    assert back == content(model_dir)
    assert licence_of(tmp_path / "back") == "apache-2.0"
    load_model_dir(tmp_path / "back")
    assert not [*tmp_path.glob("**/.tmt-*")]
    assert "is new or empty" in refusal("pull", "ann/toy", "-o", tmp_path / "back")

    hub.put("ann/toy", {"notes.txt": b"of somebody else"})
    again = content(tmp_path / "back")["README.md"] + b"\nMy own words.\n"
    (tmp_path / "back" / "README.md").write_bytes(again)
    assert "is the card" in refusal("push", "ann/toy", "-m", tmp_path / "back", "--license", "mit")
    said = tmt_here("push", "ann/toy", "-m", tmp_path / "back").stderr
    assert "removing hf:ann/toy: ctranslate2-int8/deep/model.bin" in said
    assert there.files.keys() == {".gitattributes", "README.md", "notes.txt", *content(model_dir)}
    assert there.files["README.md"] == again


def test_a_name_stands_for_a_path(hub: Hub, model_dir: Path, tmp_path: Path) -> None:
    tmt_here("push", "ann/toy", "-m", model_dir)
    (first,) = hub.models["ann/toy"].commits.keys() - {next(iter(hub.models["ann/toy"].commits))}
    own = tmt_here("translate", "-m", model_dir, TEXT).stdout
    assert tmt_here("translate", "-m", "hf:ann/toy", TEXT).stdout == own
    n_requests = len(hub.requests)
    assert tmt_here("translate", "-m", f"hf:ann/toy@{first}", TEXT).stdout == own
    with tmt.load("hf:ann/toy") as model:
        assert model.translate([TEXT])[0].text == own.strip()
    assert "Chinese → English" in tmt_here("info", "-m", "hf:ann/toy").stdout
    assert len(hub.requests) == n_requests, "it is in the cache"

    hub.put("ann/toy", {"README.md": b"another card"})
    tmt_here("translate", "-m", "hf:ann/toy", TEXT)
    assert len(hub.requests) == n_requests, "a model does not change under its user"
    path = Path(tmt_here("pull", "ann/toy").stdout.strip())
    assert path.name == "toy" and (path / "README.md").read_bytes() == b"another card"
    with tmt.load("hf:ann/toy") as model:
        assert model.translate([TEXT])[0].text == own.strip()
    (path / "config.yaml").write_text("damaged")
    assert "config.yaml: truncated or altered" in refusal("translate", "-m", "hf:ann/toy", TEXT)
    tmt_here("pull", "ann/toy")
    assert tmt_here("translate", "-m", "hf:ann/toy", TEXT).stdout == own


def test_through_the_variables_of_the_environment(
    hub: Hub, model_dir: Path, tmp_path: Path
) -> None:
    """Each command in a process of its own; the last one without a network."""

    def run(*words: str | Path, **variables: str) -> "subprocess.CompletedProcess[str]":
        own = {**toy_hub.environment(hub, str(tmp_path)), **variables}
        own["PYTHONPATH"] = os.pathsep.join(sys.path)
        command = [sys.executable, "-m", "transformer_mt", *map(str, words)]
        return subprocess.run(command, env=own, capture_output=True, text=True)

    pushed = run("push", "ann/toy", "-m", model_dir, "--private")
    assert pushed.returncode == 0, pushed.stderr
    assert hub.models["ann/toy"].private
    # `info` finds models as `translate` does, and loads no torch.
    found = run("info", "-m", "hf:ann/toy")
    assert "Chinese → English" in found.stdout, found.stderr
    assert found.stderr.startswith("getting hf:ann/toy@"), "and no bars"
    again = run("info", "-m", "hf:ann/toy", HF_ENDPOINT="http://127.0.0.1:9")
    assert again.stdout == found.stdout and again.stderr == ""
    lost = run("info", "-m", "hf:ann/other", HF_HUB_OFFLINE="1")
    assert lost.returncode == 2 and lost.stderr.count("\n") == 1, lost.stderr
    assert lost.stderr.startswith("tmt: hf:ann/other: the Hub cannot be reached (Offline")


def test_without_a_network(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    told = refusal("pull", "ann/toy")
    assert "hf:ann/toy: the Hub cannot be reached (Connect" in told
    assert told.endswith("check the network, and HTTPS_PROXY if there is a proxy")


@pytest.mark.parametrize("file", ["model.safetensors", "config.yaml", "metadata.json"])
@pytest.mark.parametrize("change", [lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b[:-9]])
def test_what_is_damaged_on_the_way_is_not_kept(
    hub: Hub, model_dir: Path, tmp_path: Path, file: str, change: Callable[[bytes], bytes]
) -> None:
    hub.put("ann/toy", content(model_dir))
    hub.sent[file] = change((model_dir / file).read_bytes())
    told = refusal("pull", "ann/toy", "-o", tmp_path / "back")
    assert "hf:ann/toy" in told and ".tmt-" not in told
    assert "nothing was kept" in told or "the Hub" in told
    before = set(tmp_path.rglob("*"))
    with pytest.raises(TmtError):
        tmt.load("hf:ann/toy")
    new = {path.name for path in set(tmp_path.rglob("*")) - before if path.is_file()}
    assert not (tmp_path / "back").exists() and new <= {"lock"}
    hub.sent.clear()
    tmt.load("hf:ann/toy").close()


def with_manifest(folder: Path) -> dict[str, bytes]:
    """The files of a model directory that lists all of them."""
    metadata = read_manifest(folder, METADATA) or {}
    write_manifest(folder, METADATA, {k: v for k, v in metadata.items() if "file" not in k})
    return content(folder)


def test_code_is_not_fetched(hub: Hub, model_dir: Path, tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path}/touched",)

    code = {"model.pkl": pickle.dumps(Hostile()), "pytorch_model.bin": b"", "own.py": b""}
    hub.put("ann/toy", content(model_dir) | code)
    tmt_here("pull", "ann/toy", "-o", tmp_path / "back")
    assert content(tmp_path / "back") == content(model_dir)
    (model_dir / "model.pkl").write_bytes(code["model.pkl"])
    hub.put("ann/listed", with_manifest(model_dir))
    told = refusal("pull", "ann/listed", "-o", tmp_path / "listed")
    assert told.endswith("nothing was kept: it lists model.pkl, which no model directory has")
    assert hub.fetched() <= {METADATA, *content(tmp_path / "back")}
    assert not (tmp_path / "listed").exists() and not (tmp_path / "touched").exists()


def test_names_that_lead_elsewhere_are_refused(hub: Hub, model_dir: Path, tmp_path: Path) -> None:
    (model_dir / METADATA).unlink()
    manifest = {"format": 1, "files": {"../../evil": "0" * 64, "/evil": ""}, "file_sizes": {}}
    hub.put("ann/toy", {**content(model_dir), METADATA: json.dumps(manifest).encode()})
    with pytest.raises(TmtError):
        tmt.load("hf:ann/toy")
    assert not hub.fetched() - {METADATA}
    for name in ("hf:", "hf:toy", "hf:../toy", "hf:ann/..", "hf:ann/toy/more", "hf:ann/toy@"):
        assert "expected OWNER/NAME" in refusal("info", "-m", name)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pull ann/none", "hf:ann/none: no such model on the Hub, or your token may not read it"),
        ("pull ann/toy --revision v9", "hf:ann/toy@v9: the model has no such revision"),
        ("pull ann/bert", "it has no metadata.json; its files: .gitattributes, model.bin"),
        ("push ann/bert -m MODEL", "holds files that tmt did not put there, such as model.bin"),
        ("push ann/toy -m MODEL --private", "is public; make it private in its settings first"),
        ("push ann/toy -m MODEL --license nope", "the Hub refuses: ValueError: Invalid metadata"),
        ("push ann/toy -m MODEL --license a:b", "expected an identifier such as apache-2.0"),
        ("push toy -m MODEL", "toy: expected OWNER/NAME of a model on the Hub"),
        ("push ann/toy@v2 -m MODEL", "hf:ann/toy@v2: a push goes to main; leave out @v2"),
        ("push ann/toy -m MODEL --export MODEL", "not an export of tmt: made_from.json is missing"),
        ("push ann/toy -m MODEL --export OTHER", "made from other weights than"),
        ("push ann/toy -m MODEL --export CUT", "cut/deep/model.bin: truncated or altered"),
        ("push ann/toy -m MODEL --export ONE --export TWO", "are both ctranslate2-int8; give one"),
    ],
)  # fmt: skip
def test_every_mistake_has_one_message(
    hub: Hub, model_dir: Path, tmp_path: Path, words: str, message: str
) -> None:
    hub.put("ann/toy", content(model_dir))
    hub.put("ann/bert", {"model.bin": b"x"})
    paths = {name: export_of(model_dir, tmp_path / name.lower()) for name in ("ONE", "TWO", "CUT")}
    (paths["CUT"] / "deep" / "model.bin").write_bytes(b"weigh")
    other = shutil.copytree(model_dir, tmp_path / "another")
    weights = (other / "model.safetensors").read_bytes()
    (other / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    with_manifest(other)
    paths |= {"MODEL": model_dir, "OTHER": export_of(other, tmp_path / "other")}
    before = dict(hub.models["ann/toy"].files)
    assert message in refusal(*(paths.get(word, word) for word in words.split()))
    assert hub.models["ann/toy"].files == before and len(hub.models["ann/toy"].commits) == 1


def test_without_the_right_to_write(
    hub: Hub, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.put("ann/hidden", content(model_dir), private=True)
    words = "push", "ann/toy", "-m", model_dir
    monkeypatch.setenv("HF_TOKEN", "another")
    assert "your token may not do this; hf auth login with one that may" in refusal(*words)
    assert "no such model on the Hub" in refusal("pull", "ann/hidden")
    monkeypatch.delenv("HF_TOKEN")
    told = refusal(*words)
    assert f"no token: make one that may write at {hub.base}/settings/tokens" in told
    assert "hf auth login, or set HF_TOKEN" in told and hub.models.keys() == {"ann/hidden"}


def test_the_card_can_be_read_first(model_dir: Path) -> None:
    shown = tmt_here("push", "ann/toy", "-m", model_dir, "--card").stdout
    assert yaml.safe_load(shown.split("---\n")[1])["license"] == "unknown"
    (model_dir / "README.md").write_text("my own card\n")
    assert tmt_here("push", "ann/toy", "-m", model_dir, "--card").stdout == "my own card\n"
