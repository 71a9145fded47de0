"""Whatever a text holds, it stays text: between tags, in an attribute, in the data of a script."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from parsed_page import HOSTILE, ParsedPage

from transformer_mt.rendering.pages import script_json, write_html

TEMPLATE = """{% extends "base.html.j2" %}
{% macro bold(text) %}<b>{{ text }}</b>{% endmacro %}
{% block style %}:root { --width: 1rem; }{% endblock %}
{% block body %}
{{ bold(text) }}<i title="{{ text }}" lang="{{ nothing }}">{{ 1234.5|number(",.2f") }}</i>
<script type="application/json">{{ [text]|script_json }}</script>
{% endblock %}
"""


@pytest.fixture(scope="module")
def template_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("templates") / "page.html.j2"
    path.write_text(TEMPLATE, encoding="utf-8")
    return path


@settings(max_examples=20, deadline=None)
@given(st.text())
@example("".join(HOSTILE))
def test_text_stays_text(template_path: Path, text: str) -> None:
    path = template_path.with_name("page.html")
    write_html(template_path, path, title=text, text=text, nothing=None)
    page = ParsedPage(path)
    shown = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)
    tags = [tag for tag, _ in page.elements]
    assert tags[-3:] == ["b", "i", "script"] and tags.count("meta") == 2
    assert page.elements[-2][1] == {"title": shown, "lang": ""}
    assert f"{shown}1,234.50" in page.text and shown in page.text.split("\n:root")[0]
    assert page.data == [text]
    assert sorted(other.name for other in path.parent.iterdir()) == ["page.html", "page.html.j2"]


def test_json_holds_nothing_that_ends_a_script() -> None:
    written = script_json(["</script><!--", "a & b", "\u2028\u2029", "动物"])
    assert written.isprintable() and not set("<>&") & set(written) and "动物" in written
