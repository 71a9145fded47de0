"""Two files as training data: what is counted, and what a person should look at."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.check import check_source, source_of_files, tell_languages
from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.corpus.report.page import write_page
from transformer_mt.corpus.report.report import CorpusReport
from transformer_mt.errors import DataError

ZH_EN = Languages(src="zh", tgt="en")
ZH = ["我们来学习汉语", "这个问题很难", "他们开车回来了。", "天气真热", "你好吗？"]
EN = ["We learn Chinese.", "This is hard.", "They drove back.", "It is hot.", "How are you?"]


def write(folder: Path, name: str, zh: list[str], en: list[str]) -> tuple[Path, Path]:
    paths = folder / f"{name}.zh", folder / f"{name}.en"
    for path, lines in zip(paths, (zh, en), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def check_files(*paths: Path, tests: Sequence[Source] = ()) -> CorpusReport:
    return check_source(source_of_files(paths), ZH_EN, tests=tests)


def two_files(src: Path, tgt: Path) -> Source:
    return Source(files=[str(src), str(tgt)])


def test_good_files(tmp_path: Path) -> None:
    report = check_files(*write(tmp_path, "c", ZH, EN))
    assert (report.parts["pairs"].read, report.parts["pairs"].kept) == (5, 5)
    assert report.problems == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.en", "c.zh"]


@pytest.mark.parametrize(
    ("zh", "en", "found"),
    [
        (["天气真热"], ["It was hot."], "1 sources and 0 targets of its 1 pairs .*: line 4;"),
        (["天气 真热！", "早安"], ["IT IS HOT", "Hi"], "1 sources and 1 targets of its 2 pairs"),
        (["今天天气真热"], ["it is hot!"], "0 sources and 1 targets of its 1 pairs"),
        (ZH, EN, "5 sources and 5 targets of its 5 pairs .* lines 1, 2, 3, 4, 5;"),
        (["天气不热", ""], ["It is not hot.", ""], ""),
    ],
)
def test_test_sentences_in_training_text(
    tmp_path: Path, zh: list[str], en: list[str], found: str
) -> None:
    paths = write(tmp_path, "c", [*ZH, ""], [*EN, "x"])
    tests = [two_files(*write(tmp_path, "t", zh, en)), two_files(*write(tmp_path, "u", [], []))]
    problems = check_files(*paths, tests=tests).problems
    assert len(problems) == bool(found)
    assert not found or re.match(f"{tests[0]}: {found}".replace("+", r"\+"), problems[0])


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    paths = write(tmp_path, "c", ZH, [*EN, "one more"])
    report = check_files(*paths)
    assert "has 5 lines but" in report.problems[0]
    with pytest.raises(DataError, match=r"c\.de: no such file"):
        check_files(paths[0], tmp_path / "c.de")
    with pytest.raises(DataError, match=r"t\.en: no such file"):
        test = two_files(paths[0], tmp_path / "t.en")
        check_files(*write(tmp_path, "c", ZH, EN), tests=[test])


@pytest.mark.parametrize(
    ("zh", "en", "found", "why"),
    [
        (EN * 20, ZH * 20, "swapped 100", "sides swapped"),
        ([""] * 500, [""] * 500, "empty 500", "empty lines alone"),
        (["今天天气很好" * 5000], ["the weather is fine " * 5000], "too_long 1", "one long line"),
        (["一" * 5000], ["3"], "too_long 1", "a number of more digits than Python converts"),
        (["\r".join(ZH * 99)], ["\r".join(EN * 99)], "too_long 1", "lines that end with CR"),
    ],
)
def test_nothing_is_kept(
    tmp_path: Path, zh: list[str], en: list[str], found: str, why: str
) -> None:
    report = check_files(*write(tmp_path, "c", zh, en))
    assert report.parts["pairs"].kept == 0
    told = (
        f"nothing is kept: {len(zh):,} pairs read; dropped: {found}; the rule {found.split()[0]} "
    )
    assert any(problem.startswith(told) for problem in report.problems), why
    assert ("looks swapped" in report.problems[0]) is (why == "sides swapped")
    assert report.profile is None
    write_page(report, tmp_path / "page.html")
    assert told in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_carriage_returns_that_should_end_lines(tmp_path: Path) -> None:
    problems = check_files(*write(tmp_path, "c", ["\r".join(ZH)], EN[:1])).problems
    assert (
        "the source side holds 4 carriage returns (CR), more than it has lines (1)" in problems[0]
    )
    problems = check_files(*write(tmp_path, "c", [f"{zh}\r" for zh in ZH], EN)).problems
    assert problems == [], "CR LF ends lines as well"
    report = check_files(*write(tmp_path, "c", [], []))
    assert report.problems == ["nothing is kept: there is no pair"]


def test_more_than_half_dropped_is_a_problem_with_its_rule_and_two_samples(tmp_path: Path) -> None:
    zh, en = ["你好吗？", "", ""], ["How are you?", "One.", "Two."]
    report = check_files(*write(tmp_path, "c", zh, en))
    assert report.problems == [
        "2 of 3 pairs are dropped: empty 2; the rule empty drops most (sides without text), e.g. "
        f"{tmp_path}/c.zh + {tmp_path}/c.en:2  | One.; {tmp_path}/c.zh + {tmp_path}/c.en:3  | Two."
    ]
    assert report.summary()[0] == f"problem: {report.problems[0]}"
    assert check_files(*write(tmp_path, "c", [*zh, "天气真热"], [*en, "It is hot."])).problems == []


def test_swapped_sides_come_first_with_samples_and_the_remedy(tmp_path: Path) -> None:
    zh_path, en_path = write(tmp_path, "c", EN, ZH)
    first, *_ = check_files(zh_path, en_path).problems
    assert first == (
        f"{zh_path} + {en_path}: looks swapped: the zh side is English and the en side is Chinese, "
        "e.g. We learn Chinese. | 我们来学习汉语; This is hard. | 这个问题很难; write {files: "
        f"[{en_path}, {zh_path}]}} under data.train, or give tmt data check --src en --tgt zh"
    )


@pytest.mark.parametrize(
    ("names", "src", "tgt", "expected", "why"),
    [
        (("c.zh", "c.en"), None, None, "zh-en", "names of files"),
        (("c.en", "c.zh"), None, None, "en-zh", "names of files"),
        (("a.txt", "b.txt"), None, None, "zh-en", "text"),
        (("a.txt", "b.txt"), "Chinese", None, "zh-en", "one is given"),
        (("a.txt", "b.txt"), None, "英文", "zh-en", "one is given"),
        (("a.txt", "b.txt"), "yue", None, "yue-en", "the text looks like a near language"),
        (("a.txt", "b.txt"), None, "sco", "zh-sco", "the text looks like a near language"),
        (("1.txt", "b.txt"), "de", None, "de-en", "the text of one side tells nothing"),
        (("c.zh", "c.en"), "de", "fr", "de-fr", "both are given"),
        (("named.csv",), None, None, "en-zh", "names of columns"),
        (("plain.csv",), None, None, "zh-en", "text of columns"),
    ],
)
def test_languages_are_told(
    tmp_path: Path,
    names: tuple[str, ...],
    src: str | None,
    tgt: str | None,
    expected: str,
    why: str,
) -> None:
    zh, en = write(tmp_path, "c", ZH, EN)
    (tmp_path / "a.txt").write_bytes(zh.read_bytes())
    (tmp_path / "b.txt").write_bytes(en.read_bytes())
    (tmp_path / "1.txt").write_text("1\n" * len(EN))
    rows = "".join(f"{a},{b}\n" for a, b in zip(ZH, EN, strict=True))
    (tmp_path / "plain.csv").write_text(rows, encoding="utf-8")
    (tmp_path / "named.csv").write_text(f"English,中文\n{rows}", encoding="utf-8")
    assert tell_languages([tmp_path / name for name in names], src, tgt).pair == expected, why


def test_languages_that_cannot_be_told(tmp_path: Path) -> None:
    zh, en = write(tmp_path, "c", ["1"], ["1"])
    (tmp_path / "a.txt").write_text("1\n")
    with pytest.raises(DataError, match="the languages cannot be told; give both, such as"):
        tell_languages([tmp_path / "a.txt"] * 2, None, None)
    with pytest.raises(DataError, match="give the file of the other side, too"):
        tell_languages([zh], None, None)
    with pytest.raises(DataError, match="both sides are Chinese; give both"):
        tell_languages([zh, en], "zh", "中文")


def test_languages_of_text_of_which_a_later_line_cannot_be_read(tmp_path: Path) -> None:
    """Which line that is, the report tells."""
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path, lines in zip(paths, (ZH, EN), strict=True):
        path.write_bytes("".join(f"{line}\n" for line in lines).encode() + b"\xff\n")
    assert tell_languages(paths, None, None).pair == "zh-en"
    paths[0].write_bytes(b"\xff\n")
    with pytest.raises(DataError, match="line 1"):
        tell_languages(paths, None, None)


def test_lines_of_a_table_are_its_rows(tmp_path: Path) -> None:
    """Two rows below a title and a header is what the first pair of two files is."""
    pairs = build_demo().train[:3000]
    zh, en = ([pair[side] for pair in pairs] for side in (0, 1))
    en[1000:1400] = [*en[1001:1400], "One more."]
    en[2000] = ""
    for line in (10, 20, 30, 40):
        zh[line] = "これはペンです。"
    with (tmp_path / "c.csv").open("w", encoding="utf-8") as file:
        csv.writer(file).writerows([["Our text", ""], ["zh", "en"], *zip(zh, en, strict=True)])
    test = Source(files=list(map(str, write(tmp_path, "t", zh[50:51], en[50:51]))))
    files, table = (
        check_source(source_of_files(paths), ZH_EN, tests=[test])
        for paths in (write(tmp_path, "c", zh, en), (tmp_path / "c.csv",))
    )

    def below(text: str) -> str:
        number = re.compile(r"(?<=line )\d+|(?<=lines )\d+(?:-\d+|, [\d, ]+\d)?")
        return number.sub(lambda m: re.sub(r"\d+", lambda n: str(int(n[0]) + 2), m[0]), text)

    told = [[text.partition(": ")[2] for text in one.problems] for one in (files, table)]
    assert len(told[0]) == 3 and any("one line apart" in text for text in told[0])
    assert told[1] == list(map(below, told[0]))
    for one, other in zip(files.shifted, table.shifted, strict=True):
        assert (other.first, other.last) == (one.first + 2, one.last + 2)
        for lines, moved in ((one.begin, other.begin), (one.end, other.end)):
            assert [line.number + 2 for line in lines] == [line.number for line in moved]
    assert files.shifted
    (sample,) = table.parts["pairs"].rules["empty"].nearest_dropped
    assert sample.where.endswith("c.csv:2003")
