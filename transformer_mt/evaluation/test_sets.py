"""Test sets from runs, files and names; and the facts of a model directory.

This file knows nothing of training, nor of systems, see `systems.py`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_mt.config.data import Languages, Source
from transformer_mt.config.experiment import load_config
from transformer_mt.corpus.clean import read_clean, test_names
from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.corpus.sources.cache import Cache, default_cache
from transformer_mt.corpus.sources.sacrebleu_sets import obtain_test_set
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.model_dir import DISTILLED, load_tokenizers, read_metadata
from transformer_mt.system.terminal import Say
from transformer_mt.text.languages import language_name
from transformer_mt.translation.direction import both_directions, direction_of, direction_of_file


@dataclass(frozen=True)
class EvaluationSet:
    name: str
    tgt: str  # the language to translate into
    srcs: list[str]
    refs: list[str]
    src: str = ""  # the language to translate from; "" where only references are known


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
        yield EvaluationSet(
            _full_name(name, direction, languages), direction.tgt, srcs, refs, direction.src
        )


def _full_name(name: str, direction: Languages, languages: Languages) -> str:
    return f"{name}.{direction.pair}" if languages.bidirectional else name


def files_test_set(
    src_path: Path, ref_path: Path, languages: Languages, to: str | None = None
) -> EvaluationSet:
    """Two line-aligned files, sources and references; `to` as for `direction_of_file`.

    Raises:
        DataError: missing, or not line-aligned.
    """
    direction = direction_of_file(src_path, languages, to)
    srcs, refs = _read_test(src_path, ref_path)
    return EvaluationSet(src_path.name, direction.tgt, srcs, refs, direction.src)


def references_only(ref_path: Path, tgt: str, name: str) -> EvaluationSet:
    """References without their sources, which is enough to score finished translations."""
    refs = list(split_lines(ref_path))
    return EvaluationSet(name, tgt, [""] * len(refs), refs)


def run_test_sets(
    model_dir: Path, languages: Languages, to: str | None = None
) -> list[EvaluationSet]:
    """The test sets of the run that holds a model, in every direction, or only into `to`.

    Raises:
        DataError: the model does not lie in a run with test sets.
    """
    wanted = None if to is None else direction_of("", languages, to).tgt
    clean_dir = model_dir.parent / "data" / "clean"
    found = list(read_test_sets(clean_dir, languages)) if clean_dir.is_dir() else []
    if not found:
        raise DataError(
            tr("{} does not lie in a run directory with test sets; give --src and --ref", model_dir)
        )
    return [test for test in found if wanted in (None, test.tgt)]


def named_test_sets(
    name: str, languages: Languages, to: str | None, say: Say
) -> list[EvaluationSet]:
    """A test set that sacreBLEU knows, fetched if it is not cached; directions as above.

    Args:
        name: as `sacrebleu --list` writes it: `wmt17`.
    Raises:
        DataError: unknown, not for these languages, or not to be had.
    """
    found = []
    for direction in [direction_of("", languages, to)] if to else both_directions(languages):
        order = direction.model_copy(update={"bidirectional": False})
        source = Source(sacrebleu=name)
        obtained = obtain_test_set(source, order, Cache(default_cache(), say=say)).source
        assert obtained.files is not None
        srcs, refs = _read_test(*map(Path, obtained.files))
        full_name = _full_name(name, direction, languages)
        found.append(EvaluationSet(full_name, direction.tgt, srcs, refs, direction.src))
    return found


def training_text(model_dir: Path, tgt: str) -> Path | None:
    """The clean training text in a language, if the model lies in a run that still has it."""
    languages = load_config(model_dir / "config.yaml").languages
    side = "tgt" if tgt == languages.tgt else "src"
    path = model_dir.parent / "data" / "clean" / f"train.{side}"
    return path if path.is_file() else None


def count_seen(model_dir: Path, tests: Sequence[EvaluationSet]) -> list[int]:
    """Pairs of test sets that the model was trained on; 0 where its run keeps no clean text."""
    languages = load_config(model_dir / "config.yaml").languages
    paths = [model_dir.parent / "data" / "clean" / f"train.{side}" for side in ("src", "tgt")]
    if not all(path.is_file() for path in paths):
        return [0] * len(tests)
    pairs = []
    for test in tests:
        sides = (test.srcs, test.refs) if test.tgt == languages.tgt else (test.refs, test.srcs)
        pairs.append(set(zip(*sides, strict=True)))
    asked = set().union(*pairs)
    seen = asked.intersection(zip(*map(split_lines, paths), strict=True))
    return [len(one & seen) for one in pairs]


def describe_model(model_dir: Path) -> dict[str, Any]:
    """Languages, sizes, training and scores of a model directory, as plain values."""
    from safetensors import safe_open

    metadata = read_metadata(model_dir)
    cfg = load_config(model_dir / "config.yaml")
    with safe_open(model_dir / "model.safetensors", framework="numpy") as weights:
        names: list[str] = list(weights.keys())
        n_parameters = sum(math.prod(weights.get_slice(name).get_shape()) for name in names)
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
        **{
            key: metadata.get(key, {})
            for key in ("trained", "data", "decode", "scores", "versions")
        },
        **({DISTILLED: metadata[DISTILLED]} if DISTILLED in metadata else {}),
    }


def _read_test(src_path: Path, ref_path: Path) -> tuple[list[str], list[str]]:
    srcs, refs = list(split_lines(src_path)), list(split_lines(ref_path))
    if len(srcs) != len(refs):
        raise DataError(
            tr(
                "{} has {} lines but {} has {}: the files must be line-aligned",
                src_path,
                len(srcs),
                ref_path,
                len(refs),
            )
        )
    return srcs, refs
