"""Attention maps as text for a terminal.

Comes in: `AttentionMaps`. Goes out: lines of text. This file knows the width of characters on a
terminal and nothing of models, pictures or pages (`figures.py`, `page.py`).
"""

import math
import textwrap
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from transformer_mt.rendering.cells import align_columns, clip, fit, printable
from transformer_mt.translation.attention_maps import (
    EXPLANATIONS,
    TITLES,
    AttentionMaps,
    Choice,
    Kind,
)

SHADES = " ░▒▓█"
MASKED = "·"
WORD_START = "▁"  # SentencePiece writes it for the space before a word
MAX_COLUMN_LABEL = 8  # characters; longer labels end in …
MAX_ROW_LABEL = 18  # terminal columns
RESET = "\x1b[0m"
# Colours of the weights 0 and 1; between them a straight line.
COLOR_LOW, COLOR_HIGH = (237, 243, 250), (8, 48, 107)


def render_terminal(
    maps: AttentionMaps,
    kind: Kind,
    layer: Choice,
    head: Choice,
    *,
    color: bool = False,
    width: int = 100,
) -> str:
    """Draw one map: a row per query, a column per key, and the strongest key of each row.

    Args:
        layer, head: from 1, or "mean".
        color: 24-bit colours instead of shading characters.
        width: terminal columns; a wider map is drawn in several parts.
    Raises:
        ConfigError: there is no such layer or head.
    """
    weights = maps.pick(kind, layer, head)  # (rows, columns)
    masked = maps.masked(kind)
    top = float(weights.max())
    labels = _row_labels(maps, kind)
    label_width = cell_len(labels[0])
    columns = [printable(piece) for piece in maps.column_pieces(kind)]
    strongest = [_strongest(row, columns) for row in weights]
    free = width - label_width - 3 - max(map(cell_len, strongest))
    per_part = max(8, free // 2)
    lines = [_title(kind, layer, head), *textwrap.wrap(EXPLANATIONS[kind], width), ""]
    for start in range(0, len(columns), per_part):
        part = slice(start, start + per_part)
        lines += [" " * (label_width + 1) + line for line in _column_labels(columns[part])]
        for i, label in enumerate(labels):
            cells = _cells(weights[i, part], masked[i, part], top, color)
            lines.append(f"{label} {cells}  {strongest[i]}".rstrip())
        lines.append("")
    lines.append(_legend(top, color, bool(masked.any())))
    return "\n".join(lines)


def _title(kind: Kind, layer: Choice, head: Choice) -> str:
    return f"{TITLES[kind]}, {choice_name('layer', layer)}, {choice_name('head', head)}"


def choice_name(part: Literal["layer", "head"], choice: Choice) -> str:
    return f"mean of all {part}s" if choice == "mean" else f"{part} {choice}"


def _row_labels(maps: AttentionMaps, kind: Kind) -> list[str]:
    """The piece that asks; in the decoder with the piece that the step then writes."""
    reads = _same_width(maps.row_pieces(kind))
    written = maps.written_pieces(kind)
    if written is None:
        return reads
    return [f"{r} → {w}" for r, w in zip(reads, _same_width(written), strict=True)]


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


def _cells(weights: NDArray[np.float32], masked: NDArray[np.bool_], top: float, color: bool) -> str:
    """One row of the map, two terminal columns per weight; `top` is drawn darkest."""
    cells = []
    for weight, hidden in zip(weights, masked, strict=True):
        share = float(weight) / top
        if hidden:
            cells.append(MASKED + " ")
        elif color:
            red, green, blue = (
                round(low + (high - low) * share)
                for low, high in zip(COLOR_LOW, COLOR_HIGH, strict=True)
            )
            cells.append(f"\x1b[48;2;{red};{green};{blue}m  {RESET}")
        else:
            cells.append(_shade(share) * 2)
    return "".join(cells)


def _shade(share: float) -> str:
    return SHADES[min(len(SHADES) - 1, int(share * len(SHADES)))]


def _strongest(row: NDArray[np.float32], columns: Sequence[str]) -> str:
    best = int(row.argmax())
    return f"{clip(columns[best], MAX_ROW_LABEL)} {row[best]:.2f}"


def _legend(top: float, color: bool, any_masked: bool) -> str:
    """The weights of the shades, whose steps are equal shares of the largest weight."""
    if color:
        ends = _cells(np.array([0, top], np.float32), np.zeros(2, np.bool_), top, True)
        low, high = ends.split(RESET)[:2]
        text = f"{low}{RESET} 0   {high}{RESET} {top:.2f}"
    else:
        bounds = [top * (i + 1) / len(SHADES) for i in range(len(SHADES) - 1)]
        steps = zip(SHADES[1:], bounds, strict=True)
        text = "   ".join(f"{shade * 2} from {bound:.2f}" for shade, bound in steps)
        text += f"   largest {top:.2f}"
    return text + (f"   {MASKED} masked, exactly 0" if any_masked else "")


def render_top_words(maps: AttentionMaps, *, k: int = 5) -> str:
    """A line per step: the piece it reads, the piece it writes, its `k` most probable pieces."""
    steps = zip(maps.tgt_in_pieces, maps.tgt_out_pieces, maps.top_words, strict=True)
    rows = [
        (printable(reads), printable(writes), [f"{printable(w)} {p:.2f}" for w, p in best[:k]])
        for reads, writes, best in steps
    ]
    width = max((cell_len(word) for _, _, words in rows for word in words), default=0)
    lines = [["step", "reads", "writes", "most probable next pieces"]]
    for i, (reads, writes, words) in enumerate(rows, start=1):
        lines.append([str(i), reads, writes, "  ".join(fit(word, width) for word in words)])
    return align_columns(lines, numbers=(0,))


def render_matrix(
    values: NDArray[Any],
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    digits: int = 4,
    width: int = 100,
) -> str:
    """Write a matrix: no decimals if all numbers are whole, −∞ for masked scores.

    Args:
        values: (rows, columns).
        rows, columns: labels, or none.
        width: terminal columns; a wider matrix is written in several parts.
    """
    finite = values[np.isfinite(values)]
    digits = 0 if (finite == np.round(finite)).all() else digits
    cells = [[_number(float(value), digits) for value in row] for row in values]
    heads = [printable(label) for label in columns] or [""] * values.shape[1]
    labels = _same_width(rows or [""] * len(cells))
    label_width = cell_len(labels[0])
    cell_width = max(cell_len(cell) for row in cells for cell in row)
    cell_width = max(cell_width, min(MAX_COLUMN_LABEL, max(map(cell_len, heads))))
    per_part = max(1, (width - label_width) // (cell_width + 2))
    lines = []
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


def _number(value: float, digits: int) -> str:
    return "−∞" if value == -math.inf else f"{value:.{digits}f}"
