"""`tmt translate` through its command: documents keep their structure, options reach the search.

The model has random weights: what it says does not matter here.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from transformer_mt.cli.main import app
from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.errors import TmtError
from transformer_mt.model_dir import build_model, save_model_dir, weights_of

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def model_dir(
    toy_config: Config,
    tokenizers: tuple[Tokenizer, Tokenizer],
    tokenizer_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    torch.manual_seed(2)
    weights = weights_of(build_model(toy_config, tokenizers))
    path = tmp_path_factory.mktemp("model") / "model"
    save_model_dir(path, toy_config, weights, tokenizer_dir, {})
    return path


@pytest.fixture(scope="module")
def run(model_dir: Path) -> Run:
    def translate(*arguments: str | Path, stdin: str | None = None) -> Result:
        words = ["translate", "-m", str(model_dir), "--no-retry", *map(str, arguments)]
        return CliRunner().invoke(app, words, input=stdin)

    return translate


MARKDOWN = "# 猫\n\n- 狗看见猫。\n- `code` 书\n\n```\n猫\n```\n"
HTML = '<p class="猫">狗看见猫。</p><pre>猫</pre>\n<!-- 猫 -->\n'
SRT = "1\n00:00:01,000 --> 00:00:02,000\n狗看见猫。\n\n2\n00:00:03,000 --> 00:00:04,000\n书\n"
KEPT = {
    "a.md": (MARKDOWN, ["# ", "\n- ", "`code`", "```\n猫\n```"]),
    "a.html": (HTML, ['<p class="猫">', "</p><pre>猫</pre>\n<!-- 猫 -->\n"]),
    "a.srt": (SRT, ["1\n00:00:01,000 --> 00:00:02,000\n", "2\n00:00:03,000"]),
}


@pytest.mark.parametrize("name", KEPT)
def test_documents_keep_their_structure(run: Run, tmp_path: Path, name: str) -> None:
    content, kept = KEPT[name]
    source, target = tmp_path / name, tmp_path / f"out.{name}"
    source.write_bytes(content.encode())
    done = run("-i", source, "-o", target)
    assert done.exit_code == 0, done.output
    written = target.read_bytes().decode()
    assert written.count("\n") == content.count("\n")
    assert written != content
    for part in kept:
        assert part in written


def test_the_format_of_standard_input_is_named(run: Run) -> None:
    done = run("--format", "html", stdin=HTML)
    assert done.stdout.endswith("</p><pre>猫</pre>\n<!-- 猫 -->\n")
    assert done.stdout.startswith('<p class="猫">')


def test_jsonl_keeps_its_other_fields(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"id": 7, "body": "狗看见猫。"}\n{"id": 8, "body": ""}\n', "utf-8")
    lines = run("-i", path, "--field", "body").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [7, 8]
    assert json.loads(lines[0])["body"] != "狗看见猫。"


def test_options_reach_the_search(run: Run, tmp_path: Path) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("猫\tbig cat\n", "utf-8")
    with_prefix = run("--prefix", "the dog", "狗看见猫。")
    assert with_prefix.stdout.startswith("the dog")
    assert "big cat" in run("--glossary", glossary, "狗看见猫。").stdout
    drawn = run("--sample", "--temperature", "3", "--n-best", "4", "--json", "狗看见猫。")
    assert len(json.loads(drawn.stdout)["alternatives"]) == 4
    short = json.loads(run("--max-length", "2", "--json", "狗看见猫。").stdout)
    assert short["complete"] is False and "cut" in short["faults"]


def test_models_vote(run: Run, model_dir: Path) -> None:
    assert run("-m", model_dir, "狗看见猫。").stdout == run("狗看见猫。").stdout


def test_faults_are_told_on_standard_error(run: Run) -> None:
    texts = ["狗看见猫。"] * 9
    done = run("--max-length", "2", *texts)
    assert len(done.stdout.splitlines()) == 9
    assert done.stderr.count("cut") == 6  # five by name, and all of them counted
    assert "9 of 9 translations have faults" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "pdf", "x"], "--format pdf: expected text, markdown, html, srt or jsonl"),
        (["--format", "html", "x"], "--format html is for files and standard input"),
        (["--penalty", "none", "x"], "--penalty none: expected gnmt or average"),
        (["--n-best", "9", "x"], "n-best 9 needs a beam of at least 9"),
        (["--glossary", "nowhere.tsv", "x"], "nowhere.tsv"),
    ],
)
def test_bad_options(run: Run, arguments: list[str], message: str) -> None:
    error = run(*arguments).exception
    assert isinstance(error, TmtError)
    assert message in str(error)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.html", b"<p>caf\xe9</p>", "not UTF-8 text (byte 7)"),
        ("a.jsonl", b"{broken\n", "a.jsonl: line 1"),
        ("a.srt", b"", "--json goes with lines of text"),
    ],
)
def test_bad_documents(run: Run, tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    options = ["--json"] if name == "a.srt" else []
    assert message in str(run("-i", tmp_path / name, *options).exception)
