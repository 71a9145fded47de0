"""A corpus report as one HTML page that needs no network, no other file and no script.

Comes in: a `CorpusReport`. Goes out: `page.html` with the report written into it. This file
decides what the page says; the template beside it decides how that looks.
"""

import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from transformer_mt.corpus.report.charts import bar, percent, stack
from transformer_mt.corpus.report.profile_sections import profile_section, vocabulary_section
from transformer_mt.corpus.report.report import CorpusReport, PartReport, RuleReport, Sample, short
from transformer_mt.rendering.html import Html, element, escape, join, table
from transformer_mt.system.output import write_text
from transformer_mt.text.languages import language_name

_HTML_CODES = {"zh": "zh-Hans"}


def write_page(report: CorpusReport, path: Path) -> None:
    """Write the page, whole or not at all."""
    title = "Data report"
    if report.languages:
        codes = report.languages.src, report.languages.tgt
        arrow = " ↔ " if report.languages.bidirectional else " → "
        title += ": " + arrow.join(map(language_name, codes))
    sections = (
        _header(report, title), _glance(report), _funnels(report), _sources(report),
        profile_section(report), vocabulary_section(report), _samples(report), _footer(report),
    )  # fmt: skip
    fields = {"title": escape(title), "body": join(*sections, between="\n")}
    template = resources.files("transformer_mt.corpus.report") / "page.html"
    page = template.read_text(encoding="utf-8")
    # One pass, so that a field's text is never searched for fields.
    write_text(path, re.sub(r"\{\{(title|body)\}\}", lambda match: fields[match[1]], page))


def _header(report: CorpusReport, title: str) -> Html:
    lines = [element("h1", title)]
    if report.fingerprint:
        mark = element("code", report.fingerprint)
        lines.append(element("div", "Fingerprint of the clean text: ", mark, class_="muted"))
    return element("header", *lines)


def _glance(report: CorpusReport) -> Html:
    """How much was kept, what was dropped, what looks wrong."""
    name, part = next(iter(report.parts.items()))
    held = sum(report.held_out.values())
    dropped = part.read - part.kept - held
    total = max(1, part.read)
    parts = [
        ("kept", part.kept, "c-kept"), ("held out", held, "c-held"), ("dropped", dropped, "c-drop")
    ]  # fmt: skip
    legend = [
        element("span", f"{label} {count:,} ({percent(count / total)})", class_=class_)
        for label, count, class_ in parts
        if count or label == "dropped"
    ]
    what = "pairs" if name == "pairs" else f"{name} pairs"
    kept = element(
        "div",
        element("div", f"{part.kept:,} ", element("small", f"of {part.read:,} {what} kept"),
                class_="big"),
        stack([(label, count / total, class_) for label, count, class_ in parts], "Pairs by fate"),
        element("div", *legend, class_="legend"),
        class_="card",
    )  # fmt: skip
    return element("div", kept, _others(report), _verdict(report.problems), class_="glance")


def _others(report: CorpusReport) -> Html:
    """The most frequent reasons, the other parts, and notes."""
    name, part = next(iter(report.parts.items()))
    reasons = sorted(part.dropped.items(), key=lambda item: -item[1])[:4]
    lines = []
    if reasons:
        why = ", ".join(f"{rule} {count:,}" for rule, count in reasons)
        lines.append(element("p", element("b", "Dropped most by: "), why))
    sizes = [f"{other} {size.kept:,}" for other, size in report.parts.items() if other != name]
    if sizes:
        lines.append(element("p", element("b", "Other parts: "), ", ".join(sizes)))
    notes = element("ul", *(element("li", note) for note in report.notes), class_="muted")
    return element("div", *lines, notes if report.notes else "", class_="card")


def _verdict(problems: Sequence[str]) -> Html:
    if not problems:
        return element(
            "div", element("b", "No problem found"), " in any source.", class_="card good"
        )
    title = "1 thing to look at" if len(problems) == 1 else f"{len(problems)} things to look at"
    entries = element("ul", *(element("li", problem) for problem in problems))
    return element("div", element("b", title), entries, class_="card bad")


def _funnels(report: CorpusReport) -> Html:
    blocks = []
    for name, part in report.parts.items():
        if part.rules:
            blocks.append(_funnel(name, part))
            blocks += [_rule_details(*item, _codes(report)) for item in part.rules.items()]
    return join(*blocks)


