"""Fonts of figures."""

import warnings

from transformer_mt.rendering.figures import FONT_PATH, figure_style, new_figure, use_fonts


def test_the_shipped_font_comes_first_under_a_name_of_its_own() -> None:
    families = use_fonts()
    assert families[:2] == ("tmt CJK", "DejaVu Sans")
    assert FONT_PATH.stat().st_size < 3_500_000


def test_the_shipped_font_has_the_characters_that_labels_need() -> None:
    from matplotlib.ft2font import FT2Font

    covered = FT2Font(str(FONT_PATH)).get_charmap()
    simplified = {bytes([a, b]).decode("gb2312", "ignore")
                  for a in range(0xB0, 0xF8) for b in range(0xA1, 0xFF)} - {""}  # fmt: skip
    assert len(simplified) == 6763
    needed = simplified | set("這隻動物沒有穿過街道因為它太累了貓愛，。！？「」《》、…—→▁éüßアの")
    assert [c for c in needed if ord(c) not in covered] == []


def test_labels_are_text_and_not_formulas() -> None:
    with figure_style(), warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = new_figure(2, 1)
        text = figure.text(0, 0, "$x_1$ 动物 $")
        figure.draw_without_rendering()
        plain = figure.text(0, 0, "x1 动物")
        widths = [t.get_window_extent().width for t in (text, plain)]
    assert widths[0] > widths[1]
