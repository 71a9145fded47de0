"""HTML, Markdown, SubRip, JSON Lines: which words are handed out, and where translations go."""

import json
import random

import pytest

from transformer_mt.errors import DataError
from transformer_mt.translation.documents.forms import Form
from transformer_mt.translation.documents.inline import Document
from transformer_mt.translation.documents.jsonl import read_json_lines
from transformer_mt.translation.documents.translate import read_document

BEFORE = {
    "srt": "1\n00:00:01,000 --> 00:00:02,500\n",
    "vtt": "WEBVTT\n\nname\n00:01.000 --> 00:02.500 align:start\n",
}
TIME = BEFORE["srt"]


def read(form: Form, text: str) -> Document:
    return read_document(BEFORE.get(form, "") + text, form)


def rebuilt(form: Form, text: str, *translations: str) -> str:
    """A page with some translations, or else with all of its text in capitals."""
    document = read(form, text)
    found = translations or [segment.upper() for segment in document.segments]
    return document.rebuild(found).removeprefix(BEFORE.get(form, ""))


HTML = [
    ("<p>One <b>two</b> three", "One two three", "inline tags do not divide"),
    ("<p>One\n  two </p>", "One two", "over several lines"),
    ("<p>一\n二", "一二", "without a space in Chinese"),
    ("<title>A &amp; B</title>", "A & B", "entities"),
    ("a&nbsp;&#98; &copy &nosuch; &#99999999;", "a\xa0b © &nosuch; &#99999999;", "any of them"),
    ("&nbsp;a&#160;", "a", "spaces that are spelled as entities stay outside"),
    ("AT&T 2 < 3 <3", "AT&T 2 < 3 <3", "marks that are none"),
    ('<a title="x > y" b=\'>\' c=">">d</a>', "d", "quoted values"),
    ("<a it's>b</a> don't", "b don't", "a quote that begins no value"),
    ('<a x="1>b</a> c', "b c", "a quote that never ends"),
    ("<!-- a <b>c</b> -->d<!-->e<!doctype x>f<?php a > b ?>g", "de|fg", "comments do not divide"),
    ("<script>a<b>c</b></script>d<STYLE>e</Style >f", "d|f", "scripts and styles"),
    ("<pre>a<b>c</b></pre>d<code>e</code><svg><text>f</text></svg>", "de", "code, pictures"),
    ("<textarea><b></textarea>a<math>b</math>c", "ac", "forms, formulas"),
    ('<p translate="no">a<p>b</p></p>c <i translate=no>d</i>', "c d", "by request"),
    ("<img translate=no>a<br translate='no'/>b", "a|b", "tags without content"),
    ("<svg/>a<code/>b", "ab", "elements that end at once"),
    ("<code>a<p>b", "", "code that never ends"),
    ("</code>a</p></x>b", "a|b", "ends of nothing"),
    ("a <b", "a", "a tag that never ends is no text"),
    ("a <!-- b", "a", "nor is a comment"),
    ("a http://b.c/d e", "a http://b.c/d e", "addresses"),
    ("a <b>b<p>c</p>d</b> e", "a b|c|d e", "a mark around blocks"),
    ("a <own-tag x=1>b</own-tag> <x-y/>c", "a b c", "elements of the page itself, beside text"),
    ("<b>a <own-tag>b</own-tag></b><p>", "a b", "or within an inline tag"),
    ("<p>a</p><c-d>b</c-d><c-d>e <f-g>f</f-g></c-d>", "a|b|e f", "or apart from it: blocks"),
    ("a</c-d><c-d>b", "a|b", "that never begin or end"),
    ("<ul><li>a <ul><li><c-d>b</c-d><c-d>e</c-d></ul></ul>", "a|b|e", "in a block beside text"),
    ("<div><c-d>a</c-d><style>x</style> b</div>", "a|b", "an element that is whole at once"),
]
XML = [
    ('a <x id="1"/>b <g id="2">c</g> d', "a b c d", "tags beside text are within its sentence"),
    ("<doc><t>A b</t><p>c <b>d</b></p>\n</doc>", "A b|c d", "others divide"),
    ("<p>a <b><i>b</i></b></p>", "a b", "tags in a tag beside text"),
    ("<p><b><i>a</i></b></p><p>b</p>", "a|b", "whatever their names are"),
    ("<link>a</link><br>b</br>", "a|b", "and if they are those of HTML"),
    ("a <b>b <x>c</b> d", "a b c d", "an element that never ends"),
    ('<p>a <n translate="no">b</n> c</p>', "a b c", "by request, read with the sentence"),
    ("<!-- a --><p>b</p><![CDATA[c]]>", "b", "comments, data"),
    ("<p>a <![CDATA[b > c]]> d</p>", "a b > c d", "data are read with the sentence"),
    ("<p>&#160;a&amp;b</p>", "a&b", "references to characters"),
    ("<p>M&uuml;nchen, 10&nbsp;km&#000046;</p>", "München, 10\xa0km.", "also names that HTML has"),
    ("<p>a &own; b &copy d</p>", "a b &copy d", "entities, which the document defines"),
    ("<d>&own;<p>a</p><p>b</p></d>", "a|b", "are no text for blocks to stand beside"),
    (
        "<!DOCTYPE d [<!-- it's ]> --><!ENTITY own ']>'>\n] ><d><p>a</p><p>b</p></d>",
        "a|b",
        "whatever the declarations hold",
    ),
    ("<!DOCTYPE d [<!ENTITY own 'x'><d><p>a</p><p>b</p></d>", "a|b", "or never end"),
    ('<!DOCTYPE d [<!ENTITY own "a>b">]>\n<d><p>a</p><p>b</p></d>', "a|b", "and how it does"),
    ("<!DOCTYPE d><d><p>a</p><p>b</p></d>", "a|b", "or does not"),
    ("<文><题>a</题><_x>b</_x><x:y>c</x:y></文>", "a|b|c", "names in any letters"),
    ("<d><img>a</img> <input>b</input></d>", "a|b", "names of HTML that have no end there"),
    ("<d>a <style/> b <code>c</code></d>", "a b c", "or hold no text"),
]
MARKDOWN = [
    ("# Title #\n\nText", "Title|Text", "headings"),
    ("#hash", "#hash", "no heading without a space"),
    ("Title\n=====\nText\n---\nMore", "Title|Text|More", "underlined headings"),
    ("one\ntwo\n\nthree", "one two|three", "the lines of a paragraph are one text"),
    ("一\n二", "一二", "without a space in Chinese"),
    ("one  \ntwo\\\n**three  \nfour**", "one|two|three|four", "hard line breaks"),
    ("- one\n  more\n- two\n1. three\n2) four", "one more|two|three|four", "lists"),
    ("- [ ] one\n- [x] two", "one|two", "tasks"),
    ("> one\n> two\n>\n> three", "one two|three", "quotes"),
    ("> one\ntwo\n\n> > three", "one two|three", "quotes that go on without a mark"),
    ("> [!NOTE]\n> one", "one", "what kind of note it is stays"),
    ("one\n\n---\n***\n* * *\n\ntwo", "one|two", "rules"),
    ("```py\ncode\n\n```\none", "one", "fenced code"),
    ("~~~\n```\ncode\n~~~\none", "one", "with the fence that it began with"),
    ("- a:\n  ```\n  code\n  ```\n- b", "a:|b", "within lists"),
    ("> ```\n> code\n\none", "one", "to the end of a quote, if it never ends"),
    ("one\n\n```\ncode\n\nmore", "one", "or of the page"),
    ("one\n\n    code\n\n    code\n\ntwo", "one|two", "indented code"),
    ("one\n    two", "one two", "not within a paragraph"),
    ("- one\n\n    two\n\n        code", "one|two", "nor where it belongs to an item"),
    ("| a | b |\n|---|:-:|\n| c d | 1 |", "a|b|c d", "tables, cell by cell"),
    ("a | b\n--|--\nc | d\n\ne", "a|b|c|d|e", "without outer pipes"),
    ("---\ntitle: x\n---\none", "one", "front matter"),
    ("---\none", "one", "no front matter without an end"),
    ("[a]: http://b 'c'\n\n[^1]: one", "one", "definitions; notes are text"),
    ("see [a] and [b]\n\n[A]: u", "see a and [b]", "a label is a key if it is defined"),
    ("[one two][a] x\n\n[a]: u", "one two x", "its link has a text"),
    ('one [two](u "t") ![three](v(w)) [^1]', "one two three", "links"),
    ("one `code` two ``a ` b`` c", "one code two a ` b c", "code is read with the sentence"),
    ("a ` b", "a ` b", "a single backtick is text"),
    ("one $x_1 + \\beta$ two $$y$$", r"one x_1 + \beta two y", "formulas are read likewise"),
    ("one\n\n$$\n\\alpha * b\n= c\n$$\n> $$\n> d\n> $$", "one", "and stay, if they stand alone"),
    ("a $5 or $6, US$7, $8-$9", "a $5 or $6, US$7, $8-$9", "prices are none"),
    ("为$5，不是$6。", "为$5，不是$6。", "without spaces"),
    ("[a $5](u) or US$6", "a $5 or US$6", "and hide no link"),
    ("$1$2" * 99, "", "nor do many of them"),
    ("a http://a.b/c_d, <http://e> f@g.de", "a http://a.b/c_d, http://e f@g.de", "addresses"),
    ("one *two* __two__ **th*r*ee** ~~x~~", "one two two three x", "emphasis"),
    ("2 * 3 a, snake_case, a ~ b", "2 * 3 a, snake_case, a ~ b", "no emphasis"),
    (r"\*a\* &amp; \[b\] &copy;", "*a* & [b] ©", "escapes and entities"),
    ('a <b class="x">b</b> <br> c < d', "a b|c < d", "tags; <br> divides"),
    ("a <code>b</code> <!-- c\nd --> e", "a b e", "code and comments as HTML"),
    ("<!-- a\n\nb -->\none", "one", "comments with blank lines"),
    ("<pre>\na\n\nb\n</pre>\none", "one", "raw HTML"),
    ("<details>\n<summary>one</summary>\n\ntwo\n</details>", "one|two", "HTML with text"),
    ("a\u2028b c\x85d", "a b c d", "only line feeds end lines; others are spaces"),
]
SRT = [
    ("One two\nthree.", "One two three.", "a sentence over two lines"),
    ("一二\n三四。", "一二三四。", "without a space in Chinese"),
    ("<i>One</i>\r\n<i>two</i>", "One two", "tags at the ends of lines"),
    ("{\\an8}<i>One\ntwo</i> ", "One two", "positions, too"),
    ("One <i>two</i> three", "One two three", "tags within a line"),
    ("- One?\r\n- Two.", "One?|Two.", "a dash is another speaker"),
    ("- <i>One</i>\n–Two\nthree", "One|Two three", "also with tags, and lines that go on"),
    ("-- One", "-- One", "two dashes are none"),
    ("In\n1984\n", "In 1984", "a number as text"),
    ("1984", "", "nothing to translate in it"),
    ("One\n\ntwo", "One|two", "a blank line within a cue"),
    ("One\n2\n00:01:00.0 --> 00:01:01.0\nTwo", "One|Two", "no blank line between cues"),
]

