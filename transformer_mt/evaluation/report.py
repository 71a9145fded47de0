"""An evaluation → the content of its report: error tables, and every sentence with its errors.

Comes in: an `Evaluation`. Goes out: an `EvaluationReport`, which is also plain values. The errors
are defined in `error_checks.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_mt.evaluation.error_checks import Case, CheckResult, check_sentences
from transformer_mt.evaluation.error_tables import (
    ErrorTables,
    count_errors,
    recall_by_frequency,
    score_by_length,
    word_frequencies,
)
from transformer_mt.evaluation.metrics import Score, Scorer, scores_to_json
from transformer_mt.evaluation.significance import SystemScores
from transformer_mt.evaluation.systems import Evaluation
from transformer_mt.evaluation.test_sets import EvaluationSet
from transformer_mt.text.languages import is_unspaced


@dataclass(frozen=True)
class SystemReport:
    """One system on one test set.

    Attributes:
        chrf: of each sentence.
        errors: of each sentence, by kind: the error in words.
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
            "systems": {
                name: {"scores": scores_to_json(own.scores), **own.tables.to_json()}
                for name, own in self.systems.items()
            },
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
    counts, basis = word_frequencies(test.refs, training.get(test.tgt), test.tgt)
    scorer = Scorer(test.tgt)
    systems = {}
    for name, hyps in evaluation.outputs[test.name].items():
        texts = zip(test.srcs, test.refs, hyps, strict=True)
        results = check_sentences([Case(*own, test.src, test.tgt) for own in texts])
        tables = ErrorTables(
            count_errors(results),
            score_by_length(test.srcs, hyps, test.refs, test.src, scorer),
            "characters" if is_unspaced(test.src) else "words",
            recall_by_frequency(hyps, test.refs, counts, test.tgt),
            basis,
        )
        scores = evaluation.scores[test.name][name]
        chrf = [round(score, 2) for score in scorer.sentence_chrf(hyps, test.refs)]
        systems[name] = SystemReport(hyps, scores, chrf, _by_sentence(results, len(hyps)), tables)
    return SetReport(test, systems)


def _by_sentence(results: Mapping[str, Mapping[int, CheckResult]], n: int) -> list[dict[str, str]]:
    errors: list[dict[str, str]] = [{} for _ in range(n)]
    for kind, found in results.items():
        for i, result in found.items():
            if result.severity > 0:
                errors[i][kind] = result.detail
    return errors
