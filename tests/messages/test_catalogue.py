"""Translations of messages: complete, with the same places, and chosen by the environment."""

import ast
import builtins
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chinese import english_lines
from many_commands import said
from write_messages import places

import transformer_mt
from transformer_mt.cli.language import translated_error
from transformer_mt.messages.catalogue import tr

PACKAGE = Path(transformer_mt.__file__).parent
ROOT = PACKAGE.parent
TOLD = {"say", "show", "Always"}  # functions that print a line for people


def output_of(*words: str, **variables: str) -> str:
    """What tmt prints on both streams, with nothing but these variables of language."""
    kept = {k: v for k, v in os.environ.items() if k not in ("LANGUAGE", "LANG", "TMT_LANG")}
    kept = {k: v for k, v in kept.items() if not k.startswith("LC_")}
    done = subprocess.run(
        [sys.executable, "-m", "transformer_mt", *words],
        env={**kept, "PYTHONIOENCODING": "utf-8", "COLUMNS": "100", **variables},
        capture_output=True,
        encoding="utf-8",
    )
    return done.stdout + done.stderr


def test_messages_have_places_and_braces() -> None:
    assert tr("{}: {!r} of {:,}", "a", "b", 1000) == "a: 'b' of 1,000"
    assert tr("{a}") == "{a}"
    assert tr("") == ""


@pytest.mark.parametrize(
    "text, found",
    [
        ("{} of {:,}", ["0!:", "1!:,"]),
        ("{1:,} 中的 {0}", ["1!:,", "0!:"]),
        ("{:>{}} {!r}", ["0!:>{}", "2!r:"]),
        ("no {single", []),
    ],
)
def test_places_are_compared_by_number_and_form(text: str, found: list[str]) -> None:
    assert list(places(text)) == found


def test_translations_are_complete_and_compiled() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/write_messages.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "variables",
    [
        {"TMT_LANG": "zh", "LC_ALL": "C"},
        {"LANG": "zh_CN.UTF-8"},
        {"LC_ALL": "zh_CN.UTF-8", "LANG": "de_DE"},
        {"LANGUAGE": "de:zh_CN:en", "LANG": "de_DE.UTF-8"},
    ],
    ids=str,
)
def test_the_environment_chooses_the_language(variables: dict[str, str]) -> None:
    assert "没有这个文件" in output_of("train", "none.yaml", **variables)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"LANG": "xx"},
        {"TMT_LANG": "en", "LANG": "zh_CN"},
        {"LANGUAGE": "en_US:en:zh_CN", "LANG": "zh_CN.UTF-8"},
        {"LC_ALL": "C", "LANGUAGE": "zh_CN:zh", "LANG": "zh_CN.UTF-8"},
    ],
    ids=str,
)
def test_without_a_translation_messages_are_english(variables: dict[str, str]) -> None:
    assert "no such" in output_of("train", "none.yaml", **variables)


def said_untranslated(tree: ast.AST) -> list[int]:
    """Lines in which words are printed, or raised for people, that are no message of `tr`."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            call = node.exc
            name = getattr(call.func, "id", "")
            if not name.endswith("Error") or hasattr(builtins, name):
                continue
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in TOLD:
            call = node
        else:
            continue
        lines += [arg.lineno for arg in call.args if has_words(arg)]
    return lines


def has_words(node: Any) -> bool:
    """Whether a literal, or the fixed parts of an f-string, have a word in them."""
    match node:
        case ast.Constant(value=str(text)):
            return any(len(word) > 2 and word.isalpha() for word in text.split())
        case ast.JoinedStr(values=values):
            return any(map(has_words, values))
        case ast.BinOp(left=left, right=right):
            return has_words(left) or has_words(right)
    return False


def test_the_search_for_untranslated_words_finds_some() -> None:
    found = said_untranslated(
        ast.parse('raise DataError(f"{x}: no such file")\nsay("three words")')
    )
    assert found == [1, 2]
    assert not said_untranslated(ast.parse('raise DataError(tr("{}: no such file", x))'))
    assert not said_untranslated(ast.parse('raise ValueError("a mistake of the code")'))


def test_all_that_is_said_can_be_translated() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in said_untranslated(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found


MISTAKES = {
    "": "用法：tmt [选项] 命令 [参数]...",
    "trian": "没有命令 'trian'。是否想写 'train'？",
    "data cleam": "没有命令 'cleam'。是否想写 'clean'？",
    "train": "缺少参数 'CONFIG|FILES'。",
    "train a --minute 5": "没有选项 --minute（是否想写 --minutes？）",
    "--foo": "没有选项 --foo",
    "train a --minutes": "选项 '--minutes' 需要一个值。",
    "runs --json=3": "选项 '--json' 不带值。",
    "translate --beam x": "'--beam' 的值无效：应为整数",
    "translate --beam 0": "'--beam' 的值无效：应不小于 1",
    "explain a b c": "多余的参数：b c",
}


def test_a_mistake_of_the_command_line_is_told_in_chinese(tmp_path: Path) -> None:
    found = said([words.split() for words in MISTAKES], "zh", tmp_path)
    for (words, told), (_, shown) in zip(MISTAKES.items(), found, strict=True):
        assert told in shown and "用法：tmt" in shown, words
        assert not english_lines(shown), shown


def test_a_report_on_files_is_chinese_to_its_last_word(tmp_path: Path) -> None:
    (tmp_path / "a.zh").write_text("你好\r再见\r谢谢\r！\n好\n", encoding="utf-8", newline="")
    (tmp_path / "a.en").write_text("12\n\n", encoding="utf-8")
    words = ["data", "check", "a.zh", "a.en", "--test", "a"]
    (_, report), (_, explained) = said([words, [*words, "--explain"]], "zh", tmp_path)
    shown = report + explained
    assert "原文侧含 3 个回车符" in shown and "第 1, 2 行" in shown and "例如 a.zh" in shown
    assert not re.search(r"\b(lines?|source|target|dropped|kept|e\.g\.)(?!\w)", shown), shown


def test_an_unknown_error_of_typer_stays_as_it_is() -> None:
    assert translated_error("Something else: x") == "Something else: x"
