"""`tmt data …` as it is typed: what is printed, what is written, how it ends."""

import json
import subprocess
from pathlib import Path

import pytest
from command import tmt_here
from pairs_of_text import write_sides
from workbook import write_workbook

from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.system.locks import locked

PAIRS = build_demo().train[:1500]
CONFIG = """
name: small
languages: {src: zh, tgt: en}
data:
  root: .
  workers: 1
  train: [one, {path: two, weight: 2, tag: web}]
tokenizer: {vocab_size: 1000}
model: {d_model: 32, heads: 2, ffn: 64, encoder_layers: 1, decoder_layers: 1, norm: pre}
train: {max_tokens: 1024, tokens_per_update: 1000, max_updates: 2, validate_every: 1, keep_last: 2,
        average: 2, log_every: 2}
decode: {beam: 1, max_length_ratio: 0.5}
"""


def tmt(folder: Path, *words: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    return tmt_here(*words, cwd=folder, code=code)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two corpora, a configuration, and a finished run in each direction."""
    directory = tmp_path_factory.mktemp("data")
    write_sides(directory / "one", PAIRS[:1000])
    write_sides(directory / "two", PAIRS[1000:])
    (directory / "small.yaml").write_text(CONFIG, encoding="utf-8")
    tmt(directory, "train", "small.yaml", "--processes", "1")
    tmt(directory, "train", "small.yaml", "--reverse", "--processes", "1")
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


def test_check_of_a_table_of_a_spreadsheet(tmp_path: Path) -> None:
    """Nothing but the file is given: the header, the sheet and the languages are told."""
    rows = [("No.", "English", "中文"), *((i, en, zh) for i, (zh, en) in enumerate(PAIRS[:300], 1))]
    write_workbook(tmp_path / "lines.xlsx", {"Notes": [["mine"]], "Sentences": rows})
    checked = tmt(tmp_path, "data", "check", "lines.xlsx", code=0)
    assert "300 read" in checked.stdout
    assert "languages: English → Chinese" in checked.stderr
    assert "lines.xlsx: columns B (English) and C (Chinese); the first row is a header; sheet" in (
        checked.stderr
    )
    named = tmt(tmp_path, "data", "check", "lines.xlsx", "--src", "中文", "--tgt", "english")
    assert "columns C (Chinese) and B (English)" in named.stderr


def test_check_says_first_that_sides_look_swapped(folder: Path) -> None:
    words = ["one.en", "one.zh", "--src", "zh", "--tgt", "en"]
    said = tmt(folder, "data", "check", *words, code=1).stdout
    first, second, *_ = said.split("\n")
    assert first.startswith("problem: one.en + one.zh: looks swapped: the zh side is English and")
    assert "write {files: [one.zh, one.en]} under data.train, or give tmt data check" in first
    assert "--src en --tgt zh" in first
    assert second.startswith("problem: nothing is kept: 1,000 pairs read; dropped: swapped")
    assert tmt(folder, "data", "check", "one.en", "one.zh").returncode == 0, "told from the names"


def test_training_on_swapped_sides_ends_with_the_reason(folder: Path) -> None:
    change = ["--set", "data.train=[{files: [one.en, one.zh]}]", "--run-dir", "swapped"]
    said = tmt(folder, "train", "small.yaml", "--processes", "1", *change, code=2).stderr
    told = said.partition("tmt: ")[2].split("\n")
    assert told[0].startswith("one.en + one.zh: looks swapped: ")
    one_side = ["--set", "data.train=[one.zh, one.en]", "--run-dir", "one-side"]
    said = tmt(folder, "train", "small.yaml", "--processes", "1", *one_side, code=2).stderr
    assert "one.zh: names one side of a source; write one, which stands for one.zh and" in said


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


@pytest.mark.parametrize("words", [("prepare",), ("sample", "-n", "1")])
def test_the_data_of_a_trained_run_stay(folder: Path, words: tuple[str, ...]) -> None:
    """Its model, its test sets and its checkpoints belong to them."""
    before = {path: path.stat().st_mtime_ns for path in (folder / "runs/small/data").rglob("*")}
    command = ["data", words[0], "small.yaml", *words[1:]]
    tmt(folder, *command)
    said = tmt(folder, *command, "--set", "tokenizer.vocab_size=900", code=2)
    assert "--fresh" in said.stderr and "tokenizer" in said.stderr
    with locked(folder / "runs/small/.lock", lambda: None):
        tmt(folder, *command)
        said = tmt(folder, *command, "--set", "seed=2", code=2)
    assert "another tmt train is at work here" in said.stderr
    after = {path: path.stat().st_mtime_ns for path in (folder / "runs/small/data").rglob("*")}
    assert after == before


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
    for told in ("tmt data download CONFIG", "https://127.0.0.1:9/corpus.tsv"):
        assert told in said.stderr
    assert tmt(folder, "plan", "small.yaml", *named, *cache, code=2).stdout == ""
