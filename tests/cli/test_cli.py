"""The real command line, from two files to a scored, explained model; and bad input.

One small model is trained once for the whole file.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import tmt_here
from pairs_of_text import write_sides
from places import ROOT
from rich.cells import cell_len

from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.system.state import sha256

CONFIG = """
name: smoke
languages: {src: zh, tgt: en}
data: {root: ., train: [my], dev: [dev], test: {demo: dev}, clean: {mismatch: false}}
tokenizer: {vocab_size: 1000}
model: {d_model: 96, heads: 4, ffn: 192, encoder_layers: 2, decoder_layers: 2, dropout: 0.0,
        norm: pre}
train: {max_tokens: 1536, tokens_per_update: 1400, max_updates: 75, lr: 1e-2, warmup_updates: 30,
        validate_every: 25, log_every: 5, keep_last: 2, average: 2}
decode: {beam: 2}
"""


DEMO = build_demo()
TRAIN = (
    "train",
    "smoke.yaml",
    "--processes",
    "1",
)  # several: tests/training/test_many_processes.py


def tmt(
    *arguments: str | Path, cwd: Path, env: dict[str, str] | None = None, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run `tmt` in a process of its own; `code` is the exit status to insist on."""
    result = subprocess.run(
        [sys.executable, "-m", "transformer_mt", *map(str, arguments)],
        cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, encoding="utf-8",
        timeout=600,
    )  # fmt: skip
    assert result.returncode == code, result.stdout + result.stderr
    return result


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `smoke.yaml` and the finished run `runs/smoke`."""
    directory = tmp_path_factory.mktemp("experiment")
    write_sides(directory / "my", DEMO.train[:3000])
    write_sides(directory / "dev", DEMO.dev[:100])
    (directory / "smoke.yaml").write_text(CONFIG, encoding="utf-8")
    result = tmt(*TRAIN, cwd=directory)
    assert result.stdout == "", "training speaks on standard error only"
    (directory / "train.log").write_text(result.stderr, encoding="utf-8")
    return directory


def test_training_says_where_the_model_is_and_what_comes_next(trained: Path) -> None:
    log = (trained / "train.log").read_text(encoding="utf-8")
    assert "loss of a uniform guess" in log
    assert "model: runs/smoke/model" in log
    assert "next:  tmt translate -m runs/smoke TEXT" in log
    assert (trained / "runs/smoke/curves.png").read_bytes().startswith(b"\x89PNG")
    records = (trained / "runs/smoke/metrics.jsonl").read_text().splitlines()
    events = [json.loads(line)["event"] for line in records]
    assert events.count("validation") == 3
    assert events.count("train") == 15


def test_synthetic_corpora_name_the_line_of_the_next_configuration(trained: Path) -> None:
    text = "".join(f"{zh}\n" for zh, _ in DEMO.train[:30])
    (trained / "mono.zh").write_text(text, encoding="utf-8")
    words = ["-m", "runs/smoke", "--mono", "mono.zh"]
    said = tmt_here("data", "backtranslate", *words, "-o", "bt/web", cwd=trained)
    assert said.stdout == f"- {{path: {trained}/bt/web, tag: bt}}\n"
    sides = [(trained / f"bt/web.{code}").read_text("utf-8").split("\n") for code in ("zh", "en")]
    assert 5 < len(sides[0]) == len(sides[1]) <= 31
    before = (trained / "bt/web.en").stat().st_mtime_ns
    tmt_here("data", "backtranslate", *words, "-o", "bt/web", cwd=trained)
    assert (trained / "bt/web.en").stat().st_mtime_ns == before, "nothing is done twice"
    said = tmt_here("data", "distill", *words, "-o", "distilled", "--beam", "2", cwd=trained)
    assert said.stdout == f"- {{path: {trained}/distilled}}\n"


def test_eval_bleu_passes_its_threshold_and_fails_above_it(trained: Path) -> None:
    result = tmt_here("eval", "--bleu", "--min-bleu", "3", cwd=trained)
    assert "tok:13a" in result.stdout and "demo" in result.stdout
    too_high = tmt_here("eval", "--bleu", "--min-bleu", "99.9", cwd=trained, code=1)
    assert "BLEU is below 99.9 on demo" in too_high.stderr


def test_eval_json_agrees_with_what_training_stored(trained: Path) -> None:
    result = json.loads(tmt_here("eval", "--json", cwd=trained).stdout)
    metadata = json.loads((trained / "runs/smoke/model/metadata.json").read_text())
    assert result.keys() == metadata["scores"].keys() == {"demo"}
    for metric, stored in metadata["scores"]["demo"].items():
        found = result["demo"][metric]
        assert found["signature"] == stored["signature"]
        # Other batches, with another number of processes, may round otherwise in bf16.
        assert found["score"] == pytest.approx(stored["score"], abs=0.5)
    assert "nrefs:1" in result["demo"]["chrf"]["signature"]


def test_the_same_command_again_trains_nothing_and_changes_nothing(trained: Path) -> None:
    model = trained / "runs/smoke/model/model.safetensors"
    before, stamp = sha256(model), model.stat().st_mtime_ns
    result = tmt_here("train", "smoke.yaml", "--processes", "1", cwd=trained)
    assert "[tokenizer] up to date" in result.stderr
    assert (sha256(model), model.stat().st_mtime_ns) == (before, stamp)


def test_translate_keeps_order_and_empty_lines(trained: Path, tmp_path: Path) -> None:
    lines = ["这只狗很大。", "", "谁在公园里？", "   ", "这只狗很大。"]
    text = "\n".join(lines) + "\n"
    from_stdin = tmt_here("translate", stdin=text, cwd=trained).stdout.split("\n")
    assert len(from_stdin) == len(lines) + 1 and from_stdin[-1] == ""
    assert from_stdin[1] == from_stdin[3] == ""
    assert from_stdin[0] == from_stdin[4] != ""
    (tmp_path / "in.txt").write_text("\n".join(lines), encoding="utf-8")
    tmt_here("translate", "-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt", cwd=trained)
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n") == from_stdin
    from_arguments = tmt_here("translate", *[line for line in lines if line.strip()], cwd=trained)
    assert from_arguments.stdout.split("\n")[:-1] == [from_stdin[i] for i in (0, 2, 4)]


def test_texts_that_the_model_cannot_know_are_told_of(trained: Path) -> None:
    said = tmt_here("translate", "--json", "The dog is big.", "这只狗很大。", cwd=trained)
    strange, usual = map(json.loads, said.stdout.splitlines())
    assert "strange text: mostly Latin letters, and this model reads Chinese" in said.stderr
    assert strange["input"]["notes"] and strange["input"]["unknown_words"] == 1
    assert usual["input"] == {"unknown_words": 0, "unknown_characters": 0, "notes": []}
    assert "这只狗" not in said.stderr
    traditional = tmt_here("translate", "這隻貓在花園裡。", cwd=trained)
    assert "Traditional Chinese, read as Simplified" in traditional.stderr
    assert traditional.stdout == tmt_here("translate", "这只猫在花园里。", cwd=trained).stdout


def test_translate_json_gives_alternatives_with_falling_scores(trained: Path) -> None:
    words = ["--json", "--beam", "4", "--n-best", "3", "这只狗很大。"]
    translation = json.loads(tmt_here("translate", *words, cwd=trained).stdout)
    scores = [alternative["score"] for alternative in translation["alternatives"]]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    assert translation["text"] == translation["alternatives"][0]["text"]


def test_a_model_directory_can_be_copied_elsewhere(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "runs/smoke/model", tmp_path / "copy")
    here = tmt_here("translate", "这只狗很大。", cwd=trained).stdout
    assert tmt_here("translate", "-m", "copy", "这只狗很大。", cwd=tmp_path).stdout == here != ""
    missing = tmt_here("eval", "-m", "copy", cwd=tmp_path, code=2)
    assert "give --src and --ref" in missing.stderr


def test_hostile_input_comes_back_line_by_line(trained: Path) -> None:
    lines = ["\x00\x07\x1b[31m", "😀" * 50, "ﷺ שלום مرحبا", "这只狗" * 40_000, "\u2028x\u0085y",
             "a" * 999]  # fmt: skip
    result = tmt_here("translate", "--beam", "1", stdin="\n".join(lines) + "\n", cwd=trained)
    assert result.stdout.count("\n") == len(lines)


def test_score_prefers_the_model_s_own_translation(trained: Path, tmp_path: Path) -> None:
    own = tmt_here("translate", "--beam", "4", "这只狗很大。", cwd=trained).stdout.strip()
    (tmp_path / "src").write_text("这只狗很大。\n这只狗很大。\n", encoding="utf-8")
    (tmp_path / "tgt").write_text(f"{own}\nthe the of of purple why\n", encoding="utf-8")
    result = tmt_here("score", "--src", tmp_path / "src", "--tgt", tmp_path / "tgt", cwd=trained)
    own_score, other_score = (float(line.split("\t")[0]) for line in result.stdout.splitlines())
    assert other_score < own_score < 0


def test_explain_writes_pictures_and_page(trained: Path, tmp_path: Path) -> None:
    result = tmt_here("explain", "这只狗很大。", "-o", tmp_path / "out", cwd=trained)
    assert "▁" in result.stdout and "Cross-attention" in result.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        ".tmt.json", "attention.html", "cross.png", "decoder.png", "encoder.png", "zeroing.png",
    ]  # fmt: skip
    numbers = tmt_here("explain", "这只狗很大。", "--numbers", "--kind", "decoder", cwd=trained)
    assert "layer 1, head 1" in numbers.stdout
    wrong = tmt_here("explain", "这只狗很大。", "--layer", "9", cwd=trained, code=2)
    assert "layer" in wrong.stderr and "Traceback" not in wrong.stderr


def test_explain_opens_on_a_head_and_says_why(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ["explain", "这只狗很大。", "--target", "The dog is big."]
    out = tmt_here(*words, "-o", tmp_path / "out", cwd=trained).stdout
    for found in ("◂", "no pronoun to ask about: cross layer", "Weights alone mislead"):
        assert found in out
    assert max(map(cell_len, out.split("\n"))) <= 80
    page = (tmp_path / "out/attention.html").read_text(encoding="utf-8")
    assert re.search(r'"open":{"kind":"cross","layer":\d+,"head":\d+,"row":\d+}', page)
    out = tmt_here(*words, "--find", "dog", "狗", cwd=trained).stdout
    assert re.search("dog looks? most at 狗|from dog to 狗", out)
    plain = tmt_here(*words, "--layer", "1", cwd=trained).stdout
    assert "layer 1, mean of all heads" in plain and "◂" not in plain


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--find", "猫", "狗"], "'猫' is neither in the text, 这只狗很大。, nor in the"),
        (["--find", "狗", "dog"], "--find dog 狗 asks where"),
        (["--find", "dog", "狗", "--head", "1"], "leave out --kind, --layer and --head"),
    ],
)
def test_words_that_explain_cannot_find(trained: Path, words: list[str], found: str) -> None:
    said = tmt_here("explain", "这只狗很大。", "--target", "A dog.", *words, cwd=trained, code=2)
    assert found in said.stderr


def test_info_average_and_tokenizer(trained: Path, tmp_path: Path) -> None:
    content = json.loads(tmt_here("info", "--json", cwd=trained).stdout)
    assert content["languages"] == "Chinese → English"
    assert content["trained"]["updates"] == 75
    result = tmt_here("average", "runs/smoke", tmp_path / "mean", "--last", "2", cwd=trained)
    assert "after updates 50, 75" in result.stderr
    words = ["translate", "-m", tmp_path / "mean", "这只狗很大。"]
    assert tmt_here(*words, cwd=trained).stdout.strip()
    left_by_a_killed_one = tmp_path / ".tmt-0123456789abcdef.tmp"
    (left_by_a_killed_one / "new").mkdir(parents=True)
    for run, told in (
        ("runs/smoke", f"{tmp_path / 'mean'}: is a model already; name a folder that is new"),
        ("smoke", "smoke: not a run: config.yaml is missing; tmt runs lists the runs"),
    ):
        assert told in tmt_here("average", run, tmp_path / "mean", cwd=trained, code=2).stderr
    assert not left_by_a_killed_one.exists()
    model = trained / "runs/smoke/model/tokenizer.tgt.model"
    ids = tmt_here("tokenizer", "encode", "--ids", model, "The dog is big.").stdout
    assert tmt_here("tokenizer", "decode", model, stdin=ids).stdout == "The dog is big.\n"


def test_changed_model_section_refuses_to_resume(trained: Path) -> None:
    words = ["smoke.yaml", "--set", "model.ffn=100", "--processes", "1"]
    result = tmt_here("train", *words, cwd=trained, code=2)
    assert "cannot resume" in result.stderr and "--fresh" in result.stderr
    assert "'ffn': 192" in result.stderr and "'ffn': 100" in result.stderr


def test_two_trainings_in_one_directory_do_not_mix(trained: Path) -> None:
    import fcntl

    with (trained / "runs/smoke/.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = tmt_here("train", "smoke.yaml", "--processes", "1", cwd=trained, code=2)
    assert "another tmt train is at work here" in result.stderr


@pytest.mark.parametrize("damage", ["missing", "truncated", "altered"])
def test_damaged_model_directory_is_refused(trained: Path, tmp_path: Path, damage: str) -> None:
    model_dir = tmp_path / "model"
    shutil.copytree(trained / "runs/smoke/model", model_dir)
    weights = model_dir / "model.safetensors"
    content = bytearray(weights.read_bytes())
    if damage == "missing":
        weights.unlink()
    elif damage == "truncated":
        weights.write_bytes(content[:-100])
    else:
        content[-50] ^= 1
        weights.write_bytes(content)
    result = tmt_here("translate", "-m", model_dir, "x", code=2)
    assert "model.safetensors" in result.stderr
    assert ("missing" if damage == "missing" else "truncated or altered") in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message", "why"),
    [
        (["train", "tiny", "--minutes", "0"], "train.max_minutes: expected a number", "no time"),
        (["train", "broken.yaml"], "broken.yaml: line", "invalid YAML"),
        (["translate", "-m", ".", "x"], "not a model directory", "a directory without a model"),
        (["explain", "--example", "three"], "--example three: use two-words", "unknown example"),
        (["explain", "x", "--kind", "y"], "--kind y", "unknown kind"),
        (["data", "check", "a", "b", "--src", "zh", "--tgt", "en"], "a", "missing files"),
    ],
)
def test_bad_input_gets_one_clear_message(
    tmp_path: Path, arguments: list[str], message: str, why: str
) -> None:
    (tmp_path / "broken.yaml").write_text("name: [x\nlanguages: {", encoding="utf-8")
    here = "--processes 1".split() if arguments[0] == "train" else []
    result = tmt_here(*arguments, *here, cwd=tmp_path, code=2)
    assert message in result.stderr, why
    assert result.stderr.count("tmt: ") == 1 and "Traceback" not in result.stderr, why
    assert not list(tmp_path.rglob("*.tmp")), "nothing half-written stays behind"


def test_without_a_network_one_message_says_how_to_give_own_files(tmp_path: Path) -> None:
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}
    command = ["data", "prepare", ROOT / "configs/base.yaml"]  # as `train` begins, without torch
    result = tmt(*command, cwd=tmp_path, env=environment, code=2)
    assert "Helsinki-NLP/opus-100" in result.stderr
    assert "--set 'data.train=[my/text]'" in result.stderr
    assert "Traceback" not in result.stderr
