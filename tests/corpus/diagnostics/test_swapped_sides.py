"""Swapped lines, told by the script or by the words of the other lines."""

import random

import numpy as np
import pytest
from places import ROOT

from transformer_mt.config.data import Languages
from transformer_mt.corpus.diagnostics.line_units import LineUnits
from transformer_mt.corpus.diagnostics.swapped_sides import SwapFinder

SHARED_DATA = ROOT.parent / "shared/data"


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


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"no real corpora in {SHARED_DATA}")
@pytest.mark.parametrize(
    ("corpus", "codes"),
    [("multi30k", ("de", "en")), ("tatoeba-zh-en", ("zh", "en")), ("k8s-docs-zh-en", ("zh", "en"))],
)
def test_one_percent_swapped(corpus: str, codes: tuple[str, str]) -> None:
    texts = [
        (SHARED_DATA / corpus / f"train.{code}").read_text(encoding="utf-8").split("\n")[:10_000]
        for code in codes
    ]
    pairs = list(zip(*texts, strict=True))
    planted = np.random.default_rng(2).choice(len(pairs), size=100, replace=False)
    for i in planted:
        pairs[i] = pairs[i][::-1]
    block = block_of(pairs)
    found = SwapFinder([block], Languages(src=codes[0], tgt=codes[1])).look(block)
    assert len(np.intersect1d(found, planted)) >= 88  # the rest are of one or two words
    assert len(np.setdiff1d(found, planted)) <= 2
