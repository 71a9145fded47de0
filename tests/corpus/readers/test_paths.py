"""Which files a path stands for: names, directories and patterns."""

import gzip
import random
from pathlib import Path

import pytest

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.readers.pairs import read_pairs, source_files
from transformer_mt.corpus.readers.paths import format_of
from transformer_mt.errors import DataError

ZH_EN = Languages(src="zh", tgt="en")


def write(root: Path, name: str, text: str) -> None:
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
    # what is not to be read
    write(root, "c/pom.xml", "<project>&</project>")
    write(root, "c/README.md", "text")
    write(root, "c/LICENSE", "text")
    write(root, "c/alone.zh", "one side\n")
    write(root, "c/x.en", "one side\n")
    write(root, "c/x.de", "other side\n")
    write(root, "c/.hidden/h.zh", "no\n")
    write(root, "c/.hidden/h.en", "no\n")
    write(root, "c/.h.tsv", "no\tno\n")


ALL = ["news", "a.tsv", "b.jsonl", "web", "y.xml", "z.TMX"]


def english(root: Path, path: str, languages: Languages = ZH_EN) -> list[str]:
    source = Source(path=path, direction="zh-en")
    pairs = read_pairs(source, languages, root=root, role="train")
    side = 1 if languages.tgt == "en" else 0
    return [pair[side] for pair in pairs]


def refusal(root: Path, path: str, languages: Languages = ZH_EN) -> str:
    with pytest.raises(DataError) as caught:
        english(root, path, languages)
    return str(caught.value)


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


def test_a_prefix_is_meant_before_a_directory(tmp_path: Path) -> None:
    make_corpora(tmp_path)
    write(tmp_path, "c.zh", "前\n")
    assert english(tmp_path, "c") == ALL  # one side is no prefix
    write(tmp_path, "c.en", "prefix\n")
    assert english(tmp_path, "c") == ["prefix"]
    assert english(tmp_path, "c/") == ALL
    assert english(tmp_path, "c/deep/er/web/") == ["web"]  # there is no such directory


def test_the_order_of_listing_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_corpora(tmp_path)
    listed = Path.rglob

    def shuffled(path: Path, pattern: str) -> list[Path]:
        return random.sample(found := list(listed(path, pattern)), len(found))

    monkeypatch.setattr(Path, "rglob", shuffled)
    for _ in range(5):
        assert english(tmp_path, "c") == ALL


def test_nothing_usable(tmp_path: Path) -> None:
    for number in range(12):
        write(tmp_path, f"c/{number:02d}.txt", "text")
    write(tmp_path, "c/x.zh", "一\n")
    start = f"{tmp_path}/c: no text in zh and en there; found "
    message = refusal(tmp_path, "c")
    assert message.startswith(f"{start}00.txt, 01.txt, 02.txt, 03.txt, 04.txt, 05.txt, 06.txt, ")
    assert "07.txt and 5 more; expected pairs such as NAME.zh and NAME.en, or" in message
    assert ".tsv, .jsonl, .tmx, " in message
    assert f"{tmp_path}/d*: no text in zh and en there; found no files; expected" in refusal(
        tmp_path, "d*"
    )
    (tmp_path / "e").mkdir()
    assert "found no files" in refusal(tmp_path, "e")


def test_it_must_be_clear_which_side_is_meant(tmp_path: Path) -> None:
    for name in ("c/t.zh-CN", "c/t.zho", "c/t.en"):
        write(tmp_path, name, "x\n")
    expected = "t: t.zh-CN and t.zho are both zh; say which with files: [SOURCE, TARGET]"
    for path in ("c", "c/t", "c/t.*"):
        assert refusal(tmp_path, path) == f"{tmp_path}/c/{expected}"
    write(tmp_path, "c/t.zh", "canonical\n")
    assert english(tmp_path, "c") == ["x"]


@pytest.mark.parametrize(
    ("name", "form"),
    [("t.tsv", ".tsv"), ("t.tsv.gz", ".tsv"), ("a.b.JSONL.zst", ".jsonl"), ("t.zh.xz", ".zh"),
     ("t", ""), ("t.gz", "")],
)  # fmt: skip
def test_form_of(name: str, form: str) -> None:
    assert format_of(Path("some.dir") / name) == form
