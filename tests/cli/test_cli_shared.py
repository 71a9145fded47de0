"""Options that several commands share, and files that cannot be written to the end.

The model has random weights: what it says does not matter here.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from transformer_mt.cli import train as cli_train
from transformer_mt.cli.main import main
from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.model_dir import build_model, save_model_dir, weights_of

CONFIG = """
name: own
languages: {src: zh, tgt: en}
data: {root: ROOT, train: [own], workers: 1}
tokenizer: {vocab_size: 300}
model: {d_model: 16, heads: 2, ffn: 16, encoder_layers: 1, decoder_layers: 1}
train: {max_updates: 2, max_tokens: 500, tokens_per_update: 100, validate_every: 1, average: 1,
        warmup_updates: 10, log_every: 1}
"""
Ended = tuple[int, str, str]  # exit status, standard output, standard error


@pytest.fixture(scope="module")
def root(
    toy_config: Config,
    tokenizers: tuple[Tokenizer, Tokenizer],
    tokenizer_dir: Path,
    toy_pairs: list[tuple[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    root = tmp_path_factory.mktemp("place")
    torch.manual_seed(2)
    weights = weights_of(build_model(toy_config, tokenizers))
    save_model_dir(root / "model", toy_config, weights, tokenizer_dir, {})
    for side, code in enumerate(("zh", "en")):
        text = "".join(f"{pair[side]}\n" for pair in toy_pairs)
        (root / f"own.{code}").write_text(text, encoding="utf-8")
        text = "".join(f"{pair[side]}\n" for pair in toy_pairs[:3])
        (root / f"few.{code}").write_text(text, encoding="utf-8")
    (root / "own.yaml").write_text(CONFIG.replace("ROOT", str(root)), encoding="utf-8")
    return root


@pytest.fixture
def tmt(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Iterator[Callable[..., Ended]]:
    """Run a command line in this process; ROOT and MODEL stand for the folders."""

    def call(*words: str | Path) -> Ended:
        named = [str(word).replace("ROOT", str(root)) for word in words]
        monkeypatch.setattr(
            sys, "argv", ["tmt", *(n.replace("MODEL", f"{root}/model") for n in named)]
        )
        capsysbinary.readouterr()
        status = 0
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
        found = capsysbinary.readouterr()
        return status, found.out.decode(), found.err.decode()

    environment = dict(os.environ)
    yield call
    os.environ.clear()
    os.environ.update(environment)


WRITERS = {
    "explain": ["explain", "-m", "MODEL", "猫看见狗。"],
    "report": [
        "eval",
        "-m",
        "MODEL",
        "--src",
        "ROOT/few.zh",
        "--ref",
        "ROOT/few.en",
        "--beam",
        "1",
    ],
    "demo": ["data", "demo"],
    "tokenizer": ["tokenizer", "train", "ROOT/own.en"],
}
TARGET = {"explain": ["-o"], "report": ["--report"]}


@pytest.mark.parametrize("name", WRITERS)
def test_a_write_that_fails_is_one_message(
    tmt: Callable[..., Ended],
    tmp_path: Path,
    name: str,
    limit_file_size: Callable[[int], None],
) -> None:
    target = tmp_path / "out"
    words = [*WRITERS[name], *TARGET.get(name, []), target]
    if name == "tokenizer":
        words += ["--lang", "en", "--vocab-size", "300"]
    limit_file_size(600)
    status, _, said = tmt(*words)
    (line,) = [line for line in said.splitlines() if line.startswith("tmt:")]
    assert status == 2 and line.startswith(f"tmt: {target}"), line
    assert "cannot be written: File too large" in line and ".tmt-" not in line
    assert "Traceback" not in said
    assert not target.exists() or not os.listdir(target)


@pytest.mark.parametrize("text", ["猫看见狗。", "abc " * 40])
def test_a_quiet_translation_says_nothing_but_the_translation(
    tmt: Callable[..., Ended], text: str
) -> None:
    words = ["translate", "-m", "MODEL", "--beam", "1", "--max-length", "60", text]
    _, loud, _ = tmt(*words)
    assert tmt(*words, "--quiet") == (0, loud, "")
    status, out, said = tmt("translate", "--quiet", "-m", "ROOT/nothing", text)
    assert (status, out) == (2, "") and said.startswith("tmt: ")


def test_a_quiet_training_says_how_it_ended(tmt: Callable[..., Ended], tmp_path: Path) -> None:
    words = ["train", "ROOT/own.yaml", "--run-dir", tmp_path / "run", "--processes", "1", "-q"]
    status, out, said = tmt(*words, "--device", "cpu")
    lines = said.splitlines()
    assert (status, out) == (0, "") and os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert lines[0].startswith("[done] 2 updates") and lines[-1].startswith("next:  tmt translate")
    assert not any(line.startswith(("update", "[train]", "[encode]")) for line in lines)
    status, _, said = tmt(*words[:-1])
    assert status == 0 and "[encode] up to date" in said, "the next command is not quiet"


def test_own_text_in_several_processes(
    tmt: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", "ROOT/own.zh", "ROOT/own.en", "--run-dir", tmp_path / "run"]
    torchrun = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    with monkeypatch.context() as patch:
        for name, value in torchrun.items():
            patch.setenv(name, value)
        status, _, said = tmt(*words)
    assert status == 2 and "own.en > my.yaml, and then torchrun" in said
    assert not (tmp_path / "run").exists()
    started: list[tuple[int, list[str]]] = []
    monkeypatch.setattr(cli_train, "launch", lambda *given: started.append(given) or 0)
    tmt(*words, "--processes", "2", "--set", "seed=2", "-q", "--debug", "--fresh")
    run, made = f"--run-dir={tmp_path}/run", f"{tmp_path}/run/start.yaml"
    given = ["train", "--set=seed=2", run, "--fresh", "--quiet", "--debug", "--", made]
    assert started == [(2, given)] and Path(made).is_file()


def test_a_device_that_is_not_known(tmt: Callable[..., Ended]) -> None:
    status, _, said = tmt("translate", "-m", "MODEL", "--device", "tpu", "x")
    assert (status, said) == (
        2, "tmt: --device tpu: expected auto, cpu, cuda, or one GPU such as cuda:1\n"
    )  # fmt: skip
