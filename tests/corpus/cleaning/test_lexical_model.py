"""Words that go together are learned from pairs alone, and tell strangers from translations."""

import random
from pathlib import Path

import numpy as np
import pytest

from transformer_mt.corpus.cleaning.lexical_model import MIN_PAIRS, LexicalModel
from transformer_mt.corpus.cleaning.score_store import Hashes
from transformer_mt.corpus.cleaning.translation_table import Table
from transformer_mt.text.units import BIGRAM, CHARACTER, NUMBER, WORD, text_units

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
Texts = list[str]
Toy = tuple[Texts, Texts, Hashes, LexicalModel]


def keys_of(n: int, seed: int = 7) -> Hashes:
    return np.random.default_rng(seed).integers(0, 2**63, n, dtype=np.uint64)


def toy_corpus(n: int, seed: int) -> tuple[Texts, Texts]:
    """A language of made-up words, and another that has its words in reverse and backwards."""
    rng = random.Random(seed)
    words = ["".join(random.Random(i).choices(SYLLABLES, k=3)) for i in range(300)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    srcs = [rng.choices(words, weights, k=rng.randrange(4, 15)) for _ in range(n)]
    tgts = [[word[::-1] for word in reversed(src)] for src in srcs]
    return [" ".join(src) for src in srcs], [" ".join(tgt) for tgt in tgts]


@pytest.fixture(scope="module")
def toy() -> Toy:
    srcs, tgts = toy_corpus(4000, seed=3)
    keys = keys_of(len(srcs))
    model = LexicalModel.learn(srcs, tgts, keys, seed=1)
    assert model is not None
    return srcs, tgts, keys, model


@pytest.mark.parametrize(
    ("text", "expected", "why"),
    [
        ("Cats, v3.12!", [WORD, WORD, NUMBER, NUMBER], "punctuation and numbers separate"),
        ("用 Python", [CHARACTER, WORD], "scripts may be mixed"),
        ("猫很 好", [CHARACTER, CHARACTER, BIGRAM, CHARACTER], "two together, not across a space"),
        ("한국 사람", [WORD, WORD], "Korean has spaces"),
        ("naïve नमस्ते", [WORD, WORD], "marks belong to letters"),
        ("…", [], "no word"),
    ],
)
def test_kinds_of_units(text: str, expected: list[int], why: str) -> None:
    assert sorted(text_units([text]).kinds.tolist()) == sorted(expected), why


@pytest.mark.parametrize(
    ("one", "others"),
    [
        ("Walking", {"walking": True, "wading": False}),
        ("ＡＢＣ１２", {"abc12": True, "abc21": False}),
        ("translate", {"translated": True, "transcribe": False}),
        ("ab", {"ba": False}),
        ("猫", {"狗": False}),
        ("1234567", {"1234568": False}),
    ],
)
def test_what_is_the_same_unit(one: str, others: dict[str, bool]) -> None:
    slots = text_units([one]).slots.tolist()
    assert {other: slots == text_units([other]).slots.tolist() for other in others} == others


def test_units_of_a_text_do_not_depend_on_its_neighbours() -> None:
    texts = ["猫很", "", "two words", "\n", "U+2028\u2028inside", "𠀀𠀁", "İstanbul", "end"]
    together = text_units(texts)
    for index, text in enumerate(texts):
        alone = text_units([text])
        assert together.slots[together.texts == index].tolist() == alone.slots.tolist(), text
    assert len(text_units([]).slots) == 0


def test_partners_are_learned(toy: Toy) -> None:
    srcs, tgts, _, _ = toy
    table = Table.learn(text_units(srcs), text_units(tgts), len(srcs))
    best = table.tgt_slots[table.levels[:-1, :-1].argmax(axis=0)]
    words = {word for text in srcs for word in text.split()}
    partner = {
        int(text_units([word]).slots[0]): int(text_units([word[::-1]]).slots[0]) for word in words
    }
    found = zip(table.src_slots.tolist(), best.tolist(), strict=True)
    right = [partner[slot] == guess for slot, guess in found]
    assert np.mean(right) > 0.97


def test_strangers_are_told_from_translations(toy: Toy) -> None:
    srcs, tgts, keys, model = toy
    true = model.evidence(srcs, tgts, keys)
    false = model.evidence(srcs, tgts[1:] + tgts[:1], keys)
    assert np.mean(true > 0) > 0.99
    assert np.mean(false < 0) > 0.99
    assert true.dtype == np.float32
    alone = model.evidence(srcs[100:101], tgts[100:101], keys[100:101])
    np.testing.assert_allclose(alone, true[100:101], atol=1e-4)  # the others do not matter


def test_no_pair_vouches_for_itself() -> None:
    """Pairs of nonsense, repeated: their words have no other partners, which proves nothing."""
    srcs, tgts = toy_corpus(2000, seed=5)
    letters = random.Random(9)
    nonsense = [["".join(letters.choices("qwxyz", k=6)) for _ in range(6)] for _ in range(100)]
    srcs += [" ".join(words) for words in nonsense[:50]] * 4
    tgts += [" ".join(words) for words in nonsense[50:]] * 4
    keys = np.concatenate([keys_of(2000), np.tile(keys_of(50, seed=8), 4)])
    model = LexicalModel.learn(srcs, tgts, keys, seed=1)
    assert model is not None
    assert np.all(model.evidence(srcs[2000:], tgts[2000:], keys[2000:]) == 0)
    of_the_other_half = keys[2000:] ^ np.uint64(1 << 32)
    assert np.all(model.evidence(srcs[2000:], tgts[2000:], of_the_other_half) > 0)


def test_few_words_prove_less_than_many(toy: Toy) -> None:
    """A proverb shares no word with its translation; a long text that shares none is a stranger."""
    srcs, tgts, keys, model = toy
    order = sorted(range(len(srcs)), key=lambda row: len(srcs[row].split()))
    short, long = ([texts[row] for row in order] for texts in (srcs, tgts))
    strangers = model.evidence(short, long[1:] + long[:1], keys)
    n_words = np.array([len(text.split()) for text in short])
    assert strangers[n_words == 4].min() >= -5
    assert np.median(strangers[n_words == 14]) < -6
    assert strangers.min() >= -10


def test_nothing_is_said_where_nothing_is_known(toy: Toy) -> None:
    srcs, tgts = ["", "…", "", "qqqqq wwww"], ["", "!!", "word", "zzzzz xxxx"]
    assert not toy[3].evidence(srcs, tgts, keys_of(4)).any()


def test_very_long_texts_are_judged(toy: Toy) -> None:
    srcs, tgts, keys, model = toy
    (src, tgt), stranger = (" ".join(side[:100]) for side in (srcs, tgts)), " ".join(tgts[100:200])
    assert min(map(len, (src, tgt, stranger))) > 5000
    true, false = model.evidence([src] * 2, [tgt, stranger], keys[[0, 0]])
    assert true > 0 > false


def test_equal_input_gives_equal_models_that_can_be_saved(toy: Toy, tmp_path: Path) -> None:
    srcs, tgts, keys, model = toy
    again = LexicalModel.learn(srcs, tgts, keys, seed=1)
    assert again is not None
    model.save(tmp_path / "one.npz")
    again.save(tmp_path / "other.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()
    loaded = LexicalModel.load(tmp_path / "one.npz")
    expected = model.evidence(srcs[:200], tgts[:200], keys[:200])
    np.testing.assert_array_equal(loaded.evidence(srcs[:200], tgts[:200], keys[:200]), expected)


@pytest.mark.parametrize(
    ("srcs", "tgts", "why"),
    [
        (["a b c"] * 100, ["d e f"] * 100, "too few"),
        (["a b c"] * 5000, ["d e f"] * 5000, "all the same"),
    ],
)
def test_too_little_to_learn_from(srcs: Texts, tgts: Texts, why: str) -> None:
    assert LexicalModel.learn(srcs, tgts, keys_of(len(srcs)), seed=1) is None, why


def test_texts_without_words_can_be_learned_from() -> None:
    texts, keys = ["…" * (1 + n % 50) for n in range(2 * MIN_PAIRS)], keys_of(2 * MIN_PAIRS)
    model = LexicalModel.learn(texts, texts, keys, seed=1)
    assert model is not None and not model.evidence(texts, texts, keys).any()
