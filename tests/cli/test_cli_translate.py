"""`tmt translate` through its command: documents keep their structure, options reach the search.

The model has random weights: what it says does not matter here.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx
import pytest
from click.testing import Result
from typer.testing import CliRunner

from transformer_mt.cli.main import app
from transformer_mt.errors import TmtError
from transformer_mt.translation.translator import Translator

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def run(place: Path) -> Run:
    def translate(*arguments: str | Path, stdin: str | None = None) -> Result:
        words = ["translate", "-m", str(place / "toy"), "--no-retry", *map(str, arguments)]
        return CliRunner().invoke(app, words, input=stdin)

    return translate


MARKDOWN = "# 猫\n\n- 狗看见猫。\n- `code` 书\n\n```\n猫\n```\n"
HTML = '<p class="猫">狗看见猫。</p><pre>猫</pre>\n<!-- 猫 -->\n'
VTT = "WEBVTT\n\nNOTE 猫\n\nc\n00:01.000 --> 00:02.000 line:0\n<v 狗>狗看见猫。\n"
SRT = "1\n00:00:01,000 --> 00:00:02,000\n狗看见猫。\n\n2\n00:00:03,000 --> 00:00:04,000\n书\n"
KEPT = {
    "a.md": (MARKDOWN, ["# ", "\n- ", "`code`", "```\n猫\n```"]),
    "a.html": (HTML, ['<p class="猫">', "</p><pre>猫</pre>\n<!-- 猫 -->\n"]),
    "a.vtt": (VTT, ["WEBVTT\n\nNOTE 猫\n\nc\n00:01.000 --> 00:02.000 line:0\n<v 狗>"]),
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


def test_a_word_file(run: Run, tmp_path: Path) -> None:
    document = docx.Document()
    document.add_paragraph("狗看见猫。")
    document.add_paragraph("42")
    document.save(str(tmp_path / "a.docx"))
    done = run("-i", tmp_path / "a.docx", "-o", tmp_path / "b.docx")
    assert done.exit_code == 0, done.output
    texts = [paragraph.text for paragraph in docx.Document(str(tmp_path / "b.docx")).paragraphs]
    assert texts[0] != "狗看见猫。" and texts[1] == "42"


def test_lines_of_an_unknown_form_are_translated_with_a_warning(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.tex").write_text("狗看见猫。\n", "utf-8")
    warned, plain = run("-i", tmp_path / "a.tex"), run("狗看见猫。")
    assert warned.stdout == plain.stdout
    assert "tmt does not know .tex files" in warned.stderr
    assert "know" not in run("-i", tmp_path / "a.tex", "--format", "text").stderr


def test_the_input_is_not_replaced_by_accident(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.zh"
    path.write_text("狗看见猫。\n", "utf-8")
    (tmp_path / "link").symlink_to("a.zh")
    for output in (path, tmp_path / "link", tmp_path / "." / "a.zh"):
        error = run("-i", path, "-o", output).exception
        assert "is the input itself, and its text would be lost" in str(error)
    assert path.read_text("utf-8") == "狗看见猫。\n"
    assert run("-i", path, "-o", path, "--force").exit_code == 0
    assert path.read_text("utf-8") == run("狗看见猫。").stdout


def test_alternatives_as_lines(run: Run) -> None:
    lines = run("--n-best", "3", "--beam", "3", "狗看见猫。", "").stdout.splitlines()
    columns = [line.split("\t") for line in lines]
    assert [rank for rank, _, _ in columns] == ["1", "2", "3", "1"]
    assert columns[0][2] == run("--beam", "3", "狗看见猫。").stdout.strip()
    scores = [float(score) for _, score, _ in columns[:3]]
    assert scores == sorted(scores, reverse=True)


TEXTS = [f"{subject}看见{thing}。" for subject in "狗猫书" for thing in "狗猫书"]


def long_file(path: Path) -> None:
    """A file with `TEXTS`."""
    if path.suffix == ".docx":
        document = docx.Document()
        for text in TEXTS:
            document.add_paragraph(text)
        document.save(str(path))
    else:
        time = "\n00:00:01,000 --> 00:00:02,000\n" * (path.suffix == ".srt")
        path.write_text("".join(f"{time}{text}\n" for text in TEXTS), "utf-8")


def count_calls(monkeypatch: pytest.MonkeyPatch, stop_at: int = -1) -> list[int]:
    """Numbers of texts that are translated at a time; Ctrl-C comes at one of the calls."""
    sizes: list[int] = []
    translate = Translator.translate

    def call(self: Translator, texts: list[str], **options: Any) -> Any:
        if len(sizes) == stop_at:
            raise KeyboardInterrupt
        sizes.append(len(texts))
        return translate(self, texts, **options)

    monkeypatch.setattr(Translator, "translate", call)
    monkeypatch.setattr("transformer_mt.cli.translate.TEXTS_AT_ONCE", 2)
    monkeypatch.setattr("sys.argv", ["tmt", "translate", "-i", "my file"])
    return sizes


@pytest.mark.parametrize("name", ["a.zh", "a.srt", "a.docx"])
def test_a_stopped_translation_goes_on(
    name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole, out = tmp_path / name, tmp_path / f"whole-{name}", tmp_path / f"out-{name}"
    long_file(path)
    short = ("--max-length", "2")
    count_calls(monkeypatch)
    assert run("-i", path, "-o", whole, *short).exit_code == 0
    with monkeypatch.context() as patch:
        count_calls(patch, stop_at=3)
        done = run("-i", path, "-o", out, *short)
    assert done.exit_code == 130 and not out.exists()
    assert f"6 translations are kept in {out}.partial" in done.stderr
    assert "give the same command: tmt translate -i 'my file'" in done.stderr
    error = str(run("-i", path, "-o", out).exception)
    assert "keeps 6 translations" in error and "another options" in error
    sizes = count_calls(monkeypatch)
    done = run("-i", path, "-o", out, *short)
    assert done.exit_code == 0 and sizes == [2, 1], "no text is translated twice"
    assert "going on after 6 of 9 translations" in done.stderr
    assert "9 of 9 translations have faults" in done.stderr, "those of before are counted"
    assert out.read_bytes() == whole.read_bytes()
    assert not (tmp_path / f"out-{name}.partial").exists()


def test_a_translation_goes_on_with_the_same_glossary_from_a_pipe(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the texts that are strange to the model, those are counted that it reads."""
    path, out = tmp_path / "a.zh", tmp_path / "out"
    path.write_text("".join(f"hello there {i}\n" for i in range(9)), "utf-8")

    def translate(terms: str) -> Any:
        read, write = os.pipe()
        os.write(write, terms.encode())
        os.close(write)
        try:
            return run("-i", path, "-o", out, "--glossary", f"/dev/fd/{read}")
        finally:
            os.close(read)

    with monkeypatch.context() as patch:
        count_calls(patch, stop_at=3)
        assert translate("猫\tcat\n").exit_code == 130
    count_calls(monkeypatch)
    monkeypatch.setattr("transformer_mt.cli.translation_job.SHOWN_FAULTS", 0)
    assert "keeps 6 translations" in str(translate("猫\tkitty\n").exception)
    assert "3 of 3 texts are strange" in translate("猫\tcat\n").stderr


