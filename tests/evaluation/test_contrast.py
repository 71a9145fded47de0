"""Contrast sets: accuracy, failures, reading files, and heads that find a word."""

from pathlib import Path

import numpy as np
import pytest

from transformer_mt.errors import DataError
from transformer_mt.evaluation.contrast import (
    ContrastFailure,
    contrast_accuracy,
    evaluate_contrast,
    peak_heads,
    read_contrast,
)
from transformer_mt.translation.attention_maps import AttentionMaps


@pytest.mark.parametrize(
    ("right", "wrong", "accuracy", "why"),
    [
        ([-1.0], [[-2.0]], 1.0, "right wins"),
        ([-1.0], [[-1.0]], 0.0, "a draw does not count"),
        ([-1.0], [[-2.0, -0.5]], 0.0, "every wrong one must lose"),
        ([-1.0, -1.0], [[-2.0], [-0.5]], 0.5, "one of two sources"),
    ],
)
def test_accuracy(right: list[float], wrong: list[list[float]], accuracy: float, why: str) -> None:
    assert contrast_accuracy(right, wrong) == accuracy, why


def test_accuracy_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one source"):
        contrast_accuracy([], [])
    with pytest.raises(ValueError, match="one wrong translation for each"):
        contrast_accuracy([-1.0], [[]])


def test_sources_are_grouped_scored_once_and_failures_named() -> None:
    items = [("a", "she", "he"), ("b", "it", "he"), ("a", "she", "they"), ("b", "it", "they")]
    log_probs = {("a", "she"): -1.0, ("a", "he"): -2.0, ("a", "they"): -3.0,
                 ("b", "it"): -2.0, ("b", "he"): -1.5, ("b", "they"): -4.0}  # fmt: skip
    asked: list[tuple[str, str]] = []

    def score_pairs(sources: list[str], targets: list[str]) -> list[float]:
        pairs = list(zip(sources, targets, strict=True))
        asked.extend(pairs)
        return [log_probs[pair] for pair in pairs]

    result = evaluate_contrast(score_pairs, items)
    assert (result.accuracy, result.n) == (0.5, 2)
    assert result.failures == [ContrastFailure("b", "it", "he", -2.0, -1.5)]
    assert sorted(asked) == sorted(log_probs)


def test_an_empty_set_is_an_error() -> None:
    with pytest.raises(DataError, match="contrast set is empty"):
        evaluate_contrast(lambda sources, targets: [], [])


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
    with pytest.raises(DataError, match=r"none\.tsv: cannot be read: No such file"):
        read_contrast(tmp_path / "none.tsv")
    (tmp_path / "latin.tsv").write_bytes(b"a\tb\xff\tc")
    with pytest.raises(DataError, match=r"latin\.tsv: not UTF-8 at byte 3"):
        read_contrast(tmp_path / "latin.tsv")


def test_heads_whose_row_peaks_on_a_word() -> None:
    pieces = ["动", "物", "它", "</s>"]
    encoder = np.full((2, 2, 4, 4), 0.25, np.float32)
    encoder[0, 0, 2] = [0.1, 0.6, 0.2, 0.1]  # peaks on the second piece of the noun
    encoder[0, 1, 2] = [0.1, 0.2, 0.6, 0.1]  # peaks on itself
    encoder[1, 0, 2] = [0.3, 0.3, 0.4, 0.0]  # more on the noun in sum, but the peak is elsewhere
    encoder[1, 1, 2] = [0.9, 0.0, 0.1, 0.0]
    step = np.ones((2, 2, 1, 1), np.float32)
    maps = AttentionMaps(
        pieces, ["<s>"], ["</s>"], encoder, step, encoder[:, :, 2:3], [[("</s>", 1.0)]], "", ""
    )
    expected = [(2, 2, pytest.approx(0.9)), (1, 1, pytest.approx(0.7))]
    assert peak_heads(maps, 2, [0, 1]) == expected
    assert peak_heads(maps, 0, [0, 1], kind="cross") == expected
    assert peak_heads(maps, 2, [3]) == []
