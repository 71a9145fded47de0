"""Sources of any kind: which side is which, how far they are read, and unequal files."""

import os
import random
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reading import PAIRS, ZH_EN, read, refusal, turned

from transformer_mt.config.data import Languages, Source
from transformer_mt.config.yaml_text import parse_yaml
from transformer_mt.corpus.readers import pairs as pairs_module
from transformer_mt.corpus.readers.lines import expand, split_lines
from transformer_mt.corpus.readers.pairs import (
    first_suspect,
    line_shapes,
    read_pairs,
    source_files,
    turned_source,
)
from transformer_mt.corpus.readers.tables import Pair
from transformer_mt.errors import DataError


def write_sides(root: Path, pairs: list[Pair], zh: str, en: str) -> None:
    for name, side in ((zh, 0), (en, 1)):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (root / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("files", "direction", "languages", "order"),
    [
        (["a", "b"], None, ZH_EN, ["a", "b"]),
        (["a", "b"], "zh-en", ZH_EN, ["a", "b"]),
        (["b", "a"], "en-zh", ZH_EN, ["a", "b"]),
        (["a", "b"], "zh-en", ZH_EN.reversed(), ["b", "a"]),
    ],
)
def test_direction_says_which_file_is_which(
    tmp_path: Path, files: list[str], direction: str | None, languages: Languages, order: list[str]
) -> None:
    write_sides(tmp_path, PAIRS, "a", "b")
    source = Source(files=files, direction=direction)
    assert [path.name for path in source_files(source, languages, tmp_path)] == order
    found = read(tmp_path, languages, files=files, direction=direction)
    assert found == (PAIRS if languages == ZH_EN else turned(PAIRS))
    message = "a + b: direction is de-en, but languages are zh → en; write zh-en or en-zh"
    assert refusal(tmp_path, files=["a", "b"], direction="de-en") == message


@pytest.mark.parametrize("limit", [1, 3, 4, 99])
def test_limit_cuts_the_stream(tmp_path: Path, limit: int) -> None:
    write_sides(tmp_path, PAIRS, "t.zh", "t.en")
    write_sides(tmp_path, PAIRS, "u.zh", "u.en")
    (tmp_path / "z.tsv").write_text("broken", encoding="utf-8")
    assert read(tmp_path, path="t", limit=limit) == PAIRS[:limit]
    if limit <= 6:
        assert read(tmp_path, path=".", limit=limit) == (PAIRS + PAIRS)[:limit]  # and no further
    assert len(read(tmp_path, demo=True, limit=limit)) == limit


def test_bundled_corpus_in_both_directions(tmp_path: Path) -> None:
    for role in ("train", "dev", "test"):
        pairs = read(tmp_path, role=role, demo=True)
        assert turned(read(tmp_path, ZH_EN.reversed(), role, demo=True)) == pairs
        assert len(pairs) > 10
        assert all(en.isascii() and not zh.isascii() for zh, en in pairs)
    message = refusal(tmp_path, Languages(src="de", tgt="en"), demo=True)
    assert message.startswith("demo: the bundled corpus is zh-en; languages are de → en")
    assert source_files(Source(demo=True), ZH_EN, tmp_path) == []


def test_unequal_counts_name_a_line_near_the_missing_one(tmp_path: Path) -> None:
    words = random.Random(3)
    pairs = [("字" * n, "w " * n) for n in (words.randrange(3, 60) for _ in range(500))]
    write_sides(tmp_path, pairs, "dev.zh", "dev.en")
    english = (tmp_path / "dev.en").read_text().split("\n")
    zh, en = "{0}/dev.zh has 500 lines", "{0}/dev.en has 499 lines"
    for missing in (1, 260, 500):
        text = "\n".join(english[: missing - 1] + english[missing:])
        (tmp_path / "dev.en").write_text(text, encoding="utf-8")
        for order in (("zh", "en"), ("en", "zh")):
            message = refusal(tmp_path, files=[f"dev.{code}" for code in order])
            start, suspect = message.split(": the files must be line-aligned; first suspect line ")
            first, second = (zh, en) if order[0] == "zh" else (en, zh)
            told = f"{first} but {second.removesuffix(' lines')}".format(tmp_path)
            assert (start, abs(int(suspect) - missing) <= 3) == (told, True)


def test_pairs_before_a_misalignment_are_streamed(tmp_path: Path) -> None:
    (tmp_path / "t.zh").write_text("一\n二\n", encoding="utf-8")
    (tmp_path / "t.en").write_text("one\n", encoding="utf-8")
    pairs = read_pairs(Source(path="t"), ZH_EN, root=tmp_path, role="train")
    assert next(pairs) == ("一", "one")
    with pytest.raises(DataError, match=r"t\.zh has 2 lines but .*t\.en has 1"):
        next(pairs)


def test_first_of_several_missing_lines() -> None:
    lengths = random.Random(5)
    longer = line_shapes("x" * lengths.randrange(3, 90) for _ in range(800))
    shorter = np.delete(longer, [249, 250, 251, 600], axis=0)
    assert abs((first_suspect(longer, shorter) or 0) - 250) <= 3
    for other in (longer, longer[:100], longer[:0]):  # none, too many, nothing to compare with
        assert first_suspect(longer, other) is None


