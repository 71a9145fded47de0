"""Reading aligned text: every form gives the same pairs, every mistake a message that helps."""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transformer_mt.config import Languages, Source
from transformer_mt.data import corpus
from transformer_mt.data.corpus import read_pairs, split_lines
from transformer_mt.errors import DataError

ZH_EN = Languages(src="zh", tgt="en")
PAIRS = [("你好！", "Hello!"), ("他走了。", "He left."), ("「好」", 'A "quoted" one')]
SHARED_DATA = Path(__file__).parents[2] / ".." / "shared" / "data"


def read(root: Path, **source: Any) -> list[tuple[str, str]]:
    return list(read_pairs(Source(**source), ZH_EN, root=root, role="train"))


def refusal(root: Path, **source: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(root, **source)
    return str(caught.value)


def write_sides(root: Path, pairs: list[tuple[str, str]], zh: str, en: str) -> None:
    for name, side in ((zh, 0), (en, 1)):
        text = "".join(pair[side] + "\n" for pair in pairs)
        data = text.encode()
        (root / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def jsonl(root: Path, rows: list[Any], name: str = "t.jsonl") -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (root / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("data", "lines", "why"),
    [
        (b"a\nb\n", ["a", "b"], "plain"),
        (b"a\nb", ["a", "b"], "no line end at the end"),
        (b"a\r\nb\r\n", ["a", "b"], "Windows"),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"], "only the first mark is a BOM"),
        ("a\u2028b\u0085c\x0bd\x0ce\n".encode(), ["a\u2028b\u0085c\x0bd\x0ce"], "only \\n ends"),
        (b"a\rb\n", ["a\rb"], "a lone \\r is text"),
        (b"\n\nx\n", ["", "", "x"], "empty lines count"),
        (b"", [], "empty file"),
        (b"a\x00b\n", ["a\x00b"], "control characters are for cleaning"),
    ],
)
def test_split_lines(tmp_path: Path, data: bytes, lines: list[str], why: str) -> None:
    (tmp_path / "f").write_bytes(data)
    (tmp_path / "f.gz").write_bytes(gzip.compress(data))
    assert list(split_lines(tmp_path / "f")) == lines, why
    assert list(split_lines(tmp_path / "f.gz")) == lines, why


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("好\n第二\n".encode() + b"ab\xb0c\n", "f: line 3: byte 0xb0 at offset 13 is not UTF-8"),
        (b"\xef\xbb\xbfab\xff\n", "f: line 1: byte 0xff at offset 5 is not UTF-8"),
        (b"\xb0\n", "iconv -f ENCODING -t UTF-8 f > NEW (often GB18030 for Chinese, CP1252"),
        ("好".encode("utf-16"), "line 1: byte 0xff at offset 0 is not UTF-8; convert it: "
         "iconv -f UTF-16 -t UTF-8 f > NEW"),
        (gzip.compress(b"a\n"), "is not UTF-8; it is gzip: rename it to f.gz"),
    ],
)  # fmt: skip
def test_undecodable_bytes_are_located(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(DataError) as caught:
        list(split_lines(tmp_path / "f"))
    assert message in str(caught.value)


def test_unreadable_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def message(path: Path) -> str:
        with pytest.raises(DataError) as caught:
            list(split_lines(path))
        return str(caught.value)

    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"line\n" * 9999)[:-20])
    (tmp_path / "plain.gz").write_bytes(b"hello\n")
    assert message(tmp_path).endswith(": is a directory; expected a text file")
    assert "cut.gz: damaged or not gzip, after line" in message(tmp_path / "cut.gz")
    assert "plain.gz: damaged or not gzip, after line 0" in message(tmp_path / "plain.gz")
    assert "no such file; near names in" in message(tmp_path / "plan.gz")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert message(tmp_path / "x").endswith("x: cannot be read: Permission denied")


@pytest.mark.parametrize(
    ("zh", "en"),
    [
        ("t.zh", "t.en"),
        ("t.zh.gz", "t.en"),
        ("t.zh-CN", "t.eng.gz"),
        ("t.cmn", "t.en_US"),
        ("t.zho_Hans", "t.eng_Latn"),
    ],
)
def test_prefix_finds_any_spelling(tmp_path: Path, zh: str, en: str) -> None:
    write_sides(tmp_path, PAIRS, zh, en)
    (tmp_path / "t.en-zh.tmx").touch()
    (tmp_path / "t.txt").touch()
    assert read(tmp_path, prefix="t") == PAIRS
    assert read(tmp_path, files=[zh, en]) == PAIRS
    assert read(Path("/nowhere"), prefix=str(tmp_path / "t")) == PAIRS  # absolute paths
    found = corpus.source_files(Source(prefix="t"), ZH_EN, tmp_path)
    assert found == [tmp_path / zh, tmp_path / en]


def test_prefix_prefers_the_canonical_and_the_plain_file(tmp_path: Path) -> None:
    write_sides(tmp_path, PAIRS, "t.zh", "t.en")
    write_sides(tmp_path, PAIRS[:1], "t.zh-CN", "t.en.gz")
    assert read(tmp_path, prefix="t") == PAIRS


