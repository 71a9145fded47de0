"""What a translation must keep is found, and nothing else; hostile text costs no more than any."""

import time
from itertools import pairwise

import pytest

from transformer_mt.translation.documents.spans import has_words, protected_spans, url_spans


@pytest.mark.parametrize(
    ("text", "found", "why"),
    [
        ("See https://a.org/b_c?d=e#f.", ["https://a.org/b_c?d=e#f"], "the stop ends the sentence"),
        ("(see http://a.org/b)", ["http://a.org/b"], "so does a bracket opened before"),
        ("http://a.org/b_(c)!", ["http://a.org/b_(c)"], "one opened in the address stays"),
        ("请看https://a.org/b。好", ["https://a.org/b"], "Chinese goes on without a space"),
        ("[**A**](https://a.org)**b**", ["https://a.org"], "nor does what follows a link"),
        ("(https://a.org),(https://b.org)", ["https://a.org", "https://b.org"], "two of a stretch"),
        ("www.a.org, www. and awww.", ["www.a.org"], "www needs a name"),
        ("https://de.a.org/Zürich", ["https://de.a.org/Zürich"], "letters of Europe"),
        ("写信给me@x.org吧, a.b+c@d-e.co.uk.", ["me@x.org", "a.b+c@d-e.co.uk"], "mail"),
        ("a@b, @c, d@e.", [], "no addresses"),
        ("{name} {0:.2f}", ["{name}", "{0:.2f}"], "braces as Python has them"),
        ("{{ x.y }}, ${HOME}", ["{{ x.y }}", "${HOME}"], "as templates have them"),
        ("%s %5.2f %(name)s %1$s.", ["%s", "%5.2f", "%(name)s", "%1$s"], "as printf has them"),
        ("$HOME $a_b", ["$HOME", "$a_b"], "variables"),
        ("设置$HOME变量后", ["$HOME"], "which end where Chinese begins"),
        ("概述 {#over-view}", ["{#over-view}"], "a name of a heading"),
        ("{: .note a=b} {% include a.html %}", ["{: .note a=b}", "{% include a.html %}"], "Jekyll"),
        ('a<x id="1"/>b </g><br>', ['<x id="1"/>', "</g>", "<br>"], "tags"),
        ("100% sure, 5%, 50%discount, %of, costs $5, 3 < 4 > 2, {a b}", [], "common text"),
    ],
)
def test_what_is_protected(text: str, found: list[str], why: str) -> None:
    spans = protected_spans(text)
    assert [text[start:end] for start, end in spans] == found, why
    assert all(left[1] <= right[0] for left, right in pairwise(spans))


def test_addresses_without_placeholders() -> None:
    text = "{a} http://b.c %s d@e.fr <x>"
    assert [text[start:end] for start, end in url_spans(text)] == ["http://b.c", "d@e.fr"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ("a;字;é;1a;%s a;مرحبا;Visit http://a.b now", True),
        (";1,234.5 %;http://a.b/c;{name}: %s;a@b.org;😀 – …;<br/>;。！", False),
    ],
)
def test_words(texts: str, expected: bool) -> None:
    assert {has_words(text) for text in texts.split(";")} == {expected}


UNITS = "{%;{:;{#;a;a.;a@;a@b.;@;%;%0;%(;$;{;{{;{a;<;<a;http://;www.;http://(;);(;.;字; ;+".split(
    ";"
)


@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear(unit: str) -> None:
    """Quadratic time would take minutes here."""
    before = time.process_time()
    for first in ("", "http://"):
        has_words(first + unit * (100_000 // len(unit)))
    assert time.process_time() - before < 5
