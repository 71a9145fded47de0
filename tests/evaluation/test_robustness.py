"""Careless variants of a test set, and what counts as a good answer to a single word."""

import pytest

from transformer_mt.evaluation.robustness import careless_variants, frequent_words, score_words
from transformer_mt.evaluation.test_sets import EvaluationSet
from transformer_mt.translation.result import Translation


def test_variants_change_sources_and_nothing_else() -> None:
    test = EvaluationSet("t", "de", ["A Dog runs.", "Who?!", "..."], ["a", "b", "c"], "en")
    found = {variant.name: variant for variant in careless_variants(test)}
    assert found["t.lower"].srcs == ["a dog runs.", "who?!", "..."]
    assert found["t.unpunctuated"].srcs == ["A Dog runs", "Who", "..."], "no text becomes empty"
    for variant in found.values():
        assert (variant.refs, variant.src, variant.tgt) == (test.refs, "en", "de")


def test_chinese_has_no_capitals() -> None:
    test = EvaluationSet("t", "en", ["他走了。", "“真的吗？”"], ["a", "b"], "zh")
    (variant,) = careless_variants(test)
    assert variant.srcs == ["他走了", "“真的吗"]


def test_the_most_frequent_words_come_first() -> None:
    test = EvaluationSet("t", "de", ["the dog, the cat", "The 3 dogs"], ["", ""], "en")
    assert frequent_words(test)[0] == "the"
    assert sorted(frequent_words(test)) == ["cat", "dog", "dogs", "the"]


@pytest.mark.parametrize(
    ("text", "faults", "good"),
    [
        ("Hund", (), True),
        ("ein zoologischer Garten", (), True),
        ("Ein Hund läuft auf dem Rasen.", (), False),
        ("Hund Hund", ("loop",), False),
        ("", (), False),
        (".", (), False),
    ],
)
def test_a_word_becomes_a_few(text: str, faults: tuple[str, ...], good: bool) -> None:
    translation = Translation("dog", text, 0.0, True, 1, [], faults)
    assert score_words([translation], "de").score == 100.0 * good
