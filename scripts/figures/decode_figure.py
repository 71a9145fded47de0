"""The speed of decoding beside other engines, as a picture: one panel for each size and batch.

    python scripts/figures/decode_figure.py tiny=tiny.json --out docs/images/decoding.png

Reads what scripts/peers/decode_speed.py wrote with --out. A bar is the median over the rounds of
sentences per second.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from transformer_mt.rendering.figures import figure_style, new_figure, save_figure


class Panel(NamedTuple):
    title: str
    rates: dict[str, float]  # sentences per second by engine


def panels(name: str, measured: list[list[Any]]) -> Iterator[Panel]:
    """One for each batch size and beam, the largest batch first."""
    settings = sorted({(batch, beam) for _, batch, beam, _ in measured}, reverse=True)
    for batch, beam in settings:
        rates = {
            engine: median(run["sentences"] / run["seconds"] for run in runs if run)
            for engine, *setting, runs in measured
            if setting == [batch, beam] and any(runs)
        }
        yield Panel(f"{name}, batch {batch}, beam {beam}", rates)


def draw(axes: Any, panel: Panel) -> None:
    order = sorted(panel.rates, key=panel.rates.__getitem__)
    colors = ["tab:blue" if engine.startswith("tmt") else "tab:gray" for engine in order]
    bars = axes.barh(order, [panel.rates[engine] for engine in order], color=colors)
    axes.bar_label(bars, [f"{panel.rates[engine]:,.1f}" for engine in order], padding=3)
    axes.set_xlim(0, 1.15 * max(panel.rates.values()))
    axes.set_title(panel.title)
    axes.set_xlabel("sentences per second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("measured", nargs="+", metavar="SIZE=FILE")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    found: list[Panel] = []
    for name, _, path in (text.partition("=") for text in arguments.measured):
        found += panels(name, json.loads(Path(path).read_text(encoding="utf-8")))
    with figure_style():
        figure = new_figure(9, 1 + sum(0.7 + 0.3 * len(panel.rates) for panel in found))
        heights = [2 + len(panel.rates) for panel in found]
        grid = figure.add_gridspec(len(found), 1, height_ratios=heights)
        for i, panel in enumerate(found):
            draw(figure.add_subplot(grid[i]), panel)
        figure.subplots_adjust(left=0.25, right=0.97, top=0.96, bottom=0.06, hspace=0.55)
        save_figure(figure, arguments.out)


if __name__ == "__main__":
    main()
