"""Sources of pairs → clean train, dev and test files, and a report of all that was left out.

A clean corpus is a directory with `PART.src`, `PART.tgt` for each part, `train.sources.npy` and the
reports. This file does not know tokens: the limit on their number is applied when the corpus is
encoded.
"""

import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transformer_mt.config.experiment import Config
from transformer_mt.corpus.cleaning.decide import HELD_OUT, TRAIN, Decisions
from transformer_mt.corpus.cleaning.misalignment import learn_mismatch
from transformer_mt.corpus.cleaning.rules import comparison_key
from transformer_mt.corpus.cleaning.score import score_sources
from transformer_mt.corpus.cleaning.score_store import Hashes, Shard, hash_texts
from transformer_mt.corpus.readers.pairs import Pair, split_lines
from transformer_mt.corpus.report.collect import (
    CleaningResult,
    build_report,
    corpus_problems,
    main_findings,
)
from transformer_mt.corpus.report.page import write_page
from transformer_mt.corpus.report.report import CorpusReport
from transformer_mt.corpus.sources.obtain import LocalData
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.arrays import Ints, save_array
from transformer_mt.system.output import remove
from transformer_mt.system.processes.executors import count_workers
from transformer_mt.system.processes.parallel import remove_shard, run_shards
from transformer_mt.system.state import fingerprint, sha256
from transformer_mt.system.terminal import Say
from transformer_mt.text.normalise import Normaliser

_MANY_SHARDS = 20  # fewer are written before processes have started
_OVERLAP_STAYS = tr(
    "train: {:,} pairs share a side with dev or test and stay (data.clean.overlap "
    "is false): scores will look better than they are"
)
_TOO_SMALL = tr(
    "train: too little text to learn which sides belong together; the rule mismatch is not applied"
)


def prepare_corpus(local: LocalData, out_dir: Path, *, work_dir: Path, say: Say) -> CorpusReport:
    """Read all sources, clean, hold out what is not given, and fill `out_dir`.

    Dev is normalised, test only split into lines; neither ever loses a pair. Without dev, or
    without test, about 1 % of train is held out for it: a function of text and seed alone.

    Args:
        work_dir: keeps scores between calls, so that a changed threshold scores nothing anew.
    Raises:
        DataError: see `read_pairs`; or no pair is left for a part.
    """
    started = time.monotonic()
    found = decide_fates(local, work_dir=work_dir, say=say)
    decision = found.decision
    out_dir.mkdir(parents=True, exist_ok=True)
    if decision.count("train"):
        _write_train(out_dir, decision, work_dir / "text", local.cfg)
    for part in HELD_OUT.values():
        if decision.count(part):
            _write_part(out_dir, part, decision.pairs_of(part))
    for part, pairs in found.evaluation.items():
        _write_part(out_dir, part, pairs)
    save_array(out_dir / "train.sources.npy", _sources_of_train(decision))
    save_array(out_dir / "fates.npy", decision.fate)
    texts = [path for path in sorted(out_dir.iterdir()) if path.suffix in (".src", ".tgt")]
    report = replace(
        build_report(found),
        fingerprint=fingerprint([[path.name, sha256(path)] for path in texts]),
        seconds={"clean": round(time.monotonic() - started, 1)},
    )
    (out_dir / "report.json").write_text(report.to_json(), encoding="utf-8")
    write_page(report, out_dir / "report.html", name=local.cfg.name)
    return report


def decide_fates(
    local: LocalData, *, work_dir: Path, say: Say, for_training: bool = True
) -> CleaningResult:
    """Decide about every training pair, and write nothing but scores.

    Args:
        for_training: hold out the parts that are missing, and insist on pairs that are left.
    Raises:
        DataError: see `read_pairs`; or no pair is left for a part.
    """
    cfg, work_dir = local.cfg, work_dir.absolute()
    for line in (line for source in local.sources for line in source.tables()):
        say(f"  {line}")
    evaluation = _read_evaluation_parts(local)
    corpus = score_sources(local, work_dir / "scored", say)
    decision = Decisions(corpus, [cfg.data.clean_of(source) for source in cfg.data.train])
    held = keys_of(cfg, list(chain.from_iterable(evaluation.values())))
    notes = _apply_rules(decision, cfg, held, work_dir)
    notes += _notes_on_evaluation(evaluation)
    if for_training and not decision.count("train"):
        told = [*main_findings(decision), *corpus_problems(corpus)]
        raise DataError("\n".join(told))
    missing = [role for role in HELD_OUT if for_training and not getattr(cfg.data, role)]
    try:
        decision.hold_out(missing, cfg.seed)
    except DataError as error:
        raise DataError("\n".join([*main_findings(decision), str(error)])) from error
    return CleaningResult(local, decision, evaluation, notes)


def read_clean(out_dir: Path, part: str) -> tuple[list[str], list[str]]:
    """Sources and targets of a part: `dev` or `test.NAME`; `train` may not fit into memory.

    Raises:
        DataError: there is no such part, or its files do not belong together.
    """
    src, tgt = (list(split_lines(out_dir / f"{part}.{side}")) for side in ("src", "tgt"))
    if len(src) != len(tgt):
        raise DataError(
            tr(
                "{}: {}.src has {} lines but {}.tgt has {}: delete the directory, so "
                "that it is made again",
                out_dir,
                part,
                len(src),
                part,
                len(tgt),
            )
        )
    return src, tgt


def test_names(out_dir: Path) -> list[str]:
    """Names of the test sets in a prepared corpus, sorted."""
    return sorted(path.name[len("test.") : -len(".src")] for path in out_dir.glob("test.*.src"))


