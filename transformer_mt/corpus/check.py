"""Two line-aligned files, and test sets to compare them with → a report on them as training data.

This file does not know a configuration file.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from transformer_mt.config.data import DataConfig, Languages, Source
from transformer_mt.config.experiment import Config
from transformer_mt.corpus.clean import decide_fates
from transformer_mt.corpus.cleaning.rules import comparison_key
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
    leaks = [_Leaks(test, languages) for test in tests]
    n_pairs, n_returns, problems = 0, [0, 0], []
    try:
        pairs = read_pairs(source, languages, root=Path(), role="train")
        for n_pairs, pair in enumerate(pairs, 1):
            n_returns = [n + text.count("\r") for n, text in zip(n_returns, pair, strict=True)]
            for leak in leaks:
                leak.look(n_pairs - 1, pair)
    except DataError as error:
        problems += str(error).split("\n")
    problems += _carriage_returns(n_returns, n_pairs)
    problems += [problem for leak in leaks for problem in leak.problems()]
    if not n_pairs:
        problems = problems or ["nothing is kept: both files are empty"]
        return CorpusReport({"pairs": PartReport(0, 0)}, problems=problems, languages=languages)
    train = source.model_copy(update={"limit": n_pairs})  # up to where they can be read
    cfg = Config(name="check", languages=languages, data=DataConfig(root=".", train=[train]))
    with TemporaryDirectory(prefix="tmt-check-") as folder:
        local = obtain_sources(cfg, say)
        found = decide_fates(local, work_dir=Path(folder), say=say, for_training=False)
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


class _Leaks:
    """Finds the sentences of one test set among training pairs, on either side.

    Case, width, punctuation and spaces make no difference.
    """

    def __init__(self, source: Source, languages: Languages) -> None:
        """Raises: DataError: see `read_pairs`."""
        self.source = source
        test = list(read_pairs(source, languages, root=Path(), role="test"))
        self.n_pairs = len(test)
        self.keys = [{comparison_key(pair[side]) for pair in test} - {""} for side in (0, 1)]
        self.shared = (set[str](), set[str]())  # keys of the test set that were met
        self.lines = FaultyLines()

    def look(self, index: int, pair: Pair) -> None:
        met = [{comparison_key(text)} & keys for text, keys in zip(pair, self.keys, strict=True)]
        for shared, keys in zip(self.shared, met, strict=True):
            shared.update(keys)
        if any(met):
            self.lines.add([index], 0)

    def problems(self) -> list[str]:
        """Faults that a person should look at, after the last pair."""
        if not self.lines.n:
            return []
        n_src, n_tgt = map(len, self.shared)
        return [
            f"{self.source}: {n_src:,} sources and {n_tgt:,} targets of its {self.n_pairs:,} pairs "
            f"are in the training text, too: {self.lines.name_first()}; name it under data.test or "
            "data.dev, and cleaning drops them"
        ]