def test_prefix_with_a_dot(tmp_path: Path) -> None:
    write_sides(tmp_path, PAIRS, "Tatoeba.en-zh.zh", "Tatoeba.en-zh.en")
    assert read(tmp_path, prefix="Tatoeba.en-zh") == PAIRS


def test_missing_files(tmp_path: Path) -> None:
    write_sides(tmp_path, PAIRS, "train.zh-TW", "train.de")
    lines = refusal(tmp_path, prefix="train").split("\n")
    assert len(lines) == 2  # both sides at once
    assert lines[0] == (
        f"{tmp_path}/train: no zh side: looked for train.zh, train.zh.gz and other spellings of "
        f"zh; near names in {tmp_path}: train.zh-TW, train.de"
    )
    assert "no en side: looked for train.en" in lines[1]
    assert f"{tmp_path}/train.xx: no such file; near names in {tmp_path}: train.de" in refusal(
        tmp_path, files=["train.xx", "train.de"]
    )
    assert refusal(tmp_path, tsv="no/t.tsv") == (
        f"{tmp_path}/no/t.tsv: no such file; the directory {tmp_path}/no does not exist "
        f"(relative paths start from data.root, here {tmp_path})"
    )
    (tmp_path / "empty").mkdir()
    assert "none, it is empty" in refusal(tmp_path, prefix="empty/t")


def test_prefix_mistakes(tmp_path: Path) -> None:
    write_sides(tmp_path, PAIRS, "t.zh-CN", "t.en")
    write_sides(tmp_path, PAIRS, "t.zho", "u.tsv")
    assert "t.zh-CN and t.zho are both zh; say which with files:" in refusal(tmp_path, prefix="t")
    message = refusal(tmp_path, prefix="u.tsv")
    assert "u.tsv: is one file; a prefix stands for u.tsv.zh and its other side" in message
    assert "write {tsv: u.tsv} or {jsonl: u.tsv}" in message


def test_unequal_counts_name_a_line_near_the_missing_one(tmp_path: Path) -> None:
    words = random.Random(3)
    pairs = [("字" * n, "w " * n) for n in (words.randrange(3, 60) for _ in range(500))]
    write_sides(tmp_path, pairs, "dev.zh", "dev.en")
    english = (tmp_path / "dev.en").read_text().split("\n")
    for missing in (1, 260, 500):
        text = "\n".join(english[: missing - 1] + english[missing:])
        (tmp_path / "dev.en").write_text(text, encoding="utf-8")
        for order, found in (
            (("dev.zh", "dev.en"), "{0}/dev.zh has 500 lines but {0}/dev.en has 499"),
            (("dev.en", "dev.zh"), "{0}/dev.en has 499 lines but {0}/dev.zh has 500"),
        ):
            message = refusal(tmp_path, files=list(order))
            start, suspect = message.split("; first suspect line ")
            assert start == f"{found.format(tmp_path)}: the files must be line-aligned"
            assert abs(int(suspect) - missing) <= 3


def test_pairs_before_a_misalignment_are_streamed(tmp_path: Path) -> None:
    (tmp_path / "t.zh").write_text("一\n二\n", encoding="utf-8")
    (tmp_path / "t.en").write_text("one\n", encoding="utf-8")
    pairs = read_pairs(Source(prefix="t"), ZH_EN, root=tmp_path, role="train")
    assert next(pairs) == ("一", "one")
    with pytest.raises(DataError, match=r"t\.zh has 2 lines but .*t\.en has 1"):
        next(pairs)


def test_tsv(tmp_path: Path) -> None:
    text = "".join(f"{zh}\t{en}\r\n" for zh, en in PAIRS) + "空\t\r\n\r\n"
    (tmp_path / "t.tsv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read(tmp_path, tsv="t.tsv") == [*PAIRS, ("空", "")]
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(text.encode()))
    assert read(tmp_path, tsv="t.tsv.gz") == [*PAIRS, ("空", "")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\nab\n", "line 2: expected source TAB target, found 1 column: ab"),
        ("a\tb\tCC-BY\n", "found 3 columns: a\tb\tCC-BY; keep two: cut -f1,2 t.tsv > NEW"),
        ("a\tb\n\na\tb\n", "line 2: empty; expected one pair per line"),
    ],
)
def test_tsv_mistakes(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.tsv").write_text(text, encoding="utf-8")
    assert message in refusal(tmp_path, tsv="t.tsv")


@pytest.mark.parametrize(
    "row_of",
    [
        lambda zh, en: {"translation": {"en": en, "zh": zh}},
        lambda zh, en: {"id": 7, "translation": {"eng_Latn": en, "zho_Hans": zh}},
        lambda zh, en: {"zh_cn": zh, "EN": en, "zh-Hant": "other"},
        lambda zh, en: {"zh-CN": "variant", "zh": zh, "en": en},
        lambda zh, en: {"src": zh, "tgt": en, "score": 0.5},
    ],
)
def test_jsonl(tmp_path: Path, row_of: Callable[[str, str], Any]) -> None:
    jsonl(tmp_path, [row_of(zh, en) for zh, en in PAIRS])
    assert read(tmp_path, jsonl="t.jsonl") == PAIRS
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress((tmp_path / "t.jsonl").read_bytes()))
    assert read(tmp_path, jsonl="t.jsonl.gz") == PAIRS


