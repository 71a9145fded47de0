"""Which side a word is of, learned from the corpus: swapped pairs in one script."""

import random

import numpy as np
import pytest

from transformer_mt.corpus.cleaning.lexical_units import text_units
from transformer_mt.corpus.cleaning.side_odds import count_units, look_swapped, side_odds

ENGLISH = "the house is big and my dog was with her in that garden".split()
GERMAN = "das haus ist und mein hund war mit ihr dem garten in am".split()


def sentences(words: list[str], n: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [
        " ".join([*rng.choices(words, k=rng.randrange(4, 9)), "Anna", "2024"]) for _ in range(n)
    ]


def swapped(srcs: list[str], tgts: list[str]) -> list[bool]:
    learned = [
        text_units(sentences(words, 500, seed)) for seed, words in enumerate((ENGLISH, GERMAN))
    ]
    odds = side_odds(*map(count_units, learned))
    return look_swapped(odds, text_units(srcs), text_units(tgts), len(srcs)).tolist()


def test_swapped_pairs_are_told_from_others() -> None:
    english, german = sentences(ENGLISH, 50, seed=5), sentences(GERMAN, 50, seed=6)
    assert not any(swapped(english, german))
    assert np.mean(swapped(german, english)) > 0.95


@pytest.mark.parametrize(
    ("src", "tgt", "why"),
    [
        ("das haus ist und", "das haus ist und", "copied: only one side is wrong"),
        ("the house was big", "her dog was with that", "both in the source language"),
        ("Anna 2024 in Anna", "Anna in 2024", "names and numbers are of both"),
        ("das", "the", "one word is not enough"),
        ("xyzzy plugh quux", "frobnicate foo bar", "words never seen"),
        ("", "", "nothing"),
    ],
)
def test_what_is_not_swapped(src: str, tgt: str, why: str) -> None:
    assert swapped([src], [tgt]) == [False], why


def test_no_text_at_all() -> None:
    none = count_units(text_units([]))
    assert not side_odds(none, none).any()
