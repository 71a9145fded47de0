"""What the text of a corpus is like, and how a vocabulary covers it → two sections of the report.

Comes in: a `CorpusReport`. Goes out: `Html`, empty where the report knows nothing. This file does
not know the rest of the page.
"""

from collections.abc import Callable

from transformer_mt.corpus.report.charts import histograms, percent, stack
from transformer_mt.corpus.report.profile import SideProfile
from transformer_mt.corpus.report.report import CorpusReport
from transformer_mt.rendering.html import Html, element, join, table
from transformer_mt.text.languages import language_name

_TICKS = [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
_COLOURS = {
    "Han": "c-src",
    "Latin": "c-tgt",
    "kana": "c-held",
    "Hangul": "c-fourth",
    "other": "c-third",
}


def profile_section(report: CorpusReport) -> Html:
    """Lengths, their ratio, scripts, and numbers of both sides."""
    if report.profile is None:
        return Html()
    found = report.profile
    sides = (("c-src", found.src), ("c-tgt", found.tgt))
    lengths = histograms(
        [(language_name(side.language), class_, side.characters, side.quantiles["p50"])
         for class_, side in sides],
        unit="characters per line, logarithmic", ticks=_TICKS,
    )  # fmt: skip
    name = f"{found.tgt.language} / {found.src.language}"
    ratio = histograms(
        [(name, "c-held", found.ratio, found.ratio_quantiles["p50"])],
        unit=f"characters {name}, logarithmic",
        ticks=_TICKS,
    )
    scripts = join(*(_scripts(side) for _, side in sides))
    return join(
        element("h2", "What the text is like"),
        element("p", f"Measured on {found.pairs:,} kept pairs.", class_="muted"),
        element("div",
                element("figure", element("h3", "Lengths"), lengths),
                element("div", element("figure", element("h3", "Ratio of lengths"), ratio),
                        element("figure", element("h3", "Scripts of the letters"), scripts)),
                class_="columns"),
        _facts(found.src, found.tgt),
    )  # fmt: skip


def _scripts(side: SideProfile) -> Html:
    parts = [(name, share, _COLOURS.get(name, "c-third")) for name, share in side.scripts.items()]
    legend = [
        element("span", f"{name} {percent(share)}", class_=colour) for name, share, colour in parts
    ]
    name = language_name(side.language)
    drawn = stack(parts, f"Scripts, {name}")
    return join(
        element("div", name, class_="muted"), drawn, element("div", *legend, class_="legend")
    )


def _facts(src: SideProfile, tgt: SideProfile) -> Html:
    """Numbers of both sides next to each other."""

    def chinese(script: str) -> Callable[[SideProfile], str]:
        return lambda side: percent(side.chinese[script]) if side.chinese else "–"

    facts: dict[str, Callable[[SideProfile], str]] = {
        "characters per line: median": lambda side: f"{side.quantiles['p50']:,.0f}",
        "99 % of the lines up to": lambda side: f"{side.quantiles['p99']:,.0f}",
        "longest": lambda side: f"{side.quantiles['max']:,.0f}",
        "distinct characters": lambda side: f"{side.distinct_characters:,}",
        "distinct words": lambda side: f"{side.distinct_words:,}" if side.distinct_words else "–",
        "lines with digits": lambda side: percent(side.with_digits),
        "lines with URLs or addresses": lambda side: percent(side.with_urls),
        "lines with markup": lambda side: percent(side.with_markup),
    }
    if src.chinese or tgt.chinese:
        facts["lines in Simplified characters"] = chinese("simplified")
        facts["lines in Traditional characters"] = chinese("traditional")
        facts["lines that mix both"] = chinese("mixed")
    rows = [[name, of(src), of(tgt)] for name, of in facts.items()]
    heads = ["", language_name(src.language), language_name(tgt.language)]
    return table(heads, rows, numbers=(1, 2), class_="facts")


def vocabulary_section(report: CorpusReport) -> Html:
    """One row per side."""
    if not report.vocabulary:
        return Html()
    rows = []
    for side, found in report.vocabulary.items():
        words = "–" if found.tokens_per_word is None else f"{found.tokens_per_word:.2f}"
        rows.append([
            side, f"{found.vocab_size:,}", percent(found.unknown_rate), percent(found.byte_rate),
            words, f"{found.tokens_per_character:.3f}", percent(found.type_coverage),
            percent(found.token_coverage),
        ])  # fmt: skip
    heads = ["side", "vocabulary", "unknown", "bytes", "tokens per word", "per character",
             "dev types seen in train", "running dev text seen"]  # fmt: skip
    return join(
        element("h2", "How the vocabulary covers dev"),
        table(heads, rows, numbers=range(1, 8), class_="facts"),
    )
