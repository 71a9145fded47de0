"""The bundled corpus: its pairs, in their order, and its files."""

import hashlib
from pathlib import Path

import pytest

from transformer_mt.corpus.readers.demo import build_demo, write_demo
from transformer_mt.errors import TmtError


def test_the_pairs_are_those_that_trained_models_and_published_scores_belong_to() -> None:
    corpus = build_demo()
    parts = corpus.train, corpus.dev, corpus.test, corpus.contrast
    assert [len(part) for part in parts] == [30_000, 500, 500, 900]
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()
    assert digest == "605e8d3cee46fb643829cf8d40161e4a1e4acc504c3c2d273dbf00264fdc328c"


def test_write_demo_writes_aligned_files_and_nothing_else(tmp_path: Path) -> None:
    out_dir, corpus = tmp_path / "new" / "demo", build_demo()
    paths = write_demo(out_dir)
    assert [path.name for path in paths] == [
        "train.zh", "train.en", "dev.zh", "dev.en", "test.zh", "test.en", "contrast.tsv",
    ]  # fmt: skip
    assert sorted(out_dir.glob("[!.]*")) == sorted(paths)
    lines = {path.name: path.read_bytes().decode().split("\n") for path in paths}
    assert all(texts.pop() == "" for texts in lines.values()), "each line ends with a newline"
    assert list(zip(lines["test.zh"], lines["test.en"], strict=True)) == corpus.test
    assert len(lines["train.zh"]) == len(lines["train.en"]) == len(corpus.train)
    assert [tuple(line.split("\t")) for line in lines["contrast.tsv"]] == corpus.contrast
    assert write_demo(out_dir) == paths, "writing again replaces the files"


def test_write_demo_says_where_it_cannot_write(tmp_path: Path) -> None:
    in_the_way = tmp_path / "demo"
    in_the_way.write_text("a file", encoding="utf-8")
    with pytest.raises(TmtError, match=r"demo: is not a folder; name another"):
        write_demo(in_the_way)
