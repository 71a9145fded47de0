"""HTML: text nodes are handed out, in agreement with the parser of Python; the rest stays."""

import random
from html.parser import HTMLParser

import pytest

from transformer_mt.translation.documents.html import read_html


@pytest.mark.parametrize(
    ("text", "segments", "why"),
    [
        ("<p>One <b>two</b> three", ["One two three"], "inline tags do not divide"),
        ("<p>One\n  two </p>", ["One two"], "over several lines"),
        ("<p>一\n二", ["一二"], "without a space in Chinese"),
        ("<title>A &amp; B</title>", ["A & B"], "entities"),
        (
            "a&nbsp;&#98; &copy &nosuch; &#99999999;",
            ["a\xa0b © &nosuch; &#99999999;"],
            "any of them",
        ),
        ("&nbsp;a&#160;", ["a"], "spaces that are spelled as entities stay outside"),
        ("AT&T 2 < 3 <3", ["AT&T 2 < 3 <3"], "marks that are none"),
        ('<a title="x > y" b=\'>\' c=">">d</a>', ["d"], "quoted values"),
        ("<a it's>b</a> don't", ["b don't"], "a quote that begins no value"),
        ('<a x="1>b</a> c', ["b c"], "a quote that never ends"),
        (
            "<!-- a <b>c</b> -->d<!-->e<!doctype x>f<?php a > b ?>g",
            ["de", "fg"],
            "others; comments do not divide",
        ),
        ("<script>a<b>c</b></script>d<STYLE>e</Style >f", ["d", "f"], "scripts and styles"),
        ("<pre>a<b>c</b></pre>d<code>e</code><svg><text>f</text></svg>", ["de"], "code, pictures"),
        ("<textarea><b></textarea>a<math>b</math>c", ["ac"], "forms, formulas"),
        ('<p translate="no">a<p>b</p></p>c <i translate=no>d</i>', ["c d"], "by request"),
        ("<img translate=no>a<br translate='no'/>b", ["a", "b"], "tags without content"),
        ("<svg/>a<code/>b", ["ab"], "elements that end at once"),
        ("<code>a<p>b", [], "code that never ends"),
        ("</code>a</p></x>b", ["a", "b"], "ends of nothing"),
        ("a <b", ["a"], "a tag that never ends is no text"),
        ("a <!-- b", ["a"], "nor is a comment"),
        ("a http://b.c/d e", ["a http://b.c/d e"], "addresses"),
    ],
)
def test_what_is_translated(text: str, segments: list[str], why: str) -> None:
    document = read_html(text)
    assert document.segments == segments, why
    assert document.rebuild(segments) == text


@pytest.mark.parametrize(
    ("text", "translation", "written"),
    [
        ("<p> a </p>", "b < c & d > e", "<p> b &lt; c &amp; d &gt; e </p>"),
        ("<p>&#160;a&nbsp;</p>", "b\xa0c", "<p>&nbsp;b&nbsp;c&nbsp;</p>"),
        ("a\n\t b", "one two three", "one two\n\t three"),
        ("a\n\nb\n", "one", "one\n\n\n"),
    ],
)
def test_translations_are_written_as_text(text: str, translation: str, written: str) -> None:
    assert read_html(text).rebuild([translation]) == written


class Runs(HTMLParser):
    """The text between tags of blocks, as Python's own parser finds it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.kept = 0
        self.run = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.kept += tag in ("script", "style", "pre")
        if tag not in ("b", "img"):
            self.flush()

    def handle_endtag(self, tag: str) -> None:
        self.kept -= tag in ("script", "style", "pre")
        if tag != "b":
            self.flush()

    def handle_data(self, data: str) -> None:
        self.run += "" if self.kept else data

    def flush(self) -> None:
        if any(map(str.isalpha, self.run)):
            self.found.append(" ".join(self.run.split()))
        self.run = ""


def random_page(generator: random.Random, depth: int = 0) -> str:
    """A well-formed piece of a page."""
    pieces = []
    for _ in range(generator.randint(1, 4)):
        words = generator.choices(["one", "two", "é", "&lt;", "&eacute;", "3", "&#x41;", "'"], k=3)
        pieces.append(generator.choice([" ", "\n "]).join(words))
        pieces.append(generator.choice(["<br>", "<!-- <b>no</b> -->", "<img alt='a > b' src=x>"]))
        if depth < 3:
            tag = generator.choice(["p", "b", "b", "div", "li", "pre"])
            pieces.append(f'<{tag} class="a">{random_page(generator, depth + 1)}</{tag}>')
        pieces.append(
            generator.choice(["", "<script>if (a < b) '</p>'</script>", "<style>a{}</style>"])
        )
    return generator.choice(["", "\n"]).join(pieces)


@pytest.mark.parametrize("seed", range(40))
def test_text_is_what_the_parser_of_python_finds(seed: int) -> None:
    page = random_page(random.Random(seed))
    parser = Runs()
    parser.feed(page)
    parser.close()
    parser.flush()
    assert read_html(page).segments == parser.found
    assert parser.found
