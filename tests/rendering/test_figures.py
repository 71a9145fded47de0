"""Fonts of figures and the curves of a run."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from transformer_mt.errors import DataError
from transformer_mt.rendering.figures import (
    FONT_PATH,
    figure_style,
    new_figure,
    use_fonts,
    write_curves,
)


def run(n: int = 6, **changes: Any) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = [{"event": "start", "update": 0}]
    for update in range(1, n + 1):
        records.append({"event": "train", "update": update, "loss": 9.0 / update, "lr": 1e-4})
        records.append(
            {"event": "validation", "update": update, "loss": 9.5 / update, "bleu": 3.0 * update,
             "chrf": 5.0 * update} | changes
        )  # fmt: skip
    return records


def drawn_lines(records: list[dict[str, Any]], path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Labels and points of the curves that `write_curves` draws."""
    import transformer_mt.rendering.figures as plots

    figures = []
    monkeypatch.setattr(
        plots, "new_figure", lambda *size: figures.append(new_figure(*size)) or figures[0]
    )
    write_curves(records, path)
    return {
        line.get_label(): [list(map(float, line.get_xdata())), list(map(float, line.get_ydata()))]
        for axes in figures[0].axes
        for line in axes.lines
    }


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
        figure.canvas.draw()
        plain = figure.text(0, 0, "x1 动物")
        widths = [t.get_window_extent().width for t in (text, plain)]
    assert widths[0] > widths[1]


def test_curves_hold_the_numbers_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = drawn_lines(run(), tmp_path / "new" / "curves.png", monkeypatch)
    updates = [1, 2, 3, 4, 5, 6]
    assert lines["train"] == [updates, [9.0 / u for u in updates]]
    assert lines["dev"] == [updates, [9.5 / u for u in updates]]
    assert lines["BLEU"] == [updates, [3.0 * u for u in updates]]
    assert lines["chrF"] == [updates, [5.0 * u for u in updates]]
    assert (tmp_path / "new" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["curves.png"]


def test_repeated_updates_of_a_resumed_run_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = [{"event": "train", "update": update, "loss": 1.0, "lr": 1e-4} for update in (4, 5)]
    lines = drawn_lines(run() + again, tmp_path / "curves.png", monkeypatch)
    assert lines["train"] == [[1, 2, 3, 4, 5, 6], [9.0, 4.5, 3.0, 1.0, 1.0, 1.5]]


@pytest.mark.parametrize(
    "records",
    [run(1), run(2)[1::2], run(2)[2::2], run(3, bleu=None, chrf=None), run(3, loss=float("nan"))],
    ids=["one update", "no validation", "no training", "no scores", "loss not a number"],
)
def test_incomplete_runs_are_drawn_without_complaint(
    tmp_path: Path, records: list[dict[str, Any]]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_curves(records, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5000


def test_a_run_without_records_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"curves\.png: no train or validation record among 1 met"):
        write_curves([{"event": "start"}], tmp_path / "curves.png")
    assert list(tmp_path.iterdir()) == []
