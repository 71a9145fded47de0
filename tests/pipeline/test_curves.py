"""The curves of a run hold its numbers, and incomplete runs are drawn too."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from transformer_mt.errors import DataError
from transformer_mt.pipeline import curves
from transformer_mt.pipeline.curves import write_curves, write_dev_curves
from transformer_mt.rendering import figures


@pytest.fixture(autouse=True)
def coarse_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures whose pixels nobody looks at."""
    monkeypatch.setattr(figures, "DPI", 30)


def run(n: int = 6, **changes: Any) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = [{"event": "start", "update": 0}]
    for update in range(1, n + 1):
        records.append({"event": "train", "update": update, "loss": 9.0 / update, "lr": 1e-4})
        records.append(
            {"event": "validation", "update": update, "loss": 9.5 / update, "bleu": 3.0 * update,
             "chrf": 5.0 * update} | changes
        )  # fmt: skip
    return records


def legend_texts(axes: Any) -> list[Any]:
    legend = axes.get_legend()
    return legend.get_texts() if legend else []


def boxes(figure: Any) -> list[tuple[str, Any]]:
    """All visible words of a figure, and where they stand."""
    figure.canvas.draw()
    words = [figure._suptitle]
    for axes in figure.axes:
        words += [*legend_texts(axes), axes.yaxis.label, axes.xaxis.label]
        low, high = axes.get_ylim()
        words += [
            tick.label1 for tick in axes.yaxis.get_major_ticks() if low <= tick.get_loc() <= high
        ]
    shown = [word for word in words if word.get_text() and word.get_visible()]
    return [(word.get_text(), word.get_window_extent()) for word in shown]


def names(n: int) -> list[str]:
    return [f"multi30k-en-de-seed-{i}-with-a-name-that-is-very-long" for i in range(n)]


@pytest.mark.parametrize("n_runs", [0, 1, 2, 6])
@pytest.mark.parametrize("changes", [{}, {"bleu": 30.0, "chrf": 30.0}, {"loss": 3.0}])
def test_no_word_lies_over_another_or_outside(
    n_runs: int, changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run alone, or several; also where all best values are in one place."""
    monkeypatch.setattr(figures, "DPI", 100)
    drawn: list[Any] = []
    make = curves.new_figure
    monkeypatch.setattr(curves, "new_figure", lambda *size: drawn.append(make(*size)) or drawn[-1])
    if n_runs:
        write_dev_curves({name: run(**changes) for name in names(n_runs)}, tmp_path / "a.png")
    else:
        write_curves(run(**changes), tmp_path / "curves.png", name=names(1)[0])
    (figure,) = drawn
    found = boxes(figure)
    assert len(found) > 8
    for i, (word, box) in enumerate(found):
        assert figure.bbox.contains(*box.min) and figure.bbox.contains(*box.max), word
        for other, its_box in found[:i]:
            assert not box.overlaps(its_box), (word, other)


def test_runs_are_drawn_over_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = figures.new_figure(7.5, 9)
    monkeypatch.setattr(curves, "new_figure", lambda *size: drawn)
    write_dev_curves({"a": run(6), "b": run(3), "c": [], "_d": run(4)}, tmp_path / "both.png")
    for axes, key in zip(drawn.axes, ("loss", "bleu", "chrf"), strict=True):
        lines = {line.get_label(): line for line in axes.lines}
        assert [*lines["a"].get_ydata()] == [r[key] for r in run(6) if r["event"] == "validation"]
        assert [*lines["b"].get_xdata()] == [1, 2, 3] and [*lines["c"].get_xdata()] == []
        assert lines["a"].get_color() != lines["b"].get_color()
        legend = axes.get_legend()
        assert legend is not None
        for text, line in zip(legend.get_texts(), legend.get_lines(), strict=True):
            (name,) = [name for name in lines if text.get_text().startswith(str(name))]
            assert line.get_color() == lines[name].get_color(), name
    with pytest.raises(DataError, match=r"none\.png: no run has a validation yet"):
        write_dev_curves({"a": run(3)[:1], "b": []}, tmp_path / "none.png")


def test_curves_hold_the_numbers_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Updates that a resumed run repeats count once."""
    again = [{"event": "train", "update": update, "loss": 1.0, "lr": 1e-4} for update in (4, 5)]
    drawn = figures.new_figure(7.5, 8)
    monkeypatch.setattr(curves, "new_figure", lambda *size: drawn)
    write_curves(run() + again, tmp_path / "new" / "curves.png")
    assert drawn.get_suptitle() == "new: BLEU 18.0, chrF 30.0 on dev"
    texts = [text.get_text() for axes in drawn.axes for text in legend_texts(axes)]
    assert texts == [
        "train",
        "dev, lowest 1.583 at 6",
        "chrF, best 30.0 at 6",
        "BLEU, best 18.0 at 6",
    ]
    lines = {line.get_label(): line for axes in drawn.axes for line in axes.lines}
    updates = [1, 2, 3, 4, 5, 6]
    assert all([*lines[name].get_xdata()] == updates for name in ("train", "dev", "BLEU", "chrF"))
    assert [*lines["train"].get_ydata()] == [9.0, 4.5, 3.0, 1.0, 1.0, 1.5]
    assert [*lines["dev"].get_ydata()] == [9.5 / u for u in updates]
    assert [*lines["BLEU"].get_ydata()] == [3.0 * u for u in updates]
    assert [*lines["chrF"].get_ydata()] == [5.0 * u for u in updates]
    assert (tmp_path / "new" / "curves.png").read_bytes().startswith(b"\x89PNG")


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
    assert (tmp_path / "curves.png").stat().st_size > 2000


def test_a_run_without_records_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"curves\.png: no train or validation record among 1 met"):
        write_curves([{"event": "start"}], tmp_path / "curves.png")
    assert list(tmp_path.iterdir()) == []
