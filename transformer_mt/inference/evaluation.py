"""Scores of a model or of finished translations, and what a model directory says of itself.

Comes in: paths. Goes out: scores by test set and metric, plain values. Knows nothing of training.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_mt.config import load_config
from transformer_mt.config_data import Languages
from transformer_mt.data.cleaning.clean import read_clean, test_names
from transformer_mt.data.formats.corpus import split_lines
from transformer_mt.errors import DataError
from transformer_mt.inference.direction import (
    both_directions,
    direction_of,
    direction_of_file,
)
from transformer_mt.inference.metrics import Score, Scorer
from transformer_mt.inference.translator import Translator
from transformer_mt.languages import canonical_code, language_name
from transformer_mt.model_dir import load_tokenizers, read_metadata

Scores = dict[str, dict[str, Score]]  # test set → metric → score


@dataclass(frozen=True)
class EvaluationSet:
    name: str
    tgt: str  # the language to translate into
    srcs: list[str]
    refs: list[str]


def read_test_sets(clean_dir: Path, languages: Languages) -> Iterator[EvaluationSet]:
    """The test sets of a clean corpus; with both directions each of them in both.

    Then `NAME` becomes `NAME.zh-en` and `NAME.en-zh`.
    """
    for name in test_names(clean_dir):
        yield from _in_directions(name, read_clean(clean_dir, f"test.{name}"), languages)


def read_dev_sets(clean_dir: Path, languages: Languages) -> list[EvaluationSet]:
    """The dev set, once for each direction."""
    return list(_in_directions("dev", read_clean(clean_dir, "dev"), languages))


def _in_directions(
    name: str, texts: tuple[list[str], list[str]], languages: Languages
) -> Iterator[EvaluationSet]:
    for direction in both_directions(languages):
        srcs, refs = texts if direction.src == languages.src else texts[::-1]
        full_name = f"{name}.{direction.pair}" if languages.bidirectional else name
        yield EvaluationSet(full_name, direction.tgt, srcs, refs)


def evaluate_model(
    model_dir: Path,
    src_path: Path | None,
    ref_path: Path | None,
    metrics: Sequence[str],
    *,
    to: str | None = None,
    beam: int | None = None,
    confidence: int = 0,
) -> Scores:
    """Translate and score.

    Args:
        src_path, ref_path: a test set; None: the test sets of the run that holds the model.
        to: only into this language; None: every direction of the model. A model of both directions
            needs it for a test set of files.
        confidence: bootstrap samples for a 95 % interval; 0: no interval.
    Raises:
        DataError: no test set, or one that is not line-aligned.
        TmtError: see `direction_of`.
    """
    if (src_path is None) != (ref_path is None):
        raise DataError("--src and --ref go together")
    languages = load_config(model_dir / "config.yaml").languages
    wanted = None if to is None else direction_of("", languages, to).tgt
    if src_path is not None and ref_path is not None:
        tgt = direction_of_file(src_path, languages, to).tgt
        test_sets = [EvaluationSet(src_path.name, tgt, *_read_test(src_path, ref_path))]
    else:
        test_sets = _test_sets_of_run(model_dir, languages)
    translator = Translator.load(model_dir)
    results = {}
    for test in test_sets:
        if wanted in (None, test.tgt):
            found = translator.translate(test.srcs, to=test.tgt, beam=beam)
            hyps = [translation.text for translation in found]
            results[test.name] = Scorer(test.tgt).score(
                hyps, test.refs, tuple(metrics), confidence=confidence
            )
    return results


def evaluate_translations(
    hyp_path: Path, ref_path: Path, language: str, metrics: Sequence[str], confidence: int
) -> Scores:
    """Score a file of translations against references."""
    hyps, refs = _read_test(hyp_path, ref_path)
    scorer = Scorer(canonical_code(language))
    return {hyp_path.name: scorer.score(hyps, refs, tuple(metrics), confidence=confidence)}


def describe_model(model_dir: Path) -> dict[str, Any]:
    """Languages, sizes, training and scores of a model directory, as plain values."""
    from safetensors import safe_open

    metadata = read_metadata(model_dir)
    cfg = load_config(model_dir / "config.yaml")
    with safe_open(model_dir / "model.safetensors", framework="numpy") as weights:
        names: list[str] = list(weights.keys())
        shapes = [weights.get_slice(name).get_shape() for name in names]
    n_parameters = sum(math.prod(shape) for shape in shapes)
    languages = cfg.languages
    arrow = "↔" if languages.bidirectional else "→"
    tokenizer, _ = load_tokenizers(model_dir, joint=cfg.tokenizer.joint)
    return {
        "model": str(model_dir),
        "name": cfg.name,
        "languages": f"{language_name(languages.src)} {arrow} {language_name(languages.tgt)}",
        "parameters": n_parameters,
        "architecture": cfg.model.model_dump(),
        "tokenizer": cfg.tokenizer.model_dump(),
        "tags": tokenizer.tags,
        **{key: metadata[key] for key in ("trained", "data", "decode", "scores", "versions")},
    }


def _read_test(src_path: Path, ref_path: Path) -> tuple[list[str], list[str]]:
    srcs, refs = list(split_lines(src_path)), list(split_lines(ref_path))
    if len(srcs) != len(refs):
        raise DataError(
            f"{src_path} has {len(srcs)} lines but {ref_path} has {len(refs)}: "
            "the files must be line-aligned"
        )
    return srcs, refs


def _test_sets_of_run(model_dir: Path, languages: Languages) -> list[EvaluationSet]:
    clean_dir = model_dir.parent / "data" / "clean"
    found = list(read_test_sets(clean_dir, languages)) if clean_dir.is_dir() else []
    if not found:
        raise DataError(
            f"{model_dir} does not lie in a run directory with test sets; give --src and --ref"
        )
    return found
