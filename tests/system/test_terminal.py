"""Text from elsewhere on a terminal: nothing in it acts, and nothing of a result is lost."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_mt.system.terminal import (
    Always,
    columns_of,
    folded,
    is_quiet,
    say,
    set_quiet,
    visible,
)


@given(st.text())
def test_nothing_that_acts_is_left(text: str) -> None:
    shown = visible(text)
    assert not any(ord(character) < 32 and character not in "\n\t" for character in shown)
    assert not any(0x7F <= ord(character) < 0xA0 for character in shown)
    shown.encode()
    assert visible(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, 好, émigré\t\n", "plain, 好, émigré\t\n"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\rb", "a\\x0db"),
        ("\x9b31m", "\\x9b31m"),
        ("txt.\u202eexe", "txt.\\u202eexe"),
        (b"\xff.txt".decode("utf-8", "surrogateescape"), "\\xff.txt"),
        ("\ud83d", "\\ud83d"),
        ("👩‍👩‍👧", "👩‍👩‍👧"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_colours_stay_where_they_are_wanted() -> None:
    text = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J"
    assert visible(text, styled=True) == "\x1b[31mred\x1b[0m \\x1b]0;title\\x07 \\x1b[2J"


HEAD = "import sys\nfrom transformer_mt.system.terminal import prepare_streams, say, show\n"


def run(code: str, **options: object) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([sys.executable, "-c", f"{HEAD}{code}"], capture_output=True, **options)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1:backslashreplace"])
def test_results_come_out_whatever_the_locale(encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    code = "prepare_streams(); show('caf\\u00e9'); say('\\u597d'); show('\\udcff')"
    done = run(code, env=environment)
    assert done.returncode == 0
    if "latin" in encoding:
        assert done.stdout.startswith("café\n".encode("latin-1"))
    else:
        assert done.stdout == "café\n".encode() + b"\xff\n", "a name that is not UTF-8"


TEXT = "a → é 好 😀 ▁…\ud800"


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("gbk", "a → é 好 \\ud83d\\ude00 ▁…\\ud800"),
        ("cp1252", "a \\u2192 é \\u597d \\ud83d\\ude00 \\u2581…\\ud800"),
        ("koi8-r", "a \\u2192 \\u00e9 \\u597d \\ud83d\\ude00 \\u2581\\u2026\\ud800"),
    ],
)
def test_programs_get_numbers_that_json_reads_back(encoding: str, shown: str) -> None:
    code = f"import json; prepare_streams(); text = {TEXT!r}; show(text)\n"
    code += "show(json.dumps(text, ensure_ascii=False))"
    done = run(code, env={**os.environ, "PYTHONIOENCODING": encoding})
    plain, as_json = done.stdout.decode(encoding).splitlines()
    assert plain == shown and json.loads(as_json) == TEXT
    (told,) = done.stderr.decode(encoding).splitlines()
    assert told.startswith(f"standard output is {encoding}: characters that it lacks are written ")
    assert told.endswith("PYTHONIOENCODING=utf-8 writes them all")


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("gbk", "a → é 好 \\ud83d\\ude00 ▁…"), ("cp1252", "a -> é \\u597d \\ud83d\\ude00 _…")],
)
def test_people_get_plain_spellings(encoding: str, shown: str) -> None:
    code = f"prepare_streams(); show({TEXT!r}); say({TEXT!r})"
    outer, inner = pty.openpty()
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    found = subprocess.run(
        [sys.executable, "-c", f"{HEAD}{code}"],
        stdout=inner,
        stderr=subprocess.PIPE,
        env=environment,
    )
    on_terminal = os.read(outer, 1000).decode(encoding)
    assert on_terminal.strip() == found.stderr.decode(encoding).strip()
    assert on_terminal.strip() == shown + "\\ud800"


@pytest.mark.parametrize(("asked", "encoding"), [(None, "utf-8"), ("gbk", "gbk")])
def test_a_file_is_utf_8_unless_asked_otherwise(
    tmp_path: Path, asked: str | None, encoding: str
) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": asked or ""}
    code = f"{HEAD}sys.stdout.reconfigure(encoding='gbk'); prepare_streams(); show('好')"
    with (tmp_path / "out").open("wb") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, env=environment, check=True)
    assert (tmp_path / "out").read_bytes() == "好\n".encode(encoding)


def test_quiet_leaves_what_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    set_quiet(True)
    try:
        say("progress")
        say(Always("a warning"))
        assert is_quiet()
    finally:
        set_quiet(False)
    say("again")
    assert capsys.readouterr().err == "a warning\nagain\n"


@pytest.mark.parametrize("descriptor", [0, 1, 2])
def test_a_closed_stream_is_not_taken_by_the_next_file(tmp_path: Path, descriptor: int) -> None:
    """What is printed must not go into a file that is opened, and nothing may be lost unsaid."""
    path = tmp_path / "result"
    code = (
        f"prepare_streams(); file = open({str(path)!r}, 'w'); file.write('mine'); file.close()\n"
        "say('told')\n"
        "try: show('a result')\n"
        "except Exception as error: say(f'{type(error).__name__}: {error}')\n"
    )
    done = run(code, preexec_fn=lambda: os.close(descriptor))
    assert path.read_text() == "mine"
    assert done.returncode == 0
    if descriptor == 1:
        assert b"TmtError: standard output is closed" in done.stderr
    else:
        assert done.stdout == b"a result\n"


@given(st.text(alphabet="ab |，中\u0301 ", max_size=200), st.integers(20, 60))
def test_folding_loses_nothing_and_fits(text: str, width: int) -> None:
    """Only spaces are lost, at the ends of lines; only a long word is wider."""
    shown = folded(text.lstrip(), width)
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", text)
    for line in shown.split("\n"):
        assert columns_of(line) <= width or max(map(columns_of, line.split())) > width - 5


@pytest.mark.parametrize(
    ("text", "lines", "why"),
    [
        ("one two three", ["one two", "    three"], "after spaces, with an indent"),
        ("  one two", ["  one two"], "what fits stays"),
        ("tok:13a|bs:1|x", ["tok:13a|", "    bs:1|x"], "after bars of signatures"),
        ("see /a/very/long/path", ["see", "    /a/very/long/path"], "a path can be copied"),
        ("一二三四五六", ["一二三四五", "    六"], "between characters of two columns"),
    ],
)
def test_folding(text: str, lines: list[str], why: str) -> None:
    assert folded(text, 11).split("\n") == lines, why


def test_a_person_is_told_in_lines_that_fit() -> None:
    """Through a pseudo-terminal, at the width that it has and at that of $COLUMNS."""
    pty = pytest.importorskip("pty")
    code = "from transformer_mt.system.terminal import say; say('some words ' * 30)"
    for columns, width in (({}, 80), ({"COLUMNS": "40"}, 40)):
        ours, theirs = pty.openpty()
        set_size(theirs, 24, 80)
        environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | columns
        subprocess.run([sys.executable, "-c", code], stderr=theirs, env=environment, check=True)
        os.close(theirs)
        lines = os.read(ours, 10_000).decode().split("\r\n")
        os.close(ours)
        assert width - 12 < max(map(len, lines)) <= width
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert piped.stderr.count(b"\n") == 1


def set_size(descriptor: int, rows: int, columns: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
