"""Options that several commands share, and files that cannot be written to the end.

The model has random weights: what it says does not matter here.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from full_disk import limited_file_size

from transformer_mt.cli import train as cli_train
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling import quick_start

Command = Callable[..., "CompletedProcess[str]"]
WRITERS = {
    "explain": ["explain", "-m", "RUN", "猫看见狗。", "-o"],
    "report": ["eval", "-m", "RUN", "--src", "RUN/data/clean/dev.src", "--ref",
               "RUN/data/clean/dev.tgt", "--beam", "1", "--report"],
    "demo": ["data", "demo"],
    "tokenizer": ["tokenizer", "train", "ROOT/own.en", "--lang", "en", "--vocab-size", "300"],
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_a_write_that_fails_is_one_message(tmt: Command, tmp_path: Path, name: str) -> None:
    target = tmp_path / "out"
    with limited_file_size(600):
        done = tmt(*WRITERS[name], target)
    said = done.stderr
    (line,) = [line for line in said.splitlines() if line.startswith("tmt:")]
    assert done.returncode == 2 and line.startswith(f"tmt: {target}"), line
    assert "cannot be written: File too large" in line and ".tmt-" not in line
    assert "Traceback" not in said
    assert not target.exists() or not os.listdir(target)


@pytest.mark.parametrize("text", ["猫看见狗。", "abc " * 40])
def test_a_quiet_translation_says_nothing_but_the_translation(tmt: Command, text: str) -> None:
    words = ["translate", "-m", "RUN", "--beam", "1", "--max-length", "60", text]
    loud, quiet = tmt(*words), tmt(*words, "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, loud.stdout, "")
    lost = tmt("translate", "--quiet", "-m", "ROOT/nothing", text)
    assert (lost.returncode, lost.stdout) == (2, "") and lost.stderr.startswith("tmt: ")


def test_a_quiet_training_says_how_it_ended(tmt: Command, tmp_path: Path) -> None:
    words = ["train", "ROOT/own.yaml", "--run-dir", tmp_path / "run", "--processes", "1"]
    done = tmt(*words, "--device", "cpu", "-q")
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (0, "")
    assert lines[0].startswith("[done] 1 updates") and lines[-1].startswith("next:  tmt translate")
    assert not any(line.startswith(("update", "[train]", "[encode]")) for line in lines)
    done = tmt(*words, "--json")
    assert done.returncode == 0 and "[encode] up to date" in done.stderr, "the next is not quiet"
    found = json.loads(done.stdout)
    assert found["model"] == str(tmp_path / "run/model") and found["trained"]["updates"] == 1
    assert all("signature" in score for test in found["scores"].values() for score in test.values())


def test_own_text_in_several_processes(
    tmt: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", "ROOT/own.zh", "ROOT/own.en", "--run-dir", tmp_path / "run"]
    torchrun = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    with monkeypatch.context() as patch:
        for name, value in torchrun.items():
            patch.setenv(name, value)
        done = tmt(*words)
    assert done.returncode == 2 and "own.en > my.yaml, and then torchrun" in done.stderr
    assert not (tmp_path / "run").exists()
    started: list[tuple[int, list[str]]] = []
    monkeypatch.setattr(cli_train, "launch", lambda *given: started.append(given) or 0)
    tmt(*words, "--processes", "2", "--set", "seed=2", "-q", "--debug", "--fresh")
    run, made = f"--run-dir={tmp_path}/run", f"{tmp_path}/run/start.yaml"
    given = ["train", "--set=seed=2", run, "--fresh", "--quiet", "--debug", "--", made]
    assert started == [(2, given)] and Path(made).is_file()
    monkeypatch.setattr(quick_start, "make_start", lambda *_, minutes, **__: f"# {minutes}")
    with Run(tmp_path / "run").held():
        for more in ((), ("--fresh",)):
            done = tmt(*words, "--processes", "2", "--minutes", "3", *more)
            assert "run: another tmt train is at work here" in done.stderr
    assert "tokenizer:" in Path(made).read_text("utf-8")
    tmt(*words, "--processes", "2", "--minutes", "3")
    assert Path(made).read_text("utf-8") == "# 3.0", "nothing has been trained"


def test_settings_of_own_text_lie_in_the_run_of_their_training(
    tmt: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    started: list[str] = []
    monkeypatch.setattr(cli_train, "launch", lambda _, given: started.append(given[-1]) or 0)
    for more in ([], ["--reverse"], ["--set", "name=b"]):
        tmt("train", "ROOT/own.zh", "ROOT/own.en", "--processes", "2", *more)
    assert started == [f"runs/{name}/start.yaml" for name in ("own", "own-reversed", "b")]


def test_settings_of_own_text_are_kept_once_they_are_used(
    tmt: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_train, "launch", lambda *_: 0)
    text, run = tmp_path / "lines.tsv", tmp_path / "run"

    def settings_for(n_lines: int, *more: str) -> str:
        lines = [f"今天天气很好{i}。\tThe weather is fine today {i}." for i in range(n_lines)]
        text.write_text("\n".join(["zh\ten", *lines]) + "\n", encoding="utf-8")
        done = tmt("train", text, "--run-dir", run, "--processes", "2", *more)
        assert done.returncode == 0, done.stderr
        return (run / "start.yaml").read_text(encoding="utf-8")

    few = settings_for(20)
    assert settings_for(20) == few
    more = settings_for(300)
    assert "pairs: 300" in more, "the first try ended before a training"
    both = ("--set", "languages.bidirectional=true", "--set", "tokenizer.joint=true")
    assert "vocab_size: [" in more and "vocab_size: [" not in settings_for(300, *both)
    more = settings_for(300, "--set", "tokenizer.joint=false", "--set", "train.lr=1e-3")
    assert settings_for(300, "--set", "train.lr=2e-3") == more, "no other setting depends on it"
    (run / "checkpoints/00000001").mkdir(parents=True)
    assert settings_for(20) == more


def test_a_device_that_is_not_known(tmt: Command) -> None:
    done = tmt("translate", "-m", "RUN", "--device", "tpu", "x")
    assert (done.returncode, done.stderr) == (
        2, "tmt: --device tpu: expected auto, cpu, cuda, or one GPU such as cuda:1\n"
    )  # fmt: skip
