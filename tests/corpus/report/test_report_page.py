"""The page of a report: whole, balanced, self-contained, and never the text's to command."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from transformer_mt.config.data import Languages
from transformer_mt.corpus.report.charts import percent
from transformer_mt.corpus.report.page import write_page
from transformer_mt.corpus.report.profile import VocabularyReport, profile
from transformer_mt.corpus.report.report import (
    CorpusReport,
    PartReport,
    RuleReport,
    Sample,
    SourceReport,
)
from transformer_mt.rendering.html import Html, element, escape

ZH_EN = Languages(src="zh", tgt="en")
VOID = {"meta", "br", "hr", "col"}
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "</td></table></body></html>",
    "\"><svg onload='x'>",
    "'><a href=javascript:x>",
    "&lt;b&gt; &amp; {{title}} {{body}}",
    "<!-- <![CDATA[ ]]>",
    "\x00\x08\ud800\uffff\u202e",
]


class Page(HTMLParser):
    """Elements that were opened and closed, their attributes, and the text outside of <style>."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


def report(text: str = "text", languages: Languages | None = None) -> CorpusReport:
    """Every field that can hold text holds `text`."""
    samples = [Sample(text, text, text, 1.5), Sample(text, text, text)]
    rules = {text: RuleReport(text, text, 3, samples, samples), "r": RuleReport(6, "score", 0)}
    origin = {"name": text, "url": text, "sha256": text, "size": 3, "licence": text}
    return CorpusReport(
        parts={text: PartReport(100, 90, rules), "dev": PartReport(3, 3)},
        held_out={"dev": 7},
        problems=[text],
        notes=[text],
        fingerprint=text,
        languages=languages or ZH_EN,
        sources=[SourceReport(text, 100, 90, 1.0, text, [origin])],
        profile=profile([("我喜欢你", "I like you 2"), ("他来了", "He came.")], ZH_EN),
        vocabulary={text: VocabularyReport(8000, 0.0, 0.01, None, 0.8, 0.9, 0.99)},
        random_kept=samples,
        worst_kept=samples,
        seconds={text: 1.5},
    )  # fmt: skip


def written(found: CorpusReport, tmp_path: Path) -> str:
    write_page(found, tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    return (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str, tmp_path: Path) -> None:
    harmless, attacked = Page(written(report(), tmp_path)), Page(written(report(text), tmp_path))
    assert attacked.open == []
    # The same elements with the same attributes: the text could add none.
    assert [tag for tag, _ in attacked.elements] == [tag for tag, _ in harmless.elements]
    assert [set(attributes) for _, attributes in attacked.elements] == [
        set(attributes) for _, attributes in harmless.elements
    ]
    assert attacked.text.count(re.sub("[\x00-\x1f\ud800\uffff]", "�", text)) >= 25


def test_no_network_and_no_script(tmp_path: Path) -> None:
    text = written(report("https://example.org/x.js"), tmp_path)
    page = Page(text)
    assert {"script", "link", "img", "iframe", "object"}.isdisjoint(tag for tag, _ in page.elements)
    for tag, attributes in page.elements:
        assert not any(name == "src" or name.startswith("on") for name in attributes)
        if "href" in attributes:
            assert (tag, attributes["href"]) == ("a", "https://example.org/x.js")
    assert "@import" not in text
    assert "url(" not in text


def test_only_web_addresses_become_links(tmp_path: Path) -> None:
    page = Page(written(report("javascript:alert(1)"), tmp_path))
    assert all("href" not in attributes for _, attributes in page.elements)


def test_chinese_text_says_that_it_is_chinese(tmp_path: Path) -> None:
    for languages, codes in (
        (Languages(src="zh", tgt="en"), {"zh-Hans", "en"}),
        (Languages(src="de", tgt="zh-Hant"), {"de", "zh-Hant"}),
    ):
        page = Page(written(report(languages=languages), tmp_path))
        cells = [attributes for tag, attributes in page.elements if tag == "td"]
        assert {cell["lang"] for cell in cells if "lang" in cell} == codes


def test_the_numbers_are_there(tmp_path: Path) -> None:
    text = " ".join(Page(written(report(), tmp_path)).text.split())
    assert "90 of 100" in text
    assert "held out 7 (7.0 %)" in text
    assert "dropped 3 (3.0 %)" in text
    assert "1 thing to look at" in text
    assert "Data report: Chinese → English" in text


def test_a_report_that_knows_little_is_a_page_too(tmp_path: Path) -> None:
    page = Page(written(CorpusReport({"pairs": PartReport(0, 0)}), tmp_path))
    assert page.open == []
    assert "No problem found" in page.text
    origin = {"name": "n", "url": "https://a.org", "sha256": None, "size": None, "licence": None}
    sources = [SourceReport("a", 5, 5, origins=[origin])]
    unknown = CorpusReport({"pairs": PartReport(5, 5)}, sources=sources)
    assert "Licence not stated" in Page(written(unknown, tmp_path)).text


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0, "0 %"), (0.00001, "< 0.01 %"), (0.0042, "0.42 %"), (0.5, "50.0 %"), (0.9994, "99.94 %"),
     (0.99999, "> 99.99 %"), (1, "100 %")],
)  # fmt: skip
def test_percent(share: float, expected: str) -> None:
    assert percent(share) == expected


def test_elements_escape_what_is_text_and_nothing_else() -> None:
    inner = element("b", "<&>")
    assert inner == "<b>&lt;&amp;&gt;</b>"
    assert element("p", inner, "<", class_='"x"') == f'<p class="&quot;x&quot;">{inner}&lt;</p>'
    assert element("a", stroke_width=1.5, dir=None) == '<a stroke-width="1.5"></a>'
    assert escape(Html("<b>")) == "<b>"
