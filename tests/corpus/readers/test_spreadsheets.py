"""CSV, TSV and workbooks as people have them: the pairs, and what was taken for what."""

import csv
import gzip
import io
import random
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading import PAIRS, ZH_EN, read, refusal, turned
from workbook import Cell, write_workbook

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.readers.pairs import describe_tables, read_numbered
from transformer_mt.corpus.readers.spreadsheets import column_name, is_parallel, layout_of
from transformer_mt.errors import DataError

ZH = ["你好！", "他走了，再见。", "「好」的引号"]
EN = ["Hello!", "He left, bye.", 'A "quoted" one']
ROWS = list(zip(ZH, EN, strict=True))
HEADER = ("Chinese", "English")


def written(rows: list[tuple[str, ...]], separator: str = ",", *, all_quoted: bool = False) -> str:
    text = io.StringIO()
    quoting = csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL
    csv.writer(text, delimiter=separator, quoting=quoting).writerows(rows)
    return text.getvalue()


def described(root: Path, name: str, languages: Languages = ZH_EN) -> str:
    (line,) = describe_tables(Source(path=name), languages, root)
    assert line.startswith(f"{root / name}: ")
    return line.partition(": ")[2]


@pytest.mark.parametrize(
    ("text", "encoding", "found", "why"),
    [
        (written(ROWS), "utf-8", "columns A and B; no header; cells between commas", "plain"),
        (written([HEADER, *ROWS]), "utf-8-sig", "columns A (Chinese) and B (English); the first "
         "row is a header; cells between commas", "CSV UTF-8 of Excel"),
        (written([HEADER, *ROWS], ";"), "utf-8", "between semicolons", "German Excel"),
        (written([HEADER, *ROWS], "|"), "utf-8", "between bars", "bars"),
        ("sep=;\r\n" + written([HEADER, *ROWS], ";"), "utf-8-sig", "columns A (Chinese) and B "
         "(English); the first row is a header; cells between semicolons", "a line for Excel"),
        (written([HEADER, *ROWS], "\t"), "utf-16", "cells between tabs; quotes around cells taken "
         "off; UTF-16 text", "Unicode text of Excel"),
        (written([HEADER, *ROWS]), "gb18030", "GB18030 text", "CSV of a Chinese Excel"),
        (written(ROWS, all_quoted=True), "utf-8", "between commas", "all cells quoted"),
        (written([("中文", "英文"), *ROWS]), "utf-8", "(Chinese) and B (English)", "Chinese names"),
        (written([("ZH-CN", "en_US"), *ROWS]), "utf-8", "(Chinese) and B (English)", "codes"),
        (written([("原文", "译文"), *ROWS]), "utf-8", "B; the first row is a header", "sides"),
        (written([("Source text", "Target"), *ROWS]), "utf-8", "is a header", "sides in English"),
        (written([("Source (Chinese)", "Translation (EN)"), *ROWS]), "utf-8", "(English)", "both"),
        (written([("中文原文", "英文译文"), *ROWS]), "utf-8", "(Chinese) and B (English)", "both"),
        (written([("Traditional Chinese", "English"), *ROWS]), "utf-8", "is a header", "script"),
        (written([("zh-TW", "en", "zh-CN"), *(("繁", en, zh) for zh, en in ROWS)]), "utf-8",
         "columns C (Chinese) and B (English)", "both scripts"),
        (written([("zh_id", "zh", "en_url", "en"), *(("1", zh, "u", en) for zh, en in ROWS)]),
         "utf-8", "columns B (Chinese) and D (English)", "the simplest name"),
        (written([("English", "Chinese", "en_id", "zh_id"),
                  *((en, zh, "1", "2") for zh, en in ROWS)]),
         "utf-8", "columns B (Chinese) and A (English)", "not the shortest"),
        ("Our texts,\r\n\r\n" + written([HEADER, *ROWS]), "utf-8", "(Chinese) and B (English); the "
         "first row with several texts is a header", "a title"),
        ("Our texts\r\n" + written([HEADER, *ROWS], "|"), "utf-8", "is a header", "a title alone"),
        ("Our texts\r\n" + written([HEADER, *ROWS], "\t"), "utf-8", "quotes around cells taken off",
         "a title above tabs"),
        ("Our texts\r\n" + written([HEADER, *ROWS], "\t", all_quoted=True), "utf-8", "is a header; "
         "cells between tabs; quotes around cells taken off", "a title alone without quotes"),
    ],
)  # fmt: skip
def test_text_tables(tmp_path: Path, text: str, encoding: str, found: str, why: str) -> None:
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    assert read(tmp_path, path="t.csv") == ROWS, why
    assert found in described(tmp_path, "t.csv"), why
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode(encoding)))
    assert read(tmp_path, path="t.csv.gz") == ROWS, "compressed"


