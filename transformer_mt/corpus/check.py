"""Two line-aligned files, and test sets to compare them with → a report on them as training data.

This file does not know a configuration file.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from transformer_mt.config.data import DataConfig, Languages, Source
from transformer_mt.config.experiment import Config
from transformer_mt.corpus.clean import decide_fates, keys_of
from transformer_mt.corpus.cleaning.score_store import Hashes, ScoredCorpus
from transformer_mt.corpus.diagnostics.source_watch import FaultyLines
from transformer_mt.corpus.readers.pairs import Pair, read_pairs, source_files
from transformer_mt.corpus.report.collect import build_report
from transformer_mt.corpus.report.report import CorpusReport, PartReport
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.errors import DataError
from transformer_mt.system.terminal import Say


def check_files(
    src_path: Path,
    tgt_path: Path,
    languages: Languages,
    *,
    tests: Sequence[Source] = (),
    say: Say = lambda _: None,
) -> CorpusReport:
    """Report on two line-aligned files as training data, and leave nothing behind.

    Args:
        tests: sets that must not be in the training text.
    Returns:
        The report that cleaning would give, with one part, `pairs`; faults that a person should
        look at under `problems`.
    Raises:
        DataError: a file is missing, or a test set cannot be read. Text that cannot be read to its
            end is a problem reported.
    """
    source = Source(files=[str(src_path), str(tgt_path)])
    source_files(source, languages, Path())  # a missing file is an error, not a problem
    test_pairs = [list(read_pairs(test, languages, root=Path(), role="test")) for test in tests]
    n_pairs, n_returns, problems = 0, [0, 0], []
    try:
        for pair in read_pairs(source, languages, root=Path(), role="train"):
            n_pairs += 1
            n_returns = [n + text.count("\r") for n, text in zip(n_returns, pair, strict=True)]
    except DataError as error:
        problems += str(error).split("\n")
    problems += _carriage_returns(n_returns, n_pairs)
    if not n_pairs:
        problems = problems or ["nothing is kept: both files are empty"]
        return CorpusReport({"pairs": PartReport(0, 0)}, problems=problems, languages=languages)
    train = source.model_copy(update={"limit": n_pairs})  # up to where they can be read
    cfg = Config(name="check", languages=languages, data=DataConfig(root=".", train=[train]))
    with TemporaryDirectory(prefix="tmt-check-") as folder:
        local = obtain_sources(cfg, say)
        found = decide_fates(local, work_dir=Path(folder), say=say, for_training=False)
        for test, pairs in zip(tests, test_pairs, strict=True):
            problems += _leaks(test, pairs, keys_of(cfg, pairs), found.decision.corpus)
        report = build_report(found)
    parts = {"pairs": report.parts["train"]}
    return replace(report, parts=parts, problems=[*problems, *report.problems])


def _carriage_returns(counts: list[int], n_pairs: int) -> list[str]:
    """More carriage returns than lines were most likely meant to end lines."""
    lines, hold = ("line", "holds") if n_pairs == 1 else ("lines", "hold")
    return [
        f"{n_pairs:,} {lines} on the {side} side {hold} {n:,} carriage returns (CR): the "
        "lines of the file seem to end with CR alone, and tmt reads LF and CR LF; convert it: "
        "tr '\\r' '\\n' < FILE > NEW"
        for side, n in zip(("source", "target"), counts, strict=True)
        if n > n_pairs
    ]


def _leaks(
    test: Source, pairs: list[Pair], keys: tuple[Hashes, Hashes], corpus: ScoredCorpus
) -> list[str]:
    """The sentences of a test set that are in the training text, on either side."""
    shared = set[int](), set[int]()
    lines = FaultyLines()
    for shard, columns in corpus.each("src_key", "tgt_key"):
        met = [np.isin(column, side) for column, side in zip(columns, keys, strict=True)]
        for found, column, rows in zip(shared, columns, met, strict=True):
            found.update(column[rows].tolist())
        lines.add(np.flatnonzero(met[0] | met[1]), shard.start)
    if not lines.n:
        return []
    n_src, n_tgt = map(len, shared)
    return [
        f"{test}: {n_src:,} sources and {n_tgt:,} targets of its {len(pairs):,} pairs are in the "
        f"training text, too: {lines.name_first()}; name it under data.test or data.dev, and "
        "cleaning drops them"
    ]
