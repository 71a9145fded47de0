"""The curves of a run hold its numbers, and incomplete runs are drawn too."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from transformer_mt.errors import DataError
from transformer_mt.pipeline import curves
from transformer_mt.pipeline.curves import write_curves
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


def test_curves_hold_the_numbers_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Updates that a resumed run repeats count once."""
    again = [{"event": "train", "update": update, "loss": 1.0, "lr": 1e-4} for update in (4, 5)]
    drawn = figures.new_figure(7.5, 8)
    monkeypatch.setattr(curves, "new_figure", lambda *size: drawn)
    write_curves(run() + again, tmp_path / "new" / "curves.png")
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
