"""Sources of pairs → clean train, dev and test files, and a report of all that was left out.

Comes in: a `Config` whose sources are local. Goes out: a directory with `PART.src`, `PART.tgt` for
each part, `train.sources.npy` and the reports, written as a whole or not at all. This file does not
know tokens: the limit on their number is applied when the corpus is encoded.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_mt.config.data import Source
from transformer_mt.config.experiment import Config
from transformer_mt.corpus.cleaning.decide import (
    FATES,
    HELD_OUT,
    Decision,
    judge_duplicates,
    judge_length_ratio,
    judge_mismatch,
    judge_overlap,
    judge_scores,
)
from transformer_mt.corpus.cleaning.holdout import hold_out
from transformer_mt.corpus.cleaning.misalignment import learn_mismatch
from transformer_mt.corpus.cleaning.rules import comparison_key
from transformer_mt.corpus.cleaning.score import ScoredSource, score_sources, shards_of
from transformer_mt.corpus.cleaning.score_store import Hashes, ScoredCorpus, hash_texts
from transformer_mt.corpus.readers.pairs import Pair, Role, read_pairs, split_lines
from transformer_mt.corpus.report.collect import Findings, describe, describe_errors
from transformer_mt.corpus.report.page import write_page
from transformer_mt.corpus.report.report import CorpusReport
from transformer_mt.corpus.sources.obtain import Local
from transformer_mt.errors import DataError
from transformer_mt.system.arrays import save_array
from transformer_mt.system.state import fingerprint, sha256
from transformer_mt.text.normalise import Normaliser

Say = Callable[[str], None]
Evaluation = dict[str, list[Pair]]  # by part: dev, test.NAME

_OVERLAP_STAYS = (
    "train: {:,} pairs share a side with dev or test and stay (data.clean.overlap is false): "
    "scores will look better than they are"
)
_TOO_SMALL = (
    "train: too little text to learn which sides belong together; the rule mismatch is not applied"
)


def prepare_corpus(local: Local, out_dir: Path, *, work_dir: Path, say: Say) -> CorpusReport:
    """Read all sources, clean, hold out what is not given, and fill `out_dir`.

    Dev is normalised, test only split into lines; neither ever loses a pair. Without dev, or
    without test, about 1 % of train is held out for it: a function of text and seed alone.

    Args:
        out_dir: a new or empty directory.
        work_dir: keeps scores between calls, so that a changed threshold scores nothing anew.
    Raises:
        DataError: see `read_pairs`; or no pair is left for a part.
    """
    started = time.monotonic()
    found = examine(local, work_dir=work_dir, say=say)
    if not found.decision.count("train"):
        raise DataError(_nothing_left(found.corpus, found.decision, found.sources))
    out_dir.mkdir(parents=True, exist_ok=True)
    _write_train(found.corpus, found.decision, out_dir)
    for part, pairs in found.evaluation.items():
        _write_part(out_dir, part, pairs)
    report = replace(
        describe(found),
        fingerprint=_fingerprint(out_dir),
        seconds={"clean": round(time.monotonic() - started, 1)},
    )
    (out_dir / "report.json").write_text(report.to_json(), encoding="utf-8")
    write_page(report, out_dir / "report.html")
    return report


def examine(local: Local, *, work_dir: Path, say: Say, may_hold_out: bool = True) -> Findings:
    """Decide about every training pair, and write nothing but scores.

    Raises:
        DataError: see `read_pairs`; or a part that is named has no text.
    """
    cfg = local.cfg
    evaluation = _read_evaluation_parts(cfg)
    sources = score_sources(cfg, local.names, work_dir / "scored", say)
    corpus = ScoredCorpus([shards_of(work_dir / "scored", source) for source in sources])
    decision, notes = _decide(cfg, corpus, sources, evaluation, work_dir, say)
    missing = [role for role in HELD_OUT if may_hold_out and not getattr(cfg.data, role)]
    if missing and not decision.count("train"):
        raise DataError(_nothing_left(corpus, decision, sources))
    held_out = hold_out(corpus, decision, missing, cfg.seed)
    notes += _notes_on_evaluation(evaluation)
    return Findings(local, sources, corpus, decision, held_out, evaluation, notes)


def _nothing_left(corpus: ScoredCorpus, decision: Decision, sources: Sequence[ScoredSource]) -> str:
    """The rules that dropped all pairs, and what is known of the sources as a whole."""
    message = f"train: no pair is left of {len(corpus)} read; dropped: {decision.drops()}"
    errors = describe_errors(corpus, [source.name for source in sources])
    return "; ".join([message, *errors, *(p for source in sources for p in source.problems)])


def _fingerprint(out_dir: Path) -> str:
    """Of all the text in a directory."""
    texts = [path for path in sorted(out_dir.iterdir()) if path.suffix in (".src", ".tgt")]
    return fingerprint([[path.name, sha256(path)] for path in texts])


def read_clean(out_dir: Path, part: str) -> tuple[list[str], list[str]]:
    """Sources and targets of a part: `dev` or `test.NAME`; `train` may not fit into memory.

    Raises:
        DataError: there is no such part, or its files do not belong together.
    """
    src, tgt = (list(split_lines(out_dir / f"{part}.{side}")) for side in ("src", "tgt"))
    if len(src) != len(tgt):
        raise DataError(
            f"{out_dir}: {part}.src has {len(src)} lines but {part}.tgt has {len(tgt)}: "
            "delete the directory, so that it is made again"
        )
    return src, tgt


def test_names(out_dir: Path) -> list[str]:
    """Names of the test sets in a prepared corpus, sorted."""
    return sorted(path.name[len("test.") : -len(".src")] for path in out_dir.glob("test.*.src"))


def _decide(
    cfg: Config,
    corpus: ScoredCorpus,
    sources: list[ScoredSource],
    evaluation: Evaluation,
    work_dir: Path,
    say: Say,
) -> tuple[Decision, list[str]]:
    """The fates by all rules, in their order, and notes for people."""
    thresholds = [cfg.data.clean_of(source) for source in cfg.data.train]
    decision = Decision(judge_scores(corpus, thresholds))
    judge_length_ratio(corpus, decision, thresholds)
    judge_duplicates(corpus, decision, thresholds)
    judge_overlap(corpus, decision, _keys_of(cfg, evaluation), thresholds)
    notes = []
    if decision.shared and not all(clean.overlap for clean in thresholds):
        notes.append(_OVERLAP_STAYS.format(decision.shared))
    if any(clean.mismatch is not False for clean in thresholds):
        prints = [source.made_from for source in sources]
        probability = learn_mismatch(cfg, corpus, decision.fate, prints, work_dir / "evidence", say)
        if probability is None:
            notes.append(_TOO_SMALL)
        else:
            judge_mismatch(corpus, decision, probability, thresholds)
    return decision, notes


def _read_evaluation_parts(cfg: Config) -> Evaluation:
    """The dev and test pairs that the configuration names."""
    normalise_src, normalise_tgt = _normalisers(cfg)
    root = Path(cfg.data.root).expanduser()

    def read(source: Source, role: Role) -> Iterator[Pair]:
        return read_pairs(source, cfg.languages, root=root, role=role, offline=cfg.data.offline)

    parts = {}
    if cfg.data.dev:
        parts["dev"] = [
            (normalise_src(src), normalise_tgt(tgt))
            for source in cfg.data.dev
            for src, tgt in read(source, "dev")
        ]
    for name, source in cfg.data.test.items():
        parts[f"test.{name}"] = [(_one_line(a), _one_line(b)) for a, b in read(source, "test")]
    for part, pairs in parts.items():
        if not any(src.strip() and tgt.strip() for src, tgt in pairs):
            raise DataError(
                f"data.{part}: no pair with text on both sides ({len(pairs)} read); give another "
                "source, or leave the key out and a share of train is held out"
            )
    return parts


def _normalisers(cfg: Config) -> tuple[Normaliser, Normaliser]:
    script = cfg.data.clean.chinese_script
    return Normaliser(cfg.languages.src, script), Normaliser(cfg.languages.tgt, script)


def _keys_of(cfg: Config, evaluation: Evaluation) -> tuple[Hashes, Hashes]:
    """Keys of the sources, and of the targets, that must not be trained on."""
    held = [pair for pairs in evaluation.values() for pair in pairs]
    src_keys, tgt_keys = (
        hash_texts([comparison_key(text) for pair in held if (text := normalise(pair[side]))])
        for side, normalise in enumerate(_normalisers(cfg))
    )
    return src_keys, tgt_keys


def _one_line(text: str) -> str:
    """A test sentence as it is, except that it cannot hold a line end of its own."""
    return text.replace("\r\n", " ").replace("\n", " ").rstrip("\r")


def _write_train(corpus: ScoredCorpus, decision: Decision, out_dir: Path) -> None:
    """Deal the pairs to train and to what is held out, and say which source each is from."""
    parts = [part for part in ("train", *HELD_OUT.values()) if decision.count(part)]
    with ExitStack() as stack:
        files = {
            part: [
                stack.enter_context((out_dir / f"{part}.{side}").open("w", encoding="utf-8",
                                                                      newline="\n"))
                for side in ("src", "tgt")
            ]
            for part in parts
        }  # fmt: skip
        for shard in corpus.shards:
            fate = decision.fate[shard.rows]
            for part in parts:
                chosen = fate == FATES.index(part)
                if chosen.any():
                    for file, texts in zip(files[part], zip(*shard.pairs(chosen), strict=True),
                                           strict=True):  # fmt: skip
                        file.write("\n".join(texts) + "\n")
    save_array(out_dir / "train.sources.npy", _sources_of_train(corpus, decision))
    save_array(out_dir / "fates.npy", decision.fate)


def _sources_of_train(corpus: ScoredCorpus, decision: Decision) -> NDArray[np.uint16]:
    sources = np.array([shard.source for shard in corpus.shards], dtype=np.uint16)
    train = FATES.index("train")
    kept = [np.count_nonzero(decision.fate[shard.rows] == train) for shard in corpus.shards]
    return np.repeat(sources, kept)


def _write_part(out_dir: Path, part: str, pairs: list[Pair]) -> None:
    for side, name in enumerate(("src", "tgt")):
        with (out_dir / f"{part}.{name}").open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{pair[side]}\n" for pair in pairs)


def _notes_on_evaluation(evaluation: Evaluation) -> list[str]:
    """What a reader of scores should know about dev and test, which are never shortened."""
    notes = []
    for part, pairs in evaluation.items():
        n_empty = sum(not (src.strip() and tgt.strip()) for src, tgt in pairs)
        if n_empty:
            notes.append(f"{part}: {n_empty} of {len(pairs)} pairs have an empty side and stay")
    in_test = [pair for part, pairs in evaluation.items() if part != "dev" for pair in pairs]
    test_sides = [{comparison_key(pair[side]) for pair in in_test} for side in (0, 1)]
    n_shared = sum(
        any(comparison_key(text) in keys for text, keys in zip(pair, test_sides, strict=True))
        for pair in evaluation.get("dev", [])
    )
    if n_shared:
        notes.append(f"dev: {n_shared} pairs share a side with test and stay")
    return notes