def test_a_long_cell_hides_no_separator(tmp_path: Path) -> None:
    csv.field_size_limit(1 << 17)  # of Python, until a table is read
    rows = [*ROWS, ("很，长" * 50_000, "long; very long")]
    (tmp_path / "t.csv").write_text(written(rows, ";"), encoding="utf-8", newline="")
    assert read(tmp_path, path="t.csv") == rows


@pytest.mark.parametrize("ending", [".xlsx", ".ods"])
@pytest.mark.parametrize(
    ("rows", "found", "why"),
    [
        (ROWS, "columns A and B; no header; sheet Eins", "plain"),
        ([HEADER, *ROWS], "columns A (Chinese) and B (English); the first row", "named"),
        ([("English", "Note", "Chinese"), *((en, "x", zh) for zh, en in ROWS)],
         "columns C (Chinese) and A (English); the first row is a header", "by name"),
        ([(1, zh, en) for zh, en in ROWS], "columns B and C; no header", "numbered"),
        ([("ID", "中文", "English"), *((i, *row) for i, row in enumerate(ROWS))],
         "columns B (Chinese) and C (English)", "numbered, with names"),
        ([("", ""), *ROWS[:1], ("", ""), *ROWS[1:]], "columns A and B; no header", "empty rows"),
        ([("", "Our texts", ""), ("2026", "", ""), ("ID", "Chinese", "English"),
          *((i, *row) for i, row in enumerate(ROWS))],
         "C (English); the first row with several texts is a header", "a title and a year"),
    ],
)  # fmt: skip
def test_workbooks(
    tmp_path: Path, ending: str, rows: list[tuple[Cell, ...]], found: str, why: str
) -> None:
    write_workbook(tmp_path / f"t{ending}", {"Eins": rows})
    assert read(tmp_path, path=f"t{ending}") == ROWS, why
    assert found in described(tmp_path, f"t{ending}"), why
    assert read(tmp_path, path=f"t{ending}", limit=2) == ROWS[:2]


