"""Fates from scores: first rule wins, duplicates in rounds, medians, random rows, hold-out."""

import random
from pathlib import Path

import numpy as np
import pytest
from scored_corpus import scored_corpus

from transformer_mt.config.data import CleanConfig
from transformer_mt.corpus.cleaning import decide, duplicates
from transformer_mt.corpus.cleaning.decide import FATES, Decisions, length_ratio
from transformer_mt.corpus.cleaning.rules import SCORED_RULES
from transformer_mt.corpus.readers.pairs import Pair

DEFAULT = CleanConfig(identical=40)


def letters(n: int, seed: int = 0) -> list[Pair]:
    generator = random.Random(seed)
    texts = ["".join(generator.choices("abcdefghij", k=12)) for _ in range(2 * n)]
    return list(zip(texts[:n], texts[n:], strict=True))


def names(decision: Decisions) -> list[str]:
    return [FATES[code] for code in decision.fate.tolist()]


def test_shards_give_back_what_was_written(tmp_path: Path) -> None:
    one, other, third = letters(3), letters(4, 1), [("好 。", ""), ("", "x\u2028y")]
    corpus = scored_corpus(tmp_path, [[one, other], [], [third]])
    pairs = [*one, *other, *third]
    assert corpus.values_at(np.arange(9), "src", "tgt") == pairs
    rows = np.array([8, 0, 4])
    assert corpus.values_at(rows, "src", "tgt") == [pairs[row] for row in rows]
    assert corpus.origins_at(rows) == [("s2", 2), ("s0", 1), ("s0", 5)]
    assert corpus.shards[2].columns("src_chars")[0].tolist() == [3, 0]
    decision = Decisions(corpus, [DEFAULT] * 3)
    decision.fate[1] = 1
    assert list(decision.pairs_of("train")) == [pairs[0], *pairs[2:]]


def test_the_first_rule_above_its_threshold_names_the_fate(tmp_path: Path) -> None:
    first, second = "too_long", "identical"
    assert SCORED_RULES.index(first) < SCORED_RULES.index(second)
    scores = {first: [0, 2001, 2001, 2000, 0], second: [0, 41, 0, 41, 40]}
    corpus = scored_corpus(tmp_path, [[letters(3)], [letters(2, 1)]], scores)
    lax = DEFAULT.model_copy(update={first: False})
    tight = DEFAULT.model_copy(update={second: 30.0})
    for thresholds, expected in (
        ([DEFAULT, DEFAULT], ["train", first, first, second, "train"]),  # at the threshold: stays
        ([lax, tight], ["train", second, "train", second, second]),
    ):
        decision = Decisions(corpus, thresholds)
        decision.drop_by_scores()
        assert names(decision) == expected


def test_the_usual_ratio_is_the_corpus_own(tmp_path: Path) -> None:
    pairs = [("a" * size, "b" * 3 * size) for size in range(20, 120)]
    corpus = scored_corpus(tmp_path, [[[*pairs, ("a" * 100, "b" * 30), ("a" * 10, "b" * 900)]]])
    decision = Decisions(corpus, [DEFAULT])
    decision.drop_by_length_ratio()
    assert decision.usual_ratio == pytest.approx(3.0, rel=0.003)
    assert names(decision) == ["train"] * 101 + ["length_ratio"]
    decision.thresholds = [DEFAULT.model_copy(update={"length_ratio": 3.0})]
    decision.drop_by_length_ratio()
    assert names(decision)[100:] == ["length_ratio", "length_ratio"]
    src, tgt = np.array([10, 100, 7]), np.array([40, 20, 7])
    both_ways = length_ratio(src, tgt, 1.0), length_ratio(tgt, src, 1.0)
    assert both_ways[0] == pytest.approx(both_ways[1]) and both_ways[0][2] == 1


@pytest.mark.parametrize("at_once", [2**23, 7])
def test_duplicates_in_one_range_or_many(
    tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "KEYS_AT_ONCE", at_once)
    work_dir = tmp_path / "work"
    base = letters(30)
    again = [base[3], (base[4][0].upper() + "!", base[4][1]), ("new", base[5][1]), base[3]]
    corpus = scored_corpus(tmp_path, [[base[:20], base[20:]], [again]])
    for how, expected in (
        ("normalised", ["duplicate", "duplicate", "train", "duplicate"]),
        ("exact", ["duplicate", "train", "train", "duplicate"]),
        (False, ["train"] * 4),
    ):
        thresholds = [DEFAULT, DEFAULT.model_copy(update={"duplicate": how})]
        if how == "exact":
            thresholds[0] = thresholds[1]
        decision = Decisions(corpus, thresholds)
        decision.drop_duplicates(work_dir, workers=1)
        assert names(decision) == ["train"] * 30 + expected
    off = DEFAULT.model_copy(update={"duplicate": False})
    decision = Decisions(corpus, [off, DEFAULT])
    decision.drop_duplicates(work_dir, workers=1)
    expected = ["duplicate", "duplicate", "train", "duplicate"]
    assert names(decision) == ["train"] * 30 + expected, "pairs of another rule are repeated, too"
    decision = Decisions(corpus, [DEFAULT] * 2)
    decision.fate[[3, 30]] = 1
    monkeypatch.setattr(duplicates, "KEYS_AT_ONCE", 12)
    decision.drop_duplicates(work_dir, workers=1 if at_once == 7 else 2)  # two take ranges by turns
    assert names(decision)[-1] == "train", "what repeats a dropped pair is no duplicate"
    assert list(work_dir.iterdir()) == []


def test_random_rows_follow_text_and_seed_alone(tmp_path: Path) -> None:
    base = letters(3000)
    corpus = scored_corpus(tmp_path / "a", [[base[:2000], base[2000:]]])
    shuffled = random.Random(3).sample(base, len(base))
    other = scored_corpus(tmp_path / "b", [[shuffled, base[:50]]])  # 50 texts stand there twice
    one, two = Decisions(corpus, [DEFAULT]), Decisions(other, [DEFAULT])
    drawn, again = one.draw_rows(200, seed=1), two.draw_rows(200, seed=1)
    assert len(drawn) == 200
    assert set(corpus.values_at(drawn, "src")) == set(other.values_at(again, "src"))
    assert len(set(one.draw_rows(200, seed=2)) & set(drawn)) < 50
    assert len(one.draw_rows(10**6, seed=1)) == 3000
    one.fate[drawn] = 5
    assert not set(one.draw_rows(200, seed=1)) & set(drawn)


def test_hold_out_from_a_pool_smaller_than_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "POOL", 600)
    base = letters(2000)
    often = [(base[i][0], tgt) for i, (_, tgt) in zip(range(1000), letters(1000, 9), strict=False)]
    decision = Decisions(scored_corpus(tmp_path, [[base, often]]), [DEFAULT])
    decision.hold_out(["dev", "test"], seed=1)
    assert decision.held_out == {"dev": 50, "test": 50}
    held = [*decision.pairs_of("dev"), *decision.pairs_of("test.held_out")]
    kept = list(decision.pairs_of("train"))
    for side in (0, 1):
        assert not {pair[side] for pair in held} & {pair[side] for pair in kept}
    assert decision.count("overlap") == 0, "there were enough that cost nothing"
    assert len(kept) == 2900
