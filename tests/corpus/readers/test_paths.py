"""Which files a path stands for: names, directories and patterns."""

import gzip
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reading import PAIRS, ZH_EN, read, refusal

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.readers.pairs import source_files
from transformer_mt.corpus.readers.paths import looking_at
from transformer_mt.errors import DataError


def write(root: Path, name: str, text: str = "x\n") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())


def make_corpora(root: Path) -> None:
    """One pair in each form; the English text is the name of the file it is in."""
    write(root, "c/NewsCommentary.en-zh.zh", "新闻\n")
    write(root, "c/NewsCommentary.en-zh.en", "news\n")
    write(root, "c/a.tsv.gz", "甲\ta.tsv\n")
    write(root, "c/deep/er/web.zh-CN.gz", "网\n")
    write(root, "c/deep/er/web.en", "web\n")
    write(root, "c/deep/b.jsonl", '{"zh": "乙", "en": "b.jsonl"}\n')
    memory = (
        "<tmx><tu><tuv lang='{}'><seg>{}</seg></tuv><tuv lang='en'><seg>{}</seg></tuv></tu></tmx>"
    )
    write(root, "c/z.TMX", memory.format("zh", "丁", "z.TMX"))
    write(root, "c/y.xml", memory.format("zh", "丙", "y.xml"))
    write(root, "c/pom.xml", "<project>&</project>")
    for name in ("LICENSE", "alone.zh", "x.en", "x.de", ".hidden/h.zh", ".hidden/h.en"):
        write(root, f"c/{name}")  # not to be read
    write(root, "c/.h.tsv", "no\tno\n")


ALL = ["news", "a.tsv", "b.jsonl", "web", "y.xml", "z.TMX"]


def english(root: Path, path: str, languages: Languages = ZH_EN) -> list[str]:
    side = 1 if languages.tgt == "en" else 0
    return [pair[side] for pair in read(root, languages, path=path, direction="zh-en")]


@pytest.mark.parametrize(
    ("path", "found", "why"),
    [
        ("c", ALL, "a directory, with those in it"),
        ("c/", ALL, "said so"),
        ("c/NewsCommentary.en-zh", ["news"], "a prefix with a dot"),
        ("c/a.tsv.gz", ["a.tsv"], "a file"),
        ("c/z.TMX", ["z.TMX"], "a file, its ending in capitals"),
        ("c/*.tsv*", ["a.tsv"], "a pattern of files"),
        ("c/NewsCommentary.*", ["news"], "a pattern of sides"),
        ("c/d*", ["b.jsonl", "web"], "a pattern of directories"),
        ("c/**/*.jsonl", ["b.jsonl"], "at any depth"),
        ("?/[az].*", ["a.tsv", "z.TMX"], "other marks"),
        ("c/deep/er/web", ["web"], "a prefix in other spellings"),
    ],
)
def test_what_a_path_stands_for(tmp_path: Path, path: str, found: list[str], why: str) -> None:
    marked = tmp_path / "[1]*"  # of the root nothing is a pattern
    for root in (tmp_path, marked):
        make_corpora(root)
        assert english(root, path) == found, why
        assert english(root, path, ZH_EN.reversed()) == found, why
    assert english(Path("/nowhere"), f"{tmp_path}/{path}") == found, "absolute"


def test_files_are_those_that_are_read_in_order(tmp_path: Path) -> None:
    make_corpora(tmp_path)
    names = [
        "NewsCommentary.en-zh.zh", "NewsCommentary.en-zh.en", "a.tsv.gz", "deep/b.jsonl",
        "deep/er/web.zh-CN.gz", "deep/er/web.en", "y.xml", "z.TMX",
    ]  # fmt: skip
    found = source_files(Source(path="c"), ZH_EN, tmp_path)
    assert found == [tmp_path / "c" / name for name in names]
    back = source_files(Source(path="c"), ZH_EN.reversed(), tmp_path)
    assert sorted(back) == sorted(found)
    assert back[:2] == found[1::-1]


def test_what_cannot_be_read_is_named() -> None:
    """A folder below the one that is asked for."""
    told = pytest.raises(DataError, match=r"^/disk/private: cannot be read: Permission denied")
    with told, looking_at(Path("/disk")):
        raise PermissionError(13, "Permission denied", "/disk/private")


