"""Texts without an end, names that are none, files that are none: a message and no wait."""

import gzip
import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.readers import lines as streams
from transformer_mt.corpus.readers import sgm
from transformer_mt.corpus.readers import tmx_xliff as markup
from transformer_mt.corpus.readers.lines import expand, split_lines, split_stream
from transformer_mt.corpus.readers.pairs import read_pairs
from transformer_mt.errors import DataError

ZH_EN = Languages(src="zh", tgt="en")


def refusal(root: Path, **source: Any) -> str:
    with pytest.raises(DataError) as caught:
        list(read_pairs(Source(**source), ZH_EN, root=root, role="train"))
    return str(caught.value)


def test_a_line_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LONGEST", 1 << 20)
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(b"a\n" + bytes(3 << 20), 1))
    with pytest.raises(DataError, match=r"t\.gz: line 2: longer than 1 MiB"):
        list(split_lines(path))
    endless = io.BufferedReader(open("/dev/zero", "rb", buffering=0))  # noqa: SIM115
    with endless, pytest.raises(DataError, match="standard input: line 1: longer than 1 MiB"):
        list(split_stream(endless, "standard input"))
    long = b"a" * ((1 << 20) - 1) + b"\n"
    assert len(list(split_stream([long] * 3, "f"))) == 3


UNIT = "<tu><tuv xml:lang='zh'><seg>{}</seg></tuv><tuv xml:lang='en'><seg>b</seg></tuv></tu>"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (f"<tmx>{UNIT.format('x' * 300_000)}</tmx>", "one unit of text is longer than"),
        (f"<tmx>{UNIT.format('<b>x</b>' * 60_000)}</tmx>", "one unit of text is longer than"),
        (f"<tmx a='{'x' * 900_000}'/>", "one tag, comment or the like is longer than"),
        (f"<!DOCTYPE tmx [<!ATTLIST a b CDATA '{'x' * 20_000}'>]><tmx><a/></tmx>",
         "the defaults of attributes have more than 10000 characters"),
    ],
)  # fmt: skip
def test_xml_that_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: str, message: str
) -> None:
    monkeypatch.setattr(markup, "LONGEST", 1 << 18)
    (tmp_path / "t.tmx").write_text(document, encoding="utf-8")
    assert message in refusal(tmp_path, path="t.tmx")


def test_many_units_are_no_long_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markup, "LONGEST", 1 << 18)
    units = UNIT.format("x" * 1000) * 600
    (tmp_path / "t.tmx").write_text(f"<tmx>{units}</tmx>", encoding="utf-8")
    pairs = read_pairs(Source(path="t.tmx"), ZH_EN, root=tmp_path, role="train")
    assert len(list(pairs)) == 600


def test_a_large_sgm_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sgm, "_LARGEST", 1 << 20)
    (tmp_path / "t.sgm").write_text("a\n" * (1 << 20), encoding="utf-8")
    assert "t.sgm: more than 1 MiB; an SGM file is a test set" in refusal(
        tmp_path, files=["t.sgm", "t.sgm"]
    )


def test_numbers_that_python_refuses(tmp_path: Path) -> None:
    seg = f"<seg id=1>&#{'9' * 5000};</seg>"
    (tmp_path / "t.sgm").write_text(seg, encoding="utf-8")
    pairs = read_pairs(Source(files=["t.sgm", "t.sgm"]), ZH_EN, root=tmp_path, role="train")
    assert next(pairs)[0].startswith("&#999"), "no character, so it is text"
    for value in ("9" * 5000, "[" * 100_000):
        (tmp_path / "t.jsonl").write_text(f'{{"zh": {value}', encoding="utf-8")
        assert "t.jsonl: line 1: not JSON: " in refusal(tmp_path, jsonl="t.jsonl")


def test_messages_stay_short(tmp_path: Path) -> None:
    keys = ", ".join(f'"key{i}": 1' for i in range(100_000))
    (tmp_path / "t.jsonl").write_text(f"{{{keys}}}", encoding="utf-8")
    assert len(refusal(tmp_path, jsonl="t.jsonl")) < 2000


@pytest.mark.parametrize("kind", ["path", "tsv", "jsonl", "hf"])
def test_names_that_are_no_paths(tmp_path: Path, kind: str) -> None:
    assert "no home directory is known for ~nosuchuser; write the path out" in refusal(
        tmp_path, **{kind: "~nosuchuser/x.tsv"}
    )
    assert "File name too long" in refusal(tmp_path, **{kind: "x" * 300 + ".tsv"})
    assert "no path: it holds a NUL" in refusal(tmp_path, **{kind: "a\0b"})
    assert "no path: it holds a NUL, or is too long" in refusal(tmp_path, **{kind: "a/" * 5000})


def test_a_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert expand("~/x") == Path("/home/me/x")


def test_links_that_go_in_circles(tmp_path: Path) -> None:
    (tmp_path / "a.zh").symlink_to(tmp_path / "a.zh")
    (tmp_path / "a.en").write_text("x\n", encoding="utf-8")
    assert "Too many levels of symbolic links" in refusal(tmp_path, path="a")
    (tmp_path / "loop.tsv").symlink_to(tmp_path / "loop.tsv")
    assert "loop.tsv: no such file" in refusal(tmp_path, tsv="loop.tsv")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.tsv")
    (tmp_path / name).write_text("a\tb\n", encoding="utf-8")
    message = refusal(tmp_path, path=".")
    assert message.endswith(".tsv: the name is not UTF-8; rename it")
    message.encode()


def test_pipes_and_devices_are_no_corpora(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.tsv")
    os.mkfifo(tmp_path / "t.zh")
    (tmp_path / "t.en").write_text("a\n", encoding="utf-8")
    for source in (
        {"tsv": "t.tsv"}, {"path": "t.tsv"}, {"path": "t"}, {"files": ["t.zh", "t.en"]},
        {"files": ["/dev/zero", "t.en"]}, {"path": "/dev/null"},
    ):  # fmt: skip
        assert "is a pipe or a device; a corpus is read several times" in refusal(
            tmp_path, **source
        )


def test_a_pipe_that_is_read_once(tmp_path: Path) -> None:
    """As `tmt translate -i <(zcat …)` does it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=("\ufeff好\nb\n".encode(),))
    writer.start()
    assert list(split_lines(path)) == ["好", "b"]
    writer.join(timeout=5)