VTT = [
    ("One\ntwo", "One two", "the lines of a cue are one text"),
    ("<v Ann>One</v>\n<v.loud Bob>Two", "One|Two", "voices"),
    ("<i>One</i> <c.red>two <b>three</b></c>", "One two three", "tags within a line"),
    ("One <00:01.500>two <00:02.000>three", "One two three", "times of words"),
    ("One &amp; two&nbsp;&lt;3", "One & two\xa0<3", "entities"),
    ("- One?\n- Two.", "One?|Two.", "a dash is another speaker"),
    ("One\n\nNOTE two\nthree\n\nSTYLE\n::cue { a: b }\n\nfour", "One", "blocks without times stay"),
    ("One\n\n7\n00:03.000 --> 00:04.000\nTwo\n\nthree", "One|Two", "so do names of cues"),
    ("1984\n\n", "", "nothing to translate in it"),
    ("One\n00:03.000 --> 00:04.000\nTwo", "One|Two", "no blank line between cues"),
]


@pytest.mark.parametrize(
    ("form", "text", "segments", "why"),
    [("html", *row) for row in HTML]
    + [("xml", *row) for row in XML]
    + [("markdown", *row) for row in MARKDOWN]
    + [("srt", *row) for row in SRT]
    + [("vtt", *row) for row in VTT],
)
def test_what_is_translated(form: Form, text: str, segments: str, why: str) -> None:
    document = read(form, text)
    assert "|".join(document.segments) == segments, why
    assert document.rebuild(document.segments).endswith(text)


