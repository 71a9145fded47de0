"""Attention maps and matrices as text for a terminal.

This file knows the width of characters on a terminal and nothing of models, pictures or pages.
"""

import math
import textwrap
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from rich.cells import cell_len

from transformer_mt.explain.value_zeroing import Deciding
from transformer_mt.messages.catalogue import tr
from transformer_mt.rendering.cells import align_columns, clip, fit, printable, wrap_cells
from transformer_mt.translation.attention_maps import (
    EXPLANATIONS,
    TITLES,
    AttentionMaps,
    Choice,
    Kind,
)

SHADES = " ░▒▓█"
MASKED = "·"
MARK = " ◂"  # behind the row that is worth a look
WORD_START = "▁"  # SentencePiece writes it for the space before a word
MAX_COLUMN_LABEL = 8  # characters; longer labels end in …
MAX_ROW_LABEL = 18  # terminal columns
RESET = "\x1b[0m"
# Colours of the weights 0 and 1; between them a straight line.
COLOR_LOW, COLOR_HIGH = np.array([237, 243, 250]), np.array([8, 48, 107])


def render_terminal(
    maps: AttentionMaps,
    kind: Kind,
    layer: Choice,
    head: Choice,
    *,
    row: int | None = None,
    color: bool = False,
    width: int = 100,
) -> str:
    """Draw one map: a row per query, a column per key, and the strongest key of each row.

    Args:
        layer, head: from 1, or "mean".
        row: one to be marked, from 0.
        color: 24-bit colours instead of shading characters.
        width: terminal columns; a wider map is drawn in several parts.
    Raises:
        ConfigError: there is no such layer or head.
    """
    weights = maps.pick(kind, layer, head)  # (rows, columns)
    masked = maps.masked(kind)
    top = float(weights.max())
    labels = _same_width(maps.row_pieces(kind))
    if written := maps.written_pieces(kind):  # what the step of the row then writes
        labels = [f"{r} → {w}" for r, w in zip(labels, _same_width(written), strict=True)]
    label_width = cell_len(labels[0])
    columns = [printable(piece) for piece in maps.column_pieces(kind)]
    strongest = [
        f"{clip(columns[int(own.argmax())], MAX_ROW_LABEL)} {own.max():.2f}" + MARK * (i == row)
        for i, own in enumerate(weights)
    ]
    free = width - label_width - 3 - max(map(cell_len, strongest))
    per_part = max(4, free // 2)
    lines = [map_title(kind, layer, head), *textwrap.wrap(EXPLANATIONS[kind], width), ""]
    for start in range(0, len(columns), per_part):
        part = slice(start, start + per_part)
        lines += [" " * (label_width + 1) + line for line in _column_labels(columns[part])]
        for i, label in enumerate(labels):
            cells = zip(weights[i, part].tolist(), masked[i, part], strict=True)
            drawn = "".join(
                f"{MASKED} " if hidden else _cell(weight / top, color) for weight, hidden in cells
            )
            lines.append(f"{label} {drawn}  {strongest[i]}".rstrip())
        lines.append("")
    lines.append(
        _legend(top, color, width, tr("   {} masked, exactly 0", MASKED) * bool(masked.any()))
    )
    return "\n".join(lines)


def map_title(kind: Kind, layer: Choice, head: Choice) -> str:
    return f"{TITLES[kind]}, {choice_name('layer', layer)}, {choice_name('head', head)}"


def choice_name(part: Literal["layer", "head"], choice: Choice) -> str:
    if part == "layer":
        return tr("mean of all layers") if choice == "mean" else tr("layer {}", choice)
    return tr("mean of all heads") if choice == "mean" else tr("head {}", choice)


def _same_width(pieces: Sequence[str]) -> list[str]:
    labels = [clip(piece, MAX_ROW_LABEL) for piece in pieces]
    width = max(map(cell_len, labels))
    return [fit(label, width) for label in labels]


def _column_labels(pieces: Sequence[str]) -> list[str]:
    """Labels written downwards, standing on the map; each column is two terminal columns wide."""
    labels = [_short(piece) for piece in pieces]
    height = max(map(len, labels))
    rows = zip(*(label.rjust(height) for label in labels), strict=True)
    return ["".join(fit(character, 2) for character in row).rstrip() for row in rows]


def _short(piece: str) -> str:
    """A column label: one character per line, so no combining marks and no mark of word starts."""
    if piece != WORD_START:
        piece = piece.removeprefix(WORD_START)
    piece = "".join(c for c in piece if cell_len(c) > 0) or "?"
    return piece if len(piece) <= MAX_COLUMN_LABEL else piece[: MAX_COLUMN_LABEL - 1] + "…"


def _cell(share: float, color: bool) -> str:
    """A weight in two terminal columns; a share of 1 of the largest one is drawn darkest."""
    if color:
        red, green, blue = map(round, (COLOR_LOW + (COLOR_HIGH - COLOR_LOW) * share).tolist())
        return f"\x1b[48;2;{red};{green};{blue}m  {RESET}"
    return SHADES[min(len(SHADES) - 1, int(share * len(SHADES)))] * 2


def _legend(top: float, color: bool, width: int, note: str) -> str:
    """The weights of the shades, whose steps are equal shares of the largest weight."""
    if color:
        return f"{_cell(0, True)} 0   {_cell(1, True)} {top:.2f}{note}"
    bounds = [top * (i + 1) / len(SHADES) for i in range(len(SHADES) - 1)]
    steps = zip(SHADES[1:], bounds, strict=True)
    text = "   ".join(tr("{} from {:.2f}", shade * 2, bound) for shade, bound in steps)
    return wrap_cells(tr("{}   largest {:.2f}{}", text, top, note), width)


def render_top_words(maps: AttentionMaps, *, k: int = 5, width: int = 100) -> str:
    """A line per step: the piece it reads, the piece it writes, its `k` most probable pieces.

    Fewer than `k` where they do not fit into `width` terminal columns.
    """
    steps = zip(maps.tgt_in_pieces, maps.tgt_out_pieces, maps.top_words, strict=True)
    rows = [[tr("reads"), tr("writes")]]
    words = []
    for reads, writes, best in steps:
        rows.append([clip(reads, MAX_ROW_LABEL), clip(writes, MAX_ROW_LABEL)])
        words.append([f"{clip(word, MAX_ROW_LABEL)} {p:.2f}" for word, p in best[:k]])
    word_width = max((cell_len(word) for own in words for word in own), default=0)
    label_widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    n_fitting = (width - cell_len(tr("step")) - sum(label_widths) - 4) // (word_width + 2)
    lines = [[tr("step"), *rows[0], tr("most probable next pieces")]]
    for i, (row, own) in enumerate(zip(rows[1:], words, strict=True), start=1):
        shown = own[: max(1, n_fitting)]
        lines.append([str(i), *row, "  ".join(fit(word, word_width) for word in shown)])
    return align_columns(lines, numbers=(0,))


def render_matrix(
    title: str,
    matrix: ArrayLike,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    *,
    digits: int = 4,
    width: int = 100,
) -> str:
    """A title, and a matrix: no decimals if all numbers are whole, −∞ for masked scores.

    A matrix of more than `width` terminal columns is written in several parts.
    """
    values = np.asarray(matrix)
    finite = values[np.isfinite(values)]
    digits = 0 if (finite == np.round(finite)).all() else digits
    cells = [
        ["−∞" if value == -math.inf else f"{value:.{digits}f}" for value in row]
        for row in values.tolist()
    ]
    heads = [printable(label) for label in columns] or [""] * values.shape[1]
    labels = _same_width(rows or [""] * len(cells))
    label_width = cell_len(labels[0])
    cell_width = max(cell_len(cell) for row in cells for cell in row)
    cell_width = max(cell_width, min(MAX_COLUMN_LABEL, max(map(cell_len, heads))))
    per_part = max(1, (width - label_width) // (cell_width + 2))
    lines = [title]
    for start in range(0, values.shape[1], per_part):
        part = slice(start, start + per_part)
        if columns:
            lines.append(" " * label_width + _right_aligned(heads[part], cell_width))
        for label, row in zip(labels, cells, strict=True):
            lines.append(label + _right_aligned(row[part], cell_width))
        lines.append("")
    return "\n".join(line.rstrip() for line in lines[:-1])


def _right_aligned(texts: Sequence[str], width: int) -> str:
    clipped = [clip(text, width) for text in texts]
    return "".join("  " + " " * (width - cell_len(text)) + text for text in clipped)


def render_deciding(decided: Sequence[Deciding]) -> str:
    """A line for each word of the translation: what decided it, and what is looked at most."""
    rows = [[tr("writes"), tr("value zeroing"), "", tr("raw attention"), ""]]
    for one in decided:
        rows.append([
            clip(printable(one.word), MAX_ROW_LABEL),
            clip(printable(one.by_zeroing), MAX_ROW_LABEL), f"{one.zeroing:.0%}",
            clip(printable(one.by_attention), MAX_ROW_LABEL), f"{one.attention:.0%}",
        ])  # fmt: skip
    title = tr("What decided each word, by value zeroing; beside it where all heads look most")
    return f"{title}\n{align_columns(rows, numbers=(2, 4))}"
