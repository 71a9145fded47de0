"""Tables of any form: the same pairs from all of them, and mistakes that are located."""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.readers.pairs import read_pairs
from transformer_mt.corpus.readers.tables import find_keys
from transformer_mt.errors import DataError

ZH_EN = Languages(src="zh", tgt="en")
PAIRS = [("你好！", "Hello!"), ("他走了。", "He left."), ("「好」", 'A "quoted" one')]


def read(root: Path, languages: Languages = ZH_EN, **source: Any) -> list[tuple[str, str]]:
    return list(read_pairs(Source(**source), languages, root=root, role="train"))


def refusal(root: Path, **source: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(root, **source)
    return str(caught.value)


def jsonl(root: Path, rows: list[Any], name: str = "t.jsonl") -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (root / name).write_text(text, encoding="utf-8")


def write_table(path: Path, columns: dict[str, Any], *, stream: bool = False) -> None:
    """A Parquet, Feather or Arrow file, by its ending; several row groups."""
    import pyarrow
    from pyarrow import feather, ipc, parquet

    table = pyarrow.table(columns)
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=2)
    elif path.suffix == ".feather":
        feather.write_feather(table, path)
    else:
        new = ipc.new_stream if stream else ipc.new_file
        with new(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)


def odd_pairs(n: int) -> list[tuple[str, str]]:
    """Texts of characters that break readers, with a letter at each end."""
    choose = random.Random(5)
    characters = "好a1 \u2028\u0085\u3000\x0c\ufeff\"'\\&<>{}😀\u200b。"

    def text() -> str:
        return "x" + "".join(choose.choices(characters, k=choose.randrange(12))) + "y"

    return [(text(), text()) for _ in range(n)]


def test_every_form_gives_the_same_pairs(tmp_path: Path) -> None:
    pairs = odd_pairs(500)
    columns = {"zh": [zh for zh, _ in pairs], "en": [en for _, en in pairs]}
    rows = [{"zh": zh, "en": en} for zh, en in pairs]
    (tmp_path / "t.tsv").write_text("".join(f"{zh}\t{en}\n" for zh, en in pairs), newline="")
    jsonl(tmp_path, rows)
    ascii_rows = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "ascii.jsonl").write_text(ascii_rows, encoding="ascii")
    for name in ("t.parquet", "t.feather", "t.arrow"):
        write_table(tmp_path / name, columns)
    write_table(tmp_path / "stream.arrow", columns, stream=True)
    names = ["t.tsv", "t.jsonl", "ascii.jsonl", "t.parquet", "t.feather", "t.arrow", "stream.arrow"]
    for name in names:
        assert read(tmp_path, path=name) == pairs, name


@pytest.mark.parametrize(
    ("names", "keys", "why"),
    [
        (("en", "zh"), ("zh", "en"), "the languages"),
        (("EN", "zh_CN"), ("zh_CN", "EN"), "other spellings"),
        (("zh-CN", "zh", "en"), ("zh", "en"), "the canonical spelling wins"),
        (("zho_Hans", "zh_cn", "en"), ("zho_Hans", "en"), "or else the first"),
        (("zh-TW", "en"), None, "Traditional Chinese is another language"),
        (("id", "src", "tgt"), ("src", "tgt"), "sides"),
        (("source", "target"), ("source", "target"), "sides in full"),
        (("src", "tgt", "zh", "en"), ("zh", "en"), "languages say more than sides"),
        (("src", "target"), None, "no mixtures"),
        ((), None, "nothing"),
    ],
)
def test_find_keys(names: tuple[str, ...], keys: tuple[str, str] | None, why: str) -> None:
    assert find_keys(names, "zh", "en", False) == keys, why
    if keys and keys[0] in ("src", "source"):
        assert find_keys(names, "zh", "en", True) == keys[::-1], why
    else:
        assert find_keys(names, "zh", "en", True) == keys, why


