"""An evaluation → all that its report says: error tables, and every sentence with its errors.

Comes in: an `Evaluation`. Goes out: an `EvaluationReport`, which is also plain values. This file
does not know what an error is, see `error_checks.py`, nor any page.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_mt.evaluation.error_checks import Case, Finding, check_sentences
from transformer_mt.evaluation.error_tables import (
    ErrorTables,
    count_errors,
    recall_by_frequency,
    score_by_length,
    word_frequencies,
)
from transformer_mt.evaluation.metrics import Score, Scorer
from transformer_mt.evaluation.significance import SystemScores
from transformer_mt.evaluation.systems import Evaluation
from transformer_mt.evaluation.test_sets import EvaluationSet
from transformer_mt.text.languages import is_unspaced


@dataclass(frozen=True)
class SystemReport:
    """One system on one test set.

    Attributes:
        chrf: of each sentence.
        errors: for each sentence, what is wrong with it, by kind of error.
    """

    hyps: list[str]
    scores: dict[str, Score]
    chrf: list[float]
    errors: list[dict[str, str]]
    tables: ErrorTables


@dataclass(frozen=True)
class SetReport:
    """All systems on one test set, the baseline first."""

    test: EvaluationSet
    systems: dict[str, SystemReport]

    def to_json(self) -> dict[str, Any]:
        return {
            "languages": {"src": self.test.src, "tgt": self.test.tgt},
            "systems": {name: self._system_to_json(name) for name in self.systems},
            "sentences": [
                {
                    "src": src,
                    "ref": ref,
                    "systems": {
                        name: {"text": own.hyps[i], "chrf": own.chrf[i], "errors": own.errors[i]}
                        for name, own in self.systems.items()
                    },
                }
                for i, (src, ref) in enumerate(zip(self.test.srcs, self.test.refs, strict=True))
            ],
        }

    def _system_to_json(self, name: str) -> dict[str, Any]:
        own = self.systems[name]
        scores = {metric: score.to_json() for metric, score in own.scores.items()}
        return {"scores": scores, **own.tables.to_json()}


@dataclass(frozen=True)
class EvaluationReport:
    """Attributes:
    sets: by test set.
    shares: by contrast file or set of single words, then system.
    """

    sets: dict[str, SetReport]
    shares: dict[str, SystemScores]

    def to_json(self) -> dict[str, Any]:
        return {
            "tests": {name: report.to_json() for name, report in self.sets.items()},
            **{kind: self._shares(kind) for kind in ("contrast", "words")},
        }

    def _shares(self, kind: str) -> dict[str, Any]:
        return {
            name: {system: scores[kind].to_json() for system, scores in systems.items()}
            for name, systems in self.shares.items()
            if all(kind in scores for scores in systems.values())
        }


def describe_evaluation(
    evaluation: Evaluation, training: Mapping[str, Path | None]
) -> EvaluationReport:
    """Look at every sentence of every test set.

    Args:
        training: training text by target language, if there is any, to count words in.
    """
    sets = {test.name: _describe(evaluation, test, training) for test in evaluation.tests}
    others = {name: found for name, found in evaluation.scores.items() if name not in sets}
    return EvaluationReport(sets, others)


def _describe(
    evaluation: Evaluation, test: EvaluationSet, training: Mapping[str, Path | None]
) -> SetReport:
    frequencies = word_frequencies(test.refs, training.get(test.tgt), test.tgt)
    systems = {}
    for name, hyps in evaluation.outputs[test.name].items():
        findings = check_sentences(
            [
                Case(src, ref, hyp, test.src, test.tgt)
                for src, ref, hyp in zip(test.srcs, test.refs, hyps, strict=True)
            ]
        )
        systems[name] = SystemReport(
            hyps,
            evaluation.scores[test.name][name],
            [round(score, 2) for score in Scorer(test.tgt).sentence_chrf(hyps, test.refs)],
            _by_sentence(findings, len(hyps)),
            _tables(test, hyps, findings, frequencies),
        )
    return SetReport(test, systems)


def _tables(
    test: EvaluationSet,
    hyps: list[str],
    findings: Mapping[str, Mapping[int, Finding]],
    frequencies: tuple[Counter[str], str],
) -> ErrorTables:
    counts, basis = frequencies
    return ErrorTables(
        count_errors(findings),
        score_by_length(test.srcs, hyps, test.refs, test.src, Scorer(test.tgt)),
        "characters" if is_unspaced(test.src) else "words",
        recall_by_frequency(hyps, test.refs, counts, test.tgt),
        basis,
    )


def _by_sentence(findings: Mapping[str, Mapping[int, Finding]], n: int) -> list[dict[str, str]]:
    errors: list[dict[str, str]] = [{} for _ in range(n)]
    for kind, found in findings.items():
        for i, finding in found.items():
            if finding.severity > 0:
                errors[i][kind] = finding.detail
    return errors