def test_pipes_that_part_no_cells() -> None:
    assert read("markdown", "| a \\| b | `x\\|y` c |\n|-|-|").segments == ["a | b", "x|y c"]


def test_what_stands_before_the_first_time_of_subtitles_stays() -> None:
    assert read_document(f"WEBVTT\nNote\n\n{TIME}One", "srt").segments == ["One"]


@pytest.mark.parametrize(
    ("form", "text", "translations", "written"),
    [
        ("html", "<p> a </p>", ["b < c & d > e"], "<p> b &lt; c &amp; d &gt; e </p>"),
        ("html", "<p>&#160;a&nbsp;</p>", ["b\xa0c"], "<p>&nbsp;b&nbsp;c&nbsp;</p>"),
        ("xml", "<p>a</p>", ["b\xa0c < d"], "<p>b\xa0c &lt; d</p>"),
        ("xml", '<?xml version="1.0" encoding="latin1"?><p>a</p>', ["字"],
         '<?xml version="1.0" encoding="latin1"?><p>&#23383;</p>'),
        ("xml", '<?xml version="1.0" encoding="UTF-8"?><p>a</p>', ["字"],
         '<?xml version="1.0" encoding="UTF-8"?><p>字</p>'),
        ("xml", "<p>a http://b.c/?d=&amp; e</p>", ["f http://b.c/?d= & g"],
         "<p>f http://b.c/?d= &amp; g</p>"),
        ("xml", "<p>By &own; today</p>", ["Heute von"], "<p>Heute &own; von</p>"),
        ("html", "a\n\t b", ["one two three"], "one two\n\t three"),
        ("html", "a\n\nb\n", ["one"], "one\n\n\n"),
        ("markdown", "##  One  ##\r\n", [], "##  ONE  ##\r\n"),
        ("markdown", "> one two\n> three\n", [], "> ONE TWO\n> THREE\n"),
        ("markdown", "  - one\n    two  \n", [], "  - ONE\n    TWO  \n"),
        ("markdown", "|a|b |\n|-|-|\n| c|d|", [], "|A|B |\n|-|-|\n| C|D|"),
        ("markdown", "a **b**c", [], "A **BC**"),
        ("markdown", "[a bc\nd](u)", [], "[A BC\nD](u)"),
        ("markdown", "a\n`b`\nc", [], "A\n`b`\nC"),
        ("markdown", "a $b_1 * c$ d", [], "A $b_1 * c$ D"),
        ("markdown", "- a\n  $$\n  b\n  $$\n  c", ["d b e"], "- d\n  $$\n  b\n  $$\n  e"),
        ("markdown", "a", ["b $c$"], "b \\$c\\$"),
        ("markdown", "a", ["# b"], "\\# b"),
        ("markdown", "a", ["1. b"], "1\\. b"),
        ("markdown", "a", ["2 * 3 < 4, it's a_b & C#"], "2 * 3 < 4, it's a_b & C#"),
        ("markdown", "a", ["*b* &amp;"], "\\*b\\* &amp;amp;"),
        ("markdown", "| a |\n|---|", ["b | c"], "| b \\| c |\n|---|"),
        ("markdown", "one two\nthree", ["four - two"], "four\n\\- two"),
        ("markdown", "one\ntwo\nthree", ["one"], "one\n\n"),
        ("srt", "<i>a\r\nb</i>\r", ["one two three four"], "<i>one two\r\nthree four</i>\r"),
        ("srt", "a\nb", ["一二三四"], "一二\n三四"),
        ("srt", "a\nb", ["one"], "one\n"),
        ("markdown", "a b\n\\$5 c", ["一二三四"], "一二\n三四"),
        ("markdown", "a b\n\\[c](u)", ["d e f"], "d e\nf"),
        ("markdown", "| **2024<br>Notes** |\n|---|", ["Noten"], "| **2024<br>Noten** |\n|---|"),
        ("markdown", "[<img src=x><br>One](u)", ["eins"], "[<img src=x><br>eins](u)"),
        ("markdown", "a b\n{: .note }", ["c d"], "c d\n{: .note }"),
        ("markdown", "{% a %}b c{% d %}", ["{% a %}e f{% d %}"], "{% a %}e f{% d %}"),
        ("html", "a https://a.org/?x=1&#038;y=2", ["b https://a.org/?x=1&y=2"],
         "b https://a.org/?x=1&#038;y=2"),
        ("html", "a &lt;https://a.org/&gt; b", ["c <https://a.org/> d"],
         "c &lt;https://a.org/&gt; d"),
        ("html", '<?xml version="1.0"?><script src="a.js"/><p>a</p>', ["b"],
         '<?xml version="1.0"?><script src="a.js"/><p>b</p>'),
        ("html", '<script src="a.js"/><p>a</p>', [], '<script src="a.js"/><p>a</p>'),
        ("srt", "- a ", ["one"], "- one "),
        ("srt", "- a\nb\n- c\nd", ["one", "two"], "- one\n\xa0\n- two\n"),
        ("vtt", "<v A>a\nb</v>\n<v B>c", ["one", "two"], "<v A>one</v>\n&nbsp;\n<v B>two"),
        ("srt", "a", ["0 --> 1"], "0 -> 1"),
        ("srt", "a", ["b --> c"], "b --> c"),
        ("srt", "a <i>b</i>\n{\\i1}c", ["c b a"], "{\\i1}c\n<i>b</i> a"),
        ("vtt", "<i>a\r\nb</i>\r", ["one two three four"], "<i>one two\r\nthree four</i>\r"),
        ("vtt", "a", ["b --> <c> & d"], "b --&gt; &lt;c&gt; &amp; d"),
        ("vtt", "<v Ann>a b", ["one"], "<v Ann>one"),
        ("vtt", "a <00:01.500>b <00:02.000>c", ["c b a"], "<00:01.500>c <00:02.000>b a"),
        ("jsonl", '{ "b":1.0,"text" :"a" }\r\n', [], '{ "b":1.0,"text" :"A" }\r\n'),
        ("jsonl", '{"a": {"text": "b"}, "text": "c"}', [], '{"a": {"text": "b"}, "text": "C"}'),
        ("jsonl", '{"a": "\\"text\\": 1", "text": "c"}', [], '{"a": "\\"text\\": 1", "text": "C"}'),
        ("jsonl", '{"text": " a\\n\\n\\tb "}', [], '{"text": " A\\n\\n\\tB "}'),
        ("jsonl", '{"text": "a\\r\\nb\\rc"}', [], '{"text": "A\\r\\nB\\rC"}'),
        ("jsonl", '{"text": "a\\\\nb"}', [], '{"text": "A\\\\NB"}'),
        ("jsonl", '{"text": "\\u00e9\\u4f60"}', [], '{"text": "É你"}'),
        ("jsonl", '{"text": "1"}\n\n{"text": ""}', [], '{"text": "1"}\n\n{"text": ""}'),
        ("jsonl", '{"te\\u0078t": "a"}', [], '{"te\\u0078t": "A"}'),
        ("jsonl", '{"text": "a", "text": "b"}', [], '{"text": "a", "text": "B"}'),
        ("jsonl", '{"text": "a \\ud800"}', [], '{"text": "A \\ud800"}'),
    ],
)  # fmt: skip
def test_where_translations_go(
    form: Form, text: str, translations: list[str], written: str
) -> None:
    assert rebuilt(form, text, *translations) == written


