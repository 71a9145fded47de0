"""Score models by their paths, as Python programs ask for it.

Comes in: models, and a test set as texts, by name, or none. Goes out: an `Evaluation`. This file
knows neither how models translate nor how scores are computed.
"""

from collections.abc import Sequence
from pathlib import Path

from transformer_mt.config.experiment import load_config
from transformer_mt.errors import DataError
from transformer_mt.evaluation.systems import (
    Evaluation,
    EvaluationRequest,
    evaluate_systems,
    name_systems,
)
from transformer_mt.evaluation.test_sets import EvaluationSet, named_test_sets, run_test_sets
from transformer_mt.system.terminal import say
from transformer_mt.translation.direction import direction_of


def evaluate_models(
    model_dirs: Sequence[Path],
    texts: tuple[Sequence[str], Sequence[str]] | None,
    *,
    testset: str | None = None,
    metrics: Sequence[str] = ("bleu", "chrf"),
    to: str | None = None,
    beam: int | None = None,
) -> Evaluation:
    """See `transformer_mt.evaluate`; `texts` are sources and references."""
    languages = load_config(model_dirs[0] / "config.yaml").languages
    if texts is not None:
        srcs, refs = map(list, texts)
        if len(srcs) != len(refs) or not srcs:
            raise DataError(f"{len(srcs)} sources but {len(refs)} references")
        direction = direction_of(srcs[0], languages, to)
        tests = [EvaluationSet("texts", direction.tgt, srcs, refs, direction.src)]
    elif testset is not None:
        tests = named_test_sets(testset, languages, to, say)
    else:
        tests = run_test_sets(model_dirs[0], languages, to)
    systems = name_systems([(path, True) for path in model_dirs])
    return evaluate_systems(EvaluationRequest(systems, tests, metrics, to=to, beam=beam))
