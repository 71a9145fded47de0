"""A corpus report as one HTML page that needs no network, no other file and no script.

Comes in: a `CorpusReport`. Goes out: the page. This file computes the values that the report
lacks; words and look are in `page.html.j2`.
"""

from dataclasses import dataclass
from pathlib import Path

from transformer_mt.corpus.report.charts import Chart, Series, StackPart, histogram_chart, percent
from transformer_mt.corpus.report.profile import ProfileReport, SideProfile
from transformer_mt.corpus.report.report import CorpusReport, PartReport, short
from transformer_mt.rendering.pages import write_html
from transformer_mt.text.languages import language_name

_HTML_CODES = {"zh": "zh-Hans"}
_SCRIPT_COLOURS = {"Han": "c-src", "Latin": "c-tgt", "kana": "c-held", "Hangul": "c-fourth"}
_TICKS = [2.0**k for k in range(-4, 11)]


def write_page(report: CorpusReport, path: Path) -> None:
    """Write the page, whole or not at all."""
    title, codes = "Data report", ("", "")
    if report.languages:
        codes = report.languages.src, report.languages.tgt
        arrow = " ↔ " if report.languages.bidirectional else " → "
        title += ": " + arrow.join(map(language_name, codes))
    write_html(
        Path(__file__).with_name("page.html.j2"),
        path,
        title=title,
        codes=[_HTML_CODES.get(code, code) for code in codes],
        report=report,
        fates=_fates(report),
        funnel_steps=_funnel_steps,
        total_kept=max(1, sum(source.kept for source in report.sources)),
        **(_charts(report.profile) if report.profile else {}),
        language_name=language_name,
        percent=percent,
        script_shares=_script_shares,
        short=short,
    )


def _fates(report: CorpusReport) -> list[StackPart]:
    """The fates of the pairs of the first part."""
    part, held = next(iter(report.parts.values())), sum(report.held_out.values())
    counts = {
        "kept": (part.kept, "c-kept"),
        "held out": (held, "c-held"),
        "dropped": (part.read - part.kept - held, "c-drop"),
    }
    total = max(1, part.read)
    return [StackPart(name, n / total, colour, n) for name, (n, colour) in counts.items()]


@dataclass(frozen=True)
class FunnelStep:
    """A rule, or the holding out of dev and test: `n` pairs dropped by it, `left` after it."""

    name: str
    meaning: str
    threshold: float | str | None
    n: int
    colour: str
    left: int


def _funnel_steps(part: PartReport) -> list[FunnelStep]:
    """The rules of a part in their order, then the pairs held out."""
    steps, left = [], part.read
    for name, rule in part.rules.items():
        left -= rule.dropped
        steps.append(FunnelStep(name, rule.meaning, rule.threshold, rule.dropped, "c-drop", left))
    if held := left - part.kept:
        steps.append(FunnelStep("held out", "for dev and test", None, held, "c-held", part.kept))
    return steps


def _charts(profile: ProfileReport) -> dict[str, Chart]:
    """Histograms of the lengths of both sides, and of their ratio."""
    sides = (("c-src", profile.src), ("c-tgt", profile.tgt))
    lengths = [
        Series(language_name(side.language), colour, side.characters, side.quantiles["p50"])
        for colour, side in sides
    ]
    name = f"{profile.tgt.language} / {profile.src.language}"
    ratio = [Series(name, "c-held", profile.ratio, profile.ratio_quantiles["p50"])]
    return {
        "lengths": histogram_chart(lengths, unit="characters per line, logarithmic", ticks=_TICKS),
        "ratio": histogram_chart(ratio, unit=f"characters {name}, logarithmic", ticks=_TICKS),
    }


def _script_shares(side: SideProfile) -> list[StackPart]:
    return [
        StackPart(name, share, _SCRIPT_COLOURS.get(name, "c-third"))
        for name, share in side.scripts.items()
    ]
