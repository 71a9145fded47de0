"""The three standard streams, and how text from elsewhere is shown on them.

Control characters of a file name, a server's words or a translation become visible, so that no text
can move the cursor, hide a part of a message or set the title of a window. A character that the
encoding of a stream lacks becomes visible as well: for people in a plain spelling, `->` for an
arrow; for programs as JSON spells it (`\\u2192`).
"""

import codecs
import logging
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from io import TextIOBase, TextIOWrapper
from typing import NoReturn, TextIO, cast

from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr

Say = Callable[[str], None]  # tells a person one line, such as `say`

# C0 without tab and line end, DEL, C1, marks that reorder text, and halves of characters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_UTF_8 = ("utf-8", "utf8")
_ASCII = ("ascii", "us-ascii", "ansi_x3.4-1968")
_WIDE = "\u1100-\u115f\u2e80-\uffdc"
_BREAKABLE = re.compile(f"[^ |{_WIDE}]*(?:[ |]+|[{_WIDE}]|$)")  # a line may end after each
_STYLE = re.compile("(\x1b\\[[0-9;]*m)")
_SPELLED = {
    "→": "->", "←": "<-", "↔": "<->", "…": "...", "·": "-", "•": "*", "–": "-", "—": "--", "−": "-",
    "×": "x", "±": "+-", "≥": ">=", "≤": "<=", "√": "sqrt", "∞": "inf", "“": '"', "”": '"',
    "α": "alpha", "δ": "delta",
    "‘": "'", "’": "'", "▁": "_", "█": "#", "▓": "=", "▒": "-", "░": ".", "│": "|", "─": "-",
}  # fmt: skip


def is_screen(stream: TextIO) -> bool:
    """Whether it is a terminal that moves its cursor, whatever FORCE_COLOR says of a pipe."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


class Always(str):
    """A message for `say` that `--quiet` does not drop: a warning, or how a command has ended."""


class _Silence:
    """Whether `say` drops messages."""

    on = False


def set_quiet(quiet: bool, *, errors_only: bool = False) -> None:
    """From now on `say` drops, or tells, messages that are not marked `Always`.

    Args:
        errors_only: warnings of the log are dropped as well.
    """
    _Silence.on = quiet
    logging.disable(logging.WARNING if quiet and errors_only else logging.NOTSET)


def is_quiet() -> bool:
    """For everything that shows progress in another way than by `say`."""
    return _Silence.on


def visible(text: str, *, styled: bool = False) -> str:
    """Control characters, marks of direction, surrogates as escapes; `styled` keeps colours."""
    if styled:
        parts = _STYLE.split(text)
        return "".join(part if i % 2 else visible(part) for i, part in enumerate(parts))
    return _HIDDEN.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def say(message: str) -> None:
    """Tell a person something, on standard error, at once; on a terminal no line is too wide."""
    if _Silence.on and not isinstance(message, Always):
        return
    text = visible(message)
    if width := terminal_width(sys.stderr):
        text = folded(text, width)
    print(text, file=sys.stderr, flush=True)


def terminal_width(stream: TextIO) -> int | None:
    """Columns of the terminal behind a stream, or $COLUMNS; None: there is no terminal."""
    try:
        if not stream.isatty():
            return None
        columns = os.environ.get("COLUMNS", "")
        found = int(columns) if columns.isdecimal() else os.get_terminal_size(stream.fileno())[0]
    except (OSError, ValueError):  # closed, or no file
        return None
    return found or 80


def folded(text: str, width: int) -> str:
    """The text with lines of at most `width` columns, and an indent where a line goes on.

    Lines are broken after spaces and bars, and between characters that fill two columns. A longer
    word, such as a path, stays whole, so that it can be copied.
    """
    return "\n".join(
        line if columns_of(line) <= width else _folded_line(line, width)
        for line in text.split("\n")
    )


def columns_of(text: str) -> int:
    """Columns of a terminal that a text fills; a Chinese character fills two."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _folded_line(line: str, width: int) -> str:
    indent = line[: len(line) - len(line.lstrip(" "))]
    lines, start = [], indent + "    "
    current = ""
    for word in filter(None, _BREAKABLE.findall(line)):
        if current.strip() and columns_of((current + word).rstrip()) > width:
            lines.append(current.rstrip())
            current = start
        current += word
    return "\n".join([*lines, current.rstrip()])


