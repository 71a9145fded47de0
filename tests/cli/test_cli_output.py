"""Every place that a command can write to, against everything that may stand there.

Whatever the target, the command succeeds, or ends with one clear line and exit status 2; nothing
outside of the target changes, and nothing in it that tmt has not made.
"""

import hashlib
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from transformer_mt.model_dir import load_model_dir

FILES = {
    "translate": ["translate", "-m", "RUN", "--beam", "1", "猫看见狗。", "-o", "TARGET"],
    "translate document": ["translate", "-m", "RUN", "-i", "ROOT/page.md", "-o", "TARGET"],
    "check": ["data", "check", "ROOT/own.zh", "ROOT/own.en", "--src", "zh", "--tgt", "en",
              "--page", "TARGET"],
    "tokenizer": ["tokenizer", "train", "ROOT/own.en", "TARGET", "--lang", "en",
                  "--vocab-size", "300"],
}  # fmt: skip
FOLDERS = {
    "export": ["export", "-m", "RUN", "--src", "ROOT/own.zh", "-o", "TARGET"],
    "average": ["average", "RUN", "TARGET", "--last", "2"],
    "clean": ["data", "clean", "ROOT/own.yaml", "TARGET"],
    "train": ["train", "ROOT/own.yaml", "--run-dir", "TARGET", "--processes", "1"],
    "prepare": ["data", "prepare", "ROOT/own.yaml", "--run-dir", "TARGET"],
    "sample": ["data", "sample", "ROOT/own.yaml", "--run-dir", "TARGET"],
}  # fmt: skip
SEVERAL = {
    "report": ["eval", "-m", "RUN", "--bleu", "--beam", "1", "--report", "TARGET"],
    "explain": ["explain", "-m", "RUN", "猫看见狗。", "--target", "a cat", "-o", "TARGET"],
    "demo": ["data", "demo", "TARGET"],
}
PREFIXES = {
    "backtranslate": ["data", "backtranslate", "-m", "RUN", "--mono", "ROOT/own.zh", "-o", "TARGET"]
}
NAMES = {"report": "report.json", "explain": "cross.png", "demo": "train.zh"}


Run = Callable[[list[str], Path], tuple[int, list[str]]]


@pytest.fixture
def run(tmt: Callable[..., "CompletedProcess[str]"]) -> Run:
    """Run a command line: its exit status, and what it says with `tmt:`."""

    def call(command: list[str], target: Path) -> tuple[int, list[str]]:
        done = tmt(*(target if word == "TARGET" else word for word in command))
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, [s for s in done.stderr.splitlines() if s.startswith("tmt:")]

    return call


def seen(directory: Path, *, but: str = "") -> dict[str, object]:
    """Everything below a directory: kind, permissions, content."""
    found: dict[str, object] = {}
    for folder, names, files in os.walk(directory):
        for name in [*names, *files]:
            path = Path(folder, name)
            key = path.relative_to(directory).as_posix()
            if but and (key == but or key.startswith(f"{but}/")):
                continue
            status = path.lstat()
            kind = stat.S_IFMT(status.st_mode)
            content = ""
            if stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            elif stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            found[key] = (kind, stat.S_IMODE(status.st_mode), content)
    return found


def refused(outcome: tuple[int, list[str]]) -> None:
    status, said = outcome
    assert status == 2 and len(said) == 1, outcome


def fill(folder: Path, name: str = "mine.txt") -> None:
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "mine.txt").write_text("mine")
    (folder / name).write_text("mine")


@pytest.mark.parametrize("name", FILES)
def test_a_folder_with_content_is_not_replaced_by_a_file(name, tmp_path: Path, run) -> None:
    fill(tmp_path / "taken")
    before = seen(tmp_path)
    refused(run(FILES[name], tmp_path / "taken"))
    assert seen(tmp_path) == before


@pytest.mark.parametrize("name", FILES)
def test_a_link_is_written_through(name, tmp_path: Path, run) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("old")
    (tmp_path / "real" / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("real/file")
    status, _ = run(FILES[name], tmp_path / "link")
    assert status in (0, 1)
    assert os.readlink(tmp_path / "link") == "real/file"
    assert (tmp_path / "real" / "file").read_bytes() != b"old"
    assert stat.S_IMODE((tmp_path / "real" / "file").stat().st_mode) == 0o640
    assert seen(tmp_path).keys() == {"link", "real", "real/file"}


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_gets_the_result_and_stays(name, tmp_path: Path, run) -> None:
    path, got = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    reader.start()
    status, _ = run(FILES[name], path)
    reader.join(20)
    assert status in (0, 1) and got and got[0]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("name", [*FILES, *FOLDERS, *SEVERAL])
@pytest.mark.parametrize("device", ["/dev/full", "/dev/null"])
def test_a_device_stays_one(name, device: str, tmp_path: Path, run) -> None:
    (tmp_path / "device").symlink_to(device)
    before = seen(tmp_path)
    outcome = run((FILES | FOLDERS | SEVERAL)[name], tmp_path / "device")
    if name not in FILES or device == "/dev/full":
        refused(outcome)
    else:
        assert outcome[0] in (0, 1)
    assert seen(tmp_path) == before
    assert stat.S_ISCHR(Path(device).stat().st_mode)


@pytest.mark.parametrize("name", [*FILES, *FOLDERS, *SEVERAL])
def test_a_read_only_file_is_kept(name, tmp_path: Path, run) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "file").chmod(0o444)
    before = seen(tmp_path)
    refused(run((FILES | FOLDERS | SEVERAL)[name], tmp_path / "file"))
    assert seen(tmp_path) == before