@pytest.mark.parametrize(
    ("ending", "line"),
    [
        (".xlsx", ""),
        (".ods", ""),
        (".csv", ""),
        (".csv", "sep=,\n"),
        (".tsv", ""),
        (".tsv", "sep=\t\n"),
    ],
)
@pytest.mark.parametrize(
    "top", [[], [HEADER], [("", ""), HEADER, ("", "")], [("A title", ""), HEADER]]
)
def test_pairs_are_named_by_their_rows(
    tmp_path: Path, ending: str, line: str, top: list[tuple[Cell, ...]]
) -> None:
    """As a program for tables numbers them: those that are above, empty, or of several lines."""
    several = "第一行\n第二行" if ending != ".tsv" else "一行"
    below: list[tuple[Cell, ...]] = [*ROWS, ("", ""), (several, "two lines"), ("空的", "")]
    rows = [*top, *below]
    path = tmp_path / f"t{ending}"
    if ending in (".csv", ".tsv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            file.write(line)
            csv.writer(file, delimiter="," if ending == ".csv" else "\t").writerows(rows)
    else:
        write_workbook(path, {"S": rows})
    found = read_numbered(Source(path=path.name), ZH_EN, root=tmp_path, role="train")
    with_text = [row for row in enumerate(rows, 1) if row[1] in below and any(row[1])]
    assert list(found) == with_text and len(with_text) == 5
    limited = Source(path=path.name, limit=2)
    assert list(read_numbered(limited, ZH_EN, root=tmp_path, role="train")) == with_text[:2]


def test_direction_of_columns(tmp_path: Path) -> None:
    """The header decides; columns without a language follow `direction`."""
    backwards = turned(ROWS)
    back = ZH_EN.reversed()
    write_workbook(tmp_path / "named.xlsx", {"S": [HEADER, *ROWS]})
    write_workbook(tmp_path / "plain.xlsx", {"S": ROWS})
    write_workbook(tmp_path / "sides.xlsx", {"S": [("source", "target"), *ROWS]})
    for name in ("named.xlsx", "plain.xlsx", "sides.xlsx"):
        assert read(tmp_path, back, path=name, direction="zh-en") == backwards, name
    assert read(tmp_path, back, path="named.xlsx") == backwards
    assert read(tmp_path, back, path="plain.xlsx") == ROWS, "the first is the source"


def test_several_sheets(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    sheets = {"Read me": [["Made by hand"]], "Empty": [], "Old": ROWS[:1], "New": [HEADER, *ROWS]}
    write_workbook(path, sheets)
    assert read(tmp_path, path="t.xlsx") == ROWS, "the one with a header"
    assert described(tmp_path, "t.xlsx").endswith("sheet New, not Read me, Old")
    write_workbook(path, {"Read me": [["Made by hand"]], "Old": ROWS[:1]})
    assert read(tmp_path, path="t.xlsx") == ROWS[:1]


def test_cells_that_are_no_text(tmp_path: Path) -> None:
    rows: list[tuple[Cell, ...]] = [
        ("三百万", 3000000),
        ("一点五", 1.5),
        ("长", 1234567.25),
        ("空", ""),
    ]
    write_workbook(tmp_path / "t.xlsx", {"S": rows})
    assert read(tmp_path, path="t.xlsx") == [
        ("三百万", "3000000"), ("一点五", "1.5"), ("长", "1234567.25"), ("空", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('"你好"\t"Hello"\n', "a quotation on both sides"),
        ('他说："走"\tHe said "go"\n', "quotes inside"),
        ('"走"他说\t"Go," he said\n', "a quotation at the start"),
        ('"a\tb\nc\td"\n', "quotes that are not closed"),
        ('一"\tb""\n', "doubled at the end"),
        ('"a ""b"" c"\td\n他说："走"\tx\n', "doubled, but others are not"),
        ('"a ""b"" c"\t"d\n' * 3, "doubled, and open"),
        ('一, 二\t"x, y"\n' * 9, "commas, with quotes and without"),
        ("zh\tde\n", "names of other languages"),
        ("是\tis\n", "a word that is a code"),
        ("中文\tChinese\n", "a word for the language, on both sides"),
        ("我说英文\tI speak English\n", "a sentence with a language"),
        ("\t\n", "no text"),
    ],
)
def test_quotes_of_a_plain_tsv_are_text(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "t.tsv").write_text(text, encoding="utf-8")
    pairs = [tuple(line.split("\t")) for line in text.splitlines()]
    assert read(tmp_path, tsv="t.tsv") == pairs, why


@pytest.mark.parametrize(
    ("rows", "all_quoted", "why"),
    [
        (ROWS, False, "doubled quotes"),
        ([("一行\n两行", "one\ntwo"), *ROWS], False, "a line end in a cell"),
        ([("好", "good")] * 9, True, "all cells"),
    ],
)
def test_a_tsv_of_a_spreadsheet(
    tmp_path: Path, rows: list[tuple[str, ...]], all_quoted: bool, why: str
) -> None:
    (tmp_path / "t.tsv").write_text(written(rows, "\t", all_quoted=all_quoted), newline="")
    assert read(tmp_path, path="t.tsv") == rows, why
    assert "quotes around cells taken off" in described(tmp_path, "t.tsv")
    commas = "".join(f'他走了{i}\t"He left, {i}"\n' for i in range(9))
    (tmp_path / "t.tsv").write_text(commas)
    assert read(tmp_path, path="t.tsv")[1] == ("他走了1", "He left, 1"), "Excel quotes commas"


def test_a_header_of_a_plain_tsv(tmp_path: Path) -> None:
    lines = "".join(f"{zh}\t{en}\n" for zh, en in PAIRS)
    (tmp_path / "t.tsv").write_text("中文\tEnglish\n" + lines)
    assert read(tmp_path, path="t.tsv") == PAIRS
    assert "the first row is a header" in described(tmp_path, "t.tsv")
    (tmp_path / "t.tsv").write_text(lines)
    assert describe_tables(Source(path="t.tsv"), ZH_EN, tmp_path) == [], "nothing to tell"
    (tmp_path / "t.tsv").write_text(
        "".join(f"{i}\t{zh}\t{i}\t{en}\n" for i, (zh, en) in enumerate(PAIRS))
    )
    assert read(tmp_path, path="t.tsv") == PAIRS, "of four columns, those with text"


def test_layouts_without_languages(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "t.xlsx", {"S": [("Deutsch", "Français"), ("Ja", "Oui")]})
    assert layout_of(path).codes == ("de", "fr")
    write_workbook(path, {"S": [("", "Ja", "Oui")] * 3})
    assert (layout_of(path).codes, layout_of(path).columns) == (None, (1, 2))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", written([("a", "b", "c")] * 3), "expected two columns of text; its first row is "
         "a | b | c; give it a first row that names the two columns by their languages"),
        ("t.csv", "just text\n", "expected two columns of text; its first row is just text"),
        ("t.csv", "", "holds no text"),
        ("t.csv", "你好,Hello\n再见,Bye, bye\n好,Good\n", "row 2: has 3 cells, expected 2: 再见 | "
         "Bye |  bye; put cells that hold a separator in quotes, or save the table as XLSX"),
        ("t.csv", '你好,Hello\n"好" 的,Good\n', "line 2: ',' expected after '\"'"),
        ("t.csv", "French,German\noui,ja\n", "its header names French, German, but languages are "
         "zh → en; give two of these as languages: fr, de"),
        ("t.csv", "größer,bigger\n".encode("cp1252"), "is not UTF-8; save it as CSV UTF-8, or as "
         "XLSX, in the program that wrote it"),
        ("t.csv", "한국어입니다,Korean\n".encode("cp949"), "is not UTF-8; save it as CSV UTF-8"),
        ("t.xlsx", b"no workbook", "cannot be read as a workbook: "),
        ("t.xlsx", b"PK\x03\x04 damaged", "cannot be read as a workbook: "),
        ("t.ods", b"", "cannot be read as a workbook: "),
    ],
    ids=str,
)  # fmt: skip
def test_mistakes(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(data)
    told = refusal(tmp_path, path=name)
    assert told.startswith(f"{tmp_path / name}: ")
    assert message in told


def test_a_workbook_that_swells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformer_mt.corpus.readers import workbooks

    write_workbook(tmp_path / "t.xlsx", {"S": ROWS * 99})
    monkeypatch.setattr(workbooks, "_LARGEST", 9999)
    assert "unpacked, more than" in refusal(tmp_path, path="t.xlsx")


@pytest.mark.parametrize(
    ("place", "cell", "refused"),
    [
        ("XFD1048576", '<c r="XFD1048576"><v>1</v></c>', True),
        ("XFD1048576", '<c s="1" t="n" r="XFD1048576"><v>1</v></c>', True),
        ("XFD1048576", "<c r='XFD1048576'><v>1</v></c>", True),
        ("C100000", '<c r="C100000"><v>1</v></c>', False),
        ("AZ9", '<c r="AZ9"><v>1</v></c>', False),
        ("A9", '<c r="A9" t="inlineStr"><is><t>&lt;c r="XFD1048576"></t></is></c>', False),
    ],
)
def test_a_cell_far_from_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, cell: str, refused: bool
) -> None:
    """All cells between would be read into memory, which ends the process in the worst case."""
    from transformer_mt.corpus.readers import workbooks

    monkeypatch.setattr(workbooks, "_CHUNK", 50)  # borders between chunks hide none
    row = place.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    with_another_cell(
        write_workbook(tmp_path / "t.xlsx", {"S": [HEADER, *ROWS]}),
        f'<row r="{row}">{cell}</row>',
    )
    if refused:
        told = refusal(tmp_path, path="t.xlsx")
        assert "a cell stands in column 16,384, and one in row 1,048,576; delete what" in told
    else:
        assert read(tmp_path, path="t.xlsx")[:3] == ROWS


