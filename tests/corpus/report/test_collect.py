"""Pairs near a threshold, in order; both ends of a run of shifted lines, beside both targets."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from scored_corpus import scored_corpus

from transformer_mt.config.data import CleanConfig, Languages
from transformer_mt.corpus.check import check_source, source_of_files
from transformer_mt.corpus.cleaning.decide import FATES, Decisions
from transformer_mt.corpus.cleaning.rules import SCORED_RULES
from transformer_mt.corpus.cleaning.score_store import ScoredCorpus
from transformer_mt.corpus.diagnostics.shifted_lines import ShiftedRun
from transformer_mt.corpus.readers.demo import build_demo
from transformer_mt.corpus.report import collect
from transformer_mt.corpus.report.collect import nearest_pairs, shifted_lines


@pytest.mark.parametrize(
    ("rule", "limits", "expected"),
    [
        ("numbers", [2.0], 2.0),
        ("empty", [0.0], 0.0),
        ("urls", [1], 1),
        ("overlap", [True], None),
        ("overlap", [True, False], None),
        ("numbers", [2.0, False], "2, off"),
        ("numbers", [0.0, False], "0, off"),
    ],
)
def test_a_report_has_the_thresholds_of_all_sources(
    rule: str, limits: list[float | bool], expected: float | str | None
) -> None:
    assert collect._threshold(rule, limits) == expected


def corpus_with(folder: Path, *runs: ShiftedRun) -> ScoredCorpus:
    """Two sources of 4 and of 20 lines; the second has the runs."""
    shards = [[(f"s{n}", f"t{n}") for n in range(first, first + 10)] for first in (1, 11)]
    plain = scored_corpus(folder, [[[("a", "b")] * 4], shards])
    return ScoredCorpus([plain.sources[0], replace(plain.sources[1], shifted=[*runs])])


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (ShiftedRun(5, 12, 1), [(4, 5, "own"), (5, 6, "shifted"), (6, 7, "shifted"),
                                (11, 12, "shifted"), (12, 13, "none"), (13, 14, "own")]),
        (ShiftedRun(5, 12, -1), [(4, 3, "own"), (5, 4, "none"), (6, 5, "shifted"),
                                 (11, 10, "shifted"), (12, 11, "shifted"), (13, 12, "own")]),
        (ShiftedRun(1, 20, 1), [(1, 2, "shifted"), (2, 3, "shifted"),
                                (19, 20, "shifted"), (20, 21, "none")]),
    ],
)  # fmt: skip
def test_lines_around_both_ends(
    tmp_path: Path, run: ShiftedRun, expected: list[tuple[int, int, str]]
) -> None:
    (found,) = shifted_lines(corpus_with(tmp_path, run))
    assert (found.source, found.first, found.last) == ("s1", run.first, run.last)
    lines = [*found.begin, *found.end]
    assert [(line.number, line.src, line.tgt) for line in lines] == [
        (line, f"s{line}", f"t{line}") for line, _, _ in expected
    ]
    other = [f"t{line}" if line <= 20 else "" for _, line, _ in expected]
    assert [line.shifted_tgt for line in lines] == other
    assert [line.fits for line in lines] == [fits for _, _, fits in expected]


def test_a_few_runs_are_enough(tmp_path: Path) -> None:
    runs = [ShiftedRun(n, n + 1, 1) for n in range(1, 10)]
    assert [run.first for run in shifted_lines(corpus_with(tmp_path, *runs))] == [1, 2, 3, 4, 5]


def test_a_missing_line_is_shown_where_it_is_missing(tmp_path: Path) -> None:
    pairs = build_demo().train[:1200]
    zh, en = ([pair[side] for pair in pairs] for side in (0, 1))
    del en[400], zh[900]
    for name, lines in (("c.zh", zh), ("c.en", en)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = check_source(
        source_of_files([tmp_path / "c.zh", tmp_path / "c.en"]), Languages(src="zh", tgt="en")
    )
    (run,) = report.shifted
    assert run.shift == -1 and abs(run.first - 401) <= 5 and abs(run.last - 900) <= 5
    assert (run.begin[-1].fits, run.end[-1].fits) == ("shifted", "own")
    line = run.begin[-1]
    assert (line.src, line.shifted_tgt) in [(src, tgt) for src, tgt in pairs]


@pytest.mark.parametrize("dropped", [True, False])
def test_pairs_nearest_to_a_threshold_come_in_order_and_the_earlier_of_equal_ones(
    tmp_path: Path, dropped: bool
) -> None:
    generator = random.Random(3)
    scores = [float(generator.randint(0, 12)) for _ in range(200)]
    shards = [[(f"s{row}", f"t{row}") for row in range(n, n + 20)] for n in range(0, 200, 20)]
    rule = SCORED_RULES[0]
    corpus = scored_corpus(tmp_path, [shards[:4], shards[4:]], {rule: scores})
    decision = Decisions(corpus, [CleanConfig()] * 2)
    gone = [row for row in range(200) if scores[row] > 6]
    decision.fate[gone] = FATES.index(rule)
    rows = gone if dropped else [row for row in range(200) if 0 < scores[row] <= 6]
    rows.sort(key=lambda row: scores[row] if dropped else -scores[row])  # equal ones stay in order
    for size in (1, 7, len(rows), 150):
        found = nearest_pairs(decision, rule, dropped=dropped, size=size)
        assert [(pair.src, pair.score) for pair in found] == [
            (f"s{row}", scores[row]) for row in rows[:size]
        ]
