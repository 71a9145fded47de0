"""Counts and shares → charts as inline SVG.

Comes in: histograms and shares. Goes out: `Html`; the colours are classes that the page's style
sheet defines. This file does not know what a report is.
"""

from collections.abc import Sequence
from itertools import accumulate

from transformer_mt.corpus.report.profile import Histogram
from transformer_mt.rendering.html import Html, element, join

_WIDTH, _PANEL, _LEFT, _RIGHT = 640, 120, 58, 8  # of a histogram, in its own units
_LABEL_ROOM = 40  # units that a label below the axis needs


def percent(share: float) -> str:
    """A share as people read it: small ones are not rounded away."""
    if 0 < share < 0.0001:
        return "< 0.01 %"
    digits = 0 if share in (0, 1) else 2 if share < 0.01 or share > 0.999 else 1
    return f"{100 * share:.{digits}f} %" if share < 0.99995 or share == 1 else "> 99.99 %"


def bar(share: float, class_: str) -> Html:
    """A bar of a table's cell; the smallest share that is not 0 can be seen."""
    width = 0.0 if share == 0 else max(0.7, 100 * share)
    return element(
        "svg",
        element("rect", x=0, y=0, width=f"{width:.2f}%", height=12, rx=2, class_=class_),
        class_="bar", height=12, aria_hidden="true",
    )  # fmt: skip


def stack(parts: Sequence[tuple[str, float, str]], label: str) -> Html:
    """Parts of a whole side by side.

    Args:
        parts: name, share and class of each.
    """
    starts = accumulate((share for _, share, _ in parts), initial=0.0)
    rects = [
        element(
            "svg",
            element("rect", x=0, y=0, width="100%", height=22, class_=class_),
            element("title", f"{name}: {percent(share)}"),
            x=f"{100 * start:.3f}%", width=f"{100 * share:.3f}%", height=22,
        )
        for start, (name, share, class_) in zip(starts, parts, strict=False)
        if share > 0
    ]  # fmt: skip
    return element("svg", *rects, class_="stack", height=22, role="img", aria_label=label)


def histograms(
    panels: Sequence[tuple[str, str, Histogram, float]], *, unit: str, ticks: Sequence[float]
) -> Html:
    """Histograms one below the other over the same bins, each as shares of its own total.

    Args:
        panels: name, class, counts and median of each; all with the same edges.
        unit: of the values, e.g. `characters`.
        ticks: edges worth a label.
    """
    used = [i for _, _, h, _ in panels for i, count in enumerate(h.counts) if count]
    first, last = (min(used), max(used)) if used else (0, 0)
    first, last = max(0, first - 1), min(len(panels[0][2].counts) - 1, last + 1)
    step = (_WIDTH - _LEFT - _RIGHT) / (last - first + 1)
    drawn = [
        _panel(panel, first, last, step, top=i * (_PANEL + 36)) for i, panel in enumerate(panels)
    ]
    bottom = len(panels) * (_PANEL + 36) - 10
    axis = _axis(panels[0][2].edges, first, last, step, bottom, ticks)
    name = element("text", unit, x=_WIDTH - _RIGHT, y=bottom + 32, text_anchor="end", class_="note")
    return element(
        "svg", *drawn, *axis, name, class_="chart", viewBox=f"0 0 {_WIDTH} {bottom + 36}",
        role="img", aria_label=f"{unit}: " + ", ".join(panel[0] for panel in panels),
    )  # fmt: skip


def _panel(
    panel: tuple[str, str, Histogram, float], first: int, last: int, step: float, *, top: float
) -> Html:
    """One histogram with its name, its median, and the height of its highest bin."""
    name, class_, histogram, median = panel
    total, highest = max(1, sum(histogram.counts)), max(1, *histogram.counts)
    floor = top + 26 + _PANEL
    shapes = [element("text", name, x=_LEFT, y=top + 16, class_="name")]
    for i in range(first, last + 1):
        count = histogram.counts[i]
        height = 0 if count == 0 else max(1.5, (_PANEL - 4) * count / highest)
        box = element(
            "rect", x=_LEFT + (i - first) * step + 0.75, y=floor - height,
            width=step - 1.5, height=height, class_=class_,
        )  # fmt: skip
        tip = f"{_range(histogram.edges, i)}: {count:,} ({percent(count / total)})"
        shapes.append(element("g", box, element("title", tip)))
    x = _LEFT + (_place(histogram.edges, median) - first) * step
    shapes += [
        element("line", x1=x, x2=x, y1=top + 22, y2=floor, class_="median"),
        element("text", f"median {median:,.4g}", x=x + 4, y=top + 16, class_="note"),
        element("text", percent(highest / total), x=_LEFT - 5, y=floor - _PANEL + 12,
                text_anchor="end", class_="note"),
        element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=floor, y2=floor, class_="axis"),
    ]  # fmt: skip
    return join(*shapes)


def _axis(
    edges: Sequence[float], first: int, last: int, step: float, y: float, ticks: Sequence[float]
) -> list[Html]:
    """Labels of those edges that are ticks, as many as there is room for."""
    labels, free_from = [], 0.0
    for i in range(first, last + 1):
        x = _LEFT + (i - first) * step
        if x >= free_from and any(abs(edges[i] - tick) < 1e-9 for tick in ticks):
            labels.append(element("line", x1=x, x2=x, y1=y, y2=y + 4, class_="axis"))
            text = f"{edges[i]:,g}"
            labels.append(element("text", text, x=x, y=y + 16, text_anchor="middle", class_="note"))
            free_from = x + _LABEL_ROOM
    return labels


def _place(edges: Sequence[float], value: float) -> float:
    """Where a value lies among the edges: 2.5 is the middle of the third bin."""
    i = sum(edge <= value for edge in edges) - 1
    if i + 1 >= len(edges):
        return i + 0.5
    return i + (value - edges[i]) / (edges[i + 1] - edges[i])


def _range(edges: Sequence[float], i: int) -> str:
    if i + 1 == len(edges):
        return f"{edges[i]:,.3g} and more"
    low, high = edges[i], edges[i + 1]
    if low == int(low) and high == int(high):  # whole numbers: say the last one that is in
        return f"{low:,.0f}" if high - low == 1 else f"{low:,.0f}–{high - 1:,.0f}"
    return f"{low:,.3g} to {high:,.3g}"
