"""Stages: a bar where somebody looks, a line elsewhere, and no thread."""

import io
import re
import threading

import pytest
from rich.cells import cell_len
from rich.console import Console

from transformer_mt.rendering import progress
from transformer_mt.rendering.progress import ShownStages, Stages, error_console


def console(output: io.StringIO, *, terminal: bool, width: int = 80) -> Console:
    return Console(
        file=output, force_terminal=terminal, width=width, soft_wrap=True, highlight=False
    )


def work(stages: Stages) -> None:
    with stages:
        stages.begin("reading [a] \x1b[31mfile", 4)
        for _ in range(4):
            stages.advance()
        stages.begin("waiting, nobody knows how long, for something with a very long name" * 3)
        stages.advance()


@pytest.mark.parametrize(
    ("is_terminal", "term", "is_live"),
    [(False, "xterm", False), (True, "dumb", False), (True, "xterm-256color", True)],
)
def test_a_cursor_moves_only_where_it_can(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, term: str, is_live: bool
) -> None:
    """FORCE_COLOR, which continuous integration sets, makes no terminal of a pipe."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", term)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stderr", stream)
    assert error_console().is_terminal is is_live


def test_a_program_gets_a_line_for_each_stage() -> None:
    output = io.StringIO()
    work(ShownStages(console(output, terminal=False)))
    first, second = output.getvalue().splitlines()
    assert first == "reading [a] \\x1b[31mfile"
    assert second.startswith("waiting, nobody")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_gets_a_bar_that_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_REFRESH_S", 0.0)
    output = io.StringIO()
    before = threading.active_count()
    stages = ShownStages(console(output, terminal=True, width=width))
    with stages:
        stages.begin("reading", 4)
        stages.advance(2)
        assert threading.active_count() == before, "or search could not work with copies"
        assert "50%" in output.getvalue() and "reading" in output.getvalue()
    work(ShownStages(console(output, terminal=True, width=width)))
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.getvalue())
    assert max(map(cell_len, re.split(r"[\r\n]+", plain))) <= width


def test_nobody_is_shown_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    work(Stages())
    assert capsys.readouterr() == ("", "")