@pytest.mark.parametrize("seed", range(30))
def test_all_but_the_field_is_the_same_for_json(seed: int) -> None:
    generator = random.Random(seed)
    text = "".join(generator.choices('ab "\\\n\té你😀{}[],:/', k=20))
    content = {"x": [text, {"text": text}], text: 1.5e-7, "text": "t", "body": text, "z": None}
    line = json.dumps(content, ensure_ascii=seed % 2 == 0, indent=None if seed % 3 else 0)
    document = read_json_lines(line.replace("\n", " "), "body")
    found = json.loads(document.rebuild([segment.upper() for segment in document.segments]))
    assert found == {**content, "body": text.upper()}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', "line 2: not JSON: Expecting ',' delimiter at character 13"),
        ('["text"]', "line 2: no JSON object but a list"),
        ('{"id": 1, "body": "b"}', "line 2: no text in the field 'text'; fields with text: body;"),
        ('{"text": 1}', "line 2: no text in the field 'text'; fields with text: none;"),
        ("[" * 100_000, "line 2: not JSON: "),
        (f'{{"text": {"9" * 5000}}}', "line 2: "),
    ],
)
def test_mistakes_name_their_line(line: str, message: str) -> None:
    with pytest.raises(DataError) as error:
        read_json_lines(f'{{"text": "a"}}\n{line}\n', "text")
    assert str(error.value).startswith(message)
