"""Run directories: what tmt may write into, and what it takes away from them."""

import shutil
from pathlib import Path

import pytest

from transformer_mt.errors import TmtError
from transformer_mt.pipeline.run_dir import Run, find_model
from transformer_mt.system.state import write_manifest


def test_a_new_an_empty_and_a_claimed_directory_will_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "deep/new", "empty", "new"):
        Run(tmp_path / name).claim()
        assert (tmp_path / name / "run.json").is_file()
    (tmp_path / "new" / "mine.txt").write_text("mine")
    Run(tmp_path / "new").claim()


@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "model/x", "checkpoints/notes"])
def test_a_directory_with_something_else_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "x" / name).parent.mkdir(parents=True)
    (tmp_path / "x" / name).write_text("mine")
    message = rf"x: is not a run of tmt, and holds {name.split('/')[0]}; name a new directory"
    with pytest.raises(TmtError, match=message), Run(tmp_path / "x").held():
        pass
    assert (tmp_path / "x" / name).read_text() == "mine"
    assert [path.name for path in (tmp_path / "x").iterdir()] == [name.split("/")[0]]


@pytest.mark.parametrize("file", ["data/clean/stage.json", "checkpoints/00000020/progress.json"])
def test_a_run_of_a_tmt_that_wrote_no_mark_is_one(tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("{}")
    (tmp_path / "config.yaml").write_text("")
    with Run(tmp_path).held():
        pass
    assert (tmp_path / "run.json").is_file()


def test_two_trainings_do_not_share_one(tmp_path: Path) -> None:
    refused = pytest.raises(TmtError, match="another tmt train is at work here")
    with Run(tmp_path).held(), refused, Run(tmp_path).held():
        pass


def test_forgetting_takes_what_tmt_made_alone(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.claim()
    run.metrics_path.write_text("{}\n")
    run.model_dir.mkdir()
    (run.model_dir / "model.safetensors").write_text("x")
    write_manifest(run.model_dir, "metadata.json", {})
    (run.model_dir / "notes.txt").write_text("mine")
    run.clean_dir.mkdir(parents=True)
    run.translations_dir.mkdir()
    (run.clean_dir / "test.news.src").touch()
    others = {"news.google.txt", "notes.txt", "news.csv"}
    for name in ("news.txt", "news.zh-Hant-en.txt", *others):
        (run.translations_dir / name).touch()
    run.forget_training()
    assert {path.name for path in run.translations_dir.iterdir()} == others
    shutil.rmtree(run.translations_dir)
    shutil.rmtree(run.clean_dir.parent)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["model", "model/notes.txt", "run.json"]


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("runs/tiny", None),
        ("runs/tiny/model", None),
        ("runs/tini", "no such model directory; finished runs: runs/tiny"),
        ("tiny", "no such model directory; finished runs: runs/tiny"),
        ("other", "no such model directory; finished runs: runs/big, runs/tiny"),
        ("elsewhere/bg", "no such model directory; finished runs: elsewhere/big"),
        ("runs", "not a model directory: metadata.json is missing; finished runs: runs/big"),
        ("my.xlsx", "is a file; a model is named by its directory or that of its run; finished"),
        ("runs/begun", "its training has not finished; tmt train runs/begun/config.yaml --run-dir"),
        ("runs/own", "its training has not finished; tmt train runs/own/start.yaml --run-dir"),
    ],
)  # fmt: skip
def test_a_name_without_a_model_is_answered_with_the_models_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, told: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (
        "runs/tiny/model/metadata.json", "runs/big/model/metadata.json", "my.xlsx",
        "elsewhere/big/model/metadata.json", "runs/begun/run.json", "runs/begun/config.yaml",
        "runs/own/run.json", "runs/own/start.yaml",
    ):  # fmt: skip
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("{}")
    if told is None:
        assert find_model(Path(typed)) == Path("runs/tiny/model")
        monkeypatch.chdir("runs/tiny/model")
        assert find_model(Path(".")) == find_model(Path("../../tiny")).resolve() == Path.cwd()
        assert find_model(Path("..")) == Path.cwd()
        return
    with pytest.raises(TmtError) as refused:
        find_model(Path(typed))
    assert str(refused.value).startswith(f"{typed}: {told}")
