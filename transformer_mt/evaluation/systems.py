"""Models and files of finished translations → translations and scores of every test set.

This file does not know how scores are computed or shown.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from transformer_mt.config.experiment import load_config
from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.errors import DataError, TmtError
from transformer_mt.evaluation.comet import check_python, score_comet
from transformer_mt.evaluation.contrast import ContrastItem, evaluate_contrast, read_contrast
from transformer_mt.evaluation.metrics import (
    DEFAULT_METRICS,
    Score,
    Scorer,
    SystemScores,
    scores_to_json,
)
from transformer_mt.evaluation.robustness import careless_variants, frequent_words, score_words
from transformer_mt.evaluation.system_names import System, name_systems
from transformer_mt.evaluation.test_sets import (
    EvaluationSet,
    count_seen,
    named_test_sets,
    run_test_sets,
)
from transformer_mt.messages.catalogue import tr
from transformer_mt.rendering.progress import Stages
from transformer_mt.search.beam_search import Hypothesis
from transformer_mt.search.engine import BATCH_TOKENS, Request, SearchEngine, batches_by_length
from transformer_mt.search.options import SearchOptions
from transformer_mt.system.terminal import Always, say
from transformer_mt.translation.direction import both_directions, direction_of
from transformer_mt.translation.result import Translation
from transformer_mt.translation.translator import Translator

N_SAMPLES = 1000  # of every bootstrap
Outputs = dict[str, dict[str, list[str]]]  # test set → system → translations


@dataclass(frozen=True)
class Evaluation:
    tests: list[EvaluationSet]  # in order; their names differ
    outputs: Outputs  # the baseline first
    scores: dict[str, SystemScores]  # by test set, its single words, or contrast file
    # By test set and model: how many translations have a fault (`any`), and which.
    faults: dict[str, dict[str, Counter[str]]]

    @property
    def systems(self) -> list[str]:
        return list(next(iter(self.outputs.values())))

    def to_json(self) -> dict[str, Any]:
        """{test set: {metric: …}} of a single system, {test set: {system: {metric: …}}} of more."""
        plain = scores_to_json(self.scores)
        if len(self.systems) > 1:
            return plain
        return {test: only for test, systems in plain.items() for only in systems.values()}

    def only_scores(self) -> dict[str, dict[str, Score]]:
        """The scores of a single system, by test set and metric."""
        return {test: only for test, systems in self.scores.items() for only in systems.values()}


class WatchedEngine:
    """An engine that tells of the requests it has searched for.

    The batches are those of the engine alone, so that not a bit of the results changes.
    """

    def __init__(self, engine: SearchEngine, stages: Stages) -> None:
        self._engine, self._stages = engine, stages

    def search(self, requests: Sequence[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        """See `Engine.search`."""
        most = getattr(self._engine, "batch_tokens", torch.get_num_threads() * BATCH_TOKENS)
        lengths = [len(request.src) + 1 for request in requests]
        found: dict[int, list[Hypothesis]] = {}
        for batch in batches_by_length(lengths, most // options.rows):
            hypotheses = self._engine.search([requests[i] for i in batch], options)
            found.update(zip(batch, hypotheses, strict=True))
            self._stages.advance(len(batch))
        return [found[i] for i in range(len(requests))]


def evaluate_models(
    model_dirs: Sequence[Path],
    texts: tuple[Sequence[str], Sequence[str]] | None,
    *,
    testset: str | None = None,
    metrics: Sequence[str] = DEFAULT_METRICS,
    to: str | None = None,
    beam: int | None = None,
) -> Evaluation:
    """See `transformer_mt.evaluate`; `texts` are sources and references."""
    languages = load_config(model_dirs[0] / "config.yaml").languages
    if texts is not None:
        srcs, refs = map(list, texts)
        if len(srcs) != len(refs) or not srcs:
            raise DataError(tr("{} sources but {} references", len(srcs), len(refs)))
        direction = direction_of(srcs[0], languages, to)
        tests = [EvaluationSet("texts", direction.tgt, srcs, refs, direction.src)]
    elif testset is not None:
        tests = named_test_sets(testset, languages, to, say)
    else:
        tests = run_test_sets(model_dirs[0], languages, to)
    systems = name_systems([(path, True) for path in model_dirs])
    return evaluate_systems(systems, tests, metrics, to=to, beam=beam)


def evaluate_systems(
    systems: Sequence[System],
    test_sets: Sequence[EvaluationSet],
    metrics: Sequence[str] = DEFAULT_METRICS,
    *,
    comet_python: Path | None = None,
    contrast_paths: Sequence[Path] = (),
    to: str | None = None,
    beam: int | None = None,
    precision: str = "auto",
    confidence: bool = False,
    robustness: bool = False,
    stages: Stages | None = None,
) -> Evaluation:
    """Translate with each model, one at a time, and score; compare others with the first.

    Args:
        comet_python: the interpreter of an environment with unbabel-comet: also COMET.
        contrast_paths: also the share of sources whose right translation wins, in direction `to`.
        beam: None: each model's own.
        precision: see `Translator.load`.
        confidence: a 95 % interval also for a single system; compared ones always have it.
        robustness: also the variants of each test set and its single words, see `robustness.py`.
        stages: told of the work as it goes on.
    Raises:
        TmtError: nothing to translate; a file that does not fit its test set; a contrast file
            that cannot be read, or no model to ask; a model that does not translate in the
            direction of a test set; see also `score_comet`.
    """
    _check_kinds(systems, contrast=bool(contrast_paths), robustness=robustness)
    stages = stages or Stages()
    contrasts = {str(path): read_contrast(path) for path in contrast_paths}
    variants = (v for test in test_sets for v in careless_variants(test)) if robustness else ()
    tests = [*test_sets, *variants]
    outputs = _read_outputs(systems, tests)  # mistakes are told before the work
    for test in tests:
        Scorer(test.tgt).check(metrics)
    if comet_python is not None:
        check_python(comet_python)
    _tell_seen(systems, test_sets, stages)
    faults: dict[str, dict[str, Counter[str]]] = {test.name: {} for test in tests}
    shares: dict[str, SystemScores] = defaultdict(dict)
    for system in (system for system in systems if system.is_model):
        stages.begin(tr("loading {}", system.path))
        translator = Translator.load(system.path, precision=precision)
        translator = translator.with_engine(WatchedEngine(translator.engine, stages))
        for test in tests:
            stages.begin(tr("translating {} by {}", test.name, system.name), len(test.srcs))
            found = _translate(translator, system, test, beam)
            outputs[test.name][system.name] = [translation.text for translation in found]
            faults[test.name][system.name] = _count_faults(found)
        own = _shares(translator, test_sets if robustness else (), contrasts, to, beam, stages)
        for name, share in own:
            shares[name][system.name] = share
    n_samples = N_SAMPLES if confidence or len(systems) > 1 else 0
    scores = {
        test.name: _score(test, outputs[test.name], metrics, comet_python, n_samples, stages)
        for test in tests
    }
    return Evaluation(tests, outputs, {**scores, **shares}, faults)


def _tell_seen(
    systems: Sequence[System], test_sets: Sequence[EvaluationSet], stages: Stages
) -> None:
    """A run holds test sets out of its own text, of which another run may have learned."""
    if len(systems) < 2:
        return
    for system in (system for system in systems if system.is_model):
        stages.begin(tr("looking for test sentences in the training text of {}", system.name))
        for test, n_seen in zip(test_sets, count_seen(system.path, test_sets), strict=True):
            if n_seen:
                text = tr(
                    "problem: {} has learned from {} of the {} sentences of {}: its scores there "
                    "are too high",
                    system.name,
                    n_seen,
                    len(test.refs),
                    test.name,
                )
                say(Always(text))


def _read_outputs(systems: Sequence[System], tests: Sequence[EvaluationSet]) -> Outputs:
    """Finished translations, and none of models."""
    return {
        test.name: {
            system.name: [] if system.is_model else _read_output(system, test, len(tests))
            for system in systems
        }
        for test in tests
    }


def _check_kinds(systems: Sequence[System], *, contrast: bool, robustness: bool) -> None:
    if contrast and not any(system.is_model for system in systems):
        raise TmtError(tr("--contrast needs a model: finished translations have no preferences"))
    if robustness and not all(system.is_model for system in systems):
        raise TmtError(tr("--robustness needs models: finished translations are of one text only"))


def _shares(
    translator: Translator,
    test_sets: Sequence[EvaluationSet],
    contrasts: Mapping[str, list[ContrastItem]],
    to: str | None,
    beam: int | None,
    stages: Stages,
) -> Iterator[tuple[str, dict[str, Score]]]:
    """Scores that are a share of trials: single words of test sets, and contrast files."""
    for test in test_sets:
        if words := frequent_words(test):
            stages.begin(tr("translating single words of {}", test.name), len(words))
            found = translator.translate(words, to=test.tgt, beam=beam)
            yield f"{test.name}.words", {"words": score_words(found, test.tgt)}
    for name, items in contrasts.items():
        stages.begin(tr("comparing the pairs of {}", name))
        yield name, {"contrast": evaluate_contrast(translator, items, to=to).score}


def _score(
    test: EvaluationSet,
    outputs: Mapping[str, Sequence[str]],
    metrics: Sequence[str],
    comet_python: Path | None,
    n_samples: int,
    stages: Stages,
) -> SystemScores:
    scorer = Scorer(test.tgt)
    scores: SystemScores = {name: {} for name in outputs}
    if n_samples:
        stages.begin(tr("resampling {} for the confidence", test.name), len(metrics))
        for metric in metrics:
            for name, found in scorer.compare(outputs, test.refs, [metric], n=n_samples).items():
                scores[name] |= found
            stages.advance()
    else:
        scores = {name: scorer.score(hyps, test.refs, metrics) for name, hyps in outputs.items()}
    if comet_python:
        stages.begin(tr("COMET on {}", test.name))
        for name, score in score_comet(comet_python, test, outputs).items():
            scores[name]["comet"] = score
    return scores


def _read_output(system: System, test: EvaluationSet, n_tests: int) -> list[str]:
    if n_tests != 1:
        raise DataError(
            tr(
                "{} belongs to one test set, but there are {}: name its own with --src "
                "and --ref, or --testset",
                system.path,
                n_tests,
            )
        )
    hyps = list(split_lines(system.path))
    if len(hyps) != len(test.refs):
        raise DataError(
            tr(
                "{} has {} lines, the references have {}: the files must be line-aligned",
                system.path,
                len(hyps),
                len(test.refs),
            )
        )
    return hyps


def _translate(
    translator: Translator, system: System, test: EvaluationSet, beam: int | None
) -> list[Translation]:
    own = [(known.src, known.tgt) for known in both_directions(translator.cfg.languages)]
    if (test.src, test.tgt) not in own:
        directions = tr(" and ").join(f"{src} → {tgt}" for src, tgt in own)
        raise TmtError(
            tr(
                "{} translates {}; the test set {} is {} → {}",
                system.path,
                directions,
                test.name,
                test.src or tr("without sources"),
                test.tgt,
            )
        )
    return translator.translate(test.srcs, to=test.tgt, beam=beam)


def _count_faults(translations: Sequence[Translation]) -> Counter[str]:
    counts = Counter(fault for translation in translations for fault in translation.faults)
    counts["any"] = sum(bool(translation.faults) for translation in translations)
    return counts
