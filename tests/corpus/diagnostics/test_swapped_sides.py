"""Swapped lines, told by the script or by the words of the other lines."""

import random

import pytest

from transformer_mt.config.data import Languages
from transformer_mt.corpus.diagnostics.line_units import LineUnits
from transformer_mt.corpus.diagnostics.swapped_sides import SwapFinder

ENGLISH = "the house is big and my dog was with her in that garden".split()
GERMAN = "das haus ist und mein hund war mit ihr dem garten in am".split()


def block_of(pairs: list[tuple[str, str]]) -> tuple[LineUnits, LineUnits]:
    return LineUnits.of([src for src, _ in pairs]), LineUnits.of([tgt for _, tgt in pairs])


@pytest.mark.parametrize(
    ("src", "tgt", "swapped", "why"),
    [
        ("我喜欢喝热茶", "I like to drink hot tea", False, "as it should be"),
        ("I like to drink hot tea", "我喜欢喝热茶", True, "swapped"),
        ("Kubernetes API Server", "Kubernetes API Server", False, "names on both sides"),
        ("使用 kubectl get pods 命令", "Use kubectl get pods", False, "names inside Chinese"),
        ("Use kubectl get pods now", "使用 kubectl get pods 命令吧", True, "names, but swapped"),
        ("", "", False, "empty"),
        ("他说 hello", "The word 你好 means hello", False, "a quotation"),
        ("Hi", "你好", False, "one word is too little to tell"),
    ],
)
def test_the_script_decides(src: str, tgt: str, swapped: bool, why: str) -> None:
    for languages, pair in (
        (Languages(src="zh", tgt="en"), (src, tgt)),
        (Languages(src="en", tgt="zh"), (tgt, src)),
    ):
        finder = SwapFinder([], languages)
        assert (finder.look(block_of([pair])).tolist() == [0]) is swapped, why


def sentences(words: list[str], n: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [
        " ".join([*rng.choices(words, k=rng.randrange(4, 9)), "Anna", "2024"]) for _ in range(n)
    ]


@pytest.fixture(scope="module")
def finder() -> SwapFinder:
    learned = [sentences(words, 500, seed) for seed, words in enumerate((ENGLISH, GERMAN))]
    return SwapFinder([tuple(map(LineUnits.of, learned))], Languages(src="en", tgt="de"))


def test_swapped_pairs_are_told_from_others(finder: SwapFinder) -> None:
    english, german = sentences(ENGLISH, 50, seed=5), sentences(GERMAN, 50, seed=6)
    assert not len(finder.look(block_of(list(zip(english, german, strict=True)))))
    assert len(finder.look(block_of(list(zip(german, english, strict=True))))) >= 48


def test_what_is_not_swapped(finder: SwapFinder) -> None:
    pairs = [
        ("das haus ist und", "das haus ist und"),  # copied: only one side is wrong
        ("the house was big", "her dog was with that"),  # both in the source language
        ("Anna 2024 in Anna", "Anna in 2024"),  # names and numbers are of both
        ("das", "the"),  # one word is not enough
        ("xyzzy plugh quux", "frobnicate foo bar"),  # words never seen
        ("", ""),
    ]
    assert finder.look(block_of(pairs)).tolist() == []
