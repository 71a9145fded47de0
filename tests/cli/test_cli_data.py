"""`tmt data …` as it is typed: what is printed, what is written, how it ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from transformer_mt.corpus.readers.demo import build_demo

PAIRS = build_demo().train[:1500]
CONFIG = """
name: small
languages: {src: zh, tgt: en}
data:
  root: .
  train: [one, {path: two, weight: 2, tag: web}]
tokenizer: {vocab_size: 1000}
model: {d_model: 32, heads: 2, ffn: 64, encoder_layers: 1, decoder_layers: 1, norm: pre}
train: {max_tokens: 1024, tokens_per_update: 1000, max_updates: 6, validate_every: 3, keep_last: 2,
        average: 2, log_every: 2}
decode: {beam: 2}
"""


def tmt(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "transformer_mt", *words]
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=200
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result


def write_pairs(folder: Path, name: str, first: int, end: int) -> None:
    for code, side in (("zh", 0), ("en", 1)):
        lines = "".join(f"{pair[side]}\n" for pair in PAIRS[first:end])
        (folder / f"{name}.{code}").write_text(lines, encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two corpora, a configuration, and a finished run in each direction."""
    directory = tmp_path_factory.mktemp("data")
    write_pairs(directory, "one", 0, 1000)
    write_pairs(directory, "two", 1000, 1500)
    (directory / "small.yaml").write_text(CONFIG, encoding="utf-8")
    tmt(directory, "train", "small.yaml")
    tmt(directory, "train", "small.yaml", "--reverse")
    return directory


def test_clean_explain_and_the_second_time(folder: Path) -> None:
    first = tmt(folder, "data", "clean", "small.yaml", "clean")
    assert "1,500 read" in first.stdout
    assert (folder / "clean/report.html").exists()
    again = tmt(folder, "data", "clean", "small.yaml", "clean", "--explain")
    assert "[data] up to date" in again.stderr
    assert "train · too_long: characters of the longer side" in again.stdout
    assert "threshold 2,000; 0 of 1,500 pairs dropped" in again.stdout


def test_check_writes_a_page_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    words = ["one.zh", "one.en", "--src", "zh", "--tgt", "en", "--page", str(tmp_path / "c.html")]
    before = sorted(folder.rglob("*"))
    good = tmt(folder, "data", "check", *words)
    assert "1,000 read" in good.stdout
    assert "<h1>" in (tmp_path / "c.html").read_text(encoding="utf-8")
    leaking = tmt(folder, "data", "check", *words, "--test", "one", "--json", code=1)
    (problem,) = json.loads(leaking.stdout)["problems"]
    assert "are in the training text, too" in problem
    assert sorted(folder.rglob("*")) == before


def test_sample_shows_what_an_epoch_holds(folder: Path) -> None:
    said = tmt(folder, "data", "sample", "small.yaml", "--epoch", "2", "-n", "3", "--json")
    content = json.loads(said.stdout)
    one, two = content["sources"]
    assert (one["source"], one["weight"], two["source"], two["weight"]) == ("one", 1, "two", 2)
    assert one["rows_in_epoch"] == one["rows"]
    assert two["rows_in_epoch"] == 2 * two["rows"]
    assert len(content["examples"]) == 3
    tags = {example["source"]: example["tags"] for example in content["examples"]}
    assert tags.items() <= {"one": "", "two": "<web>"}.items()
    text = tmt(folder, "data", "sample", "small.yaml", "-n", "1").stdout
    assert "weight 2: two" in text


def test_the_reversed_run_translates_the_other_way(folder: Path) -> None:
    runs = {path.name for path in (folder / "runs").iterdir()}
    assert runs == {"small", "small-reversed"}
    info = tmt(folder, "info", "-m", "runs/small-reversed", "--json").stdout
    assert '"src": "en"' in info or '"en → zh"' in info or "English → Chinese" in info


def test_offline_says_what_is_missing(folder: Path) -> None:
    words = ["data", "prepare", "small.yaml", "--run-dir", "elsewhere", "--offline"]
    named = ["--set", "data.train=['https://127.0.0.1:9/corpus.tsv']"]
    cache = ["--set", f"data.cache={folder / 'cache'}"]
    said = tmt(folder, *words, *named, *cache, code=2)
    assert (
        "tmt data download CONFIG" in said.stderr
        and "https://127.0.0.1:9/corpus.tsv" in said.stderr
    )
    assert tmt(folder, "plan", "small.yaml", *named, *cache, code=2).stdout == ""
