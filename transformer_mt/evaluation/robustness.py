"""Test sets as careless people type them, and single words. This file knows strings only."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from transformer_mt.evaluation.metrics import Score, share_score
from transformer_mt.evaluation.test_sets import EvaluationSet
from transformer_mt.text.words import words
from transformer_mt.translation.result import Translation

N_WORDS = 200  # the most frequent of a test set
MOST_WORDS = 4  # that a single word may become: 动物园 is "a zoological garden"
_FINAL = " .!?…。！？．\"'”’」』)）"


def careless_variants(test: EvaluationSet) -> Iterator[EvaluationSet]:
    """`NAME.lower` and `NAME.unpunctuated`: sources without capitals, without their final marks.

    A variant that changes no source is left out: Chinese has no capitals.
    """
    variants = {
        "lower": [src.lower() for src in test.srcs],
        "unpunctuated": [src.rstrip(_FINAL) or src for src in test.srcs],
    }
    for name, srcs in variants.items():
        if srcs != list(test.srcs):
            yield replace(test, name=f"{test.name}.{name}", srcs=srcs)


def frequent_words(test: EvaluationSet) -> list[str]:
    """Up to `N_WORDS` words of the sources, in Chinese characters, the most frequent first."""
    counts = Counter(word for src in test.srcs for word in words(src, test.src))
    return [word for word, _ in counts.most_common() if not word.isdigit()][:N_WORDS]


def score_words(translations: Sequence[Translation], tgt: str) -> Score:
    """How many single words became at least one and at most a few words, without a fault."""
    good = [
        1 <= len(words(found.text, tgt)) <= MOST_WORDS and not found.faults
        for found in translations
    ]
    return share_score("words", sum(good), len(good))
