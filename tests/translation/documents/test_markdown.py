"""Markdown: which words are handed out, and that marks stay where they are."""

import pytest

from transformer_mt.translation.documents.markdown import read_markdown


def upper(text: str) -> str:
    document = read_markdown(text)
    return document.rebuild([segment.upper() for segment in document.segments])


@pytest.mark.parametrize(
    ("text", "segments", "why"),
    [
        ("# Title #\n\nText", ["Title", "Text"], "headings"),
        ("#hash", ["#hash"], "no heading without a space"),
        ("Title\n=====\nText\n---\nMore", ["Title", "Text", "More"], "underlined headings"),
        ("one\ntwo\n\nthree", ["one two", "three"], "the lines of a paragraph are one text"),
        ("一\n二", ["一二"], "without a space in Chinese"),
        ("one  \ntwo\\\nthree", ["one", "two", "three"], "hard line breaks"),
        ("- one\n  more\n- two\n1. three\n2) four", ["one more", "two", "three", "four"], "lists"),
        ("- [ ] one\n- [x] two", ["one", "two"], "tasks"),
        ("> one\n> two\n>\n> three", ["one two", "three"], "quotes"),
        ("> one\ntwo\n\n> > three", ["one two", "three"], "quotes that go on without a mark"),
        ("> [!NOTE]\n> one", ["one"], "what kind of note it is stays"),
        ("one\n\n---\n***\n* * *\n\ntwo", ["one", "two"], "rules"),
        ("```py\ncode\n\n```\none", ["one"], "fenced code"),
        ("~~~\n```\ncode\n~~~\none", ["one"], "with the fence that it began with"),
        ("- a:\n  ```\n  code\n  ```\n- b", ["a:", "b"], "within lists"),
        ("> ```\n> code\n\none", ["one"], "to the end of a quote, if it never ends"),
        ("one\n\n```\ncode\n\nmore", ["one"], "or of the page"),
        ("one\n\n    code\n\n    code\n\ntwo", ["one", "two"], "indented code"),
        ("one\n    two", ["one two"], "not within a paragraph"),
        ("- one\n\n    two\n\n        code", ["one", "two"], "nor where it belongs to an item"),
        ("| a | b |\n|---|:-:|\n| c d | 1 |", ["a", "b", "c d"], "tables, cell by cell"),
        ("a | b\n--|--\nc | d\n\ne | f", ["a", "b", "c", "d", "e | f"], "without outer pipes"),
        ("| a \\| b | `x\\|y` c |\n|-|-|", ["a | b", "x|y c"], "pipes that part no cells"),
        ("---\ntitle: x\n---\none", ["one"], "front matter"),
        ("---\none", ["one"], "no front matter without an end"),
        ("[a]: http://b 'c'\n\n[^1]: one", ["one"], "definitions; notes are text"),
        ("see [a] and [b]\n\n[A]: u", ["see a and [b]"], "a label is a key if it is defined"),
        ("[one two][a] x\n\n[a]: u", ["one two x"], "its link has a text"),
        ('one [two](u "t") ![three](v(w)) [^1]', ["one two three"], "links"),
        ("one `code` two ``a ` b`` c", ["one code two a ` b c"], "code is read with the sentence"),
        ("a ` b", ["a ` b"], "a single backtick is text"),
        (
            "one http://a.b/c_d, two <http://e> f@g.de",
            ["one http://a.b/c_d, two http://e f@g.de"],
            "addresses",
        ),
        ("*one* __two__ **th*r*ee** ~~x~~", ["one two three x"], "emphasis"),
        ("2 * 3 a, snake_case, a ~ b", ["2 * 3 a, snake_case, a ~ b"], "no emphasis"),
        (r"\*a\* &amp; \[b\] &copy;", ["*a* & [b] ©"], "escapes and entities"),
        ('a <b class="x">b</b> <br> c < d', ["a b", "c < d"], "tags; <br> divides"),
        ("a <code>b</code> <!-- c\nd --> e", ["a b e"], "code and comments as HTML"),
        ("<!-- a\n\nb -->\none", ["one"], "comments with blank lines"),
        ("<pre>\na\n\nb\n</pre>\none", ["one"], "raw HTML"),
        ("<details>\n<summary>one</summary>\n\ntwo\n</details>", ["one", "two"], "HTML with text"),
        ("a\u2028b c\x85d", ["a b c d"], "only line feeds end lines; others are spaces"),
    ],
)
def test_what_is_translated(text: str, segments: list[str], why: str) -> None:
    document = read_markdown(text)
    assert document.segments == segments, why
    assert document.rebuild(segments) == text


@pytest.mark.parametrize(
    ("text", "translated", "why"),
    [
        ("##  One  ##\r\n", "##  ONE  ##\r\n", "spaces and line ends"),
        ("> one two\n> three\n", "> ONE TWO\n> THREE\n", "quote marks before each line"),
        ("  - one\n    two  \n", "  - ONE\n    TWO  \n", "indentation and trailing spaces"),
        ("|a|b |\n|-|-|\n| c|d|", "|A|B |\n|-|-|\n| C|D|", "spaces in cells"),
        ("a **b**c", "A **BC**", "marks stand around words"),
        ("[a bc\nd](u)", "[A BC\nD](u)", "a link over two lines"),
        ("a\n`b`\nc", "A\n`b`\nC", "code on a line of its own"),
    ],
)
def test_where_translations_go(text: str, translated: str, why: str) -> None:
    assert upper(text) == translated, why


@pytest.mark.parametrize(
    ("text", "translation", "written"),
    [
        ("a", "# b", "\\# b"),
        ("a", "1. b", "1\\. b"),
        ("a", "2 * 3 < 4, it's a snake_case & C#", "2 * 3 < 4, it's a snake_case & C#"),
        ("a", "*b* &amp;", "\\*b\\* &amp;amp;"),
        ("| a |\n|---|", "b | c", "| b \\| c |\n|---|"),
        ("one two\nthree", "four - two", "four\n\\- two"),
        ("one\ntwo\nthree", "one", "one\n\n"),
    ],
)
def test_marks_in_translations_are_escaped(text: str, translation: str, written: str) -> None:
    assert read_markdown(text).rebuild([translation]) == written
