"""The page of a report: whole, balanced, self-contained, and never the text's to command."""

import re
from pathlib import Path

import pytest
from parsed_page import HOSTILE, ParsedPage

from transformer_mt.config.data import Languages
from transformer_mt.corpus.report.page import bins, percent, write_page
from transformer_mt.corpus.report.profile import (
    LENGTH_EDGES,
    Histogram,
    VocabularyReport,
    profile,
)
from transformer_mt.corpus.report.report import (
    CorpusReport,
    PartReport,
    RuleReport,
    Sample,
    ShiftedLine,
    ShiftedLines,
    SourceReport,
)

ZH_EN = Languages(src="zh", tgt="en")


def full_report(text: str = "text", languages: Languages = ZH_EN) -> CorpusReport:
    """Every field that can hold text holds `text`."""
    samples = [Sample(text, text, text, 1.5), Sample(text, text, text)]
    rules = {text: RuleReport(text, text, 3, samples, samples), "r": RuleReport(6, "score", 0)}
    origin = {"name": text, "url": text, "sha256": text, "size": 3, "licence": text}
    lines = [ShiftedLine(6, text, text, text, "own"), ShiftedLine(7, text, text, text, "shifted")]
    return CorpusReport(
        parts={text: PartReport(100, 90, rules), "dev": PartReport(3, 3)},
        held_out={"dev": 7},
        problems=[text],
        notes=[text],
        fingerprint=text,
        languages=languages,
        sources=[SourceReport(text, 100, 90, 1.0, text, [origin])],
        profile=profile([("我喜欢你", "I like you 2"), ("他来了", "He came.")], ZH_EN),
        vocabulary={text: VocabularyReport(8000, 0.0, 0.01, None, 0.8, 0.9, 0.99)},
        shifted=[ShiftedLines(text, 7, 1234, 1, lines, lines[::-1])],
        random_kept=samples,
        worst_kept=samples,
        seconds={text: 1.5},
    )


def written(found: CorpusReport, tmp_path: Path) -> ParsedPage:
    write_page(found, tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    return ParsedPage(tmp_path / "report.html")


def test_json_and_back() -> None:
    for report in (full_report("我想喝"), CorpusReport({})):
        assert CorpusReport.from_json(report.to_json()) == report
    assert "我想喝" in full_report("我想喝").to_json()  # readable, not escaped


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    """The same elements with the same attributes: the text could add none."""
    text = "".join(HOSTILE)
    attacked = written(full_report(text), tmp_path)
    assert attacked.shape() == written(full_report(), tmp_path).shape()
    assert attacked.text.count(re.sub("[\x00-\x1f\x7f\ud800\uffff]", "�", text)) >= 25


@pytest.mark.parametrize(
    ("url", "is_link"), [("https://example.org/x.js", True), ("javascript:alert(1)", False)]
)
def test_no_network_no_script_and_links_to_the_web_only(
    url: str, is_link: bool, tmp_path: Path
) -> None:
    page = written(full_report(url), tmp_path)
    assert page.needs_nothing_else() and not page.scripts
    assert page.values_of("href") == [url] * is_link


@pytest.mark.parametrize(
    ("languages", "codes"),
    [
        (Languages(src="zh", tgt="en"), {"zh-Hans", "en"}),
        (Languages(src="de", tgt="zh-Hant"), {"de", "zh-Hant"}),
    ],
)
def test_chinese_text_says_that_it_is_chinese(
    languages: Languages, codes: set[str], tmp_path: Path
) -> None:
    page = written(full_report(languages=languages), tmp_path)
    assert set(page.values_of("lang")[1:]) == codes


def test_the_numbers_are_there(tmp_path: Path) -> None:
    text = " ".join(written(full_report(), tmp_path).text.split())
    for expected in ("90 of 100", "held out 7 (7.0 %)", "dropped 3 (3.0 %)",
                     "1 thing to look at", "text: lines 7 to 1234 fit better one line apart",
                     "Data of text: 90 of 100 pairs kept, Chinese → English"):  # fmt: skip
        assert expected in text


def test_the_title_says_the_run_and_its_result(tmp_path: Path) -> None:
    for name, report, expected in [
        ("my", full_report(), "Data of my: 90 of 100 pairs kept, Chinese → English"),
        (None, CorpusReport({"pairs": PartReport(3, 2)}), "Data report: 2 of 3 pairs kept"),
    ]:
        write_page(report, tmp_path / "report.html", name=name)
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert f"<title>{expected}</title>" in page and f"<h1>{expected}</h1>" in page


def test_the_target_that_fits_is_marked(tmp_path: Path) -> None:
    page = written(full_report(), tmp_path)
    labels = [(own["data-label"], own["class"]) for tag, own in page.elements
              if tag == "td" and "target of" in str(own.get("data-label"))]  # fmt: skip
    assert labels[:4] == [
        ("target of this line", "fits"), ("target of the next line", ""),
        ("target of this line", ""), ("target of the next line", "fits"),
    ]  # fmt: skip


def test_a_report_that_knows_little_is_a_page_too(tmp_path: Path) -> None:
    assert "No problem found" in written(CorpusReport({"pairs": PartReport(0, 0)}), tmp_path).text
    origin = {"name": "n", "url": "https://a.org", "sha256": None, "size": None, "licence": None}
    sources = [SourceReport("a", 5, 5, origins=[origin])]
    unknown = CorpusReport({"pairs": PartReport(5, 5)}, sources=sources)
    assert "Licence not stated" in written(unknown, tmp_path).text


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0, "0 %"), (0.00001, "< 0.01 %"), (0.0042, "0.42 %"), (0.5, "50.0 %"), (0.9994, "99.94 %"),
     (0.99999, "> 99.99 %"), (1, "100 %")],
)  # fmt: skip
def test_percent(share: float, expected: str) -> None:
    assert percent(share) == expected


def test_bins_of_a_histogram() -> None:
    """Sides are compared over the same bins; the last one is open."""
    edges, counts = [float(edge) for edge in LENGTH_EDGES], [0] * len(LENGTH_EDGES)
    short = Histogram(edges, [0, 0, 3, 1, *counts[4:]])
    long = Histogram(edges, [*counts[:-1], 2])
    found = bins(short, [short, long])
    assert len(found) == len(edges) - 2 and len(bins(short, [short])) == 2
    assert found[0] == (1.0, "3", 3, 0.75, "")
    assert found[1] == (1 / 3, "4–5", 1, 0.25, "4")
    assert bins(long, [long]) == [(1.0, "1,448 and more", 2, 1.0, "")]
