"""Slips in a YAML file: named with their place, and mended into the meaning."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_mt.config.experiment import load_config
from transformer_mt.config.presets import preset_paths
from transformer_mt.config.typing_mistakes import find_mistakes, is_guess, mended
from transformer_mt.config.yaml_errors import pointed_line
from transformer_mt.config.yaml_text import parse_yaml
from transformer_mt.errors import ConfigError

LEAST = "name: x\nlanguages: {src: zh, tgt: en}\ndata: {train: [a/b]}\n"
COLON = "： (U+FF1A, FULLWIDTH COLON): type ':' and a space"
COMMA = "， (U+FF0C, FULLWIDTH COMMA): type ',' and a space, or put the whole text into quotes"

# What is replaced in a good file, or added to it (""), and a part of the message.
SLIPS = [
    ("name: x", "name：x", f"line 1, column 5: {COLON}"),
    ("zh, tgt", "zh，tgt", f"line 2, column 20: {COMMA}"),
    ("src: zh, ", "src：zh，", f"line 2, column 16: {COLON}; {COMMA}"),
    ("[a/b]", "[a，b]", f"line 3, column 17: {COMMA}"),
    ("[a/b]", "[a、b]", "line 3, column 17: 、 (U+3001, IDEOGRAPHIC COMMA): type ','"),
    ("[a/b]", "［a/b］", "line 3, column 15: ［ (U+FF3B, FULLWIDTH LEFT SQUARE BRACKET): type ["),
    ("name: x", "name: “x”",
     "line 1, column 7: “ (U+201C, LEFT DOUBLE QUOTATION MARK) and ” (U+201D, "
     "RIGHT DOUBLE QUOTATION MARK): type ' on both sides"),
    ("[a/b]", "[「a」]", "line 3, column 16: 「 (U+300C, LEFT CORNER BRACKET) and 」"),
    ("name: x", "name: 'x’", "column 9: ’ (U+2019, RIGHT SINGLE QUOTATION MARK): type ' on both"),
    ("name: x", "name: 'x",
     "line 1, column 7: ' is not closed in this line: type ' after the text"),
    ("name: x", 'name: "x\\"', 'line 1, column 7: " is not closed in this line'),
    ("a/b", "'a/b", "line 3, column 16: ' is not closed in this line"),
    ("name: x", "name: 'it's'", "line 1, column 10: text after the closing ': a ' inside is writt"),
    ("a/b]", "a/b", "line 3, column 19: [ of line 3, column 15 is closed by }, not by ]"),
    ("a/b]}", "a/b]", "line 3, column 7: { is never closed: type } after the last entry"),
    ("en}", "en", "line 2, column 12: { is never closed: type }"),
    ("en}", "en}]", "line 2, column 30: ] closes nothing: there is no [ before it"),
    ("zh, tgt", "zh tgt", "line 2, column 24: expected , or } before this: entries are separated"),
    ("name: x", "name:x", "line 1, column 5: no space after ':': type ': '"),
    ("{src: zh", "{src:zh", "line 2, column 16: no space after ':': type ': '"),
    ("data: {", "data:{", "line 3, column 5: no space after ':': type ': '"),
    ("[a/b]", "x: y",
     "line 3, column 16: expected , or } before this: entries are separated by ', ', and a text "
     "with ': ' stands in quotes"),
    ("name: x", "name: x: y",
     "line 1, column 8: a second ': ' in one line: begin a new line, or put the text "
     "into quotes, 'x: y'"),
    ("name: x", "name = x", "line 1, column 6: = after a key: type ':' and a space"),
    ("src: zh", "src=zh", "line 2, column 16: = after a key: type ':' and a space"),
    ("name: x", "name", "line 1, column 1: no ':' after name: type 'name:' and a value"),
    ("", "train:\n\tlr: 1", "line 5, column 1: a tab (U+0009): type spaces"),
    ("", "train:\n  lr:\t1", "line 5, column 6: a tab (U+0009): type spaces"),
    ("", "train:\n　lr: 1\n  patience: 3", "line 5, column 1: U+3000, IDEOGRAPHIC SPACE: type a s"),
    ("", "train:\n\xa0 lr: 1", "line 5, column 1: U+00A0, NO-BREAK SPACE: type a space"),
    ("", "train:\n  lr: 1\n   patience: 2",
     "line 6, column 4: indented by 3 spaces, but lr, above, by 2 and with a value: "
     "keys of one section begin in the same column"),
    ("", "train:\n    lr: 1\n  patience: 2",
     "line 6, column 3: indented by 2 spaces; the sections above begin at 0 or 4"),
    ("", "model: {heads: １６}", "line 4, column 16: full-width characters: type 16"),
    ("", "model:\n  heads: 16,", "line 5, column 12: a comma after a value: leave it out"),
    ("a/b", "*.zh", "line 3, column 16: a text that begins with * must stand in quotes: '*.zh'"),
    ("a/b", "@x", "line 3, column 16: a text that begins with @ must stand in quotes: '@x'"),
    ("a/b", "\"C:\\data\"", "line 3, column 20: in \"…\" a backslash begins an escape"),
    ("", "hello there", "line 4, column 1: expected a key, a colon and a value"),
    ("", "- x", "line 4, column 1: a list stands below its own key"),
    ("", "train: - x", "line 4, column 8: '- ' begins a line of its own"),
]  # fmt: skip

# The line of the file as it is shown, and the carets below it.
SHOWN = [
    ("name: x", "name：x", "name：x", "    ^^"),
    ("zh, tgt", "zh，tgt", "languages: {src: zh，tgt: en}", "                   ^^"),
    ("src: zh, ", "src：zh，", "languages: {src：zh，tgt: en}", "               ^^  ^^"),
    ("[a/b]", "[a，b]", "data: {train: [a，b]}", "                ^^"),
    ("name: x", "name: “x”", "name: “x”", "      ^"),
    ("name: x", "name: 'x", "name: 'x", "      ^"),
    ("name: x", "name:x", "name:x", "    ^"),
    ("name: x", "name: x: y", "name: x: y", "       ^"),
    ("", "train:\n\tlr: 1", "\\tlr: 1", "^^"),
    ("", "train:\n　lr: 1\n  patience: 3", "  lr: 1", "^^"),
]  # fmt: skip


def message(text: str, tmp_path: Path) -> list[str]:
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    return str(caught.value).replace(f"{tmp_path}/", "").split("\n")


def with_slip(good: str, slip: str) -> str:
    return LEAST.replace(good, slip, 1) if good else f"{LEAST}{slip}\n"


@pytest.mark.parametrize(("good", "slip", "told"), SLIPS)
def test_the_place_the_finding_and_the_remedy(
    good: str, slip: str, told: str, tmp_path: Path
) -> None:
    first, *rest = message(with_slip(good, slip), tmp_path)
    assert first.startswith("x.yaml: line ") and told in first
    assert rest[1].strip(" ^") == "", "the line, then carets"
    assert all(part.startswith(("    ", "x.yaml: ")) for part in rest)


@pytest.mark.parametrize(("good", "slip", "line", "carets"), SHOWN)
def test_carets_stand_below_the_place(
    good: str, slip: str, line: str, carets: str, tmp_path: Path
) -> None:
    assert message(with_slip(good, slip), tmp_path)[1:3] == [f"    {line}", f"    {carets}"]


def test_all_slips_and_all_other_problems_at_once(tmp_path: Path) -> None:
    text = (
        "name：my\nlanguages：{src：zh，tgt：eng1}\ndata：\n\ttrain: [my]\n"
        "train：{lr：fast, epochs: 3}\n"
    )
    lines = [line for line in message(text, tmp_path) if not line.startswith("    ")]
    assert [line.split(":")[1].split(",")[0] for line in lines] == [
        " line 1", " line 2", " line 3", " line 4", " line 5",
        " languages.tgt", " train.lr", " train.epochs",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["[语料：新闻/train]", "['my，other']", '["“quoted”/train"]', "[“语料”/train]",
     "[https://example.org/a.zip, opus:X]"],
)  # fmt: skip
def test_odd_characters_of_names_are_not_mistakes(text: str, tmp_path: Path) -> None:
    path, good = tmp_path / "x.yaml", LEAST.replace("[a/b]", text)
    path.write_text(good, encoding="utf-8")
    load_config(path)
    told = message(f"{good}train: {{lr: fast}}", tmp_path)
    assert told == ["x.yaml: train.lr: expected a number or 'paper', found 'fast' (text)"]


def slips_of(text: str) -> Iterator[tuple[int, str]]:
    """A configuration with one slip each, and the line of it."""
    for pattern, new in (
        (r"(?m)(?<=^)(?:  )?\w+(:) ", "："),
        (r"[{ ]\w+(:) (?=[^#]*\n)", "："),
        (r"\{[^#\n]*?(, )", "，"),
        (r"(?m)^\w+(: )\w+$", ":"),
        (r"(?m)^( +)\w+: ", "\t"),
    ):
        for found in re.finditer(pattern, text):
            start, end = found.span(1)
            if "#" not in text[text.rfind("\n", 0, start) + 1 : start]:
                yield text.count("\n", 0, start), text[:start] + new + text[end:]


@pytest.mark.parametrize("name", ["tiny", "mixed-zh-en", "base"])
def test_each_single_slip_is_found_in_its_line_and_mended(name: str) -> None:
    text = preset_paths()[name].read_text(encoding="utf-8")
    tree, n_slips = parse_yaml(text, name), 0
    for line, slipped in slips_of(text):
        mistakes = find_mistakes(slipped)
        assert line in {slipped.count("\n", 0, mistake.start) for mistake in mistakes}
        if n_slips % 5 == 0 and not is_guess(slipped):  # reading YAML takes its time
            assert parse_yaml(mended(slipped, mistakes), name) == tree
        n_slips += 1
    assert n_slips > 20


@pytest.mark.parametrize("name", preset_paths())
def test_a_file_that_is_indented_by_tabs_alone_is_mended(name: str) -> None:
    text = preset_paths()[name].read_text(encoding="utf-8")
    tabs = re.sub(r"(?m)^ +", lambda spaces: "\t" * (len(spaces[0]) // 2), text)
    mistakes = find_mistakes(tabs)
    if "\t\t\t" not in tabs:  # entries that go on under a bracket
        assert parse_yaml(mended(tabs, mistakes), name) == parse_yaml(text, name)
    assert {mistake.message for mistake in mistakes} == {"a tab (U+0009): type spaces"}


@pytest.mark.parametrize("name", preset_paths())
def test_good_files_have_no_mistakes(name: str) -> None:
    assert find_mistakes(preset_paths()[name].read_text(encoding="utf-8")) == []


@given(st.text("a1:：,，'\"“”[]{}［ \t\n-=#　|\\*", max_size=60) | st.text(max_size=60))
def test_any_text_has_places_and_edits_within_it(text: str) -> None:
    mistakes = find_mistakes(text)
    for mistake in mistakes:
        assert 0 <= mistake.start < mistake.end <= len(text)
        assert "\n" not in text[mistake.start : mistake.end]
        shown = pointed_line(text, [(mistake.start, mistake.end)])
        assert shown.count("\n") == 1 and "^" in shown.split("\n")[1]
    assert mended(text, mistakes).count("\n") == text.count("\n")
    try:
        parse_yaml(text, "x")
    except ConfigError as error:
        assert str(error).startswith("x: ")