def test_jsonl_nothing_is_empty_and_half_characters_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"zh": null, "en": "a\\ud800b"}\n', encoding="utf-8")
    assert read(tmp_path, jsonl="t.jsonl") == [("", "a\ufffdb")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"zh": "a"', "line 2: not JSON: Expecting ',' delimiter: {\"zh\": \"a\""),
        ("[1]", "line 2: expected one object per line, found [1]"),
        ('{"zh": "a", "de": "b"}', "line 2: found the keys zh, de; expected "
         '{"translation": {"zh": …, "en": …}}, the two languages themselves, or src and tgt'),
        ('{"translation": {"fr": "a"}}', "line 2: found the keys fr; expected"),
        ('{"zh": 3, "en": "b"}', "line 2: expected text, found 3"),
    ],
)  # fmt: skip
def test_jsonl_mistakes(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "t.jsonl").write_text('{"zh": "a", "en": "b"}\n' + line, encoding="utf-8")
    assert f"t.jsonl: {message}" in refusal(tmp_path, jsonl="t.jsonl")


@pytest.fixture
def hf_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")


@pytest.mark.usefixtures("hf_cache")
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_local_dataset_folder(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    if form == "jsonl":
        rows = [{"translation": {"zh-CN": zh, "en": en}} for zh, en in PAIRS]
        jsonl(folder, rows, "train.jsonl")
        jsonl(folder, rows[:1], "validation.jsonl")
    else:
        import datasets

        for name, pairs in (("train", PAIRS), ("validation", PAIRS[:1])):
            columns = {"zho": [zh for zh, _ in pairs], "eng": [en for _, en in pairs]}
            datasets.Dataset.from_dict(columns).to_parquet(folder / f"{name}.parquet")
    source = Source(hf="set")
    assert list(read_pairs(source, ZH_EN, root=tmp_path, role="train")) == PAIRS
    assert list(read_pairs(source, ZH_EN, root=tmp_path, role="dev")) == PAIRS[:1]
    named = Source(hf="set", split="validation")
    assert list(read_pairs(named, ZH_EN, root=tmp_path, role="train")) == PAIRS[:1]
    assert len(corpus.source_files(source, ZH_EN, tmp_path)) == 2
    message = refusal(tmp_path, hf="set", split="nope")
    assert "hf:set/nope: cannot load the split 'nope'" in message


@pytest.mark.usefixtures("hf_cache")
def test_dataset_rows_without_the_languages(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    jsonl(tmp_path / "set", [{"text": "a", "label": 1}], "train.jsonl")
    assert "hf:set: row 1: found the keys text, label; expected" in refusal(tmp_path, hf="set")
    message = refusal(tmp_path, hf="set/train.jsonl")
    assert message.endswith(
        "hf takes a dataset name or a folder; for a file use jsonl, tsv or files"
    )


@pytest.mark.parametrize(
    "role",
    ["train", "test"],
)
def test_dataset_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: corpus.Role
) -> None:
    datasets = pytest.importorskip("datasets")

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach the Hub\n(offline)")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    source = Source(hf="some/set", config="en-zh")
    with pytest.raises(DataError) as caught:
        list(read_pairs(source, ZH_EN, root=tmp_path, role=role))
    assert str(caught.value).split("\n") == [
        f"hf:some/set/en-zh: cannot load the split {role!r}: ConnectionError: Couldn't reach the "
        f"Hub (offline) (and there is no folder {tmp_path}/some/set)",
        "Files of your own work without network. These settings read my/text.zh and my/text.en "
        "under data.root, and hold dev and test out of them:",
        "  --set 'data.train=[my/text]' --set 'data.dev=[]' --set 'data.test={}'",
        "Other names: --set 'data.train=[{files: [my/source.txt, my/target.txt]}]'",
    ]
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert corpus.source_files(source, ZH_EN, tmp_path) == []


def test_bundled_corpus_in_both_directions(tmp_path: Path) -> None:
    source = Source(demo=True)
    assert corpus.source_files(source, ZH_EN, tmp_path) == []
    for role in ("train", "dev", "test"):
        pairs = list(read_pairs(source, ZH_EN, root=tmp_path, role=role))
        back = Languages(src="en", tgt="zh")
        swapped = read_pairs(source, back, root=tmp_path, role=role)
        assert [(zh, en) for en, zh in swapped] == pairs
        assert len(pairs) > 10
        assert all(en.isascii() and not zh.isascii() for zh, en in pairs)
    german = Languages(src="de", tgt="en")
    with pytest.raises(DataError, match="demo: the bundled corpus is zh-en; languages are de → en"):
        next(read_pairs(source, german, root=tmp_path, role="train"))