@pytest.mark.parametrize("name", [*FOLDERS, *SEVERAL])
@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_what_is_no_folder_is_kept(name, kind: str, tmp_path: Path, run) -> None:
    (tmp_path / "x").write_text("mine") if kind == "file" else os.mkfifo(tmp_path / "x")
    before = seen(tmp_path)
    refused(run((FOLDERS | SEVERAL)[name], tmp_path / "x"))
    assert seen(tmp_path) == before


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("own", ["mine.txt", "config.yaml", "metrics.jsonl", "model/x", "run"])
def test_a_foreign_folder_is_refused(name, own: str, tmp_path: Path, run) -> None:
    (tmp_path / "x" / own).parent.mkdir(parents=True)
    fill(tmp_path / "x" / "sub")
    (tmp_path / "x" / own).write_text("mine")
    before = seen(tmp_path)
    refused(run(FOLDERS[name], tmp_path / "x"))
    left = {key: value for key, value in seen(tmp_path).items() if key in before}
    assert left == before
    assert seen(tmp_path / "x") == {
        key.removeprefix("x/"): value for key, value in before.items() if key.startswith("x/")
    }


@pytest.mark.parametrize("name", SEVERAL)
def test_files_of_others_in_a_folder_stay(name, tmp_path: Path, run) -> None:
    fill(tmp_path / "mine")
    before = seen(tmp_path)
    assert run(SEVERAL[name], tmp_path / "mine")[0] == 0
    assert run(SEVERAL[name], tmp_path / "mine")[0] == 0, "its own files it may replace"
    after = seen(tmp_path)
    assert {key: after[key] for key in before} == before
    (tmp_path / "mine" / NAMES[name]).write_text("mine now")
    before = seen(tmp_path)
    refused(run(SEVERAL[name], tmp_path / "mine"))
    assert seen(tmp_path) == before
    (tmp_path / "other" / NAMES[name]).mkdir(parents=True)
    fill(tmp_path / "other" / NAMES[name] / "sub")
    before = seen(tmp_path)
    refused(run(SEVERAL[name], tmp_path / "other"))
    assert seen(tmp_path) == before


@pytest.mark.parametrize("name", PREFIXES)
def test_files_of_others_at_a_prefix_stay(name, tmp_path: Path, run) -> None:
    for taken in ("x.zh", "x.en", "x.json"):
        (tmp_path / taken).write_text("mine")
        before = seen(tmp_path)
        refused(run(PREFIXES[name], tmp_path / "x"))
        after = seen(tmp_path)
        assert {key: after[key] for key in before} == before, taken
        (tmp_path / taken).unlink()


@pytest.mark.parametrize("name", [*FILES, *SEVERAL])
def test_a_name_that_is_not_utf8_will_do(name, tmp_path: Path, run) -> None:
    target = tmp_path / b"\xff".decode("utf-8", "surrogateescape")
    status, said = run((FILES | FOLDERS | SEVERAL)[name], target)
    assert status in (0, 1), said
    assert os.path.lexists(target)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_needs_a_utf8_name(name, tmp_path: Path, run) -> None:
    """SentencePiece, Arrow and CTranslate2 open no others."""
    refused(run(FOLDERS[name], tmp_path / b"\xff".decode("utf-8", "surrogateescape")))
    assert seen(tmp_path) == {}


def test_an_average_is_a_model(tmp_path: Path, run) -> None:
    assert run(FOLDERS["average"], tmp_path / "mean")[0] == 0
    assert load_model_dir(tmp_path / "mean").metadata["trained"]["updates"] == 2
    before = seen(tmp_path)
    refused(run(FOLDERS["average"], tmp_path / "mean"))
    assert seen(tmp_path) == before


def test_fresh_forgets_what_tmt_made_and_nothing_else(tmp_path: Path, run) -> None:
    target = tmp_path / "run"
    assert run(FOLDERS["train"], target)[0] == 0
    mine = ["notes.txt", "model/notes.txt", "checkpoints/notes.txt", "data/clean/notes.txt",
            ".mine.1.tmp", "data/.other.tmp", "data/encoded/train/notes.txt"]  # fmt: skip
    for name in mine:
        (target / name).write_text("mine")
    assert run([*FOLDERS["train"], "--fresh", "--set", "tokenizer.vocab_size=310"], target)[0] == 0
    assert {name: (target / name).read_text() for name in mine} == dict.fromkeys(mine, "mine")
    assert len(load_model_dir(target / "model").tokenizers) == 2
    records = [json.loads(line) for line in (target / "metrics.jsonl").read_text().splitlines()]
    assert [r["update"] for r in records if r["event"] == "validation"] == [1]
