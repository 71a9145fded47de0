"""What the words of a translation say about its source: by the formula, and about right ones."""

import math
from pathlib import Path

import numpy as np
import pytest

from transformer_mt.text import word_translations
from transformer_mt.text.word_translations import WordTranslations

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
ZAHLEN = ["eins", "zwei", "drei", "vier", "funf", "sechs", "sieben", "acht"]


def counted(n_pairs: int, seed: int) -> tuple[list[str], list[str]]:
    """Three different numbers in German, and the same in another order in English."""
    random = np.random.default_rng(seed)
    srcs, tgts = [], []
    for _ in range(n_pairs):
        drawn = random.permutation(len(NUMBERS))[:3]
        srcs.append(" ".join(ZAHLEN[i] for i in drawn))
        tgts.append(" ".join(NUMBERS[i] for i in random.permutation(drawn)))
    return srcs, tgts


@pytest.fixture(scope="module")
def words() -> WordTranslations:
    return WordTranslations.of(*counted(300, seed=1))


def test_the_mean_over_the_words_of_a_source() -> None:
    """One pair: each of the two words explains each of the two others with one half."""
    words = WordTranslations.of(["a b"], ["x y"])
    for tgt, probability in (("x", 0.5), ("x y", 0.5), ("x z", 0.25), ("z", 0.0), ("", 0.0)):
        (found,) = words.log_probs(["a b"], [tgt])
        assert found == pytest.approx(math.log(probability + 1e-5)), tgt
    (found,) = words.log_probs(["a c"], ["x"])
    assert found == pytest.approx((math.log(0.5 + 1e-5) + math.log(1e-5)) / 2)


def test_a_right_translation_explains_more_than_any_other(words: WordTranslations) -> None:
    srcs, tgts = counted(50, seed=2)
    right = words.log_probs(srcs, tgts)
    for missing in range(3):
        shorter = [" ".join(np.delete(tgt.split(), missing)) for tgt in tgts]
        assert (words.log_probs(srcs, shorter) < right - 1).all()
    others = [" ".join(word for word in NUMBERS if word not in tgt)[:15] for tgt in tgts]
    assert (words.log_probs(srcs, others) < right - 3).all()
    backwards = [" ".join(reversed(tgt.split())) for tgt in tgts]
    np.testing.assert_allclose(words.log_probs(srcs, backwards), right)


@pytest.mark.parametrize("chunk", [1, 7, 512])
def test_texts_do_not_depend_on_those_beside_them(
    words: WordTranslations, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    srcs, tgts = counted(20, seed=3)
    srcs[5], tgts[6] = "", "…"
    alone = [words.log_probs([src], [tgt])[0] for src, tgt in zip(srcs, tgts, strict=True)]
    monkeypatch.setattr(word_translations, "_CHUNK", chunk)
    np.testing.assert_allclose(words.log_probs(srcs, tgts), alone)
    assert alone[5] == 0, "nothing is to be explained"
    assert alone[6] == pytest.approx(math.log(1e-5)), "nothing explains it"


def test_without_spaces_characters_and_pairs_of_them_are_words() -> None:
    srcs, tgts = (
        ["猫看狗", "狗看猫", "猫", "狗"] * 5,
        ["cat sees dog", "dog sees cat", "cat", "dog"] * 5,
    )
    words = WordTranslations.of(srcs, tgts)
    cat, dog = words.log_probs(["猫", "猫"], ["the cat", "the dog"])
    assert cat > dog + 3
    assert WordTranslations.of(tgts, srcs).log_probs(["cat"], ["猫"])[0] > -1


@pytest.mark.parametrize("part", [2, 3])
def test_a_large_text_is_learned_from_in_part(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [first + second for first in "abcdefghij" for second in "klmnop"]
    srcs = [f"s{name} t{name}" for name in names]
    tgts = [f"u{name} v{name}" for name in names]
    monkeypatch.setattr(word_translations, "_MOST_CELLS", 60 * 4 // part)
    known = WordTranslations.of(srcs, tgts).log_probs(srcs, tgts) > -1
    assert np.flatnonzero(known).tolist() == list(range(0, 60, part))


def test_long_and_empty_texts_are_not_learned_from() -> None:
    long = " ".join(f"w{i}" for i in range(200))
    words = WordTranslations.of([long, "a", ""], ["x", long, ""])
    assert not len(words.pairs)
    assert words.log_probs(["a"], ["x"])[0] == pytest.approx(math.log(1e-5))
    assert not len(WordTranslations.of([], []).pairs)


def test_saved_and_loaded(words: WordTranslations, tmp_path: Path) -> None:
    words.save(tmp_path / "a.npz")
    words.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    again = WordTranslations.load(tmp_path / "a.npz")
    srcs, tgts = counted(10, seed=4)
    assert (again.log_probs(srcs, tgts) == words.log_probs(srcs, tgts)).all()
    for pairs, probabilities in (
        (words.pairs[1:], words.probabilities),
        (words.pairs.astype(np.float64), words.probabilities),
        (words.pairs[None], words.probabilities[None]),
        (words.pairs, words.probabilities * np.float32(np.nan)),
    ):
        WordTranslations(pairs, probabilities).save(tmp_path / "wrong.npz")
        with pytest.raises(ValueError, match=r"other types|a probability"):
            WordTranslations.load(tmp_path / "wrong.npz")
