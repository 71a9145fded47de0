"""`tmt runs`, `tmt compare` and `tmt info` of several models; and lines that fit a terminal."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from command import tmt_here
from pairs_of_text import write_sides
from rich.cells import cell_len

from transformer_mt.config.experiment import Config
from transformer_mt.model_dir import build_model, load_tokenizers, save_model_dir, weights_of
from transformer_mt.pipeline.run_dir import Run

Pairs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def folder(
    toy_config: Config, toy_pairs: Pairs, tokenizer_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:  # fmt: skip
    """Two finished runs of untrained models under runs/, with names that are rather long."""
    folder = tmp_path_factory.mktemp("two")
    for seed in (1, 2):
        run = Run(folder / "runs" / f"multi30k-en-de-modern-{seed}")
        run.clean_dir.mkdir(parents=True)
        cfg = toy_config.model_copy(update={"seed": seed})
        run.config_path.write_text(cfg.to_yaml(), encoding="utf-8")
        write_sides(run.clean_dir / "test.toy", toy_pairs[:6], ("src", "tgt"))
        run.translations_dir.mkdir()
        hyps = "".join(f"{en}\n" if i > seed else "x y z\n" for i, (_, en) in
                       enumerate(toy_pairs[:6]))  # fmt: skip
        (run.translations_dir / "toy.txt").write_text(hyps, encoding="utf-8")
        record = {"event": "validation", "update": 40, "loss": 4.0, "bleu": 10.0, "chrf": 20.0}
        run.metrics_path.write_text(json.dumps(record) + "\n")
        torch.manual_seed(seed)
        model = build_model(cfg, load_tokenizers(tokenizer_dir, joint=False))
        score = {"score": 30.0 + seed, "signature": "nrefs:1"}
        metadata = {
            "trained": {}, "data": {}, "decode": {}, "scores": {"toy": {"bleu": score}}
        }  # fmt: skip
        save_model_dir(run.model_dir, cfg, weights_of(model), tokenizer_dir, metadata)
    return folder


RUNS = ["runs/multi30k-en-de-modern-1", "runs/multi30k-en-de-modern-2"]


def test_runs_are_listed(folder: Path) -> None:
    text = tmt_here("runs", cwd=folder).stdout
    assert "31.00" in text and "32.00" in text and text.count("finished") == 2
    (one, two) = json.loads(tmt_here("runs", "runs", "--json", cwd=folder).stdout)
    assert {one["run"], two["run"]} == {"multi30k-en-de-modern-1", "multi30k-en-de-modern-2"}


def test_runs_are_compared_and_drawn(folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "both.png"
    result = tmt_here("compare", *RUNS, "-o", picture, cwd=folder)
    assert re.search(r"^seed +1 +2$", result.stdout, re.MULTILINE)
    assert "difference" in result.stdout and f"curves: {picture}" in result.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = json.loads(tmt_here("compare", *RUNS, "--json", cwd=folder).stdout)
    assert found["settings"] == {"seed": [1, 2]}
    wrong = tmt_here("compare", RUNS[0], cwd=folder, code=2)
    assert "name two runs or more" in wrong.stderr


def test_info_shows_every_model_that_is_named(folder: Path) -> None:
    both = [word for run in RUNS for word in ("-m", run)]
    result = tmt_here("info", *both, cwd=folder)
    assert all(f"model: {run}/model" in result.stdout for run in RUNS)
    assert "tmt compare" in result.stderr
    found = json.loads(tmt_here("info", *both, "--json", cwd=folder).stdout)
    assert [model["model"] for model in found] == [f"{run}/model" for run in RUNS]


def on_a_terminal(words: Sequence[str], cwd: Path, columns: int) -> list[str]:
    """The lines that a terminal shows while a command runs, without colours and movements."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "transformer_mt", *words],
        cwd=cwd, env=environment, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    chunks: list[bytes] = []

    def read() -> None:
        try:
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    assert process.wait(timeout=120) == 0
    reader.join(timeout=10)
    os.close(ours)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(chunks).decode())
    return re.split(r"[\r\n]+", plain)


@pytest.mark.parametrize(
    "words",
    [["runs"], ["compare", *RUNS], ["eval", "-m", RUNS[0], "-m", RUNS[1], "--beam", "1"]],
    ids=["runs", "compare", "eval"],
)
def test_no_line_wraps_on_a_terminal(folder: Path, words: list[str]) -> None:
    lines = on_a_terminal(words, folder, 80)
    assert len(lines) > 3 and max(map(cell_len, lines)) <= 80
