"""Contrast sets: groups, failures, and files."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from transformer_mt.errors import DataError
from transformer_mt.evaluation.contrast import (
    ContrastFailure,
    ContrastItem,
    evaluate_contrast,
    read_contrast,
)
from transformer_mt.translation.translator import PairScore


class Scorer:
    """Log-probabilities by target; remembers the pairs that were asked for."""

    def __init__(self, **log_probs: float) -> None:
        self.log_probs = log_probs
        self.asked: list[tuple[str, str]] = []

    def score_pairs(
        self, srcs: Sequence[str], tgts: Sequence[str], *, to: str | None = None
    ) -> list[PairScore]:
        self.asked += zip(srcs, tgts, strict=True)
        return [PairScore(self.log_probs[tgt], 1) for tgt in tgts]


@pytest.mark.parametrize(
    ("log_probs", "n_right", "failures", "why"),
    [
        ({"she": -1, "he": -2, "they": -3}, 1, [], "right wins"),
        ({"she": -1, "he": -1, "they": -3}, 0, ["he"], "a draw does not count"),
        ({"she": -1, "he": -2, "they": -0.5}, 0, ["they"], "every wrong one must lose"),
        ({"she": -1, "he": -0.5, "they": -0.5}, 0, ["he", "they"], "every failure is named"),
        ({"she": math.nan, "he": -2, "they": -3}, 0, ["he", "they"], "too long to be scored"),
    ],
)
def test_the_right_one_beats_every_wrong_one(
    log_probs: dict[str, float], n_right: int, failures: list[str], why: str
) -> None:
    items = [ContrastItem("a", "she", "he"), ContrastItem("a", "she", "they")]
    result = evaluate_contrast(Scorer(**log_probs), items)
    assert (result.score.score, result.n) == (100 * n_right, 1), why
    assert [failure.item.wrong for failure in result.failures] == failures, why


def test_sources_are_grouped_and_scored_once() -> None:
    items = [("a", "she", "he"), ("b", "it", "he"), ("a", "she", "they"), ("b", "it", "they")]
    scorer = Scorer(she=-1.0, it=-2.5, he=-2.0, they=-3.0)
    result = evaluate_contrast(scorer, [ContrastItem(*item) for item in items])
    assert (result.score.score, result.n) == (50, 2)
    assert result.failures == [ContrastFailure(ContrastItem("b", "it", "he"), -2.5, -2.0)]
    assert sorted(scorer.asked) == [
        ("a", "he"), ("a", "she"), ("a", "they"), ("b", "he"), ("b", "it"), ("b", "they"),
    ]  # fmt: skip


def test_a_file_is_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "contrast.tsv"
    path.write_bytes("\ufeff它太累了。\tIt is.\tHe is.\r\n\n街\u2028道\tb\tc\n".encode())
    assert read_contrast(path) == [("它太累了。", "It is.", "He is."), ("街\u2028道", "b", "c")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\tc\na\tb\n", "line 2: found 2 fields, expected 3: source TAB right TAB wrong"),
        ("a\t \tc\n", "line 1: the right field is empty"),
        ("a\tb\tb\n", "line 1: right and wrong are the same: 'b'"),
        ("\n", "empty; expected lines of source TAB right TAB wrong"),
        ("a\n" * 8, "line 5: found 1 fields"),
        ("a\n" * 8, "… and 3 more such lines"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as error:
        read_contrast(path)
    assert message in str(error.value)
    assert str(error.value).startswith(str(path))


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.tsv: no such file"):
        read_contrast(tmp_path / "none.tsv")
    (tmp_path / "latin.tsv").write_bytes(b"a\tb\xff\tc")
    with pytest.raises(DataError, match=r"latin\.tsv: line 1: byte 0xff at offset 3 is not UTF-8"):
        read_contrast(tmp_path / "latin.tsv")
