"""Two files → a report on them as training data.

Comes in: two line-aligned files, and test sets to compare them with. Goes out: a `CorpusReport`.
This file does not know a configuration file.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from transformer_mt.config.data import DataConfig, Languages, Source
from transformer_mt.config.experiment import Config
from transformer_mt.corpus.clean import examine
from transformer_mt.corpus.cleaning.rules import comparison_key
from transformer_mt.corpus.diagnostics.source_watch import Odd
from transformer_mt.corpus.readers.pairs import Pair, read_pairs, source_files
from transformer_mt.corpus.report.collect import describe
from transformer_mt.corpus.report.report import CorpusReport, PartReport
from transformer_mt.corpus.sources.obtain import Local
from transformer_mt.errors import DataError


def check_files(
    src_path: Path,
    tgt_path: Path,
    languages: Languages,
    *,
    tests: Sequence[Source] = (),
    say: Callable[[str], None] = lambda _: None,
) -> CorpusReport:
    """Report on two line-aligned files as training data, and leave nothing behind.

    Args:
        tests: sets that must not be in the training text.
    Returns:
        The report that cleaning would give, with one part, `pairs`; what a person should look at
        under `problems`.
    Raises:
        DataError: a file is missing, or a test set cannot be read. Text that cannot be read to its
            end is a problem reported.
    """
    source = Source(files=[str(src_path), str(tgt_path)])
    source_files(source, languages, Path())  # files that do not exist are no finding but an error
    looks: list[Returns | TestLeaks] = [Returns()]
    looks += [TestLeaks(test, languages) for test in tests]
    n_pairs, problems = _read_through(source, languages, looks)
    problems += [problem for look in looks for problem in look.problems()]
    if not n_pairs:
        problems = problems or ["nothing is kept: both files are empty"]
        return CorpusReport({"pairs": PartReport(0, 0)}, problems=problems, languages=languages)
    train = source.model_copy(update={"limit": n_pairs})  # up to where they can be read
    data = DataConfig(root=".", train=[train])
    cfg = Config(name="check", languages=languages, data=data)
    local = Local(cfg, cfg, [[]])
    with TemporaryDirectory(prefix="tmt-check-") as folder:
        found = examine(local, work_dir=Path(folder), say=say, may_hold_out=False)
        report = describe(found)
    parts = {"pairs": report.parts["train"]}
    return replace(report, parts=parts, problems=[*problems, *report.problems])


def _read_through(
    source: Source, languages: Languages, looks: Sequence["Returns | TestLeaks"]
) -> tuple[int, list[str]]:
    """How many pairs can be read, and what stops the reading, if anything does."""
    n_pairs = 0
    pairs: Iterable[Pair] = read_pairs(source, languages, root=Path(), role="train")
    for look in looks:
        pairs = look.observe(pairs)
    try:
        for _ in pairs:
            n_pairs += 1
    except DataError as error:
        return n_pairs, str(error).split("\n")
    return n_pairs, []


class Returns:
    """Looks for carriage returns that most likely were meant to end lines."""

    def __init__(self) -> None:
        self.n_pairs = 0
        self.counts = [0, 0]

    def observe(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Pass the pairs on unchanged, looking at each."""
        for pair in pairs:
            self.n_pairs += 1
            for side, text in enumerate(pair):
                if "\r" in text:
                    self.counts[side] += text.count("\r")
            yield pair

    def problems(self) -> list[str]:
        """What a person should look at, after the last pair."""
        return [
            f"{_lines_hold(self.n_pairs, side)} {count:,} carriage returns (CR): the "
            "lines of the file seem to end with CR alone, and tmt reads LF and CR LF; convert it: "
            "tr '\\r' '\\n' < FILE > NEW"
            for side, count in zip(("source", "target"), self.counts, strict=True)
            if count > self.n_pairs
        ]


class TestLeaks:
    """Looks for the sentences of one test set among training pairs, on either side.

    Case, width, punctuation and spaces make no difference.
    """

    __test__ = False  # not for pytest

    def __init__(self, source: Source, languages: Languages) -> None:
        """Raises: DataError: see `read_pairs`."""
        self.source = source
        self.keys: tuple[set[str], set[str]] = (set(), set())
        self.n_pairs = 0
        for pair in read_pairs(self.source, languages, root=Path(), role="test"):
            self.n_pairs += 1
            for keys, text in zip(self.keys, pair, strict=True):
                keys.add(comparison_key(text))
        for keys in self.keys:
            keys.discard("")
        self.shared = (set[str](), set[str]())  # keys of the test set that were met
        self.odd = Odd()

    def observe(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Pass the pairs on unchanged, looking at each."""
        for index, pair in enumerate(pairs):
            met = False
            for keys, shared, text in zip(self.keys, self.shared, pair, strict=True):
                key = comparison_key(text)
                if key in keys:
                    shared.add(key)
                    met = True
            if met:
                self.odd.add([index], 0)
            yield pair

    def problems(self) -> list[str]:
        """What a person should look at, after the last pair."""
        if not self.odd.n:
            return []
        n_src, n_tgt = map(len, self.shared)
        return [
            f"{self.source}: {n_src:,} sources and {n_tgt:,} targets of its {self.n_pairs:,} pairs "
            f"are in the training text, too: {self.odd.lines()}; name it under data.test or "
            "data.dev, and cleaning drops them"
        ]


def _lines_hold(n: int, side: str) -> str:
    verb = ("line", "holds") if n == 1 else ("lines", "hold")
    return f"{n:,} {verb[0]} on the {side} side {verb[1]}"
