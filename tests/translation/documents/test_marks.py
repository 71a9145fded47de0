"""Marks in translations: each once, nested properly, around words that come from their words."""

from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from xml.etree import ElementTree

import pyromark
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from transformer_mt.translation.documents.html import read_html
from transformer_mt.translation.documents.markdown import read_markdown
from transformer_mt.translation.documents.marks import Align, Mark, Token, place
from transformer_mt.translation.documents.spans import has_words
from transformer_mt.translation.documents.xml_text import read_xml

WORDS = ["one", "two", "three", "don't", "字", "多，", "(a)", "it.", "—", "x_y", "3"]
OPTIONS = pyromark.Options.ENABLE_STRIKETHROUGH
TRANSLATORS: dict[str, Callable[[str], str]] = {
    "reversal": lambda text: " ".join(reversed(text.split())),
    "every second word": lambda text: " ".join(text.split()[::2]),
    "one word": lambda text: "word",
    "twice": lambda text: f"{text} {text}",
    "Chinese": lambda text: "这是一句，没有空格的话。",
    "marks": lambda text: f"*{text}_ <b>`",
    "punctuation": lambda text: "…!",
}


def joined(words: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(words, min_size=1, max_size=3).map(" ".join)


def words_with(
    mark: Callable[[st.SearchStrategy[str]], st.SearchStrategy[str]],
) -> st.SearchStrategy[str]:
    """Texts in which marks stand side by side and within each other."""
    some = joined(st.sampled_from(WORDS))
    return joined(st.recursive(some, lambda inner: mark(joined(inner)), max_leaves=8))


def html_mark(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    forms = "<b>{}</b>", "<a href='u'>{}</a>", "<i>\n{}</i>", "{}<img>", "{} <img> x", "<u></u>{}"
    others = "<code>c</code> {}", "<own-tag>{}</own-tag>"
    return st.builds(str.format, st.sampled_from([*forms, *others]), inner)


def xml_mark(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    forms = (
        "<b>{}</b>|<p>{}</p>|<p><b>{}</b></p>|{}<x/>|<x id='1'/>{}|<p></p>{}|<img>{}</img>|"
        "<文>{}</文>|<style>{}</style>|<n translate='no'>x</n>{}|&#97; {}|<!-- x -->{}"
    ).split("|")
    return st.builds(str.format, st.sampled_from(forms), inner)


def markdown_mark(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    forms = "**{}**;*{}*;_{}_;~~{}~~;[{}](u);![{}](v);<b>{}</b>;{} `c`;[](w)\n{}".split(";")
    return st.builds(str.format, st.sampled_from(forms), inner)


class Tags(HTMLParser):
    """Counts elements, and looks whether they are nested properly."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.text, self.stack = "", [""]
        self.nested = True
        self.feed(page)
        self.close()
        self.nested &= self.stack == [""]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        if tag != "img":
            self.stack.append(tag)
        self.text += "".join(value or "" for name, value in attrs if name == "alt")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self.nested &= self.stack[-1] == tag
        self.stack = self.stack[: self.stack[-1] and -1]

    def handle_data(self, data: str) -> None:
        if self.stack[-1] != "code":
            self.text += data


def bare(text: str) -> str:
    return "".join(text.split())


def drawn(data: st.DataObject) -> Align:
    def align(text: str, translation: str) -> list[int]:
        positions = st.integers(-1, len(text) - 1)
        return data.draw(st.lists(positions, min_size=len(translation), max_size=len(translation)))

    return align


@settings(max_examples=200, deadline=None)
@given(words_with(html_mark), st.sampled_from(list(TRANSLATORS)), st.data())
def test_html_stays_well_formed(page: str, name: str, data: st.DataObject) -> None:
    document = read_html(page)
    assert document.rebuild(document.segments) == page
    translations = [TRANSLATORS[name](segment) for segment in document.segments]
    for alignment in (None, drawn(data)):
        written = document.rebuild(translations, alignment)
        assert Tags(written).nested and Tags(written).elements == Tags(page).elements
        if "<code>" not in page and translations:
            assert bare(Tags(written).text) == bare("".join(translations))


@settings(max_examples=200, deadline=None)
@given(words_with(xml_mark), st.sampled_from(list(TRANSLATORS)), st.data())
def test_xml_stays_well_formed(page: str, name: str, data: st.DataObject) -> None:
    document = read_xml(page)
    assert document.rebuild(document.segments) == page
    translations = [TRANSLATORS[name](segment) for segment in document.segments]
    before = ElementTree.fromstring(f"<all>{page}</all>")
    for alignment in (None, drawn(data)):
        after = ElementTree.fromstring(f"<all>{document.rebuild(translations, alignment)}</all>")
        assert Counter(one.tag for one in before.iter()) == Counter(one.tag for one in after.iter())
        said = bare("".join(after.itertext()))
        assert "<n" in page or all(bare(translation) in said for translation in translations)


def rendered(page: str) -> Tags:
    """The paragraphs, emphasis, links, images and code of a page of Markdown."""
    return Tags(pyromark.html(page, options=OPTIONS))


@settings(max_examples=300, deadline=None)
@given(words_with(markdown_mark), st.sampled_from(list(TRANSLATORS)))
def test_markdown_stays_well_formed(page: str, name: str) -> None:
    assume(rendered(page).nested)
    document = read_markdown(page)
    assert document.rebuild(document.segments) == page
    translations = [TRANSLATORS[name](segment) for segment in document.segments]
    written = document.rebuild(translations)
    assert rendered(written).nested and rendered(written).elements == rendered(page).elements
    assert written.count("\n") == page.count("\n")
    if "`c`" not in page and name != "punctuation":
        with_words = [text for text in translations if has_words(text)]
        assert list(map(bare, read_markdown(written).segments)) == list(map(bare, with_words))


@pytest.mark.parametrize(
    ("page", "translation", "written", "why"),
    [
        ("x **“ab”** c", "因为“ab”他说", "因为<strong>“ab”</strong>他说", "no ** next to a letter"),
        ("a _b_ c", "这是b的", "这是<em>b</em>的", "no _ within a word"),
        ("*a* b *c*", "x", "<em>x</em><em></em>", "fewer words than marks"),
        ("**a** b", "", "**a** b", "nothing to mark"),
        ("a **b.** c", "c b. a", "c **b.** a", "a stop that belongs to the mark"),
        ("a **b** c.", "c b.", "c **b**.", "a stop that does not"),
        ("run `x y` now", "maintenant", "maintenant `x y`", "code that the translation lacks"),
        ("请`x`吧", "Please X now", "Please `x` now", "code in another case"),
        ("`x` or `x y`", "X Y ou X", "`x y` ou `x`", "code within code"),
        ("[`a`](u) b", "b a", "b [`a`](u)", "a link on code"),
        ("a[^1] b[^2] c", "c b a", "c b[^2] a[^1]", "notes follow their words"),
        ("**`a`** b", "b a", "b **`a`**", "emphasis on code"),
        ("![a b](u)", "b a", "![b a](u)", "texts of images"),
        ("> **a\n> b** c", "c b a", "> c **b\n> a**", "a mark over two lines"),
    ],
)  # fmt: skip
def test_where_marks_go(page: str, translation: str, written: str, why: str) -> None:
    document = read_markdown(page)
    translations = [translation, *document.segments[1:]]
    assert document.rebuild(translations, word_by_word) == written, why


def word_by_word(text: str, translation: str) -> list[int]:
    """Equal characters come from each other; others from nothing."""
    return [text.find(character) for character in translation.lower()]


def test_alignment_chooses_the_words() -> None:
    text, translation = "因为它太累了", "because it was too tired"
    origins = [0] * 8 + [2] * 7 + [3] * 3 + [-1] + [4] * 5
    bold = Mark(3, 6, Token("open", "<b>"), Token("close", "</b>"))
    placed = place(text, [bold], translation, origins)
    assert "".join(token.raw for token in placed) == "because it was <b>too tired</b>"
