"""Tables of errors: every sentence and every word is counted once, in the right row."""

from pathlib import Path

import pytest

from transformer_mt.evaluation.error_checks import Case, check_sentences
from transformer_mt.evaluation.error_tables import (
    count_errors,
    recall_by_frequency,
    score_by_length,
    word_frequencies,
)
from transformer_mt.evaluation.metrics import Scorer


def test_errors_are_counted_and_the_worst_come_first() -> None:
    refs = ["He has 23 books", "It is 5 to 7 metres", "No number here", "Only 4"]
    srcs = ["他有23本书", "有5到7米", "没有", "只有4"]
    hyps = ["He has 23 books", "It is metres", "No number here", "Only"]
    cases = [Case(*texts, "zh", "en") for texts in zip(srcs, refs, hyps, strict=True)]
    counts = {count["kind"]: count for count in count_errors(check_sentences(cases))}
    numbers = counts["numbers"]
    assert (numbers["n"], numbers["of"], numbers["worst"]) == (2, 3, [1, 3])
    assert (counts["repetition"]["n"], counts["repetition"]["of"]) == (0, 4)


@pytest.mark.parametrize(
    ("language", "word", "names"),
    [("en", "word ", ["1–5", "6–10", "over 50"]), ("zh", "字", ["1–10", "over 100"])],
)
def test_every_sentence_has_one_length(language: str, word: str, names: list[str]) -> None:
    srcs = [word * n for n in (1, 5, 6, 10, 101)] + [""]
    texts = [f"this is sentence number {n} of all" for n in range(len(srcs))]
    buckets = score_by_length(srcs, texts, texts, language, Scorer("en"))
    assert [bucket["name"] for bucket in buckets] == names
    assert sum(bucket["n"] for bucket in buckets) == len(srcs)
    assert all(bucket["bleu"] == pytest.approx(100) for bucket in buckets)


def test_recall_of_words_by_how_often_training_saw_them() -> None:
    refs = ["the cat and the axolotl", "the dog"]
    hyps = ["the cat and a cat", "the the dog dog"]
    frequencies = {"the": 5000, "and": 100, "cat": 2, "dog": 1}
    buckets = recall_by_frequency(hyps, refs, frequencies, "en")
    found = {name: row for name, *row in (bucket.values() for bucket in buckets)}
    assert found == {
        "0": [1, 0, ["axolotl"]],
        "1": [1, 1, []],
        "2–9": [1, 1, []],
        "100–999": [1, 1, []],
        "1000 and more": [3, 2, ["the"]],
    }


def test_words_are_counted_in_the_training_text_or_else_in_the_references(tmp_path: Path) -> None:
    refs = ["A cat.", "a dog"]
    counts, basis = word_frequencies(refs, None, "en")
    assert counts == {"a": 2, "cat": 1, "dog": 1} and basis.startswith("the references")
    path = tmp_path / "train.tgt"
    path.write_text("cat cat bird\nCat!\n", encoding="utf-8")
    counts, basis = word_frequencies(refs, path, "en")
    assert counts == {"cat": 3} and basis.startswith("the training text")
