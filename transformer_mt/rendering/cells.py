"""Text in the columns of a terminal, where a Chinese character takes two and an accent none."""

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells, set_cell_size

# A line may end before each of these: a word with the space before it, or one wide character.
_UNBROKEN = re.compile(r"\s*(?:[^\s\u2e80-\uffef]+|[\u2e80-\uffef])")


def printable(text: str) -> str:
    """The text without characters that would move the cursor, hide, or change the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def clip(text: str, width: int) -> str:
    """At most `width` columns of printable text; … stands for the rest."""
    text = printable(text[: 4 * width])
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def fit(text: str, width: int) -> str:
    """Exactly `width` columns of printable text: clipped, or filled up with spaces."""
    return set_cell_size(clip(text, width), width)


def wrap_cells(text: str, width: int) -> str:
    """Lines of at most `width` columns of printable text, broken at spaces and in Chinese."""
    lines = []
    for line in text.split("\n"):
        wrapped = [""]
        for part in _UNBROKEN.findall(printable(line)):
            if wrapped[-1] and cell_len(wrapped[-1] + part) > width:
                wrapped.append("")
            first, *more = chop_cells((wrapped[-1] + part).lstrip(), width)
            wrapped[-1:] = [first, *more]
        lines += wrapped
    return "\n".join(lines)


def align_columns(rows: Sequence[Sequence[str]], *, numbers: Iterable[int] = ()) -> str:
    """Rows of equal length as lines; the columns `numbers` are aligned to the right."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    right = set(numbers)
    lines = []
    for row in rows:
        cells = []
        for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
            gap = " " * (width - cell_len(cell))
            cells.append(gap + cell if i in right else cell + gap)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
