"""The report of a corpus: JSON and back, and lines for a terminal."""

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from transformer_mt.config.data import Languages
from transformer_mt.corpus.report.profile import VocabularyReport, profile
from transformer_mt.corpus.report.report import (
    CorpusReport,
    PartReport,
    RuleReport,
    Sample,
    SourceReport,
    clip,
)

ZH_EN = Languages(src="zh", tgt="en")


def full_report() -> CorpusReport:
    """Every field holds something."""
    dropped = [
        Sample("a:7", "电话：", "Telephone numbers of all the offices in the whole world", 6.25),
        Sample("long/name:123456", "x" * 400, "y" * 400, 7.5),
    ]
    kept = [Sample("a:9", "我想喝一杯很热的茶", "tea", 5.75)]
    rules = {
        "empty": RuleReport(0, "1 where a side has no text", 0),
        "length_ratio": RuleReport(6.0, "times the usual ratio", 2, dropped, kept),
        "duplicate": RuleReport("normalised", "repeats an earlier pair", 3, dropped[:1]),
    }
    origin = {
        "name": "NC",
        "url": "https://x.org/a.zip",
        "sha256": "ab",
        "size": 12,
        "licence": None,
    }
    return CorpusReport(
        parts={"train": PartReport(20, 13, rules), "dev": PartReport(2, 2)},
        held_out={"dev": 1, "test": 1},
        problems=["a: lines 3-9 are shifted"],
        notes=["dev: 1 pair has an empty side"],
        fingerprint="0123456789abcdef",
        languages=ZH_EN,
        sources=[SourceReport("a", 12, 8, 2.5, "bt", [origin]), SourceReport("b中", 8, 5)],
        profile=profile([("我喜欢你", "I like you 2"), ("他来了", "He came.")], ZH_EN),
        vocabulary={"src": VocabularyReport(8000, 0.0, 0.01, None, 0.8, 0.9, 0.99)},
        random_kept=kept,
        worst_kept=kept,
        seconds={"read": 1.5},
    )


def test_json_and_back() -> None:
    report = full_report()
    assert CorpusReport.from_json(report.to_json()) == report
    plain = CorpusReport({})
    assert CorpusReport.from_json(plain.to_json()) == plain


def test_json_has_the_names_that_programs_read() -> None:
    tree = json.loads(full_report().to_json())
    assert set(tree) == {
        "fingerprint", "languages", "sources", "parts", "held_out", "profile", "vocabulary",
        "random_kept", "worst_kept", "problems", "notes", "seconds",
    }  # fmt: skip
    assert set(tree["parts"]["train"]) == {"read", "kept", "rules"}
    assert list(tree["parts"]["train"]["rules"]) == ["empty", "length_ratio", "duplicate"]
    rule = tree["parts"]["train"]["rules"]["length_ratio"]
    assert set(rule) == {"threshold", "meaning", "dropped", "nearest_dropped", "nearest_kept"}
    assert set(rule["nearest_kept"][0]) == {"where", "src", "tgt", "score"}
    assert "我想喝" in full_report().to_json()  # readable, not escaped


def test_summary_says_what_was_kept_and_dropped() -> None:
    lines = full_report().summary()
    assert lines[0].split() == ["train", "20", "read", "13", "kept"]
    assert lines[1].startswith("  length_ratio            2 dropped, e.g. a:7  电话： | Telephone")
    assert lines[2].startswith("  duplicate               3 dropped")
    assert not any("empty  " in line for line in lines)  # it dropped nothing
    assert "held out of train: 1 for dev, 1 for test" in lines
    assert "fingerprint: 0123456789abcdef" in lines
    sources = [line for line in lines if line.startswith("from ")]
    assert len({cell_len(line) for line in sources}) == 1
    assert lines[-2:] == [
        "note: dev: 1 pair has an empty side",
        "problem: a: lines 3-9 are shifted",
    ]


def test_summary_stays_short() -> None:
    report = CorpusReport(
        {"train": PartReport(1, 1)}, notes=["n"] * 500, problems=[f"p{i}" for i in range(500)]
    )
    lines = report.summary()
    assert len(lines) <= 40
    assert lines[-1] == "problem: … and 493 more"
    assert lines[-2] == "problem: p6"


@pytest.mark.parametrize("width", [80, 140, 200])
def test_explain_aligns_wide_characters(width: int) -> None:
    lines = full_report().explain(width)
    assert all(cell_len(line) <= width for line in lines)
    starts = [i for i, line in enumerate(lines) if "nearest the threshold" in line]
    for start in starts:
        rows = [line for line in lines[start + 1 :] if " | " in line][
            : 1 + ("dropped" in lines[start])
        ]
        bars = {cell_len(row[: row.rindex(" | ")]) for row in rows}
        assert len(bars) == 1, rows


def test_explain_shows_every_rule_with_threshold_and_scores() -> None:
    text = "\n".join(full_report().explain())
    assert (
        "train · length_ratio: times the usual ratio\n  threshold 6; 2 of 20 pairs dropped" in text
    )
    assert "threshold normalised; 3 of 20 pairs dropped" in text
    assert "train · empty" in text  # a rule that dropped nothing has a threshold to judge, too
    for score in ("6.25", "7.5", "5.75"):
        assert score in text


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("short", 10, "short"),
        ("中文中文", 8, "中文中文"),
        ("中文中文中", 8, "中文中…"),  # 7 columns: half a character cannot be shown
        ("a\x1b[31mb", 10, "a�[31mb"),  # no corpus paints the terminal
        ("a\nb\u2028c\u202ed", 10, "a�b�c�d"),
        ("", 5, ""),
    ],
)
def test_clip(text: str, width: int, expected: str) -> None:
    assert clip(text, width) == expected
    assert cell_len(clip(text, width)) <= width


def test_written_json_can_be_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(full_report().to_json(), encoding="utf-8")
    assert CorpusReport.from_json(path.read_text(encoding="utf-8")) == full_report()
