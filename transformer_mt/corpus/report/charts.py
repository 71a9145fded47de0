"""Histograms → the geometry of a chart, in units of its drawing.

Comes in: counts by bin. Goes out: a `Chart`, which `charts.html.j2` draws as SVG. This file does
not know the report.
"""

from collections.abc import Sequence
from typing import NamedTuple

from transformer_mt.corpus.report.profile import Histogram

_WIDTH = 574  # of the bars of a panel
_HEIGHT = 116  # of the highest bar
_LABEL_ROOM = 40  # that a label below the axis needs


class StackPart(NamedTuple):
    """A part of a whole; `colour` is a CSS class."""

    name: str
    share: float
    colour: str
    n_pairs: int = 0


class Series(NamedTuple):
    """One histogram of a chart: its name, the CSS class of its colour, its counts and median."""

    name: str
    colour: str
    histogram: Histogram
    median: float


class Bar(NamedTuple):
    x: float  # from the left end of the axis, as all of these
    height: float
    tip: str


class Panel(NamedTuple):
    """One histogram of a chart; `highest` is the share of its fullest bin."""

    series: Series
    bars: list[Bar]
    median_x: float
    highest: float


class Chart(NamedTuple):
    """Panels one below the other over the same bins, and their common axis."""

    unit: str
    bar_width: float
    panels: list[Panel]
    ticks: list[tuple[float, str]]  # place and label


def percent(share: float) -> str:
    """A share as people read it: small ones are not rounded away."""
    if 0 < share < 0.0001:
        return "< 0.01 %"
    digits = 0 if share in (0, 1) else 2 if share < 0.01 or share > 0.999 else 1
    return f"{100 * share:.{digits}f} %" if share < 0.99995 or share == 1 else "> 99.99 %"


def histogram_chart(every: Sequence[Series], *, unit: str, ticks: Sequence[float]) -> Chart:
    """Lay histograms out one below the other, each as shares of its own total.

    Args:
        every: at least one, all with the same edges.
        unit: of the values, e.g. `characters`.
        ticks: edges worth a label.
    """
    edges = every[0].histogram.edges
    used = [i for series in every for i, count in enumerate(series.histogram.counts) if count]
    first = max(0, min(used, default=0) - 1)
    last = min(len(edges) - 1, max(used, default=0) + 1)
    step = _WIDTH / (last - first + 1)
    places = {i: (i - first) * step for i in range(first, last + 1)}
    panels = []
    for series in every:
        counts = series.histogram.counts
        total, most = max(1, sum(counts)), max(1, *counts)
        bars = []
        for i, x in places.items():
            height = max(1.5, _HEIGHT * counts[i] / most) if counts[i] else 0
            tip = f"{_range(edges, i)}: {counts[i]:,} ({percent(counts[i] / total)})"
            bars.append(Bar(x, height, tip))
        median_x = (_place(edges, series.median) - first) * step
        panels.append(Panel(series, bars, median_x, most / total))
    return Chart(unit, step - 1.5, panels, _ticks(edges, places, ticks))


def _ticks(
    edges: Sequence[float], places: dict[int, float], ticks: Sequence[float]
) -> list[tuple[float, str]]:
    """Place and label of each edge that is a tick, as many as there is room for."""
    labels: list[tuple[float, str]] = []
    for i, x in places.items():
        has_room = not labels or x >= labels[-1][0] + _LABEL_ROOM
        if has_room and any(abs(edges[i] - tick) < 1e-9 for tick in ticks):
            labels.append((x, f"{edges[i]:,g}"))
    return labels


def _place(edges: Sequence[float], value: float) -> float:
    """Where a value lies among the edges: 2.5 is the middle of the third bin."""
    i = sum(edge <= value for edge in edges) - 1
    if i + 1 >= len(edges):
        return i + 0.5
    return i + (value - edges[i]) / (edges[i + 1] - edges[i])


def _range(edges: Sequence[float], i: int) -> str:
    """The values of a bin in words; of whole numbers the last one that is in."""
    if i + 1 == len(edges):
        return f"{edges[i]:,.3g} and more"
    low, high = edges[i], edges[i + 1]
    if low == int(low) and high == int(high):
        return f"{low:,.0f}" if high - low == 1 else f"{low:,.0f}–{high - 1:,.0f}"
    return f"{low:,.3g} to {high:,.3g}"