def test_linked_folders_are_read_once(tmp_path: Path) -> None:
    """As in a corpus whose parts lie on several disks; a link may also lead back."""
    for name in ("crawl", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.tsv").write_text("好\tgood\n", encoding="utf-8")
    (tmp_path / "crawl" / "b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "crawl")
    assert read(tmp_path, path="crawl") == [("好", "good")] * 2
    (tmp_path / "crawl" / "a").symlink_to(tmp_path / "crawl" / "b")
    (tmp_path / "elsewhere" / "back").unlink()
    for path in ("crawl", "crawl/*"):
        assert read(tmp_path, path=path) == [("好", "good")] * 2


def test_a_prefix_is_meant_before_a_directory(tmp_path: Path) -> None:
    make_corpora(tmp_path)
    write(tmp_path, "c.zh", "前\n")
    assert english(tmp_path, "c") == ALL  # one side is no prefix
    write(tmp_path, "c.en", "prefix\n")
    assert english(tmp_path, "c") == ["prefix"]
    assert english(tmp_path, "c/") == ALL
    assert english(tmp_path / "c", ".") == ALL
    assert english(tmp_path, "c/deep/er/web/") == ["web"]  # there is no such directory


def test_the_order_of_listing_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_corpora(tmp_path)
    listed = os.walk

    def shuffled(*top: Any, **options: Any) -> Iterator[tuple[str, list[str], list[str]]]:
        for folder, below, names in listed(*top, **options):
            random.shuffle(below)
            yield folder, below, random.sample(names, len(names))

    monkeypatch.setattr(os, "walk", shuffled)
    for _ in range(5):
        assert english(tmp_path, "c") == ALL


def test_nothing_usable(tmp_path: Path) -> None:
    for number in range(12):
        write(tmp_path, f"c/{number:02d}.txt")
    write(tmp_path, "c/x.zh", "一\n")
    start = f"{tmp_path}/c: no text in zh and en there; found "
    message = refusal(tmp_path, path="c")
    assert message.startswith(f"{start}00.txt, 01.txt, 02.txt, 03.txt, 04.txt, 05.txt, 06.txt, ")
    assert "07.txt and 5 more; expected pairs such as NAME.zh and NAME.en, or" in message
    assert ".tsv, .csv, .xlsx, " in message
    assert f"{tmp_path}/d*: no text in zh and en there; found no files; expected" in refusal(
        tmp_path, path="d*"
    )
    (tmp_path / "e").mkdir()
    assert "found no files" in refusal(tmp_path, path="e")


def test_it_must_be_clear_which_side_is_meant(tmp_path: Path) -> None:
    for name in ("c/t.zh-CN", "c/t.zho", "c/t.en"):
        write(tmp_path, name)
    expected = "t: t.zh-CN and t.zho are both zh; say which with files: [SOURCE, TARGET]"
    for path in ("c", "c/t", "c/t.*"):
        assert refusal(tmp_path, path=path) == f"{tmp_path}/c/{expected}"
    write(tmp_path, "c/t.zh", "canonical\n")
    assert english(tmp_path, "c") == ["x"]


@pytest.mark.parametrize(
    ("zh", "en"),
    [("t.zh", "t.en"), ("t.zh.gz", "t.en"), ("t.zh-CN", "t.eng.gz"), ("t.cmn", "t.en_US"),
     ("t.zho_Hans", "t.eng_Latn")],
)  # fmt: skip
def test_a_prefix_finds_any_spelling(tmp_path: Path, zh: str, en: str) -> None:
    for name, side in ((zh, 0), (en, 1)):
        write(tmp_path, name, "".join(f"{pair[side]}\n" for pair in PAIRS))
    for name in ("t.en-zh.tmx", "t.txt"):
        write(tmp_path, name)
    assert read(tmp_path, path="t") == read(tmp_path, files=[zh, en]) == PAIRS
    assert source_files(Source(path="t"), ZH_EN, tmp_path) == [tmp_path / zh, tmp_path / en]
    write(tmp_path, "t.zh", "canonical\n")
    write(tmp_path, "t.en", "plain\n")
    assert read(tmp_path, path="t") == [("canonical", "plain")]


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("folder", ["", "d/e/"])
def test_the_name_of_one_of_two_files(tmp_path: Path, there: bool, folder: str) -> None:
    if there:
        write(tmp_path, f"{folder}my.zh-CN")
        write(tmp_path, f"{folder}my.en")
    zh, en = (f"{folder}{name}" for name in (("my.zh-CN" if there else "my.zh"), "my.en"))
    assert refusal(tmp_path, path=zh) == (
        f"{tmp_path}/{zh}: names one side of a source; write {folder}my, which stands for {zh} "
        f"and {en}, or {{files: [{zh}, {en}]}}"
    )


@pytest.mark.parametrize(
    ("one", "zh", "en"),
    [
        ("t-src.zh.sgm", "t-src.zh.sgm", "t-ref.en.sgm"),
        ("t-src.en.sgm", "t-ref.zh.sgm", "t-src.en.sgm"),
        ("t-ref.en.sgm", "t-src.zh.sgm", "t-ref.en.sgm"),
    ],
)
def test_the_missing_file_of_two_sgm_files(tmp_path: Path, one: str, zh: str, en: str) -> None:
    write(tmp_path, one)
    assert f"{{files: [{zh}, {en}]}}" in refusal(tmp_path, path=one)
    assert f"looked for {en if one == zh else zh}, " in refusal(tmp_path, path="t.sgm")


def test_missing_files(tmp_path: Path) -> None:
    for name in ("train.zh-TW", "train.de", "u.txt"):
        write(tmp_path, name)
    lines = refusal(tmp_path, path="train").split("\n")
    assert lines[0] == (
        f"{tmp_path}/train: no zh side: looked for train.zh, train.zh.gz and other spellings of "
        f"zh; near names in {tmp_path}: train.zh-TW, train.de"
    )
    assert len(lines) == 2 and "no en side: looked for train.en" in lines[1]
    near = f"{tmp_path}/train.xx: no such file; near names in {tmp_path}: train.de"
    assert near in refusal(tmp_path, files=["train.xx", "train.de"])
    assert refusal(tmp_path, tsv="no/t.tsv") == (
        f"{tmp_path}/no/t.tsv: no such file; the directory {tmp_path}/no does not exist "
        f"(relative paths start from data.root, here {tmp_path})"
    )
    (tmp_path / "empty").mkdir()
    assert "none, it is empty" in refusal(tmp_path, path="empty/t")
    message = refusal(tmp_path, path="u.txt")
    assert f"{tmp_path}/u.txt: is one file, of no form that is known by its ending (.tsv" in message
    assert "a prefix stands for u.txt.zh and its other side" in message
    assert "write {tsv: u.txt} or {jsonl: u.txt}" in message
