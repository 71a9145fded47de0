"""Several systems on the same references → scores, differences to a baseline, their significance.

Comes in: translations by system, the baseline first. Goes out: `Score`s with difference and
p-value, and the table of them. This file does not know where the translations are from.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from transformer_mt.errors import ConfigError, DataError
from transformer_mt.evaluation.metrics import (
    Score,
    Scorer,
    align_columns,
    check_aligned,
    score_name,
)

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
    p-values are those of single comparisons: with many systems, some will be small by chance. The
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


def format_comparison(results: Mapping[str, Mapping[str, Mapping[str, Score]]]) -> str:
    """Lay {test set: {system: {metric: Score}}} out for a terminal, systems below each other.

    What stands below the same test set and metric is compared with the first system there.
    """
    heads = ["test set", "metric", "system", "score", "95 % interval", "difference", "p", ""]
    rows = [heads]
    for test, systems in results.items():
        for metric in dict.fromkeys(name for scores in systems.values() for name in scores):
            for system, scores in systems.items():
                if metric in scores:
                    rows.append([test, scores[metric].name, system, *_cells(scores[metric])])
    table = align_columns(rows, numbers=(3, 5, 6))
    signatures = dict.fromkeys(
        f"{score.name}: {score.signature}"
        for systems in results.values()
        for scores in systems.values()
        for score in scores.values()
    )
    return "\n".join([table, "", *signatures])


def _cells(score: Score) -> list[str]:
    """Score, interval, difference, p-value, and a star where chance is unlikely."""
    known = score.low is not None and score.high is not None
    cells = [f"{score.score:.2f}", f"{score.low:.2f} … {score.high:.2f}" if known else "–"]
    if score.difference is None or score.p_value is None:
        return [*cells, "", "", ""]
    star = "*" if score.p_value < 0.05 else ""
    return [*cells, f"{score.difference:+.2f}", f"{score.p_value:.3f}", star]
