"""Tables as text: the same pairs from all forms, and mistakes that are located."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from reading import PAIRS, ZH_EN, read, refusal

from transformer_mt.corpus.readers.tables import find_keys


def jsonl(path: Path, rows: list[Any]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


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
        with (ipc.new_stream if stream else ipc.new_file)(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)


def odd_texts(n: int) -> list[str]:
    """Texts of characters that break readers, with a letter at each end."""
    choose = random.Random(5)
    characters = "好a1 \u2028\u0085\u3000\x0c\ufeff\"'\\&<>{}😀\u200b。"
    return [f"x{''.join(choose.choices(characters, k=choose.randrange(12)))}y" for _ in range(n)]


def test_every_form_gives_the_same_pairs(tmp_path: Path) -> None:
    columns = {"zh": odd_texts(1000)[:500], "en": odd_texts(1000)[500:]}
    pairs = list(zip(*columns.values(), strict=True))
    rows = [{"zh": zh, "en": en} for zh, en in pairs]
    (tmp_path / "t.tsv").write_text("".join(f"{zh}\t{en}\n" for zh, en in pairs), newline="")
    (tmp_path / "ascii.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    jsonl(tmp_path / "t.jsonl", rows)
    for name in ("t.parquet", "t.feather", "t.arrow", "stream.arrow"):
        write_table(tmp_path / name, columns, stream=name == "stream.arrow")
    for path in sorted(tmp_path.iterdir()):
        assert read(tmp_path, path=path.name) == pairs, path.name


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
    no_language = keys and keys[0] in ("src", "source")
    assert find_keys(names, "zh", "en", True) == (keys[::-1] if keys and no_language else keys), why


def test_direction_orders_what_has_no_language(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("你好\thello\n", encoding="utf-8")
    jsonl(tmp_path / "t.jsonl", [{"src": "你好", "tgt": "hello"}])
    write_table(tmp_path / "t.parquet", {"source": ["你好"], "target": ["hello"]})
    jsonl(tmp_path / "named.jsonl", [{"en": "hello", "zh": "你好"}])
    for name in ("t.tsv", "t.jsonl", "t.parquet", "named.jsonl"):
        for direction in (None, "zh-en"):
            assert read(tmp_path, path=name, direction=direction) == [("你好", "hello")]
        back = read(tmp_path, ZH_EN.reversed(), path=name, direction="zh_Hans-eng")
        assert back == [("hello", "你好")], name


def test_tsv(tmp_path: Path) -> None:
    text = "".join(f"{zh}\t{en}\r\n" for zh, en in PAIRS) + "空\t\r\n\r\n"
    (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("t.txt", "t.tsv.gz"):
        assert read(tmp_path, tsv=name) == [*PAIRS, ("空", "")]


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


def test_jsonl(tmp_path: Path) -> None:
    rows: list[tuple[Any, str]] = [
        ({"id": 7, "translation": {"eng_Latn": "b", "zho_Hans": "一"}}, "as Hugging Face has it"),
        ({"zh_cn": "一", "EN": "b", "zh-Hant": "other"}, "other keys"),
        ({"zh-CN": "variant", "zh": "一", "en": "b"}, "the canonical spelling wins"),
        ({"src": "一", "tgt": "b", "score": 0.5}, "sides"),
    ]
    jsonl(tmp_path / "b.json", [row for row, _ in rows])
    assert read(tmp_path, jsonl="b.json") == [("一", "b")] * len(rows)
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress((tmp_path / "b.json").read_bytes()))
    assert read(tmp_path, path="t.jsonl.gz") == [("一", "b")] * len(rows)
    odd = ' \t{ "zh" : null , "en" : "a\\ud800b" }\t \r\n'
    (tmp_path / "t.jsonl").write_text(odd, encoding="utf-8")
    assert read(tmp_path, jsonl="t.jsonl") == [("", "a\ufffdb")], "half a character"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"zh": "a"', "not JSON: Expecting ',' delimiter: {\"zh\": \"a\""),
        ('{"zh": "a", "en": "b"} {}', 'not JSON: Extra data: {"zh": "a", "en": "b"} {}'),
        ('{"zh": ' + "9" * 5000, "not JSON: Exceeds the limit"),
        ('{"zh": ' + "[" * 100_000, "not JSON: maximum recursion depth exceeded"),
        ("[1]", "expected one object per line, found [1]"),
        ('{"zh": "a", "de": "b"}', 'found the keys zh, de; expected {"translation": {"zh": …, '
         '"en": …}}, the two languages themselves, src and tgt, or source and target'),
        ('{"translation": {"fr": "a"}}', "found the keys fr; expected"),
        (json.dumps({f"k{i}": 1 for i in range(9999)}), "found the keys k0, k1"),
        ('{"zh": 3, "en": "b"}', "expected text, found int"),
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_jsonl_mistakes(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "t.jsonl").write_text('{"zh": "a", "en": "b"}\n' + line, encoding="utf-8")
    told = refusal(tmp_path, jsonl="t.jsonl")
    assert f"t.jsonl: line 2: {message}" in told
    assert len(told) < 2000


@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow"])
def test_columns_of_tables(tmp_path: Path, ending: str) -> None:
    import pyarrow

    zh, en = [["一", None, "三"], ["1", "2", None]]
    expected = [("一", "1"), ("", "2"), ("三", "")]
    nested = [{"en": e, "zh": z} for z, e in zip(zh, en, strict=True)]
    path = tmp_path / f"t.{ending}"
    for columns, pairs, why in (
        ({"id": [1, 2, 3], "en": en, "zh-CN": zh}, expected, "other columns"),
        ({"translation": nested}, expected, "as Hugging Face has it"),
        ({"translation": [None, *nested[1:]]}, [("", ""), *expected[1:]], "a row is missing"),
        ({"zh": zh, "en": pyarrow.array(en).dictionary_encode()}, expected, "encoded text"),
        ({"zh": pyarrow.array(zh, pyarrow.large_string()), "en": en}, expected, "large text"),
        ({"zh": pyarrow.array(zh, pyarrow.string_view()), "en": en}, expected, "as Polars has it"),
        ({"zh": zh, "en": [None] * 3}, [("一", ""), ("", ""), ("三", "")], "no target"),
    ):
        write_table(path, columns)
        assert read(tmp_path, path=path.name) == pairs, why


def test_table_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for columns, message in (
        ({"zh": ["a"], "de": ["b"]}, "found the keys zh, de; expected"),
        ({"zh": ["a"], "en": [1]}, "column en: expected text, found int64"),
        ({"zh": [None], "en": [None]}, "columns zh and en: hold nothing but missing values"),
    ):
        write_table(path, columns)
        assert f"{path}: {message}" in refusal(tmp_path, path="t.parquet")
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
