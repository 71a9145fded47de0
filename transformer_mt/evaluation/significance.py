"""Several systems on the same references → scores, differences to a baseline, their significance.

Comes in: translations by system, the baseline first. Goes out: `Score`s with difference and
p-value, and the table of them. This file does not know the origin of the translations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from transformer_mt.errors import ConfigError, DataError
from transformer_mt.evaluation.metrics import Score, Scorer, check_aligned, score_name
from transformer_mt.rendering.cells import align_columns

SystemScores = dict[str, dict[str, Score]]  # system → metric → score


def compare_systems(
    scorer: Scorer,
    outputs: Mapping[str, Sequence[str]],
    refs: Sequence[str],
    metrics: Iterable[str] = ("bleu", "chrf"),
    *,
    n: int = 1000,
) -> SystemScores:
    """Score systems, and test each against the first by paired bootstrap.

    All systems are resampled with the same sentences, so their intervals agree with each other. The
    p-values hold for single comparisons: with many systems, some will be small by chance. The
    seed is sacreBLEU's: 12345, or the environment variable SACREBLEU_SEED.

    Source: Koehn 2004; sacreBLEU's `PairedTest`.
    Args:
        outputs: translations by name of the system; the first is the baseline.
        n: bootstrap samples; the smallest possible p-value is 1 / (n + 1).
    Returns:
        For each system and metric the score with its interval, and for all but the baseline
        difference and p-value.
    Raises:
        DataError: fewer than two systems, unequal counts, or nothing to score.
        ConfigError: unknown metric, or `n` below 1.
    """
    if len(outputs) < 2:
        raise DataError(f"a comparison needs at least two systems, found {len(outputs)}")
    if n < 1:
        raise ConfigError(f"a paired bootstrap test needs at least 1 sample, found {n}")
    for hyps in outputs.values():
        check_aligned(hyps, refs)
    scores: SystemScores = {system: {} for system in outputs}
    for metric in metrics:
        for system, score in _compare(scorer, outputs, refs, metric, n).items():
            scores[system][metric] = score
    return scores


def _compare(
    scorer: Scorer, outputs: Mapping[str, Sequence[str]], refs: Sequence[str], metric: str, n: int
) -> dict[str, Score]:
    from sacrebleu.significance import PairedTest

    systems: list[tuple[str, Sequence[str]]] = [
        (name, list(hyps)) for name, hyps in outputs.items()
    ]
    measures = {metric: scorer.metric(metric)}
    test = PairedTest(systems, measures, [list(refs)], test_type="bs", n_samples=n)
    signatures, columns = test()
    ((name, signature),) = signatures.items()
    results: list[Any] = columns[name]
    baseline = results[0]
    found = {}
    for (system, hyps), result in zip(systems, results, strict=True):
        interval = float(result.mean - result.ci), float(result.mean + result.ci)
        score = Score(score_name(metric, name), float(result.score), str(signature), *interval)
        if result is not baseline:
            # sacreBLEU gives systems without any difference its smallest p-value, because no
            # sample differs more than 0.
            same = hyps == systems[0][1] or _values(result) == _values(baseline)
            difference = float(result.score - baseline.score)
            score = replace(score, difference=difference, p_value=1.0 if same else result.p_value)
        found[system] = score
    return found


def _values(result: Any) -> tuple[float, float, float]:
    return result.score, result.mean, result.ci


def score_rows(results: Mapping[str, SystemScores]) -> Iterator[tuple[str, str, Score]]:
    """Test set, system and score, systems of the same test set and metric below each other."""
    for test, systems in results.items():
        for metric in dict.fromkeys(name for scores in systems.values() for name in scores):
            for system, scores in systems.items():
                if metric in scores:
                    yield test, system, scores[metric]


def format_comparison(results: Mapping[str, SystemScores]) -> str:
    """Lay {test set: {system: {metric: Score}}} out for a terminal, systems below each other.

    Scores of the same test set and metric are compared with the first of them.
    """
    rows = [["test set", "metric", "system", "score", "95 % interval", "difference", "p", ""]]
    signatures: dict[str, None] = {}
    for test, system, score in score_rows(results):
        cells = [test, score.name, system, f"{score.score:.2f}", score.interval or "–"]
        if score.difference is None or score.p_value is None:
            cells += ["", "", ""]
        else:
            star = "*" if score.is_significant else ""
            cells += [f"{score.difference:+.2f}", f"{score.p_value:.3f}", star]
        rows.append(cells)
        signatures[f"{score.name}: {score.signature}"] = None
    return "\n".join([align_columns(rows, numbers=(3, 5, 6)), "", *signatures])
