"""The curves of a training run: losses, scores on dev and the learning rate over the updates."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_mt.errors import DataError
from transformer_mt.rendering.figures import GRID, figure_style, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAIN_COLOR, DEV_COLOR, RATE_COLOR = "#9db4cf", "#08488e", "#5b7f4d"
SCORES = (("chrf", "#dba782", 1.2, "chrF"), ("bleu", "#b3541e", 1.8, "BLEU"))
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
        losses, scores, rates = panels
        losses.set_ylabel("loss per target token (nats)")
        _draw(losses, train, "loss", color=TRAIN_COLOR, linewidth=1.2, label="train")
        _draw(losses, dev, "loss", best="min", color=DEV_COLOR, linewidth=1.8, label="dev")
        losses.legend(frameon=False, loc="upper right")
        scores.set_ylabel("score on dev")
        for key, color, width, label in SCORES:
            _draw(scores, dev, key, best="max", color=color, linewidth=width, label=label)
        scores.margins(y=0.15)
        scores.set_ylim(bottom=0)
        scores.legend(frameon=False, loc="lower right")
        rates.set_ylabel("learning rate")
        _draw(rates, train, "lr", color=RATE_COLOR, linewidth=1.5)
        rates.set_ylim(bottom=0)
        rates.ticklabel_format(axis="y", style="plain")
        rates.set_xlabel("updates")
        panels[2].xaxis.set_major_formatter("{x:,.0f}")
        for panel in panels:
            panel.grid(axis="y", color=GRID, linewidth=0.8)
            panel.set_axisbelow(True)
            panel.tick_params(length=0)
            panel.margins(x=0.02)
        figure.align_ylabels(panels)
        figure.tight_layout()
        save_figure(figure, path)


def _draw(
    axes: "Axes", records: Sequence[Record], key: str, *, best: str = "", **style: Any
) -> None:
    """Draw a curve, with a ring and the value where it is `best`, "min" or "max".

    A resumed run repeats updates: the last counts. One point alone draws no line, few get dots.
    """
    by_update = {int(record["update"]): record.get(key) for record in records}
    curve = [(update, float(y)) for update, y in sorted(by_update.items()) if y is not None]
    dot = "o" if len(curve) <= MAX_DOTS else None
    axes.plot([x for x, _ in curve], [y for _, y in curve], marker=dot, markersize=3, **style)
    if best and curve:
        x, y = (min if best == "min" else max)(curve, key=lambda point: point[1])
        color, digits = style["color"], 3 if best == "min" else 1
        axes.plot(x, y, "o", markersize=8, markerfacecolor="none", markeredgecolor=color)
        axes.annotate(f"{y:.{digits}f}", (x, y), xytext=(0, 8), textcoords="offset points",
                      ha="center", va="bottom", color=color)  # fmt: skip
