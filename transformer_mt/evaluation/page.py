"""The report of an evaluation as one HTML page that needs no network and no other file.

Comes in: an `EvaluationReport`. Goes out: `page.html` with tables and data written
into it. This file decides what the page says; the template beside it lists, sorts and filters the
sentences.
"""

import json
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from transformer_mt.evaluation.error_checks import CHECKS
from transformer_mt.evaluation.metrics import Score
from transformer_mt.evaluation.report import EvaluationReport, SetReport
from transformer_mt.evaluation.significance import SystemScores
from transformer_mt.rendering.html import Html, element, escape, escape_json, join, table
from transformer_mt.system.output import write_text
from transformer_mt.text.languages import is_unspaced, language_name
from transformer_mt.text.words import mark_differences

_HTML_CODES = {"zh": "zh-Hans"}
_SHOWN_CHARACTERS = 300  # of a worst sentence
_SIGNIFICANT = 0.05


def write_page(report: EvaluationReport, path: Path) -> None:
    """Write the page, whole or not at all."""
    systems = list(next(iter(report.sets.values())).systems)
    title = "Evaluation: " + " · ".join(systems)
    scores = {name: _scores_of(found) for name, found in report.sets.items()}
    sections = [element("h1", title), _scores({**scores, **report.shares})]
    sections += [_errors(name, found) for name, found in report.sets.items()]
    data = {
        "kinds": list(CHECKS),
        "systems": systems,
        "tests": [_page_data(name, found) for name, found in report.sets.items()],
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    fields = {
        "title": escape(title),
        "body": join(*sections, between="\n"),
        "data": escape_json(text),
    }
    template = resources.files("transformer_mt.evaluation") / "page.html"
    page = template.read_text(encoding="utf-8")
    # One pass, so that a field's text is never searched for fields.
    write_text(path, re.sub(r"\{\{(title|body|data)\}\}", lambda match: fields[match[1]], page))


def _page_data(name: str, report: SetReport) -> dict[str, Any]:
    """The sentences, as short as the page's script can still read them."""
    own = list(report.systems.values())
    kinds = list(CHECKS)
    sentences = []
    for i, (src, ref) in enumerate(zip(report.test.srcs, report.test.refs, strict=True)):
        hyps = [system.hyps[i] for system in own]
        sentences.append(
            {
                "src": src,
                "ref": ref,
                "hyps": hyps,
                "chrf": [system.chrf[i] for system in own],
                "errors": [
                    [[kinds.index(kind), detail] for kind, detail in system.errors[i].items()]
                    for system in own
                ],
                "marks": _marks(ref, hyps, report.test.tgt),
            }
        )
    codes = [_HTML_CODES.get(code, code) for code in (report.test.src, report.test.tgt)]
    return {"name": name, "codes": codes, "sentences": sentences}


def _marks(ref: str, hyps: list[str], language: str) -> list[list[list[int]]]:
    """What differs, as lengths of stretches: shared, not shared, shared …, in code points.

    Returns:
        For each system beside the baseline, the stretches of the baseline and its own; for a single
        system those of the reference and its own.
    """
    pairs = [(hyps[0], hyp) for hyp in hyps[1:]] or [(ref, hyps[0])]
    return [
        [list(map(len, side)) for side in mark_differences(first, second, language)]
        for first, second in pairs
    ]


def _scores_of(report: SetReport) -> SystemScores:
    return {name: system.scores for name, system in report.systems.items()}


def _scores(results: Mapping[str, SystemScores]) -> Html:
    """Every score; those of the same test set and metric below each other."""
    rows = []
    for test, systems in results.items():
        for metric in dict.fromkeys(name for scores in systems.values() for name in scores):
            for system, scores in systems.items():
                if metric in scores:
                    rows.append([test, scores[metric].name, system, *_score_cells(scores[metric])])
    heads = [
        "test set", "metric", "system", "score", "95 % interval", "difference", "p", "signature"
    ]  # fmt: skip
    note = (
        "Differences are to the first system. p: paired bootstrap, how often chance alone would "
        f"make a difference this large; bold below {_SIGNIFICANT:g}. With many systems some will "
        "be small by chance."
    )
    compared = any(len(systems) > 1 for systems in results.values())
    return join(
        element("h2", "Scores"),
        element("p", note, class_="muted") if compared else Html(),
        table(heads, rows, numbers=(3, 4, 5, 6)),
    )


def _score_cells(score: Score) -> list[str]:
    known = score.low is not None and score.high is not None
    cells = [f"{score.score:.2f}", f"{score.low:.2f} … {score.high:.2f}" if known else ""]
    if score.difference is None or score.p_value is None:
        cells += ["", ""]
    else:
        is_clear = score.p_value < _SIGNIFICANT
        shown = [f"{score.difference:+.2f}", f"{score.p_value:.3f}"]
        cells += [element("b", text) if is_clear else text for text in shown]
    return [*cells, element("code", score.signature)]


def _errors(name: str, report: SetReport) -> Html:
    """The error tables of a test set, systems side by side."""
    arrow = f"{language_name(report.test.src)} → {language_name(report.test.tgt)}"
    sections = [
        element("h2", f"Errors on {name}"),
        element("p", f"{arrow}, {len(report.test.refs):,} sentences", class_="muted"),
        _error_counts(report),
        _lengths(report),
        _frequencies(report),
    ]
    return element("section", *sections)


def _error_counts(report: SetReport) -> Html:
    tables = {name: system.tables for name, system in report.systems.items()}
    rows = []
    details = []
    for row, (kind, (_, meaning)) in enumerate(CHECKS.items()):
        counts = [own.errors[row] for own in tables.values()]
        cells = [f"{c.n:,} of {c.of:,} ({c.n / max(1, c.of):.1%})" for c in counts]
        rows.append([element("b", kind), meaning, *cells])
        examples = [
            [system, *_sentence(report, system, kind, i)]
            for system, own in tables.items()
            for i in own.errors[row].worst
        ]
        if examples:
            heads = ["system", "what", "source", "reference", "translation"]
            summary = element("summary", element("b", kind), ": the worst")
            details.append(element("details", summary, table(heads, examples, class_="pairs")))
    numbers = range(2, 2 + len(tables))
    counted = table(["kind", "what is counted", *tables], rows, numbers=numbers)
    return join(counted, *details)


def _sentence(report: SetReport, system: str, kind: str, i: int) -> list[str]:
    own = report.systems[system]
    texts = [own.errors[i][kind], report.test.srcs[i], report.test.refs[i], own.hyps[i]]
    return [
        text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…" for text in texts
    ]


def _lengths(report: SetReport) -> Html:
    """BLEU and chrF by the length of the source; the sentences are the same for all systems."""
    tables = [system.tables for system in report.systems.values()]
    rows = []
    for row, bucket in enumerate(tables[0].lengths):
        cells = [f"{b.bleu:.1f} / {b.chrf:.1f}" for b in (own.lengths[row] for own in tables)]
        rows.append([bucket.name, f"{bucket.n:,}", *cells])
    heads = [f"{tables[0].length_unit} of the source", "sentences"]
    heads += [f"BLEU / chrF: {name}" for name in report.systems]
    return join(element("h3", "By length"), table(heads, rows, numbers=range(1, 2 + len(tables))))


def _frequencies(report: SetReport) -> Html:
    """Recall by frequency; the words of the references are the same for all systems."""
    tables = [system.tables for system in report.systems.values()]
    rows = []
    for row, bucket in enumerate(tables[0].frequencies):
        found = [own.frequencies[row].found for own in tables]
        cells = [f"{n / bucket.n:.1%}" for n in found]
        missed = ", ".join(tables[0].frequencies[row].missed)
        rows.append([bucket.name, f"{bucket.n:,}", *cells, missed])
    units = "Characters" if is_unspaced(report.test.tgt) else "Words"
    heads = ["times seen", units.lower()]
    heads += [f"found by {name}" for name in report.systems]
    heads.append(f"most often missed by {next(iter(report.systems))}")
    return join(
        element("h3", "Rare words"),
        element("p", f"{units} of the references, counted in {tables[0].frequency_basis}; found: "
                "in the translation of the same sentence, in the same form.", class_="muted"),
        table(heads, rows, numbers=range(1, 2 + len(tables))),
    )  # fmt: skip
