"""Any document in any form: nothing is lost, lines stay, and only words are handed out."""

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from places import ROOT

from transformer_mt.errors import DataError
from transformer_mt.translation.documents.forms import (
    FORMS,
    Form,
    form_of,
    is_known,
    refuse_binary,
    unknown_form,
)
from transformer_mt.translation.documents.html import read_html
from transformer_mt.translation.documents.inline import wrap
from transformer_mt.translation.documents.spans import has_words
from transformer_mt.translation.documents.translate import read_document, translate_document

WORDS = (
    "It rains. We|are here.|Käse|你好，|我的朋友。|«oui»|مرحبا بك|שלום|😀👍🏽|e\u0301|no_1|3.14|"
    "https://a.b/c_d?e=(f)|x@y.org|{name}|%s|$VAR|&amp;|&nbsp;|&#65;|&nosuch;|AT&T|2 < 3|a|B"
).split("|")
SPACES = [*" " * 9, *"\n" * 9, "\n\n", "\n\n", "\r\n", "  \n", "\t", "\u2028", "\x85", "\xa0", "\v"]
ODD = ["\x00", "\ufeff", "\u200b", "\u202e", "\ud800", "\\", "\r", "'", '"', "=", "\x1c"]
MARKUP: dict[Form, str] = {  # apart by semicolons
    "text": "",
    "markdown": (
        "#;# ;\n## ;> ;- ;* ;1. ;    ;```;\n```\n;~~~;`;``;*;**;_;~~;[;](u);](u 't');![;][r];"
        "[r]: u;[r];[^n];[^n]: ;===;---\n;<b>;</b>;<!-- ; -->;<pre>;</pre>;<http://u>;<;:::;[!NOTE];"
        "- [ ] ;|;\n| a | b |\n;|---|---|;\\|;\\*;+++\n"
    ),
    "html": (
        '<p>;</p>;<b>;</b>;<br>;<br/>;<i class=x>;<a href=\'x > y\'>;<a\n b="c">;</a>;<li>;<a x=";'
        "<a x=';>;<;</;<!-- ; -->;<!-->;<script>;</script>;<style>;</style>;<pre>;</pre>;<code>;"
        "</code>;<svg/>;<svg>;</svg>;<?php ;?>;<!DOCTYPE html>;<![CDATA[;]]>;<%;%>;</b;/>;"
        '<p translate="no">;<img translate=no>'
    ),
    "xml": (
        "<p>;</p>;<q>;</q>;<x/>;<x id='>'/>;<br>;<p translate='no'>;<code>;</code>;<script>;<!-- ;"
        " -->;<![CDATA[;]]>;<?xml version='1.0'?>;<a;</;</q >;<x y=\""
    ),
    "srt": (
        "1\n00:00:01,000 --> 00:00:02,000\n;\n\n2\n00:00:03,5 --> 00:00:04,0 X1:1\n;-->;- ;– ;<i>;"
        "</i>;{\\an8};<font color=red>;\n7\n;WEBVTT\n"
    ),
    "vtt": (
        "WEBVTT\n\n0:0 --> 0:1\n;0:0 --> 0:1\n;\n0:2 --> 0:3\n;0:4 --> 0:5 line:0\n;\n\na name\n"
        "00:03.000 --> 00:04.000\n;NOTE a\n;\n\nSTYLE\n::cue{}\n\n;-->;- ;<i>;</i>;"
        "<c.x.y>;</c>;<v Ann>;</v>;<00:03.500>;<00:03.200>;<lang en>;<;&lt;;&rlm;"
    ),
}


def random_document(generator: random.Random, form: Form) -> str:
    if form == "jsonl":
        lines = []
        for _ in range(generator.randint(0, 6)):
            ascii_only = generator.random() < 0.5
            value = json.dumps(random_text(generator, []), ensure_ascii=ascii_only)
            lines.append(f'{{"id":{generator.random()} , "text" :{value}, "t":{{"text":"x"}}}}')
        return generator.choice(["\n", "\r\n", "\n\n"]).join(lines)
    # Without the marks that swallow the rest of a page, in half of the documents.
    markup = [mark for mark in MARKUP[form].split(";") if generator.random() < 0.5]
    return generator.choice(["", "", "\ufeff"]) + random_text(generator, markup * 2)


def random_text(generator: random.Random, markup: list[str]) -> str:
    pool = [*WORDS, *SPACES, *markup, *generator.sample(ODD, 2)]
    return "".join(generator.choices(pool, k=generator.randint(0, 60)))


TRANSLATIONS: list[Callable[[str], str]] = [
    str.upper,
    lambda text: "",
    lambda text: f"\n{text}\r\nnew\u2028line\n",
    lambda text: "字" * 100,
    lambda text: '# <b>"&\\`*_|[x](y) --> {}',
]


