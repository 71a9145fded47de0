"""The report of a corpus: JSON and back, and lines for a terminal."""

import json

from rich.cells import cell_len

from transformer_mt.corpus.report.report import (
    CorpusReport,
    PartReport,
    RuleReport,
    Sample,
    SourceReport,
)

DROPPED = [
    Sample("a:7", "电话：", "Telephone numbers of all the offices in the whole world", 6.25),
    Sample("long/name:123456", "x" * 400, "y" * 400, 7.5),
]
KEPT = [Sample("a:9", "我想喝一杯很热的茶", "tea", 5.75)]
RULES = {
    "empty": RuleReport(0, "1 where a side has no text", 0),
    "length_ratio": RuleReport(6.0, "times the usual ratio", 2, DROPPED, KEPT),
    "duplicate": RuleReport("normalised", "repeats an earlier pair", 3, DROPPED[:1]),
}
REPORT = CorpusReport(
    parts={"train": PartReport(20, 13, RULES), "dev": PartReport(2, 2)},
    held_out={"dev": 1, "test": 1},
    problems=["a: lines 3-9 are shifted"],
    notes=["dev: 1 pair has an empty side"],
    fingerprint="0123456789abcdef",
    sources=[SourceReport("a", 12, 8), SourceReport("b中", 8, 5)],
)


def test_json_has_the_names_that_programs_read() -> None:
    tree = json.loads(REPORT.to_json())
    assert set(tree) == {
        "fingerprint", "languages", "sources", "parts", "held_out", "profile", "vocabulary",
        "shifted", "random_kept", "worst_kept", "problems", "notes", "seconds",
    }  # fmt: skip
    assert set(tree["parts"]["train"]) == {"read", "kept", "rules"}
    assert list(tree["parts"]["train"]["rules"]) == ["empty", "length_ratio", "duplicate"]
    rule = tree["parts"]["train"]["rules"]["length_ratio"]
    assert set(rule) == {"threshold", "meaning", "dropped", "nearest_dropped", "nearest_kept"}
    assert set(rule["nearest_kept"][0]) == {"where", "src", "tgt", "score"}


def test_summary_says_what_was_kept_and_dropped() -> None:
    problem, *lines = REPORT.summary()
    assert problem == "problem: a: lines 3-9 are shifted"
    assert lines[0].split() == ["train", "20", "read", "13", "kept"]
    assert lines[1].startswith("  length_ratio            2 dropped, e.g. a:7  电话： | Telephone")
    assert lines[2].startswith("  duplicate               3 dropped")
    assert not any("empty  " in line for line in lines)  # it dropped nothing
    assert "held out of train: 1 for dev, 1 for test" in lines
    assert "fingerprint: 0123456789abcdef" in lines
    sources = [line for line in lines if line.startswith("from ")]
    assert len({cell_len(line) for line in sources}) == 1
    assert lines[-1] == "note: dev: 1 pair has an empty side"


def test_summary_stays_short() -> None:
    problems = [f"p{i}" for i in range(500)]
    lines = CorpusReport(
        {"train": PartReport(1, 1)}, notes=["n"] * 500, problems=problems
    ).summary()
    assert len(lines) <= 40
    assert lines[6:8] == ["problem: p6", "problem: … and 493 more"]


def test_explain_aligns_wide_characters() -> None:
    lines = REPORT.explain()
    assert all(cell_len(line) <= 140 for line in lines)
    start = next(i for i, line in enumerate(lines) if "dropped, nearest the threshold" in line)
    bars = {cell_len(row[: row.rindex(" | ")]) for row in lines[start + 1 : start + 3]}
    assert len(bars) == 1


def test_explain_shows_every_rule_with_threshold_and_scores() -> None:
    text = "\n".join(REPORT.explain())
    for expected in (
        "train · length_ratio: times the usual ratio\n  threshold 6; 2 of 20 pairs dropped",
        "threshold normalised; 3 of 20 pairs dropped",
        "train · empty",  # a rule that dropped nothing has a threshold to judge, too
        "6.25", "7.5", "5.75",
    ):  # fmt: skip
        assert expected in text
