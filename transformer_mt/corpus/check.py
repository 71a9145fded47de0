"""Files of pairs, and test sets to compare them with → a report on them as training data.

This file does not know a configuration file.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np

from transformer_mt.config.data import DataConfig, Languages, Source
from transformer_mt.config.experiment import Config
from transformer_mt.corpus.clean import decide_fates, keys_of
from transformer_mt.corpus.cleaning.score_store import Hashes, ScoredCorpus
from transformer_mt.corpus.diagnostics.source_watch import FaultyLines
from transformer_mt.corpus.diagnostics.whole_sides import carriage_returns
from transformer_mt.corpus.readers.lines import plain_name, split_lines
from transformer_mt.corpus.readers.pairs import Pair, read_pairs, source_files
from transformer_mt.corpus.readers.paths import is_memory, tells_languages
from transformer_mt.corpus.readers.spreadsheets import layout_of, read_columns
from transformer_mt.corpus.readers.tables import language_of
from transformer_mt.corpus.readers.tmx_xliff import languages_in
from transformer_mt.corpus.report.collect import build_report
from transformer_mt.corpus.report.report import CorpusReport, PartReport
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.terminal import Say
from transformer_mt.text.identify import identify
from transformer_mt.text.languages import canonical_code, language_name

_Line = TypeVar("_Line")
_N_IDENTIFIED = 500  # lines of each side that tell its language
_OPTIONS = tr("give both, such as --src zh --tgt en")


def source_of_files(paths: Sequence[Path]) -> Source:
    """Two line-aligned files, or one that holds both sides; a prefix stands for two."""
    if len(paths) == 1:
        return Source(path=str(paths[0]))
    return Source(files=list(map(str, paths)))


def tell_languages(
    paths: Sequence[Path], src: str | None = None, tgt: str | None = None, remedy: str = _OPTIONS
) -> Languages:
    """The languages of two text files, of a table or of a translation memory: as given, or by names
    of files, columns and texts, or else by the text.

    Args:
        remedy: how the caller lets a user name the languages.
    Raises:
        DataError: a language cannot be told, or both are the same.
    """
    codes = [canonical_code(code) if code else None for code in (src, tgt)]
    if None in codes:
        given = [code for code in codes if code]
        others = [code for code in _languages_of(paths) if code not in given]
        if len(others) == 2 and None not in others:  # each side by itself
            codes = [code or other for code, other in zip(codes, others, strict=True)]
        else:
            known = [code for code in others if code or not given]
            codes = [code or (known.pop(0) if known else None) for code in codes]
    if None in codes or codes[0] == codes[1]:
        names = tr(" and ").join(map(str, paths))
        if len(paths) == 1 and not tells_languages(paths[0]):
            raise DataError(
                tr(
                    "{}: give the file of the other side, too; or, if both sides are "
                    "in it, --src and --tgt",
                    names,
                )
            )
        both = tr("both sides are {}", language_name(codes[0])) if codes[0] and codes[1] else ""
        raise DataError(f"{names}: {both or tr('the languages cannot be told')}; {remedy}")
    return Languages(src=str(codes[0]), tgt=str(codes[1]))


def _languages_of(paths: Sequence[Path]) -> list[str | None]:
    """The languages of two sides, in their order."""
    if len(paths) == 2:
        named = [language_of(Path(plain_name(path.name)).suffix[1:]) for path in paths]
        if None not in named and named[0] != named[1]:
            return named
    elif not tells_languages(paths[0]):
        return []
    elif is_memory(paths[0]):
        if len(found := languages_in(paths[0])) > 2:
            shown = ", ".join(found)
            raise DataError(
                tr(
                    "{}: its texts are in {}; name two of these: data check takes --src and --tgt, "
                    "train a configuration with languages (tmt config base)",
                    paths[0],
                    shown,
                )
            )
        return [*found]
    elif codes := layout_of(paths[0]).codes:
        return [*codes]
    return list(map(identify, first_texts(paths)))


def first_texts(paths: Sequence[Path]) -> list[list[str]]:
    """The texts that each side of two files, or of a table, begins with."""
    if len(paths) == 2:
        return [_readable(split_lines(path)) for path in paths]
    rows = _readable(read_columns(paths[0], layout_of(paths[0])))
    return [list(side) for side in zip(*rows, strict=True)]


def _readable(lines: Iterable[_Line]) -> list[_Line]:
    """The first lines, up to one that cannot be read; whoever reads them all tells of that one."""
    found: list[_Line] = []
    try:
        found.extend(islice(lines, _N_IDENTIFIED))
    except DataError:
        if not found:
            raise
    return found


def check_source(
    source: Source,
    languages: Languages,
    *,
    tests: Sequence[Source] = (),
    say: Say = lambda _: None,
) -> CorpusReport:
    """Report on a source as training data, and leave nothing behind.

    Args:
        tests: sets that must not be in the training text.
    Returns:
        The report that cleaning would give, with one part, `pairs`; faults that a person should
        look at under `problems`.
    Raises:
        DataError: a file is missing, or a test set cannot be read. Text that cannot be read to its
            end is a problem reported.
    """
    source_files(source, languages, Path())  # a missing file is an error, not a problem
    test_pairs = [list(read_pairs(test, languages, root=Path(), role="test")) for test in tests]
    n_pairs, n_returns, problems = 0, [0, 0], []
    try:
        for pair in read_pairs(source, languages, root=Path(), role="train"):
            n_pairs += 1
            n_returns = [n + text.count("\r") for n, text in zip(n_returns, pair, strict=True)]
    except DataError as error:
        problems += str(error).split("\n")
    unread = bool(problems)
    problems += carriage_returns(n_returns, n_pairs)
    if not n_pairs:
        problems = problems or [tr("nothing is kept: there is no pair")]
        return CorpusReport({"pairs": PartReport(0, 0)}, problems=problems, languages=languages)
    # Where a text cannot be read to its end, as far as it can.
    train = source.model_copy(update={"limit": n_pairs}) if unread else source
    cfg = Config(name="check", languages=languages, data=DataConfig(root=".", train=[train]))
    with TemporaryDirectory(prefix="tmt-check-") as folder:
        local = obtain_sources(cfg, say)
        found = decide_fates(local, work_dir=Path(folder), say=say, for_training=False)
        leaks: list[str] = []
        for test, pairs in zip(tests, test_pairs, strict=True):
            leaks += _leaks(test, pairs, keys_of(cfg, pairs), found.decision.corpus)
        report = build_report(found)
    parts = {"pairs": report.parts["train"]}
    return replace(report, parts=parts, problems=[*problems, *report.problems, *leaks])


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
        tr(
            "{}: {:,} sources and {:,} targets of its {:,} pairs are in the training "
            "text, too: {}; name it under data.test or data.dev, and cleaning drops "
            "them",
            test,
            n_src,
            n_tgt,
            len(pairs),
            lines.name_first(lambda pair: corpus.origins_at(np.array([pair - 1]))[0][1]),
        )
    ]