def _apply_rules(
    decision: Decisions, cfg: Config, held: tuple[Hashes, Hashes], work_dir: Path
) -> list[str]:
    """Drop pairs by all rules, in their order; return notes for people."""
    decision.drop_by_scores()
    decision.drop_by_length_ratio()
    workers = count_workers(cfg.data.workers)
    decision.drop_duplicates(work_dir / "duplicates", workers=workers)
    decision.drop_overlap(held)
    notes = []
    if decision.n_shared:
        notes.append(_OVERLAP_STAYS.format(decision.n_shared))
    if any(clean.mismatch is not False for clean in decision.thresholds):
        evidence_dir = work_dir / "evidence"
        probability = learn_mismatch(decision, evidence_dir, seed=cfg.seed, workers=workers)
        if probability is None:
            notes.append(_TOO_SMALL)
        else:
            decision.drop_mismatches(probability)
    return notes


def _read_evaluation_parts(local: LocalData) -> dict[str, list[Pair]]:
    """The dev and test pairs that the configuration names."""
    normalise_src, normalise_tgt = _normalisers(local.cfg)
    parts = {}
    if local.dev:
        dev = chain.from_iterable(source.read() for source in local.dev)
        parts["dev"] = [(normalise_src(src), normalise_tgt(tgt)) for src, tgt in dev]
    for name, source in local.test.items():
        parts[f"test.{name}"] = [(_one_line(src), _one_line(tgt)) for src, tgt in source.read()]
    for part, pairs in parts.items():
        if not any(src.strip() and tgt.strip() for src, tgt in pairs):
            raise DataError(
                tr(
                    "data.{}: no pair with text on both sides ({} read); give another "
                    "source, or leave the key out and a share of train is held out",
                    part,
                    len(pairs),
                )
            )
    return parts


def _normalisers(cfg: Config) -> tuple[Normaliser, Normaliser]:
    script = cfg.data.clean.chinese_script
    return Normaliser(cfg.languages.src, script), Normaliser(cfg.languages.tgt, script)


def keys_of(cfg: Config, held: list[Pair]) -> tuple[Hashes, Hashes]:
    """Keys of the sources, and of the targets, that must not be trained on."""
    src_keys, tgt_keys = (
        hash_texts([comparison_key(text) for pair in held if (text := normalise(pair[side]))])
        for side, normalise in enumerate(_normalisers(cfg))
    )
    return src_keys, tgt_keys


def _one_line(text: str) -> str:
    """The text with spaces in place of line ends."""
    return text.replace("\r\n", " ").replace("\n", " ").rstrip("\r")


def _sources_of_train(decision: Decisions) -> NDArray[np.uint16]:
    """(n,) for each pair of train the index of its source."""
    source_rows = decision.corpus.source_rows
    kept = [np.count_nonzero(decision.fate[rows] == TRAIN) for rows in source_rows]
    return np.repeat(np.arange(len(kept), dtype=np.uint16), kept)


def _write_train(out_dir: Path, decision: Decisions, work_dir: Path, cfg: Config) -> None:
    """Write the pairs that are kept; with many shards, several at a time."""
    remove(work_dir)  # of other decisions
    shards = decision.corpus.shards
    kept = (np.flatnonzero(decision.fate[shard.rows] == TRAIN) for shard in shards)
    jobs = (
        (work_dir / f"{shard.start}.txt", (shard, rows))
        for shard, rows in zip(shards, kept, strict=True)
    )
    workers = count_workers(cfg.data.workers) if len(shards) >= _MANY_SHARDS else 1
    with (
        (out_dir / "train.src").open("wb") as src_file,
        (out_dir / "train.tgt").open("wb") as tgt_file,
    ):
        for path in run_shards(jobs, write_kept, workers=workers):
            with path.open("rb") as file:
                src_file.write(file.read(int.from_bytes(file.read(8), "little")))
                shutil.copyfileobj(file, tgt_file)
            remove_shard(path)
    remove(work_dir)


def write_kept(task: tuple[Shard, Ints], path: Path) -> None:
    """Write the lines of some sources, and then of their targets, after the bytes of the former."""
    shard, rows = task
    sides = [
        "".join(f"{text}\n" for (text,) in shard.values(rows, side)).encode()
        for side in ("src", "tgt")
    ]
    path.write_bytes(b"".join([len(sides[0]).to_bytes(8, "little"), *sides]))


def _write_part(out_dir: Path, part: str, pairs: Iterable[Pair]) -> None:
    with (
        (out_dir / f"{part}.src").open("w", encoding="utf-8", newline="\n") as src_file,
        (out_dir / f"{part}.tgt").open("w", encoding="utf-8", newline="\n") as tgt_file,
    ):
        for src, tgt in pairs:
            src_file.write(f"{src}\n")
            tgt_file.write(f"{tgt}\n")


def _notes_on_evaluation(evaluation: dict[str, list[Pair]]) -> list[str]:
    """Faults of dev and test, which are never shortened, for a reader of scores."""
    notes = []
    for part, pairs in evaluation.items():
        n_empty = sum(not (src.strip() and tgt.strip()) for src, tgt in pairs)
        if n_empty:
            notes.append(
                tr("{}: {} of {} pairs have an empty side and stay", part, n_empty, len(pairs))
            )
    test_keys = [set[str](), set[str]()]
    for part, pairs in evaluation.items():
        for keys, side in zip(test_keys, zip(*pairs, strict=True), strict=True):
            keys.update(comparison_key(text) for text in side if part != "dev" and text.strip())
    n_shared = sum(
        any(comparison_key(text) in keys for text, keys in zip(pair, test_keys, strict=True))
        for pair in evaluation.get("dev", [])
    )
    if n_shared:
        notes.append(tr("dev: {} pairs share a side with test and stay", n_shared))
    return notes