@pytest.mark.parametrize("form", FORMS)
def test_any_document_survives(form: Form) -> None:
    n_segments = 0
    for seed in range(300):
        text = random_document(random.Random(seed), form)
        document = read_document(text, form)
        segments = document.segments
        n_segments += len(segments)
        assert document.rebuild(segments) == text, seed
        for segment in segments:
            assert segment == segment.strip() and has_words(segment), seed
            assert len(segment.splitlines()) == 1, "one line by whatever rule"
        for translate in TRANSLATIONS:
            translated = document.rebuild([translate(segment) for segment in segments])
            assert translated.count("\n") == text.count("\n"), seed
            assert segments or translated == text, seed
    assert n_segments > 200, "the documents are no mere markup"


# Translations that would be something else in a file, were they written as they are.
NASTY = [
    "# no heading", "- no item", "1. no number", "2) no number", "> no quote", "a | b", "| a | b |",
    "*no* emphasis", "no _emphasis_", "a `code` b", "`", "``` x", "~~~ x", "~~a~~", "<b>bold</b>",
    "a < b", "<!-- a", "a <c and d> e", "[a](b)", "![a](b)", "[a]: b", "[x] a", "[a] b", "[a][b]",
    "a &amp; b", "&lt;", "AT&T", "--- a", "=== a", "::: a", "a\\", "\\a", "\\*a\\*", "snake_case",
    "2 * a", "a *", "* a", 'say "a"', "it's", "a --> b", "<script>a</script>", "{a", "</p>",
    "]]> a", "+ a", "[^1] a", "[!NOTE] a", "<http:a", "a\\|b", "- [ ] a", "a* b", "_a", "a_",
]  # fmt: skip
PAGES: dict[Form, str] = {
    "text": "One\n\nTwo two\n",
    "markdown": (
        "# One\n\nTwo **three** four [five](u).\nSix six\n\n- seven\n  more\n- [ ] eight\n"
        "  1. nine\n\n> ten\n> more\n\n| one | two |\n|---|---|\n| one *two* | three |\n\n"
        "Two\n===\n"
    ),
    "html": "<title>One</title><p>Two <b>three</b> four<br>five\n  six</p>seven",
    "xml": "<d><t>One</t><p>Two <b>three</b> four<x/>five\n  six</p></d>",
    "srt": "1\n0:0:1 --> 0:0:2\nOne one\ntwo\n\n2\n0:0:3 --> 0:0:4\n<i>Three</i>\n\n",
    "vtt": (
        "WEBVTT - a b\n\nNOTE c\nd\n\ne\n00:01.000 --> 00:02.000 line:0\nOne one\ntwo\n\n"
        "00:03.000 --> 00:04.000\n<v Ann>Three</v>\n"
    ),
    "jsonl": '{"text": "One"}\n{"n": 1, "text": "Two\\nthree"}\n',
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("nasty", NASTY)
def test_a_translation_is_read_as_what_it_says(form: Form, nasty: str) -> None:
    """Whatever the model says is text in the document, and no markup."""
    if form in ("srt", "vtt") and nasty[0] == "-":
        nasty = "a --> b"  # subtitles have no way to write a dash that is no speaker's
    if form == "srt" and "<" in nasty and ">" in nasty:
        nasty = "a --> b"  # SubRip has no way to write tags as text
    document = read_document(PAGES[form], form)
    translations = [f"{nasty} and so on" if i % 2 else nasty for i in range(len(document.segments))]
    translations = [text if has_words(text) else f"{text} a" for text in translations]
    again = read_document(document.rebuild(translations), form)
    assert again.segments == translations


@pytest.mark.parametrize("name", ["README.md", "README.zh.md", "docs/data.md", "docs/results.md"])
def test_pages_of_this_project(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    document = read_document(text, "markdown")
    assert document.rebuild(document.segments) == text
    assert len(document.segments) > 30
    assert not [segment for segment in document.segments if "`" in segment or "](" in segment]
    upper = document.rebuild([segment.upper() for segment in document.segments])
    again = read_document(upper, "markdown")
    assert list(map(str.upper, again.segments)) == list(map(str.upper, document.segments))
    for fenced in ("```bash\n", "make demo\n", "](docs/") if name == "README.md" else ():
        assert upper.count(fenced) == text.count(fenced) > 0


HOSTILE: dict[Form, list[str]] = {  # what comes first, and what is repeated
    "text": ["", " ", "a", "\n", "\u2028"],
    "markdown": [
        *"[a]: u\n;a;`;` ``;*;_ ;[;](;[](;[a];](a 'x;\\;#;- ;> ;<;<a x='>'".split(";"),
        *"<pre>;\n- ;\n>;```\n;    a\n;|;\n|;a\nb ;*a* ;a `b` ".split(";"),
    ],
    "html": [
        *"<a x=\";<;<a;<a x=';<a x='>';='x';<!--;</;<?;&;&#;&nbsp".split(";"),
        *"<pre>;<svg>;<script>;<b>;\n;<b>a</b> ;a <code>b</code> <i>".split(";"),
    ],
    "xml": "<a>;<b>;</b>;</c>;a<b>;<b>a</b>;<x/>;a <x/>;<p translate=no>;<!--;<![CDATA[".split(";"),
    "vtt": "0:0 --> 0:1\n;a;<;<i>;</i>;<v a>;<00:01.000>;- ;- \n;&;&lt;-->;\n;a\nb ; ".split(";"),
    "srt": "0:0 --> 0:1\n;a;<;<i>;{\\;{\\an8};- ;- \n;-->;1\n;a\nb ; ".split(";"),
}


@pytest.mark.parametrize("form", HOSTILE)
def test_time_is_linear(form: Form) -> None:
    """Quadratic time takes tens of seconds for each."""
    first, *units = HOSTILE[form]
    for unit in units:
        before = time.process_time()
        document = read_document(first + unit * (20_000 // len(unit)), form)
        document.rebuild([f"{segment}_*" for segment in document.segments])
        assert time.process_time() - before < 5, unit


def test_forms_by_name() -> None:
    names = "a.md a.MARKDOWN a/b.html a.htm a.en.srt a.jsonl a.txt md a.vtt A.DOCX a.srt.gz a.b.odt"
    assert " ".join(form_of(Path(name)) for name in names.split()) == (
        "markdown markdown html html srt jsonl text text vtt docx srt odt"
    )
    assert form_of(Path("talk.odp")) == "odp"


@pytest.mark.parametrize(
    ("name", "known"),
    [
        *((name, True) for name in "a a.txt.gz a.zh A.EN test.own.src a.pptx".split()),
        *((name, False) for name in "a.tex a.fr a.json a.csv.gz".split()),
    ],
)
def test_names_that_say_nothing(name: str, known: bool) -> None:
    assert is_known(Path(name), ("zh", "en")) is known
    if not known:
        assert ".docx" in unknown_form(Path(name)) and "--format" in unknown_form(Path(name))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"%PDF-1.7\n", "a PDF, which has no sentences, only places of letters; make text of it:"),
        (b"PK\x03\x04\x14\0", "a ZIP archive; of these tmt reads .docx, .pptx, .odt and .odp"),
        (b"\xd0\xcf\x11\xe0\xa1", "a file of an old Office; save it as .docx or .pptx"),
        (b"{\\rtf1 a}", "RTF; save it as .docx"),
        ("a".encode("utf-16"), "UTF-16; convert it: iconv -f UTF-16 -t UTF-8 a.txt > NEW"),
        (b"\x7fELF\2\1\1\0\0\0\0", "is binary, not text (a NUL at byte 8)"),
        ("字 a\0 text".encode(), None),
        (b"", None),
    ],
)
def test_files_that_are_no_text(content: bytes, message: str | None, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    if message is None:
        refuse_binary(path)
        return
    with pytest.raises(DataError) as error:
        refuse_binary(path)
    assert message in str(error.value)


def test_translating_a_document() -> None:
    asked: list[list[str]] = []

    def upper(texts: list[str]) -> list[str]:
        asked.append(texts)
        return [text.upper() for text in texts]

    assert translate_document("\ufeff One \r\n\r\n2\r\ntwo", "text", upper) == (
        "\ufeff ONE \r\n\r\n2\r\nTWO"
    )
    assert asked == [["One", "two"]]
    assert translate_document("1\n2\n", "text", upper) == "1\n2\n"
    assert len(asked) == 1, "nothing to translate, nothing asked"
    with pytest.raises(ValueError, match="1 translations for 2 segments"):
        translate_document("One\ntwo", "text", lambda texts: texts[:1])


@pytest.mark.parametrize(
    ("text", "lines", "why"),
    [
        ("one two three four", ["one two", "three four"], "about equal"),
        ("a incomprehensible b", ["a incomprehensible", "b"], "or the first one longer"),
        ("", ["", ""], "nothing"),
        ("一，二", ["一，", "二"], "Chinese, but not before a comma"),
        ("a b looooooooong", ["a", "b", "looooooooong"], "each line has something"),
        ("looooooooong a b", ["looooooooong", "a", "b"], "also the last ones"),
    ],
)
def test_laying_out(text: str, lines: list[str], why: str) -> None:
    assert [text[start:end] for start, end in wrap(text, len(lines))] == lines, why


@pytest.mark.parametrize("seed", range(50))
def test_what_is_laid_out_and_folded_is_the_same(seed: int) -> None:
    generator = random.Random(seed)
    words = ["字" * generator.randint(1, 9) + "，" if seed % 2 else "w" * generator.randint(1, 9)]
    words = words * generator.randint(1, 30)
    text = ("" if seed % 2 else " ").join(words)
    for n_lines in (1, 2, 3, 7):
        lines = [text[start:end] for start, end in wrap(text, n_lines)]
        assert len(lines) == n_lines
        assert read_html("\n".join(lines)).segments == [text]
        filled = [line for line in lines if line]
        assert len(filled) == min(n_lines, len(words)) or seed % 2
