"""Attention maps as figures and as a page."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from parsed_page import HOSTILE, ParsedPage
from toy_maps import make_maps

from transformer_mt.explain.command import UNIT, page_data, write_attention_page
from transformer_mt.explain.figures import write_pngs
from transformer_mt.rendering import figures
from transformer_mt.translation.attention_maps import KINDS


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
        paths = write_pngs(maps, tmp_path / "new")
    assert [path.name for path in paths] == ["encoder.png", "decoder.png", "cross.png"]
    for path in paths:
        image = imread(path)
        assert image.shape[0] > 160
        assert image.std() > 0.05
    assert sorted(tmp_path.rglob("*")) == sorted([tmp_path / "new", *paths])  # nothing temporary


def test_figures_of_other_sizes(tmp_path: Path) -> None:
    small = make_maps(src=["</s>"], tgt_in=["<s>"], n_layers=1, n_heads=1)
    for name, maps in (("small", small), ("many", make_maps(n_heads=16))):
        assert len(write_pngs(maps, tmp_path / name)) == 3


def test_the_page_holds_all_weights_to_four_decimals(tmp_path: Path) -> None:
    maps = make_maps()
    write_attention_page(maps, tmp_path / "page.html", d_model=64)
    data = ParsedPage(tmp_path / "page.html").data
    assert data == page_data(maps, 64)
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


def test_the_page_needs_nothing_else_and_pieces_stay_text(tmp_path: Path) -> None:
    write_attention_page(make_maps(), tmp_path / "plain.html", d_model=None)
    maps = make_maps(src=[*HOSTILE, "</s>"])
    write_attention_page(maps, tmp_path / "hostile.html", d_model=None)
    plain, hostile = (ParsedPage(tmp_path / f"{name}.html") for name in ("plain", "hostile"))
    assert hostile.data["kinds"]["cross"]["columns"][:-1] == HOSTILE
    assert hostile.shape() == plain.shape() and len(plain.scripts) == 2
    assert plain.needs_nothing_else()
    addresses = {word for word in plain.source.split('"') if word.startswith("http")}
    assert addresses == {"http://www.w3.org/2000/svg"}, "a name, never fetched"
