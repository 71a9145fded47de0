"""An evaluation → report.json with error tables and every sentence, and the same as a page.

The errors are defined in `error_checks.py`; words and look of the page are in `page.html.j2`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformer_mt.evaluation.error_checks import CHECKS, Case, check_sentences
from transformer_mt.evaluation.error_tables import (
    count_errors,
    recall_by_frequency,
    score_by_length,
    word_frequencies,
)
from transformer_mt.evaluation.metrics import SIGNIFICANT, Scorer, score_rows
from transformer_mt.evaluation.systems import Evaluation
from transformer_mt.evaluation.test_sets import EvaluationSet
from transformer_mt.messages.catalogue import tr
from transformer_mt.rendering.pages import write_html
from transformer_mt.text.languages import is_unspaced, language_name
from transformer_mt.text.words import mark_differences

_HTML_CODES = {"zh": "zh-Hans"}
_SHOWN_CHARACTERS = 300  # of a worst sentence


def describe_evaluation(
    evaluation: Evaluation, training: Mapping[str, Path | None]
) -> dict[str, Any]:
    """Look at every sentence of every test set.

    Args:
        training: training text by target language, if there is any, to count words in.
    """
    return {
        "tests": {test.name: _describe(evaluation, test, training) for test in evaluation.tests},
        **{kind: _shares(evaluation, kind) for kind in ("contrast", "words")},
    }


def _shares(evaluation: Evaluation, kind: str) -> dict[str, Any]:
    return {
        name: {system: scores[kind].to_json() for system, scores in systems.items()}
        for name, systems in evaluation.scores.items()
        if all(kind in scores for scores in systems.values())
    }


def _describe(
    evaluation: Evaluation, test: EvaluationSet, training: Mapping[str, Path | None]
) -> dict[str, Any]:
    """One test set: tables by system, and its sentences."""
    counts, basis = word_frequencies(test.refs, training.get(test.tgt), test.tgt)
    scorer = Scorer(test.tgt)
    sentences: list[dict[str, Any]] = [
        {"src": src, "ref": ref, "systems": {}}
        for src, ref in zip(test.srcs, test.refs, strict=True)
    ]
    systems = {}
    for name, hyps in evaluation.outputs[test.name].items():
        texts = zip(test.srcs, test.refs, hyps, strict=True)
        results = check_sentences([Case(*own, test.src, test.tgt) for own in texts])
        scores = evaluation.scores[test.name][name]
        systems[name] = {
            "scores": {metric: score.to_json() for metric, score in scores.items()},
            "errors": count_errors(results),
            "lengths": score_by_length(test.srcs, hyps, test.refs, test.src, scorer),
            "length_unit": "characters" if is_unspaced(test.src) else "words",
            "frequencies": recall_by_frequency(hyps, test.refs, counts, test.tgt),
            "frequency_basis": basis,
        }
        for i, chrf in enumerate(scorer.sentence_chrf(hyps, test.refs)):
            verdicts = {kind: found[i] for kind, found in results.items() if i in found}
            errors = {kind: own.detail for kind, own in verdicts.items() if own.severity > 0}
            own = {"text": hyps[i], "chrf": round(chrf, 2), "errors": errors}
            sentences[i]["systems"][name] = own
    languages = {"src": test.src, "tgt": test.tgt}
    return {"languages": languages, "systems": systems, "sentences": sentences}


def write_evaluation_page(report: Mapping[str, Any], evaluation: Evaluation, path: Path) -> None:
    """Write the page of what `describe_evaluation` found, whole or not at all."""
    systems, tests = evaluation.systems, report["tests"]
    write_html(
        Path(__file__).with_name("page.html.j2"),
        path,
        title=_title(evaluation),
        sets=tests,
        scores=list(score_rows(evaluation.scores)),
        several=len(systems) > 1,
        significant=SIGNIFICANT,
        worst_sentences=_worst_sentences,
        is_unspaced=is_unspaced,
        language_name=language_name,
        data={
            "kinds": list(CHECKS),
            "systems": systems,
            "tests": [_script_data(name, found) for name, found in tests.items()],
        },
    )


def _title(evaluation: Evaluation) -> str:
    """`Evaluation: a 33.51 · b 34.51 BLEU on demo`, by the first metric of the first test set."""
    test = evaluation.tests[0].name
    first = {name: next(iter(own.values())) for name, own in evaluation.scores[test].items()}
    scores = " · ".join(f"{name} {score.score:.2f}" for name, score in first.items())
    return tr("Evaluation: {} {} on {}", scores, next(iter(first.values())).name, test)


def _worst_sentences(found: Mapping[str, Any]) -> dict[str, list[list[str]]]:
    """By kind of error: system, detail, source, reference and translation of the worst."""
    worst: dict[str, list[list[str]]] = {kind: [] for kind in CHECKS}
    for name, tables in found["systems"].items():
        for error in tables["errors"]:
            for i in error["worst"]:
                sentence, kind = found["sentences"][i], error["kind"]
                own = sentence["systems"][name]
                texts = [own["errors"][kind], sentence["src"], sentence["ref"], own["text"]]
                worst[kind].append([name, *map(_cut, texts)])
    return worst


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _script_data(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """The sentences of a test set, as short as the page's script can still read them."""
    kinds, codes = list(CHECKS), list(found["languages"].values())
    sentences = []
    for sentence in found["sentences"]:
        src, ref, own = sentence["src"], sentence["ref"], list(sentence["systems"].values())
        hyps, chrf = ([system[key] for system in own] for key in ("text", "chrf"))
        errors = [
            [[kinds.index(kind), detail] for kind, detail in system["errors"].items()]
            for system in own
        ]
        marks = _marks(ref, hyps, codes[1])
        sentences.append(
            {"src": src, "ref": ref, "hyps": hyps, "chrf": chrf, "errors": errors, "marks": marks}
        )
    shown_codes = [_HTML_CODES.get(code, code) for code in codes]
    return {"name": name, "codes": shown_codes, "sentences": sentences}


def _marks(ref: str, hyps: list[str], language: str) -> list[list[list[int]]]:
    """Differences as lengths of stretches: shared, not shared, shared …, in code points.

    Of each system beside the baseline, and of the baseline; or of the reference and the system.
    """
    pairs = [(hyps[0], hyp) for hyp in hyps[1:]] or [(ref, hyps[0])]
    return [
        [list(map(len, side)) for side in mark_differences(first, second, language)]
        for first, second in pairs
    ]
