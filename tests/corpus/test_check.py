"""Two files as training data: what is counted, and what a person should look at."""

import re
from pathlib import Path

import pytest

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.check import check_files
from transformer_mt.corpus.report.page import write_page
from transformer_mt.errors import DataError

ZH_EN = Languages(src="zh", tgt="en")
ZH = ["我们来学习汉语", "这个问题很难", "他们开车回来了。", "天气真热", "你好吗？"]
EN = ["We learn Chinese.", "This is hard.", "They drove back.", "It is hot.", "How are you?"]


def write(folder: Path, name: str, zh: list[str], en: list[str]) -> tuple[Path, Path]:
    paths = folder / f"{name}.zh", folder / f"{name}.en"
    for path, lines in zip(paths, (zh, en), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def two_files(src: Path, tgt: Path) -> Source:
    return Source(files=[str(src), str(tgt)])


def test_good_files(tmp_path: Path) -> None:
    report = check_files(*write(tmp_path, "c", ZH, EN), ZH_EN)
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
    problems = check_files(*paths, ZH_EN, tests=tests).problems
    assert len(problems) == bool(found)
    assert not found or re.match(f"{tests[0]}: {found}".replace("+", r"\+"), problems[0])


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    paths = write(tmp_path, "c", ZH, [*EN, "one more"])
    report = check_files(*paths, ZH_EN)
    assert "has 5 lines but" in report.problems[0]
    with pytest.raises(DataError, match=r"c\.de: no such file"):
        check_files(paths[0], tmp_path / "c.de", ZH_EN)
    with pytest.raises(DataError, match=r"t\.en: no such file"):
        test = two_files(paths[0], tmp_path / "t.en")
        check_files(*write(tmp_path, "c", ZH, EN), ZH_EN, tests=[test])


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
    report = check_files(*write(tmp_path, "c", zh, en), ZH_EN)
    assert report.parts["pairs"].kept == 0
    told = f"nothing is kept: {len(zh):,} pairs read; dropped: {found}"
    assert told in report.problems, why
    assert ("they look swapped" in report.problems[-1]) is (why == "sides swapped")
    assert report.profile is None
    write_page(report, tmp_path / "page.html")
    assert told in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_carriage_returns_that_should_end_lines(tmp_path: Path) -> None:
    problems = check_files(*write(tmp_path, "c", ["\r".join(ZH)], EN[:1]), ZH_EN).problems
    assert "1 line on the source side holds 4 carriage returns" in problems[0]
    problems = check_files(*write(tmp_path, "c", [f"{zh}\r" for zh in ZH], EN), ZH_EN).problems
    assert problems == [], "CR LF ends lines as well"
    report = check_files(*write(tmp_path, "c", [], []), ZH_EN)
    assert report.problems == ["nothing is kept: both files are empty"]