def test_what_cannot_be_read_again_is_not_kept(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_calls(monkeypatch, stop_at=3)
    done = run("-o", tmp_path / "out", stdin="".join(f"{text}\n" for text in TEXTS))
    assert done.exit_code != 0 and not list(tmp_path.iterdir())


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


def test_a_penalty_that_ctranslate2_has_not_is_refused_at_once(run: Run) -> None:
    error = run("--engine", "ctranslate2", "--beam", "1", "--penalty", "gnmt", "猫").exception
    assert str(error) == (
        "--engine ctranslate2: it divides scores by length^α: give --penalty average"
    )


def test_options_reach_the_search(run: Run, tmp_path: Path) -> None:
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("猫\tbig cat\n", "utf-8")
    with_prefix = run("--prefix", "the dog", "狗看见猫。")
    assert with_prefix.stdout.startswith("the dog")
    assert "big cat" in run("--glossary", glossary, "狗看见猫。").stdout
    drawn = run("--sample", "--temperature", "3", "--n-best", "4", "--json", "狗看见猫。")
    assert len(json.loads(drawn.stdout)["alternatives"]) == 4
    mbr = "--mbr", "4", "--temperature"
    varied = {run(*mbr, "3", "--seed", seed, "狗看见猫。").stdout for seed in "12345"}
    assert len(varied) > 1, "what --mbr chooses from depends on the seed"
    assert len({run(*mbr, "0.01", "--seed", seed, "狗看见猫。").stdout for seed in "12345"}) == 1
    short = json.loads(run("--max-length", "2", "--json", "狗看见猫。").stdout)
    assert short["complete"] is False and "cut" in short["faults"]


def test_models_vote(run: Run, place: Path) -> None:
    assert run("-m", place / "toy", "狗看见猫。").stdout == run("狗看见猫。").stdout


def test_faults_are_told_on_standard_error(run: Run) -> None:
    texts = ["狗看见猫。"] * 9
    done = run("--max-length", "2", *texts)
    assert len(done.stdout.splitlines()) == 9
    assert done.stderr.count("cut") == 6  # five by name, and all of them counted
    assert "9 of 9 translations have faults" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--format", "pdf", "x"],
            "--format pdf: expected text, markdown, html, xml, srt, vtt, jsonl",
        ),
        (["--format", "docx"], "give its files, -i IN.docx -o OUT.docx"),
        (["-i", "nowhere.txt"], "nowhere.txt: no such file"),
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
        ("a.md", b"", "--n-best goes with lines of text, not with markdown"),
        ("a.zh", b"%PDF-1.4", "is a PDF"),
        ("a.md", b"PK\x03\x04", "a ZIP archive; of these tmt reads .docx"),
        ("a.docx", b"no archive", "a.docx: not read as .docx, a ZIP archive"),
    ],
)
def test_bad_documents(run: Run, tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    options = {
        "a.srt": ["--json"],
        "a.md": [] if content else ["--n-best", "2"],
        "a.docx": ["-o", str(tmp_path / "b.docx")],
    }.get(name, [])
    assert message in str(run("-i", tmp_path / name, *options).exception)


def test_the_precision_of_a_search(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []
    load = Translator.load
    monkeypatch.setattr(
        Translator, "load", lambda path, precision: chosen.append(precision) or load(path)
    )
    assert run("--precision", "int8", "猫").exit_code == 0
    assert chosen == ["int8"]
    for wrong, said in (
        (["--precision", "int9"], "--precision int9: expected auto, fp32, bf16, fp16 or int8"),
        (["--precision", "int8", "--engine", "ctranslate2"], "native takes both"),
    ):
        found = run(*wrong, "猫")
        assert isinstance(found.exception, TmtError) and said in str(found.exception)