def test_direction_orders_what_has_no_language(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("你好\thello\n", encoding="utf-8")
    jsonl(tmp_path, [{"src": "你好", "tgt": "hello"}])
    write_table(tmp_path / "t.parquet", {"source": ["你好"], "target": ["hello"]})
    jsonl(tmp_path, [{"en": "hello", "zh": "你好"}], "named.jsonl")
    en_zh = ZH_EN.reversed()
    for name in ("t.tsv", "t.jsonl", "t.parquet", "named.jsonl"):
        assert read(tmp_path, path=name) == [("你好", "hello")]
        assert read(tmp_path, path=name, direction="zh-en") == [("你好", "hello")]
        assert read(tmp_path, en_zh, path=name, direction="zh_Hans-eng") == [("hello", "你好")], (
            name
        )


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
        ('{"zh": "a", "en": "b"} {}', 'line 2: not JSON: Extra data: {"zh": "a", "en": "b"} {}'),
        ("[1]", "line 2: expected one object per line, found [1]"),
        ('{"zh": "a", "de": "b"}', "line 2: found the keys zh, de; expected "
         '{"translation": {"zh": …, "en": …}}, the two languages themselves, src and tgt, or '
         'source and target'),
        ('{"translation": {"fr": "a"}}', "line 2: found the keys fr; expected"),
        ('{"zh": 3, "en": "b"}', "line 2: expected text, found 3"),
    ],
)  # fmt: skip
def test_jsonl_mistakes(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "t.jsonl").write_text('{"zh": "a", "en": "b"}\n' + line, encoding="utf-8")
    assert f"t.jsonl: {message}" in refusal(tmp_path, jsonl="t.jsonl")


def test_jsonl_with_spaces_around(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(' \t{ "zh" : "a" , "en" : "b" }\t \r\n', encoding="utf-8")
    assert read(tmp_path, jsonl="t.jsonl") == [("a", "b")]


def test_rows_may_differ_in_form(tmp_path: Path) -> None:
    rows = [
        {"zh": "一", "en": "1"},
        {"translation": {"en": "2", "zh": "二"}},
        {"en": "3", "zh": "三"},
        {"tgt": "4", "src": "四"},
    ]
    jsonl(tmp_path, rows)
    assert read(tmp_path, jsonl="t.jsonl") == [("一", "1"), ("二", "2"), ("三", "3"), ("四", "4")]


@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow"])
def test_columns_of_tables(tmp_path: Path, ending: str) -> None:
    import pyarrow

    zh, en = [["一", None, "三"], ["1", "2", None]]
    expected = [("一", "1"), ("", "2"), ("三", "")]
    nested = [{"en": e, "zh": z} for z, e in zip(zh, en, strict=True)]
    path = tmp_path / f"t.{ending}"
    for columns, why in (
        ({"id": [1, 2, 3], "en": en, "zh-CN": zh}, "other columns"),
        ({"translation": nested}, "as Hugging Face has it"),
        ({"zh": zh, "en": pyarrow.array(en).dictionary_encode()}, "encoded text"),
        ({"zh": pyarrow.array(zh, pyarrow.large_string()), "en": en}, "large text"),
    ):
        write_table(path, columns)
        assert read(tmp_path, path=path.name) == expected, why
    write_table(path, {"translation": [None, *nested[1:]]})
    assert read(tmp_path, path=path.name) == [("", ""), *expected[1:]]
    write_table(path, {"zh": zh, "en": [None] * 3})
    assert read(tmp_path, path=path.name) == [("一", ""), ("", ""), ("三", "")]


def test_table_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_table(path, {"zh": ["a"], "de": ["b"]})
    assert f"{path}: found the keys zh, de; expected" in refusal(tmp_path, path="t.parquet")
    write_table(path, {"zh": ["a"], "en": [1]})
    assert refusal(tmp_path, path="t.parquet") == f"{path}: column en: expected text, found int64"
    (tmp_path / "t.parquet.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert "compressed inside: decompress this one first" in refusal(tmp_path, path="t.parquet.gz")
    for name in ("t.parquet", "t.arrow", "t.feather"):
        for stream in {False, name == "t.arrow"}:
            write_table(tmp_path / name, {"zh": ["a" * 99] * 99, "en": ["b"] * 99}, stream=stream)
            whole = (tmp_path / name).read_bytes()
            for damaged in (whole[: len(whole) // 2], b"no table at all", b""):
                (tmp_path / name).write_bytes(damaged)
                message = refusal(tmp_path, path=name)
                assert f"{name}: damaged, or not {name[2:]} data: " in message
                assert "\n" not in message
