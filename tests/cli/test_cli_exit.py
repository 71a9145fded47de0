"""How a command ends: whatever is wrong outside of tmt becomes one line and exit status 2."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command import tmt_here

from transformer_mt.cli import main as cli
from transformer_mt.cli import translation_files
from transformer_mt.cli.translation_files import TranslationFiles
from transformer_mt.errors import OUTSIDE, DataError, TmtError, describe


def run(
    *words: str | bytes, start: Sequence[str] = ("-m", "transformer_mt"), **options: Any
) -> "subprocess.CompletedProcess[bytes]":
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 300}
    return subprocess.run([sys.executable, *start, *words], **both | options)


def encoding(name: str) -> dict[str, str]:
    return {**os.environ, "PYTHONIOENCODING": name}


def fails_with(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


ERRORS = [
    (DataError("what is wrong"), "what is wrong"),
    (OSError(errno.EIO, "Input/output error", "some/file"), "some/file: Input/output error"),
    (OSError(errno.ENOSPC, "No space left on device"),
     "No space left on device; make room, and run the same command again"),
    (OSError(errno.EIO, "Input/output error", b"x\xff"), "x\\xff: Input/output error"),
    (MemoryError(), "not enough memory"),
    (MemoryError("Unable to allocate 9 EiB"), "not enough memory: Unable to allocate 9 EiB"),
    (RecursionError("maximum recursion depth exceeded"), "the input is nested too deeply"),
    (UnicodeEncodeError("gbk", "a😀", 1, 2, "x"), "the encoding gbk has no character U+1F600; set "
     "PYTHONIOENCODING=utf-8, or write to a file"),
    (UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "x"), "'a\\udcff' is not UTF-8"),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
     "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    (DataError("a name with \x1b]0;controls\x07"), "a name with \\x1b]0;controls\\x07"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "line"), ERRORS, ids=lambda value: type(value).__name__)
def test_one_line_and_two(
    error: BaseException,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "app", fails_with(error))
    monkeypatch.setattr(sys, "argv", ["tmt", "anything"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert capsys.readouterr() == ("", f"tmt: {line}\n")
    monkeypatch.setattr(sys, "argv", ["tmt", "anything", "--debug"])
    with pytest.raises(type(error)):
        cli.main()


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "app", fails_with(KeyError("bug")))
    monkeypatch.setattr(sys, "argv", ["tmt"])
    with pytest.raises(KeyError):
        cli.main()
    assert KeyError not in OUTSIDE and ValueError not in OUTSIDE


def test_every_error_has_words() -> None:
    for error in (MemoryError(), OSError(), UnicodeError(), RecursionError()):
        assert describe(error)


def one_line(done: "subprocess.CompletedProcess[bytes]", words: bytes) -> None:
    assert done.returncode == 2, done
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith(b"tmt: ") and words in lines[0], lines


def test_results_are_not_lost_in_silence_where_standard_output_is_closed() -> None:
    done = run("config", "tiny", preexec_fn=lambda: os.close(1))
    one_line(done, b"standard output is closed")


def test_a_full_standard_output_is_told() -> None:
    with open("/dev/full", "wb") as full:
        done = run("config", "tiny", stdout=full)
    one_line(done, b"No space left on device")


@pytest.mark.parametrize("name", ["ascii", "gbk", "cp1252", "utf-8"])
@pytest.mark.parametrize("words", [["explain", "--help"], ["config", "tiny"]])
def test_any_encoding_of_the_standard_streams(name: str, words: list[str]) -> None:
    done = run(*words, env=encoding(name))
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode("utf-8" if name == "ascii" else name)
    full = tmt_here(*words).stdout
    assert len(shown) >= len(full) * 0.9, "nothing is left out"


@pytest.mark.parametrize("name", ["ascii", "gbk", "cp1252", "utf-8"])
def test_any_encoding_of_an_explanation(name: str) -> None:
    """`prepare_streams` is what tells encodings apart: Python's own is not needed twice."""
    shown = tmt_here("explain", "--example", "two-words", encoding=name).stdout
    full = tmt_here("explain", "--example", "two-words").stdout
    assert len(shown) >= len(full) * 0.9, "nothing is left out"
    assert ("\\u221a" if name == "cp1252" else "√") in shown


def test_a_message_in_any_encoding() -> None:
    done = run("plan", "好…→.yaml", env=encoding("cp1252"))
    one_line(done, b"\\u597d\x85->.yaml: no such file")


def test_a_document_goes_to_standard_output_in_utf_8() -> None:
    code = (
        "from transformer_mt.system.terminal import prepare_streams, show_document\n"
        "prepare_streams(); show_document('好\\r\\nÿ')"
    )
    assert run(start=("-c", code), env=encoding("gbk")).stdout.decode() == "好\r\nÿ"


def test_windows_is_told_of_wsl_and_of_nothing_else() -> None:
    code = "import sys; sys.platform = 'win32'\nfrom transformer_mt.__main__ import main\nmain()"
    one_line(run(start=("-c", code)), b"install WSL")


@pytest.mark.parametrize(
    "words",
    [
        [b"plan", b"\xff\x1b[31m.yaml"], [b"plan", b"~nosuchuser/x.yaml"], [b"plan", b"/"],
        [b"info", b"-m", b"\xff"], [b"translate", b"-m", b"/dev/null", b"x"], [b"plan", b"x" * 999],
    ],
)  # fmt: skip
def test_names_of_any_kind(words: list[bytes]) -> None:
    done = tmt_here(*map(os.fsdecode, words), code=2)
    assert "Traceback" not in done.stderr and "\x1b" not in done.stderr
    done.stderr.encode()  # is UTF-8


def test_a_document_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation_files, "MOST_BYTES", 1000)
    with pytest.raises(TmtError, match=r"/dev/zero: more than .* MiB; divide the document"):
        _ = TranslationFiles(Path("/dev/zero"), None, "markdown", "text")._content


def test_a_threshold_that_is_no_number_is_refused() -> None:
    done = run("eval", "--min-bleu", "nan")
    assert done.returncode == 2 and b"nan" in done.stderr
