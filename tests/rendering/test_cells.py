"""Text of a given width on a terminal."""

import pytest
from rich.cells import cell_len

from transformer_mt.rendering.cells import align_columns, fit, wrap_cells


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abc", 5, "abc  "),
        ("abc", 2, "a…"),
        ("动物", 4, "动物"),
        ("动物", 3, "动…"),
        ("a动物", 3, "a… "),
        ("e\u0301e", 3, "e\u0301e "),
        ("", 1, " "),
        ("动", 1, "…"),
        ("a\x1b[2J", 6, "a\ufffd[2J "),  # no text paints the terminal
        ("a\nb\u2028c\u202ed", 8, "a\ufffdb\ufffdc\ufffdd "),
    ],
)
def test_fitted_text_has_exactly_the_width_asked_for(text: str, width: int, expected: str) -> None:
    assert fit(text, width) == expected
    assert cell_len(expected) == width


def test_columns_stand_below_each_other_in_any_script() -> None:
    lines = align_columns([["名字", "n"], ["a", "12"]], numbers=(1,)).split("\n")
    assert lines == ["名字   n", "a     12"]


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("one two three", 7, "one two\nthree"),
        ("动物没有穿过", 5, "动物\n没有\n穿过"),
        ("the 动物 is", 8, "the 动物\nis"),
        ("abcdefgh", 3, "abc\ndef\ngh"),
        ("it → 物", 80, "it → 物"),
        ("a\x1b[2J", 80, "a\ufffd[2J"),
        ("", 80, ""),
    ],
)
def test_text_is_broken_at_spaces_and_between_wide_characters(
    text: str, width: int, expected: str
) -> None:
    assert wrap_cells(text, width) == expected
    assert max(map(cell_len, expected.split("\n"))) <= width
