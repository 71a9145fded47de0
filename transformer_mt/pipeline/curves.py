"""The curves of a training run: losses, scores on dev and the learning rate over the updates."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_mt.errors import DataError
from transformer_mt.rendering.figures import GRID, figure_style, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAIN_COLOR, DEV_COLOR, RATE_COLOR = "#9db4cf", "#08488e", "#5b7f4d"
SCORE_COLOR, SECOND_SCORE_COLOR = "#b3541e", "#dba782"
MAX_DOTS = 60

Record = Mapping[str, Any]


def write_curves(metrics: Sequence[Record], path: Path) -> None:
    """Draw the "train" and "validation" records of `metrics.jsonl` as a PNG."""
    train = [record for record in metrics if record.get("event") == "train"]
    dev = [record for record in metrics if record.get("event") == "validation"]
    if not train and not dev:
        raise DataError(
            f"{path.name}: no train or validation record among {len(metrics)} metrics; "
            "train for at least train.log_every updates first"
        )
    with figure_style():
        figure = new_figure(7.5, 8)
        panels = figure.subplots(3, 1, sharex=True, height_ratios=[4, 3, 1.6])
        _draw_losses(panels[0], train, dev)
        _draw_scores(panels[1], dev)
        _draw_learning_rate(panels[2], train)
        panels[2].set_xlabel("updates")
        panels[2].xaxis.set_major_formatter("{x:,.0f}")
        for panel in panels:
            panel.grid(axis="y", color=GRID, linewidth=0.8)
            panel.set_axisbelow(True)
            panel.tick_params(length=0)
            panel.margins(x=0.02)
        figure.align_ylabels(panels)
        figure.tight_layout()
        save_figure(figure, path)


def _series(records: Sequence[Record], key: str) -> tuple[list[int], list[float]]:
    """Updates and values where there is a value; a resumed run repeats updates: the last counts."""
    values = {int(record["update"]): record.get(key) for record in records}
    kept = {update: float(value) for update, value in sorted(values.items()) if value is not None}
    return list(kept), list(kept.values())


def _draw(axes: "Axes", records: Sequence[Record], key: str, **style: Any) -> None:
    """Draw a curve; few points get dots, because one point alone draws no line."""
    updates, values = _series(records, key)
    dots = len(values) <= MAX_DOTS
    axes.plot(updates, values, marker="o" if dots else None, markersize=3, **style)


def _mark_best(axes: "Axes", records: Sequence[Record], key: str, color: str, digits: int) -> None:
    """Ring the best point and write its value above it."""
    updates, values = _series(records, key)
    if not values:
        return
    choose = min if key == "loss" else max
    best = choose(range(len(values)), key=values.__getitem__)
    point = (updates[best], values[best])
    axes.plot(*point, "o", markersize=8, markerfacecolor="none", markeredgecolor=color)
    axes.annotate(f"{values[best]:.{digits}f}", point, xytext=(0, 8), textcoords="offset points",
                  ha="center", va="bottom", color=color)  # fmt: skip


def _draw_losses(axes: "Axes", train: Sequence[Record], dev: Sequence[Record]) -> None:
    axes.set_ylabel("loss per target token (nats)")
    _draw(axes, train, "loss", color=TRAIN_COLOR, linewidth=1.2, label="train")
    _draw(axes, dev, "loss", color=DEV_COLOR, linewidth=1.8, label="dev")
    _mark_best(axes, dev, "loss", DEV_COLOR, 3)
    axes.legend(frameon=False, loc="upper right")


def _draw_scores(axes: "Axes", dev: Sequence[Record]) -> None:
    axes.set_ylabel("score on dev")
    _draw(axes, dev, "chrf", color=SECOND_SCORE_COLOR, linewidth=1.2, label="chrF")
    _mark_best(axes, dev, "chrf", SECOND_SCORE_COLOR, 1)
    _draw(axes, dev, "bleu", color=SCORE_COLOR, linewidth=1.8, label="BLEU")
    _mark_best(axes, dev, "bleu", SCORE_COLOR, 1)
    axes.margins(y=0.15)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="lower right")


def _draw_learning_rate(axes: "Axes", train: Sequence[Record]) -> None:
    axes.set_ylabel("learning rate")
    _draw(axes, train, "lr", color=RATE_COLOR, linewidth=1.5)
    axes.set_ylim(bottom=0)
    axes.ticklabel_format(axis="y", style="plain")