def with_another_cell(path: Path, row: str) -> None:
    """Add a row to the only sheet of an XLSX."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text.replace("</sheetData>", f"{row}</sheetData>"))


def test_damaged_workbooks_end_in_a_message(tmp_path: Path) -> None:
    choose, n_refused = random.Random(1), 0
    for name in ("t.xlsx", "t.ods"):
        whole = write_workbook(tmp_path / name, {"S": [HEADER, *ROWS]}).read_bytes()
        for _ in range(100):
            data = bytearray(whole)
            for _ in range(choose.randrange(1, 4)):
                data[choose.randrange(len(data))] = choose.randrange(256)
            (tmp_path / name).write_bytes(data[: choose.choice([len(data), len(data) // 2])])
            try:
                assert read(tmp_path, path=name) == ROWS, "what is read is the whole"
            except DataError as error:
                n_refused += 1
                assert str(error).startswith(str(tmp_path / name)) and "\n" not in str(error)
    assert n_refused > 50


TEXT = st.text('""\', ab好\r\u2028', max_size=12)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=6), st.integers(0, 5))
def test_quotes_in_the_midst_make_all_quotes_text(
    tmp_path: Path, pairs: list[tuple[str, str]], where: int
) -> None:
    """A line that no spreadsheet writes: the rest of the file is read as it stands."""
    pairs.insert(where, ('他说"好"', 'he said "good"'))
    lines = [f"{src.rstrip()}x\t{tgt.rstrip()}x" for src, tgt in pairs]
    path = tmp_path / "t.tsv"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    expected = [(src.rstrip() + "x", tgt.rstrip() + "x") for src, tgt in pairs]
    assert read(tmp_path, path="t.tsv") == expected


def test_tables_of_a_folder_are_read_if_they_are_in_the_languages(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    write_workbook(folder / "a.xlsx", {"S": [HEADER, *ROWS]})
    (folder / "b.csv").write_text(written([("file", "licence"), ("a.txt", "CC BY")] * 9))
    (folder / "c.csv").write_text(
        written([("天气很好，我们去公园吧。", "The weather is fine today.")] * 9)
    )
    assert read(tmp_path, path="c") == [*ROWS, *read(folder, path="c.csv")]
    assert is_parallel(folder / "c.csv", ZH_EN.reversed())
    (folder / "d.csv").write_text(
        written([("天氣很好，我們去公園吧。", "The weather is fine.")] * 9)
    )
    assert is_parallel(folder / "d.csv", ZH_EN), "the other script is Chinese as well"
    (folder / "e.csv").write_text(written([("zh", "en"), ("一", "one")]) + "一,one,two\n")
    with pytest.raises(DataError, match=r"e\.csv"):  # none is left out in silence
        read(tmp_path, path="c")


def test_names_of_columns() -> None:
    assert [column_name(i) for i in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]


def test_lines_that_end_with_cr_alone(tmp_path: Path) -> None:
    (tmp_path / "mac.csv").write_bytes("zh,en\r你好,hello\r".encode())
    assert refusal(tmp_path, path="mac.csv") == (
        f"{tmp_path}/mac.csv: line 1: holds a carriage return (CR) outside of quotes; if its lines "
        f"end with CR alone, write: tr '\\r' '\\n' < {tmp_path}/mac.csv > NEW"
    )
