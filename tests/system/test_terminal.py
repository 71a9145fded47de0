"""Text from elsewhere on a terminal: nothing in it acts, and nothing of a result is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_mt.system.terminal import visible


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


def run(code: str, **options: object) -> "subprocess.CompletedProcess[bytes]":
    code = f"from transformer_mt.system.terminal import prepare_streams, say, show\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, **options)


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
