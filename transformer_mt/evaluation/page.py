"""The report of an evaluation as one HTML page that needs no network and no other file.

Comes in: an `EvaluationReport`. Goes out: the page. This file computes the values that
the report lacks; words and look are in `page.html.j2`.
"""

from pathlib import Path
from typing import Any

from transformer_mt.evaluation.error_checks import CHECKS
from transformer_mt.evaluation.metrics import SIGNIFICANT
from transformer_mt.evaluation.report import EvaluationReport, SetReport
from transformer_mt.evaluation.significance import score_rows
from transformer_mt.rendering.pages import write_html
from transformer_mt.text.languages import is_unspaced, language_name
from transformer_mt.text.words import mark_differences

_HTML_CODES = {"zh": "zh-Hans"}
_SHOWN_CHARACTERS = 300  # of a worst sentence


def write_evaluation_page(report: EvaluationReport, path: Path) -> None:
    """Write the page, whole or not at all."""
    systems = list(next(iter(report.sets.values())).systems)
    scores = {
        name: {system: own.scores for system, own in found.systems.items()}
        for name, found in report.sets.items()
    } | report.shares
    write_html(
        Path(__file__).with_name("page.html.j2"),
        path,
        title="Evaluation: " + " · ".join(systems),
        sets=report.sets,
        scores=list(score_rows(scores)),
        several=any(len(compared) > 1 for compared in scores.values()),
        significant=SIGNIFICANT,
        worst_sentences=_worst_sentences,
        is_unspaced=is_unspaced,
        language_name=language_name,
        data={
            "kinds": list(CHECKS),
            "systems": systems,
            "tests": [_script_data(name, found) for name, found in report.sets.items()],
        },
    )


def _worst_sentences(report: SetReport) -> dict[str, list[list[str]]]:
    """By kind of error: system, detail, source, reference and translation of the worst."""
    worst: dict[str, list[list[str]]] = {kind: [] for kind in CHECKS}
    for name, own in report.systems.items():
        for error in own.tables.errors:
            for i in error.worst:
                texts = [own.errors[i][error.kind], report.test.srcs[i], report.test.refs[i],
                         own.hyps[i]]  # fmt: skip
                worst[error.kind].append([name, *map(_cut, texts)])
    return worst


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _script_data(name: str, report: SetReport) -> dict[str, Any]:
    """The sentences of a test set, as short as the page's script can still read them."""
    own, kinds = list(report.systems.values()), list(CHECKS)
    sentences = []
    for i, (src, ref) in enumerate(zip(report.test.srcs, report.test.refs, strict=True)):
        hyps = [system.hyps[i] for system in own]
        errors = [
            [[kinds.index(kind), detail] for kind, detail in system.errors[i].items()]
            for system in own
        ]
        marks = _marks(ref, hyps, report.test.tgt)
        chrf = [system.chrf[i] for system in own]
        sentences.append(
            {"src": src, "ref": ref, "hyps": hyps, "chrf": chrf, "errors": errors, "marks": marks}
        )
    codes = [_HTML_CODES.get(code, code) for code in (report.test.src, report.test.tgt)]
    return {"name": name, "codes": codes, "sentences": sentences}


def _marks(ref: str, hyps: list[str], language: str) -> list[list[list[int]]]:
    """Differences as lengths of stretches: shared, not shared, shared …, in code points.

    Returns:
        For each system beside the baseline, the stretches of the baseline and its own; for a single
        system the stretches of the reference and its own.
    """
    pairs = [(hyps[0], hyp) for hyp in hyps[1:]] or [(ref, hyps[0])]
    return [
        [list(map(len, side)) for side in mark_differences(first, second, language)]
        for first, second in pairs
    ]
