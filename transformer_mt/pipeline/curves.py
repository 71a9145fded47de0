"""The curves of a training run: losses, scores on dev and the learning rate over the updates.

The best values stand in the legends, above the panels, where nothing can lie over them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.rendering.figures import GRID, INK, figure_style, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRAIN_COLOR, DEV_COLOR, RATE_COLOR = "#9db4cf", "#08488e", "#5b7f4d"
SCORES = (("chrf", "#dba782", 1.2, "chrF"), ("bleu", "#b3541e", 1.8, "BLEU"))
# Of compared runs, in their order: distinct also for the colour-blind (Okabe and Ito 2008).
RUN_COLORS = ("#08488e", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b7785")
MAX_DOTS = 60
_LONGEST_NAME = 40  # characters of a run's name in a title or a legend

Record = Mapping[str, Any]


def write_curves(metrics: Sequence[Record], path: Path, *, name: str = "") -> None:
    """Draw the "train" and "validation" records of `metrics.jsonl` as a PNG.

    Args:
        name: of the run, for the title; default: the name of the folder of `path`.
    """
    train = [record for record in metrics if record.get("event") == "train"]
    dev = [record for record in metrics if record.get("event") == "validation"]
    if not train and not dev:
        raise DataError(
            tr(
                "{}: no train or validation record among {} metrics; train for at "
                "least train.log_every updates first",
                path.name,
                len(metrics),
            )
        )
    with figure_style():
        figure = new_figure(7.5, 8.5)
        panels = figure.subplots(3, 1, sharex=True, height_ratios=[4, 3, 1.6])
        losses, scores, rates = panels
        _draw(losses, train, "loss", color=TRAIN_COLOR, linewidth=1.2, label=tr("train"))
        lowest = _draw(losses, dev, "loss", best="min", color=DEV_COLOR, linewidth=1.8, label="dev")
        _label(losses, tr("loss per target token (nats)"), [tr("train"), tr("dev{}", lowest)])
        found = [
            label + _draw(scores, dev, key, best="max", color=color, linewidth=width, label=label)
            for key, color, width, label in SCORES
        ]
        _label(scores, tr("score on dev"), found)
        scores.set_ylim(bottom=0)
        _draw(rates, train, "lr", color=RATE_COLOR, linewidth=1.5)
        _label(rates, tr("learning rate"), [])
        rates.set_ylim(bottom=0)
        rates.ticklabel_format(axis="y", style="plain")
        run = name or path.absolute().parent.name
        result = _result(dev) or tr("no validation")
        _finish(figure, list(panels), title=f"{_clipped(run)}: {result}")
        save_figure(figure, path)


def write_dev_curves(runs: Mapping[str, Sequence[Record]], path: Path) -> None:
    """Draw loss, BLEU and chrF on dev of several runs over each other as a PNG.

    Args:
        runs: name → records of its `metrics.jsonl`.
    """
    dev_of = {
        name: [record for record in records if record.get("event") == "validation"]
        for name, records in runs.items()
    }
    if not any(dev_of.values()):
        raise DataError(tr("{}: no run has a validation yet; train longer first", path.name))
    with figure_style():
        figure = new_figure(7.5, 9)
        panels = figure.subplots(3, 1, sharex=True)
        rows = (("loss", "min", tr("loss on dev (nats)")), ("bleu", "max", tr("BLEU on dev")),
                ("chrf", "max", tr("chrF on dev")))  # fmt: skip
        for axes, (key, best, label) in zip(panels, rows, strict=True):
            found = []
            for i, (name, dev) in enumerate(dev_of.items()):
                color = RUN_COLORS[i % len(RUN_COLORS)]
                shown = f" {name}" if name.startswith("_") else name  # matplotlib hides `_name`
                value = _draw(axes, dev, key, best=best, color=color, linewidth=1.6, label=shown)
                found.append(_clipped(shown) + value)
            _label(axes, label, found)
        _finish(figure, list(panels), title=tr("{} runs on their dev sets", len(runs)))
        save_figure(figure, path)


def _draw(
    axes: "Axes", records: Sequence[Record], key: str, *, best: str = "", **style: Any
) -> str:
    """Draw a curve, with a ring where it is `best`, "min" or "max".

    A resumed run repeats updates: the last counts. One point alone draws no line, few get dots.

    Returns:
        The best value and its update, for a legend; empty without one.
    """
    by_update = {int(record["update"]): record.get(key) for record in records}
    curve = [(update, float(y)) for update, y in sorted(by_update.items()) if y is not None]
    dot = "o" if len(curve) <= MAX_DOTS else None
    axes.plot([x for x, _ in curve], [y for _, y in curve], marker=dot, markersize=3, **style)
    if not best or not curve:
        return ""
    x, y = (min if best == "min" else max)(curve, key=lambda point: point[1])
    axes.plot(x, y, "o", markersize=8, markerfacecolor="none", markeredgecolor=style["color"])
    digits, word = (3, tr("lowest")) if best == "min" else (1, tr("best"))
    return tr(", {} {:.{}f} at {:,}", word, y, digits, x)


def _label(axes: "Axes", label: str, legend: Sequence[str]) -> None:
    """The name of the axis, and a legend above the panel for the curves in their order."""
    axes.set_ylabel(label)
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    if legend:
        columns = 1 if max(map(len, legend)) > 45 else 2
        axes.legend(
            lines, legend, frameon=False, ncols=columns, loc="lower left",
            bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, borderpad=0.2,
        )  # fmt: skip


def _result(dev: Sequence[Record]) -> str:
    """The best values on dev, for a title."""
    parts = []
    for key, label in (("bleu", "BLEU"), ("chrf", "chrF")):
        values = [record[key] for record in dev if record.get(key) is not None]
        parts += [f"{label} {max(values):.1f}"] if values else []
    if not parts:
        losses = [record["loss"] for record in dev if record.get("loss") is not None]
        parts = [tr("loss {:.3f}", min(losses))] if losses else []
    return ", ".join(parts) + tr(" on dev") if parts else ""


def _clipped(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _finish(figure: "Figure", panels: "Sequence[Axes]", *, title: str) -> None:
    figure.suptitle(title, x=0.02, ha="left", fontsize=12, color=INK)
    panels[-1].set_xlabel(tr("updates"))
    panels[-1].xaxis.set_major_formatter("{x:,.0f}")
    for panel in panels:
        panel.grid(axis="y", color=GRID, linewidth=0.8)
        panel.set_axisbelow(True)
        panel.tick_params(length=0)
        panel.margins(x=0.02)
    figure.align_ylabels(panels)
    figure.tight_layout()
