"""Attention maps as figures and as a page."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import headless_chromium
from parsed_page import HOSTILE, ParsedPage
from toy_maps import make_maps

from transformer_mt.explain import figures as attention_figures
from transformer_mt.explain.command import UNIT, View, page_data, write_attention_page
from transformer_mt.explain.figures import write_pngs, write_zeroing_png
from transformer_mt.explain.piece_text import Word
from transformer_mt.explain.telling_heads import Finding
from transformer_mt.rendering import figures
from transformer_mt.translation.attention_maps import KINDS, AttentionMaps

FINDINGS = [
    Finding("encoder", 2, 3, 1, "它 → 物", "它 looks most at 物"),
    Finding("cross", 1, 2, 4, "it → 物", "it (step 5) looks most at 物"),
]


browser = pytest.fixture(scope="module")(headless_chromium)


def write_page(maps: AttentionMaps, path: Path, d_model: int | None = None) -> ParsedPage:
    view = View.of(FINDINGS[0])
    write_attention_page(maps, path, name="tiny", findings=FINDINGS, view=view, d_model=d_model)
    return ParsedPage(path)


@pytest.fixture(autouse=True)
def coarse_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "DPI", 50)


def test_figures_of_chinese_need_no_font_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.image import imread

    own = figures.use_fonts()[:2]
    monkeypatch.setattr(figures, "use_fonts", lambda: own)
    maps = make_maps(tgt_in=["<s>", "▁$x_1$", "\\frac", "▁貓", "ö", "→"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a missing glyph is a warning
        paths = write_pngs(maps, tmp_path / "new", "cross", 1, 2)
    assert [path.name for path in paths] == ["encoder.png", "decoder.png", "cross.png"]
    for path in paths:
        image = imread(path)
        assert image.shape[0] > 160
        assert image.std() > 0.05
    assert sorted(tmp_path.rglob("*")) == sorted([tmp_path / "new", *paths])  # nothing temporary


def test_figures_of_other_sizes(tmp_path: Path) -> None:
    small = make_maps(src=["</s>"], tgt_in=["<s>"], n_layers=1, n_heads=1)
    for name, maps in (("small", small), ("many", make_maps(n_heads=16))):
        assert len(write_pngs(maps, tmp_path / name, "decoder", "mean", "mean")) == 3


def test_the_darkest_cell_is_the_word_that_decides(tmp_path: Path) -> None:
    from matplotlib.image import imread

    tgt, src = ([Word(text, [0]) for text in texts] for texts in (["It", "is"], ["它", "累", "了"]))
    places = []
    for row, column in ((0, 0), (1, 0), (1, 2)):
        shares = np.zeros((2, 3))
        shares[row, column] = 1.0
        write_zeroing_png(make_maps(), tmp_path / "zeroing.png", tgt, src, shares)
        red, green, blue = np.moveaxis(imread(tmp_path / "zeroing.png")[:, :, :3], 2, 0)
        inch = figures.DPI  # the heading and the colour scale left out
        dark = np.argwhere((blue - red > 0.3) & (green < 0.3))
        dark = dark[(dark[:, 0] > inch) & (dark[:, 0] < len(red) - 0.5 * inch)]
        places.append(dark.mean(axis=0))
    (above, left), (below, left_too), (below_too, right) = places
    assert below > above + 10 and left_too == pytest.approx(left, abs=2)
    assert right > left + 10 and below_too == pytest.approx(below, abs=2)


def test_the_page_holds_all_weights_to_four_decimals(tmp_path: Path) -> None:
    maps = make_maps()
    data = write_page(maps, tmp_path / "page.html", d_model=64).data
    assert data == page_data(maps, FINDINGS, View.of(FINDINGS[0]), 64)
    for kind in KINDS:
        weights = np.array(data["kinds"][kind]["weights"]) / data["unit"]
        np.testing.assert_allclose(weights, maps.weights(kind), atol=0.5 / UNIT + 1e-9)
        np.testing.assert_array_equal(data["kinds"][kind]["masked"], maps.masked(kind))
    assert (data["source"], data["translation"]) == (maps.source, maps.translation)
    assert data["steps"][0] == {
        "reads": "<s>",
        "writes": "▁The",
        "best": [["▁The", 0.75], ["▁other", 0.125]],
    }
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_the_page_opens_on_the_finding_and_offers_all(tmp_path: Path) -> None:
    page = write_page(make_maps(), tmp_path / "page.html")
    opened = {"kind": "encoder", "layer": 2, "head": 3, "row": 1}
    assert page.data["open"] == opened
    assert page.data["findings"] == [opened, {"kind": "cross", "layer": 1, "head": 2, "row": 4}]
    for words in (*(finding.text for finding in FINDINGS), "Weights alone mislead", "in tiny"):
        assert words in page.text
    assert (
        "<title>Attention in tiny: 这只动物太累了。 → The animal is tired.</title>" in page.source
    )


@pytest.mark.parametrize("row", ["1.5", "-3", "99", "1e9", "x", ""])
def test_any_row_in_the_address_is_one_that_exists(browser: Any, tmp_path: Path, row: str) -> None:
    write_page(make_maps(), tmp_path / "page.html")
    page, wrong = browser.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(f"{(tmp_path / 'page.html').as_uri()}#kind=decoder&row={row}")
    assert page.locator("#queries [aria-pressed=true]").count() == 1 and wrong == []
    page.close()


def test_the_large_map_is_the_one_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captions = []
    draw = attention_figures._draw_large
    monkeypatch.setattr(
        attention_figures, "_draw_large", lambda *own: (captions.append(own[-1]), draw(*own))
    )
    write_pngs(make_maps(), tmp_path / "new", "encoder", 1, 3)
    mean = "layer 2, mean of all heads"
    assert captions == ["layer 1, head 3", mean, mean]


def test_the_page_needs_nothing_else_and_pieces_stay_text(tmp_path: Path) -> None:
    plain = write_page(make_maps(), tmp_path / "plain.html")
    maps = make_maps(src=[*HOSTILE, "</s>"])
    hostile = write_page(maps, tmp_path / "hostile.html")
    assert hostile.data["kinds"]["cross"]["columns"][:-1] == HOSTILE
    assert hostile.shape() == plain.shape() and len(plain.scripts) == 2
    assert plain.needs_nothing_else()
    addresses = {word for word in plain.source.split('"') if word.startswith("http")}
    assert addresses == {"http://www.w3.org/2000/svg"}, "a name, never fetched"
