"""A corpus report as one HTML page that needs no network, no other file and no script.

This file computes the values that the report lacks; words and look are in `page.html.j2`.
"""

from pathlib import Path
from typing import NamedTuple

from transformer_mt.corpus.report.profile import Histogram
from transformer_mt.corpus.report.report import CorpusReport, short
from transformer_mt.messages.catalogue import tr
from transformer_mt.rendering.pages import write_html
from transformer_mt.text.languages import language_name

_HTML_CODES = {"zh": "zh-Hans"}


def write_page(report: CorpusReport, path: Path, *, name: str | None = None) -> None:
    """Write the page, whole or not at all.

    Args:
        name: of the experiment; None: that of the source, if there is only one.
    """
    if name is None and len(report.sources) == 1:
        name = report.sources[0].name
    title, codes = tr("Data of {}", name) if name else tr("Data report"), ("", "")
    part = next(iter(report.parts.values()))
    title += tr(": {:,} of {:,} pairs kept", part.kept, part.read)
    if report.languages:
        codes = report.languages.src, report.languages.tgt
        arrow = " ↔ " if report.languages.bidirectional else " → "
        title += ", " + arrow.join(map(language_name, codes))
    write_html(
        Path(__file__).with_name("page.html.j2"),
        path,
        title=title,
        codes=[_HTML_CODES.get(code, code) for code in codes],
        report=report,
        bins=bins,
        language_name=language_name,
        percent=percent,
        short=short,
    )


def percent(share: float) -> str:
    """A share as people read it: small ones are not rounded away."""
    if 0 < share < 0.0001:
        return "< 0.01 %"
    digits = 0 if share in (0, 1) else 2 if share < 0.01 or share > 0.999 else 1
    return f"{100 * share:.{digits}f} %" if share < 0.99995 or share == 1 else "> 99.99 %"


class Bin(NamedTuple):
    """A bar of a histogram."""

    height: float  # 0 to 1, of the highest bar
    values: str  # in words
    n: int
    share: float
    label: str  # below the axis: powers of two


def bins(found: Histogram, common: list[Histogram]) -> list[Bin]:
    """The bins of a histogram, from the first to the last that some of the common ones use."""
    edges, total, most = found.edges, max(1, sum(found.counts)), max(1, *found.counts)
    used = [i for other in common for i, count in enumerate(other.counts) if count] or [0]
    return [
        Bin(
            count / most,
            _range(edges, i),
            count,
            count / total,
            f"{edges[i]:,g}" if edges[i] in [2.0**k for k in range(-4, 11)] else "",
        )
        for i, count in enumerate(found.counts)
        if min(used) <= i <= max(used)
    ]


def _range(edges: list[float], i: int) -> str:
    """The values of a bin in words; of whole numbers the last one that is in."""
    if i + 1 == len(edges):
        whole = edges[i] == int(edges[i])
        return tr("{} and more", f"{edges[i]:,.0f}" if whole else f"{edges[i]:,.3g}")
    low, high = edges[i], edges[i + 1]
    if low == int(low) and high == int(high):
        return f"{low:,.0f}" if high - low == 1 else f"{low:,.0f}–{high - 1:,.0f}"
    return tr("{:,.3g} to {:,.3g}", low, high)
