"""Pieces of text: nothing is lost, and what two texts share is the same in both."""

import random
from itertools import pairwise

import pytest

from transformer_mt.text.words import mark_differences, split_pieces, words

ALPHABET = "ab 'é1中文，。😀\u0301\u200d\n<_-ไท"


def random_texts(n: int) -> list[str]:
    generator = random.Random(7)
    return ["".join(generator.choices(ALPHABET, k=generator.randint(0, 30))) for _ in range(n)]


@pytest.mark.parametrize("language", ["en", "zh", "th", ""])
def test_joined_pieces_are_the_text(language: str) -> None:
    for text in random_texts(300):
        pieces = split_pieces(text, language)
        assert "".join(pieces) == text and "" not in pieces


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Don't stop: it's 3.5 cm!", "en", ["don't", "stop", "it's", "3", "5", "cm"]),
        ("我用 Python写，好。", "zh", ["我", "用", "python", "写", "好"]),
        ("in 上海 today", "en", ["in", "上", "海", "today"]),
        ("हिन्दी में, नरेन्द्र मोदी", "hi", ["हिन्दी", "में", "नरेन्द्र", "मोदी"]),
        ("ਪੰਜਾਬੀ ਸਿੱਖ", "pa", ["ਪੰਜਾਬੀ", "ਸਿੱਖ"]),
        ("සිංහල", "si", ["සිංහල"]),
        ("தமிழ் மொழி", "ta", ["தமிழ்", "மொழி"]),
        ("cafe\u0301 noir", "fr", ["cafe\u0301", "noir"]),
        ("Straße-Ärzte", "de", ["straße", "ärzte"]),
        (" ，。", "zh", []),
    ],
)
def test_words(text: str, language: str, expected: list[str]) -> None:
    assert words(text, language) == expected


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_is_shared_is_the_same_on_both_sides(language: str) -> None:
    texts = random_texts(200)
    for first, second in pairwise(texts):
        sides = mark_differences(first, second, language)
        assert ["".join(side) for side in sides] == [first, second]
        assert "".join(sides[0][0::2]) == "".join(sides[1][0::2])
        assert all(stretch for side in sides for stretch in side[1:])


@pytest.mark.parametrize(
    ("first", "second", "language", "expected"),
    [
        ("the cat sat", "the dog sat", "en", ["the ", "cat", " sat"]),
        ("他很高兴。", "她很高兴。", "zh", ["", "他", "很高兴。"]),
        ("same", "same", "en", ["same"]),
        ("a lot", "", "en", ["", "a lot"]),
        ("", "a lot", "en", [""]),
    ],
)
def test_differences(first: str, second: str, language: str, expected: list[str]) -> None:
    assert mark_differences(first, second, language)[0] == expected


def test_texts_without_end_are_compared_in_no_time() -> None:
    first, second = "start " + "la " * 50_000 + "end", "start " + "la " * 40_000 + "end"
    sides = mark_differences(first, second, "en")
    assert ["".join(side) for side in sides] == [first, second]
    assert sides[0][0].startswith("start la ") and sides[0][-1].endswith("end")
