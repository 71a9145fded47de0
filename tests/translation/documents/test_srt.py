"""SubRip: cues are translated whole, on their lines, and nothing else is touched."""

import pytest

from transformer_mt.translation.documents.srt import read_srt

TIME = "00:00:01,000 --> 00:00:02,500"


@pytest.mark.parametrize(
    ("cue", "segments", "why"),
    [
        ("One two\nthree.", ["One two three."], "a sentence over two lines"),
        ("一二\n三四。", ["一二三四。"], "without a space in Chinese"),
        ("<i>One</i>\n<i>two</i>", ["One two"], "tags at the ends of lines"),
        ("{\\an8}<i>One\ntwo</i> ", ["One two"], "positions, too"),
        ("One <i>two</i> three", ["One two three"], "tags within a line"),
        ("- One?\n- Two.", ["One?", "Two."], "a dash is another speaker"),
        ("- <i>One</i>\n–Two\nthree", ["One", "Two three"], "also with tags, and lines that go on"),
        ("-- One", ["-- One"], "two dashes are none"),
        ("In\n1984\n", ["In 1984"], "a number as text"),
        ("1984", [], "nothing to translate in it"),
        ("One\n\ntwo", ["One", "two"], "a blank line within a cue"),
        ("One\n2\n00:01:00.0 --> 00:01:01.0\nTwo", ["One", "Two"], "no blank line between cues"),
    ],
)
def test_what_is_translated(cue: str, segments: list[str], why: str) -> None:
    for end in ("\n", "\r\n"):
        text = f"1\n{TIME}\n{cue}".replace("\n", end)
        document = read_srt(text)
        assert document.segments == segments, why
        assert document.rebuild(segments) == text


def test_what_stands_before_the_first_time_stays() -> None:
    assert read_srt(f"WEBVTT\nNote\n\n1\n{TIME} align:left\nOne").segments == ["One"]


@pytest.mark.parametrize(
    ("cue", "translation", "written"),
    [
        ("<i>a\r\nb</i>\r", "one two three four", "<i>one two\r\nthree four</i>\r"),
        ("a\nb", "一二三四", "一二\n三四"),
        ("a\nb", "one", "one\n"),
        ("- a ", "one", "- one "),
        ("a", "0 --> 1", "0 -> 1"),
        ("a", "b --> c", "b --> c"),
        ("a <i>b</i>\n{\\i1}c", "c b a", "{\\i1}c\n<i>b</i> a"),
    ],
)
def test_where_translations_go(cue: str, translation: str, written: str) -> None:
    assert read_srt(f"1\n{TIME}\n{cue}").rebuild([translation]) == f"1\n{TIME}\n{written}"