def show(result: str, *, styled: bool = False) -> None:
    """Print a line of a result: as it is to a program, with visible controls to a person."""
    print(visible(result, styled=styled) if sys.stdout.isatty() else result, flush=True)


def show_folded(text: str) -> None:
    """Print a result for people, in lines that a terminal has room for."""
    width = terminal_width(sys.stdout)
    show(folded(text, width) if width else text)


def show_document(text: str) -> None:
    """Print a whole file: its bytes in UTF-8 to a file or a program, its lines to a person."""
    if sys.stdout.isatty():
        show(text.removesuffix("\n"))
    else:
        sys.stdout.buffer.write(text.encode())


def prepare_streams() -> None:
    """Make the standard streams safe to use, whatever the caller has left of them.

    A closed descriptor is taken by the next file that is opened, which would then receive what is
    printed: closed ones are put on the null device. Standard output that was closed raises where
    something is printed to it, so that no result is lost in silence. An ASCII stream becomes UTF-8.
    Characters that another encoding lacks are shown in its own, as the head of this file says.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = cast(TextIO, _ClosedOutput())
    if sys.stderr is None:  # `print` would take standard output for it
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    codecs.register_error("tmt-people", _spelled)
    codecs.register_error("tmt-programs", _Numbered(sys.stdout.encoding))
    if isinstance(sys.stdout, TextIOWrapper):
        _prepare_output(sys.stdout)
    if isinstance(sys.stderr, TextIOWrapper) and sys.stderr.encoding.lower() not in _UTF_8:
        sys.stderr.reconfigure(errors="tmt-people")


def _prepare_output(stream: TextIOWrapper) -> None:
    """No character of a result can fail; a file is UTF-8, unless the user has asked for another."""
    is_file = False
    with suppress(OSError):  # a stream without a descriptor
        is_file = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    asked = os.environ.get("PYTHONIOENCODING")
    if stream.encoding.lower() in _ASCII or (is_file and not asked):
        stream.reconfigure(encoding="utf-8")
    if stream.errors == "strict":
        if stream.encoding.lower() in _UTF_8:
            # Names of files that are not UTF-8 come out as they are.
            stream.reconfigure(errors="surrogateescape")
        elif stream.isatty():
            stream.reconfigure(errors="tmt-people")
        else:
            stream.reconfigure(errors="tmt-programs")


def _spelled(error: UnicodeError) -> tuple[str | bytes, int]:
    """For people: the first character that the encoding lacks, in a plain spelling."""
    assert isinstance(error, UnicodeEncodeError)
    char = error.object[error.start]
    plain = _SPELLED.get(char) or unicodedata.normalize("NFKC", char)
    return plain if plain.isascii() else _numbered(char), error.start + 1


class _Numbered:
    """For programs: the characters by their numbers; the first one is told."""

    def __init__(self, encoding: str) -> None:
        self._encoding, self._told = encoding, False

    def __call__(self, error: UnicodeError) -> tuple[str | bytes, int]:
        assert isinstance(error, UnicodeEncodeError)
        numbered = _numbered(error.object[error.start])
        if isinstance(numbered, str) and not self._told:
            self._told = True
            say(
                tr(
                    "standard output is {}: characters that it lacks are written by their "
                    "numbers, such as {}; PYTHONIOENCODING=utf-8 writes them all",
                    self._encoding,
                    numbered,
                )
            )
        return numbered, error.start + 1


def _numbered(char: str) -> str | bytes:
    """`\\u597d`, as JSON writes it, beyond 16 bits as two; a byte of a name as it is."""
    if 0xDC80 <= ord(char) <= 0xDCFF:
        return bytes([ord(char) - 0xDC00])
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


class _ClosedOutput(TextIOBase):
    """Stands for a standard output that is closed."""

    def write(self, text: str | bytes, /) -> NoReturn:
        raise TmtError(tr("standard output is closed: there is no place for results"))

    @property
    def buffer(self) -> "_ClosedOutput":
        return self