def test_the_search_for_missing_lines_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    longer = np.ones((20_050, 4), dtype=np.float32)
    tracemalloc.start()
    assert first_suspect(longer, longer[50:]) is not None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * 50 * 20_000
    monkeypatch.setattr(pairs_module, "_MOST_STEPS", 50 * 20_000 - 1)
    assert first_suspect(longer, longer[50:]) is None


@pytest.mark.parametrize("kind", ["path", "tsv", "jsonl", "hf"])
def test_names_that_are_no_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for name, message in (
        ("~nosuchuser/x.tsv", "no home directory is known for ~nosuchuser; write the path out"),
        ("x" * 300 + ".tsv", "File name too long"),
        ("a\0b", "no path: it holds a NUL"),
        ("a/" * 5000, "no path: it holds a NUL, or is too long"),
    ):
        assert message in refusal(tmp_path, **{kind: name})
    monkeypatch.setenv("HOME", "/home/me")
    assert expand("~/x") == Path("/home/me/x")


def test_links_in_circles_and_names_that_are_not_utf8(tmp_path: Path) -> None:
    for name in ("a.zh", "loop.tsv"):
        (tmp_path / name).symlink_to(tmp_path / name)
    (tmp_path / "a.en").write_text("x\n", encoding="utf-8")
    assert "Too many levels of symbolic links" in refusal(tmp_path, path="a")
    assert "loop.tsv: no such file" in refusal(tmp_path, tsv="loop.tsv")
    (tmp_path / os.fsdecode(b"\xff.tsv")).write_text("a\tb\n", encoding="utf-8")
    message = refusal(tmp_path, path=".")
    assert message.endswith(".tsv: the name is not UTF-8; rename it") and message.encode()


@pytest.mark.parametrize(
    "source",
    [{"tsv": "t.tsv"}, {"path": "t.tsv"}, {"path": "t"}, {"files": ["t.zh", "t.en"]},
     {"files": ["/dev/zero", "t.en"]}, {"path": "/dev/null"}],
)  # fmt: skip
def test_pipes_and_devices_are_no_corpora(tmp_path: Path, source: dict[str, Any]) -> None:
    os.mkfifo(tmp_path / "t.tsv")
    os.mkfifo(tmp_path / "t.zh")
    (tmp_path / "t.en").write_text("a\n", encoding="utf-8")
    message = refusal(tmp_path, **source)
    assert "is a pipe or a device; a corpus is read several times" in message


def test_a_pipe_that_is_read_once(tmp_path: Path) -> None:
    """As `tmt translate -i <(zcat …)` does it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=("\ufeff好\nb\n".encode(),))
    writer.start()
    assert list(split_lines(path)) == ["好", "b"]
    writer.join(timeout=5)


@pytest.mark.parametrize(
    "keys",
    [
        {"path": "d/t"},
        {"path": "d/t", "tag": "bt", "limit": 2},
        {"files": ["d/t.zh", "d/t.en"], "weight": 2, "clean": {"duplicate": False}},
        {"files": ["d/t.en", "d/t.zh"], "direction": "en-zh"},
        {"tsv": "d/t.tsv", "limit": 3},
    ],
)
def test_what_is_written_for_a_source_the_other_way_round(
    tmp_path: Path, keys: dict[str, Any]
) -> None:
    (tmp_path / "d").mkdir()
    write_sides(tmp_path / "d", PAIRS, "t.zh", "t.en")
    rows = "".join("\t".join(pair) + "\n" for pair in PAIRS)
    (tmp_path / "d" / "t.tsv").write_text(rows, encoding="utf-8")
    text = turned_source(Source(**keys), ZH_EN, tmp_path)
    tree = parse_yaml(text, "x")
    assert read(tmp_path, **tree) == turned(read(tmp_path, **keys)), text
    unchanged = keys.keys() - {"path", "files", "direction"}
    assert {key: tree[key] for key in unchanged} == {key: keys[key] for key in unchanged}


def test_where_names_in_a_source_decide_there_is_no_other_way_to_write_it(tmp_path: Path) -> None:
    rows = "".join(f"{zh}\t{en}\n" for zh, en in PAIRS)
    (tmp_path / "named.tsv").write_text(f"English\tChinese\n{rows}", encoding="utf-8")
    (tmp_path / "keys.jsonl").write_text('{"en": "你好", "zh": "Hello."}\n', encoding="utf-8")
    (tmp_path / "plain.jsonl").write_text('{"src": "Hi.", "tgt": "你好"}\n', encoding="utf-8")
    found = [
        turned_source(Source(path=name), ZH_EN, tmp_path)
        for name in ("named.tsv", "keys.jsonl", "plain.jsonl")
    ]
    assert found == ["", "", "{path: plain.jsonl, direction: en-zh}"]


def test_a_source_of_the_hub_keeps_its_keys_the_other_way_round(tmp_path: Path) -> None:
    source = Source(hf="opus100", config="en-zh", split="train")
    text = turned_source(source, ZH_EN, tmp_path)
    assert text == "{hf: opus100, config: en-zh, split: train, direction: en-zh}"
