"""Attention maps as PNG figures, one per kind of attention; and the shares of value zeroing.

A large map, all heads of one layer beside it, all layers below it. Lengths are in inches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from transformer_mt.explain.piece_text import Word
from transformer_mt.explain.terminal import WORD_START, choice_name
from transformer_mt.messages.catalogue import tr
from transformer_mt.rendering.cells import clip
from transformer_mt.rendering.figures import INK, MUTED, figure_style, new_figure, save_figure
from transformer_mt.system.arrays import Floats
from transformer_mt.translation.attention_maps import TITLES, AttentionMaps, Choice, Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

COLORS = "Blues"
MASKED_COLOR = "#e6e8eb"
MAX_LABEL = 16  # widths of a Latin letter
LETTER, HEADING_LETTER = 0.078, 0.09  # average width of one in labels, in the heading
CELL, MIN_MAP, MAX_MAP = 0.25, 2.6, 15.0
SMALL_MAP, GAP, MARGIN, HEADING, CAPTION, FOOT = 1.75, 0.3, 0.35, 1.05, 0.18, 0.55

Weights = NDArray[np.float32]
Mask = NDArray[np.bool_]


def write_pngs(
    maps: AttentionMaps, out_dir: Path, kind: Kind, layer: Choice, head: Choice
) -> list[Path]:
    """Write encoder.png, decoder.png and cross.png: one map large, all heads and layers. A
    recurrent model has cross.png alone.

    Large is the given one of its kind, and of the others the last layer.
    """
    paths = {kind: out_dir / f"{kind}.png" for kind in maps.kinds}
    for own, path in paths.items():
        large = (layer, head) if own == kind else (len(maps.weights(own)), "mean")
        _write_png(maps, path, own, *large)
    return list(paths.values())


def _write_png(maps: AttentionMaps, path: Path, kind: Kind, layer: Choice, head: Choice) -> None:
    n_layers, n_heads = maps.weights(kind).shape[:2]
    large = maps.pick(kind, layer, head)
    heads = {tr("head {}", i): maps.pick(kind, layer, i) for i in range(1, n_heads + 1)}
    layers = {tr("layer {}", i): maps.pick(kind, i, "mean") for i in range(1, n_layers + 1)}
    sheet = _Sheet.plan(maps, kind, n_heads, n_layers)
    masked = maps.masked(kind)
    layer_name = choice_name("layer", layer)
    with figure_style():
        figure = new_figure(sheet.width, sheet.height)
        _draw_heading(figure, sheet, maps, TITLES[kind])
        caption = f"{layer_name}, {choice_name('head', head)}"
        _draw_large(figure, sheet, maps, kind, large, caption)
        _draw_small(figure, sheet, heads, masked, sheet.heads, tr("heads of {}", layer_name))
        _draw_small(figure, sheet, layers, masked, sheet.layers, tr("layers, mean of all heads"))
        save_figure(figure, path)


def write_zeroing_png(
    maps: AttentionMaps, path: Path, tgt: Sequence[Word], src: Sequence[Word], shares: Floats
) -> None:
    """Write how much each word of the source (column) decided each of the translation (row).

    Args:
        shares: (T', S') by zeroing, see `word_shares`.
    """
    rows, columns = ([word.text for word in words] for words in (tgt, src))
    frame = _Frame.around(rows, columns)
    with figure_style():
        figure = new_figure(frame.width, frame.height)
        _draw_heading(figure, frame, maps, tr("What decided each word"))
        unmasked = np.zeros(shares.shape, bool)
        _draw_map(figure, frame, rows, columns, shares, unmasked, tr("value zeroing"))
        save_figure(figure, path)


@dataclass(frozen=True)
class _Grid:
    """Where a group of small maps stands."""

    left: float
    top: float
    per_row: int


@dataclass(frozen=True)
class _Frame:
    """Where the large map stands, in inches from the left and from the top."""

    width: float
    height: float
    map_left: float
    map_top: float
    map_width: float
    map_height: float

    @classmethod
    def around(cls, rows: Sequence[str], columns: Sequence[str]) -> "_Frame":
        """The map with its labels alone."""
        map_width = min(MAX_MAP, max(MIN_MAP, CELL * len(columns)))
        map_height = min(MAX_MAP, max(MIN_MAP, CELL * len(rows)))
        left = MARGIN + _label_length(rows) + 0.1
        top = HEADING + 0.35 + _label_length(columns)
        return cls(left + map_width + MARGIN, top + map_height + FOOT, left, top,
                   map_width, map_height)  # fmt: skip

    def axes(
        self, figure: "Figure", left: float, top: float, width: float, height: float
    ) -> "Axes":
        """Axes with this corner and size, in inches."""
        bottom = self.height - top - height
        box = (left / self.width, bottom / self.height, width / self.width, height / self.height)
        return figure.add_axes(box)


@dataclass(frozen=True)
class _Sheet(_Frame):
    """Where everything stands."""

    small_height: float
    heads: _Grid
    layers: _Grid

    @classmethod
    def plan(cls, maps: AttentionMaps, kind: Kind, n_heads: int, n_layers: int) -> "_Sheet":
        """The heads stand beside the large map, in as many columns as its height asks for."""
        rows, columns = maps.masked(kind).shape
        frame = _Frame.around(maps.row_pieces(kind), maps.column_pieces(kind))
        bottom = frame.height
        written = maps.written_pieces(kind)
        right = frame.width - MARGIN + (_label_length(written) + 0.1 if written else 0)
        small_height = min(1.5, max(0.6, rows / columns)) * SMALL_MAP
        below = small_height + GAP
        fitting = max(1, int((bottom - HEADING - CAPTION) // below))
        heads = _Grid(right + 2 * GAP, HEADING, -(-n_heads // fitting))
        heads_bottom = HEADING + CAPTION + -(-n_heads // heads.per_row) * below
        heads_width = max(heads.per_row * (SMALL_MAP + GAP) - GAP, MIN_MAP)
        width = heads.left + heads_width + MARGIN
        layers_top = max(bottom, heads_bottom) + GAP
        fitting = int((width - 2 * MARGIN + GAP) // (SMALL_MAP + GAP))
        layers = _Grid(MARGIN, layers_top, fitting)
        height = layers_top + CAPTION + -(-n_layers // fitting) * below + MARGIN / 2
        return cls(width, height, frame.map_left, frame.map_top, frame.map_width,
                   frame.map_height, small_height, heads, layers)  # fmt: skip


def _label(piece: str) -> str:
    """The piece, not too long; its mark of a word start as a thin line, not as a block."""
    return clip(piece.replace(WORD_START, "_"), MAX_LABEL)


def _label_length(pieces: Sequence[str]) -> float:
    return LETTER * max(cell_len(_label(piece)) for piece in pieces)


def _text(figure: "Figure", sheet: _Frame, left: float, top: float, text: str, *,
          size: float = 10, color: str = INK) -> None:  # fmt: skip
    """Write text whose baseline is `top` inches below the upper edge."""
    figure.text(left / sheet.width, 1 - top / sheet.height, text, size=size, color=color)


def _draw_heading(figure: "Figure", sheet: _Frame, maps: AttentionMaps, title: str) -> None:
    _text(figure, sheet, MARGIN, 0.4, title, size=15)
    fitting = int((sheet.width - 2 * MARGIN) / HEADING_LETTER)
    _text(figure, sheet, MARGIN, 0.66, clip(f"{maps.source} → {maps.translation}", fitting))


def _image(axes: "Axes", weights: Weights | Floats, masked: Mask, top: float) -> "AxesImage":
    """Draw weights from 0 to `top`, and the masked ones grey."""
    shown = np.ma.masked_array(weights, masked)
    axes.set_facecolor(MASKED_COLOR)
    for spine in axes.spines.values():
        spine.set_visible(True)
    return axes.imshow(shown, cmap=COLORS, vmin=0, vmax=top, aspect="auto", interpolation="none")


def _draw_large(figure: "Figure", sheet: _Sheet, maps: AttentionMaps, kind: Kind,
                weights: Weights, caption: str) -> None:  # fmt: skip
    """The map of one kind, with labels on all sides."""
    rows, columns, masked = maps.row_pieces(kind), maps.column_pieces(kind), maps.masked(kind)
    axes = _draw_map(figure, sheet, rows, columns, weights, masked, caption)
    written = maps.written_pieces(kind)
    if written is not None:
        right = axes.secondary_yaxis("right")
        right.set_yticks(range(len(written)), [_label(piece) for piece in written])
        right.tick_params(length=0, colors=MUTED)
        right.spines["right"].set_visible(False)
        axes.text(
            0, 1, tr("reads") + " ", transform=axes.transAxes, ha="right", va="bottom", color=MUTED
        )
        axes.text(
            1, 1, " " + tr("writes"), transform=axes.transAxes, ha="left", va="bottom", color=MUTED
        )


def _draw_map(figure: "Figure", sheet: _Frame, rows: list[str], columns: list[str],
              weights: Weights | Floats, masked: Mask, caption: str) -> "Axes":  # fmt: skip
    """The map with labels to the left and above, and its colour scale below."""
    _text(figure, sheet, MARGIN, HEADING, caption[0].upper() + caption[1:])
    axes = sheet.axes(figure, sheet.map_left, sheet.map_top, sheet.map_width, sheet.map_height)
    image = _image(axes, weights, masked, float(weights.max()))
    axes.tick_params(length=0, colors=INK, top=True, labeltop=True, bottom=False, labelbottom=False)
    _label_columns(axes, columns)
    axes.set_yticks(range(len(rows)), [_label(piece) for piece in rows])
    bottom = sheet.map_top + sheet.map_height
    scale = sheet.axes(figure, sheet.map_left, bottom + 0.15, min(2.5, sheet.map_width), 0.09)
    figure.colorbar(image, cax=scale, orientation="horizontal").outline.set_visible(False)
    scale.tick_params(length=0, labelsize=8)
    return axes


def _label_columns(axes: "Axes", pieces: list[str]) -> None:
    """Latin labels turned upwards; Chinese ones upright, one character below the other."""
    labels = [_label(piece) for piece in pieces]
    upright = [cell_len(label) == 2 * len(label) for label in labels]
    texts = ["\n".join(a) if stay else a for a, stay in zip(labels, upright, strict=True)]
    for tick, stay in zip(axes.set_xticks(range(len(texts)), texts), upright, strict=True):
        tick.label2.set_rotation(0 if stay else 90)
        tick.label2.set_linespacing(0.95)


def _draw_small(figure: "Figure", sheet: _Sheet, maps: dict[str, Weights], masked: Mask,
                grid: _Grid, caption: str) -> None:  # fmt: skip
    """Maps without labels, all on one scale, so that they can be compared."""
    top = max(float(weights.max()) for weights in maps.values())
    caption = tr("{}{} (largest weight {:.2f})", caption[0].upper(), caption[1:], top)
    _text(figure, sheet, grid.left, grid.top, caption)
    for i, (name, weights) in enumerate(maps.items()):
        row, column = divmod(i, grid.per_row)
        left = grid.left + column * (SMALL_MAP + GAP)
        above = grid.top + CAPTION + row * (sheet.small_height + GAP)
        axes = sheet.axes(figure, left, above, SMALL_MAP, sheet.small_height)
        _image(axes, weights, masked, top)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel(name, size=8, labelpad=2)
