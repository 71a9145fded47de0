"""Attention maps on a terminal: columns that stand below each other, masks, shades, words."""

import re

import numpy as np
import pytest
from rich.cells import cell_len
from toy_maps import SRC, TGT, make_maps

from transformer_mt.explain.terminal import render_matrix, render_terminal, render_top_words
from transformer_mt.translation.attention_maps import KINDS, Kind


def map_lines(text: str) -> list[str]:
    """The lines of the map: after the explanation, before the legend."""
    return text.split("\n\n")[1].split("\n")


@pytest.mark.parametrize("kind", KINDS)
def test_cells_stand_below_one_another_whatever_the_labels_are(kind: Kind) -> None:
    maps = make_maps()
    rows = map_lines(render_terminal(maps, kind, 1, 1))[-len(maps.row_pieces(kind)) :]
    starts, strongest = set(), []
    n_cells = 2 * len(maps.column_pieces(kind))
    label_width = max(map(cell_len, maps.row_pieces(kind)))
    if kind != "encoder":
        label_width += 3 + max(map(cell_len, maps.tgt_out_pieces))
    for row, weights in zip(rows, maps.pick(kind, 1, 1), strict=True):
        # The cells end where the strongest column begins: find that from the right.
        best = maps.column_pieces(kind)[int(weights.argmax())]
        assert row.endswith(f"  {best} {weights.max():.2f}")
        cells_and_label = row.removesuffix(f"  {best} {weights.max():.2f}")
        starts.add(cell_len(cells_and_label) - n_cells)
        strongest.append(best)
    assert starts == {label_width + 1}
    assert len(set(strongest)) > 1


def test_masked_weights_are_dots_and_only_they() -> None:
    text = render_terminal(make_maps(), "decoder", 2, "mean")
    rows = map_lines(text)[-len(TGT) :]
    assert [row.count("·") for row in rows] == [5, 4, 3, 2, 1, 0]
    assert "· masked, exactly 0" in text
    assert "·" not in render_terminal(make_maps(), "cross", 2, "mean")


def test_the_darkest_shade_is_the_largest_weight() -> None:
    maps = make_maps()
    weights = maps.pick("cross", 1, 2)
    darkest = int(weights.max(axis=1).argmax())
    rows = map_lines(render_terminal(maps, "cross", 1, 2))[-len(TGT) :]
    assert "██" in rows[darkest]
    assert "██" not in rows[int(weights.max(axis=1).argmin())]


def test_colour_has_a_cell_per_weight_and_plain_text_has_no_escapes() -> None:
    maps = make_maps()
    assert "\x1b" not in render_terminal(maps, "cross", 1, 1)
    rows = map_lines(render_terminal(maps, "cross", 1, 1, color=True))[-len(TGT) :]
    assert [row.count("\x1b[48;2;") for row in rows] == [len(SRC)] * len(TGT)
    assert all(row.count("\x1b[0m") == len(SRC) for row in rows)


def test_a_wide_map_is_drawn_in_parts_that_fit() -> None:
    maps = make_maps(src=[*SRC[:-1] * 8, "</s>"])
    text = render_terminal(maps, "cross", 1, 1, width=60)
    assert max(cell_len(line) for line in text.split("\n")[:-1]) <= 60
    assert len(re.findall(r"^▁The +→ ▁animal", text, re.MULTILINE)) > 1


def test_pieces_cannot_move_the_cursor() -> None:
    maps = make_maps(src=["a\x1b[2Jb", "</s>"])
    assert "\x1b" not in render_terminal(maps, "cross", 1, 1) + render_terminal(
        maps, "encoder", 1, 1
    )


def test_one_row_is_marked() -> None:
    rows = map_lines(render_terminal(make_maps(), "cross", 1, 1, row=3))[-len(TGT) :]
    assert [row.endswith("◂") for row in rows] == [i == 3 for i in range(len(TGT))]


LONG = ["<s>", "▁Straßenverkehrsordnung", "▁Geschwindigkeit", "▁a", "▁b"]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("tgt_in", [TGT, LONG])
@pytest.mark.parametrize("kind", KINDS)
def test_no_line_is_wider_than_the_terminal(kind: Kind, tgt_in: list[str], width: int) -> None:
    maps = make_maps(src=[*SRC[:-1] * 3, "</s>"], tgt_in=tgt_in)
    text = render_terminal(maps, kind, 1, 1, row=1, width=width)
    text += "\n" + render_top_words(maps, width=width)
    assert max(map(cell_len, text.split("\n"))) <= width


def test_top_words_name_each_step_and_at_most_k_pieces() -> None:
    lines = render_top_words(make_maps(), k=1).split("\n")
    assert len(lines) == 1 + len(TGT)
    assert re.split(r"\s{2,}", lines[1].strip()) == ["1", "<s>", "▁The", "▁The 0.75"]
    assert "▁other" not in "".join(lines)
    assert "▁other 0.12" in render_top_words(make_maps(), k=2)


def test_matrices_show_masks_and_wrap() -> None:
    values = np.array([[1.5, -np.inf, 2.0]])
    assert render_matrix("A", values, ["动"], digits=2) == "A\n动  1.50    −∞  2.00"
    assert render_matrix("A", values, ["动"], digits=2, width=10).count("动") == 3
    assert render_matrix("A", np.eye(2)) == "A\n  1  0\n  0  1"