def _funnel(name: str, part: PartReport) -> Html:
    """The rules in their order: what each dropped, and what was left."""
    held = part.read - part.kept - sum(part.dropped.values())
    most = max(1, held, *part.dropped.values())
    left = part.read

    def step(title: str, meaning: str, limit: str, n: int, colour: str) -> list[str]:
        return [
            element("b", title), meaning, limit, f"{n:,}", bar(n / most, colour),
            f"{left:,}", bar(left / max(1, part.read), "c-left"),
        ]  # fmt: skip

    rows = []
    for title, rule in part.rules.items():
        left -= rule.dropped
        rows.append(step(title, rule.meaning, _number(rule.threshold), rule.dropped, "c-drop"))
    if held:
        left = part.kept
        rows.append(step("held out", "for dev and test", "", held, "c-held"))
    how = (
        "In this order: the first rule that a pair breaks drops it. A pair breaks a rule when its "
        "score is above the threshold."
    )
    heads = ["rule", "its score", "threshold", "dropped", "", f"left of {part.read:,}", ""]
    return join(
        element("h2", f"What was dropped from {name}, and why"),
        element("p", how, class_="muted"),
        table(heads, rows, numbers=(2, 3, 5), bars=(4, 6)),
    )


def _rule_details(name: str, rule: RuleReport, codes: tuple[str, str]) -> Html:
    """The pairs on both sides of the threshold, to be unfolded."""
    if not rule.nearest_dropped and not rule.nearest_kept:
        return Html()
    threshold = "" if rule.threshold is None else f", threshold {_number(rule.threshold)}"
    summary = element("summary", element("b", name), f": {rule.dropped:,} dropped{threshold}")
    tables = [
        join(element("h3", title), _pairs(samples, codes))
        for title, samples in (("Dropped, nearest the threshold first", rule.nearest_dropped),
                               ("Kept, nearest the threshold first", rule.nearest_kept))
        if samples
    ]  # fmt: skip
    return element("details", summary, *tables)


def _sources(report: CorpusReport) -> Html:
    if not report.sources:
        return Html()
    total = max(1, sum(source.kept for source in report.sources))
    rows = [
        [
            element("b", source.name), f"{source.read:,}", f"{source.kept:,}",
            percent(source.kept / total), bar(source.kept / total, "c-kept"),
            f"{source.weight:g}", source.tag or "", _origins(source.origins),
        ]
        for source in report.sources
    ]  # fmt: skip
    heads = ["source", "read", "kept", "share", "", "weight", "tag", "origin and licence"]
    found = table(heads, rows, numbers=(1, 2, 3, 5), bars=(4,))
    return join(element("h2", "Where the text is from"), found)


def _origins(origins: Iterable[dict[str, Any]]) -> Html:
    blocks = []
    for origin in origins:
        url, licence = str(origin.get("url") or ""), origin.get("licence")
        is_link = url.startswith(("https://", "http://"))
        place = element("a", url, href=url, rel="noreferrer") if is_link else element("code", url)
        size = f"{origin['size']:,} bytes" if origin.get("size") else ""
        digest = f"sha256 {str(origin['sha256'])[:16]}…" if origin.get("sha256") else ""
        facts = " · ".join(filter(None, (size, digest)))
        told = f"Licence: {licence}" if licence else "Licence not stated: look before you publish"
        blocks.append(element(
            "div", element("div", element("b", str(origin.get("name") or "")), " ", place),
            element("div", told, class_=None if licence else "warn"),
            element("div", facts, class_="muted"),
        ))  # fmt: skip
    return join(*blocks) or element("span", "a local file", class_="muted")


def _samples(report: CorpusReport) -> Html:
    worst = "Nearest to being dropped, the worst first."
    drawn = "Read these: they are what the model will learn."
    kinds = (
        ("Worst kept pairs", worst, report.worst_kept),
        ("Random kept pairs", drawn, report.random_kept),
    )
    blocks = []
    for title, text, samples in kinds:
        if samples:
            blocks += [element("h2", title), element("p", text, class_="muted")]
            blocks.append(_pairs(samples, _codes(report)))
    return join(*blocks)


def _footer(report: CorpusReport) -> Html:
    if not report.seconds:
        return Html()
    times = ", ".join(f"{stage} {seconds:,.1f} s" for stage, seconds in report.seconds.items())
    return element("footer", f"Time: {times}")


def _codes(report: CorpusReport) -> tuple[str, str]:
    """Of both sides as HTML spells them; empty: not known."""
    if report.languages is None:
        return "", ""
    src, tgt = report.languages.src, report.languages.tgt
    return _HTML_CODES.get(src, src), _HTML_CODES.get(tgt, tgt)


def _pairs(samples: Sequence[Sample], codes: tuple[str, str]) -> Html:
    scored = any(sample.score is not None for sample in samples)
    head = [element("th", "score", class_="n score")] if scored else []
    head += [
        element("th", "from", class_="where"),
        element("th", "source"),
        element("th", "target"),
    ]
    rows = []
    for sample in samples:
        cells = [element("td", _number(sample.score), class_="n score")] if scored else []
        cells.append(element("td", sample.where, class_="where"))
        for text, code in zip((sample.src, sample.tgt), codes, strict=True):
            cells.append(element("td", text, lang=code or None, dir="auto"))
        rows.append(element("tr", *cells))
    body = element("thead", element("tr", *head)), element("tbody", *rows)
    return element("table", *body, class_="pairs")


def _number(value: float | str | None) -> str:
    return "" if value is None else short(value)
