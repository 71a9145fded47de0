"""Fates from scores: first rule wins, duplicates in rounds, medians, random rows, hold-out."""

import random
from pathlib import Path

import numpy as np
import pytest

from transformer_mt.config.data import CleanConfig
from transformer_mt.corpus.cleaning import decide as deciding
from transformer_mt.corpus.cleaning import holdout
from transformer_mt.corpus.cleaning.decide import FATES, Decisions, length_ratio
from transformer_mt.corpus.cleaning.holdout import hold_out
from transformer_mt.corpus.cleaning.rules import SCORED_RULES, comparison_key
from transformer_mt.corpus.cleaning.score_store import (
    ScoredCorpus,
    ScoredPairs,
    ScoredSource,
    hash_texts,
    mix,
    shard_path,
    write_scored,
)
from transformer_mt.corpus.readers.pairs import Pair

DEFAULT = CleanConfig(identical=40)


def scored(
    folder: Path, sources: list[list[list[Pair]]], scores: dict[str, list[float]] | None = None
) -> ScoredCorpus:
    """A corpus of sources of shards of pairs; scores for all rows in order, 0 by default."""
    start, found = 0, []
    for i, shards in enumerate(sources):
        source = ScoredSource(f"s{i}", folder / str(i), list(map(len, shards)), [])
        source.folder.mkdir()
        for number, pairs in enumerate(shards):
            rows = slice(start, start + len(pairs))
            columns = {
                rule: np.array((scores or {}).get(rule, [0.0] * 10**4)[rows], dtype=np.float32)
                for rule in SCORED_RULES
            }
            keys = [(comparison_key(src), comparison_key(tgt)) for src, tgt in pairs]
            lines = list(range(1, len(pairs) + 1))
            path = shard_path(source.folder, number)
            write_scored(ScoredPairs(lines, pairs, keys, columns), path)
            start += len(pairs)
        found.append(source)
    return ScoredCorpus(found)


def letters(n: int, seed: int = 0) -> list[Pair]:
    generator = random.Random(seed)
    texts = ["".join(generator.choices("abcdefghij", k=12)) for _ in range(2 * n)]
    return list(zip(texts[:n], texts[n:], strict=True))


def names(decision: Decisions) -> list[str]:
    return [FATES[code] for code in decision.fate.tolist()]


def test_shards_give_back_what_was_written(tmp_path: Path) -> None:
    one, other, third = letters(3), letters(4, 1), [("好 。", ""), ("", "x\u2028y")]
    corpus = scored(tmp_path, [[one, other], [third]])
    assert len(corpus) == 9
    assert [pair for shard in corpus.shards for pair in shard.pairs()] == [*one, *other, *third]
    assert corpus.pairs_at(np.array([8, 0, 4])) == [third[1], one[0], other[1]]
    assert corpus.origins_at(np.array([8, 0, 4])) == [("s1", 2), ("s0", 1), ("s0", 2)]
    (lengths,) = corpus.shards[2].columns("src_chars")
    assert lengths.tolist() == [3, 0]
    assert corpus.shards[0].pairs(np.array([True, False, True])) == [one[0], one[2]]


def test_mix_is_another_order_for_every_seed() -> None:
    hashes = hash_texts([str(number) for number in range(1000)])
    orders = [np.argsort(mix(hashes, seed)).tolist() for seed in (1, 2)]
    assert sorted(mix(hashes, 1).tolist()) != sorted(hashes.tolist())
    assert len(set(mix(hashes, 1).tolist())) == 1000
    assert orders[0] != orders[1]
    share = np.mean(mix(hashes, 1) < np.uint64(2**63))
    assert 0.4 < share < 0.6


def test_the_first_rule_above_its_threshold_names_the_fate(tmp_path: Path) -> None:
    first, second = "too_long", "identical"
    assert SCORED_RULES.index(first) < SCORED_RULES.index(second)
    scores = {first: [0, 2001, 2001, 2000, 0], second: [0, 41, 0, 41, 40]}
    corpus = scored(tmp_path, [[letters(3)], [letters(2, 1)]], scores)
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
    corpus = scored(tmp_path, [[[*pairs, ("a" * 100, "b" * 30), ("a" * 10, "b" * 900)]]])
    decision = Decisions(corpus, [DEFAULT])
    decision.drop_by_length_ratio()
    assert decision.usual_ratio == pytest.approx(3.0, rel=0.003)
    assert names(decision) == ["train"] * 100 + ["train", "length_ratio"]
    decision.thresholds = [DEFAULT.model_copy(update={"length_ratio": 3.0})]
    decision.drop_by_length_ratio()
    assert names(decision)[100:] == ["length_ratio", "length_ratio"]


def test_length_ratio_is_the_same_both_ways() -> None:
    src, tgt = np.array([10, 100, 7]), np.array([40, 20, 7])
    there, back = length_ratio(src, tgt, 1.0), length_ratio(tgt, src, 1.0)
    assert there == pytest.approx(back)
    assert (there >= 1).all() and there[2] == 1


@pytest.mark.parametrize("at_once", [2**23, 7])
def test_duplicates_in_one_round_or_many(
    tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding, "KEYS_AT_ONCE", at_once)
    base = letters(30)
    again = [base[3], (base[4][0].upper() + "!", base[4][1]), ("new", base[5][1])]
    corpus = scored(tmp_path, [[base[:20], base[20:]], [again]])
    for how, expected in (
        ("normalised", ["duplicate", "duplicate", "train"]),
        ("exact", ["duplicate", "train", "train"]),
        (False, ["train"] * 3),
    ):
        decision = Decisions(corpus, [DEFAULT.model_copy(update={"duplicate": how})] * 2)
        decision.drop_duplicates()
        assert names(decision) == ["train"] * 30 + expected


def test_a_repetition_of_a_dropped_pair_is_no_duplicate(tmp_path: Path) -> None:
    pair = letters(1)[0]
    corpus = scored(tmp_path, [[[pair, pair, pair]]])
    decision = Decisions(corpus, [DEFAULT])
    decision.fate[0] = 1
    decision.drop_duplicates()
    assert names(decision)[1:] == ["train", "duplicate"]


def test_a_source_may_keep_its_own_duplicates(tmp_path: Path) -> None:
    pair = letters(1)[0]
    corpus = scored(tmp_path, [[[pair]], [[pair]], [[pair]]])
    keeps = DEFAULT.model_copy(update={"duplicate": False})
    lax = DEFAULT.model_copy(update={"duplicate": "exact"})
    decision = Decisions(corpus, [lax, lax, keeps])
    decision.drop_duplicates()
    assert names(decision) == ["train", "duplicate", "train"]


def test_overlap_counts_what_it_may_not_drop(tmp_path: Path) -> None:
    base = letters(4)
    src_keys, tgt_keys = (
        hash_texts([comparison_key(base[i][side])]) for side, i in ((0, 1), (1, 2))
    )
    corpus = scored(tmp_path, [[base[:2]], [base[2:]]])
    decision = Decisions(corpus, [DEFAULT, DEFAULT.model_copy(update={"overlap": False})])
    decision.drop_overlap((src_keys, tgt_keys))
    assert names(decision) == ["train", "overlap", "train", "train"]
    assert decision.n_shared == 2


def test_random_rows_follow_text_and_seed_alone(tmp_path: Path) -> None:
    base = letters(3000)
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    corpus = scored(tmp_path / "a", [[base[:2000], base[2000:]]])
    shuffled = random.Random(3).sample(base, len(base))
    other = scored(tmp_path / "b", [[shuffled, base[:50]]])  # 50 texts stand there twice
    one, two = Decisions(corpus, [DEFAULT]), Decisions(other, [DEFAULT])
    drawn = one.draw_rows(200, seed=1)
    assert len(drawn) == 200
    assert set(corpus.pairs_at(drawn)) == set(other.pairs_at(two.draw_rows(200, seed=1)))
    assert set(one.draw_rows(200, seed=2)) != set(drawn)
    assert len(one.draw_rows(10**6, seed=1)) == 3000
    one.fate[drawn] = 5
    assert not set(one.draw_rows(200, seed=1)) & set(drawn)


def test_hold_out_from_a_pool_smaller_than_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holdout, "POOL", 600)
    base = letters(2000)
    often = [(base[i][0], tgt) for i, (_, tgt) in zip(range(1000), letters(1000, 9), strict=False)]
    corpus = scored(tmp_path, [[base, often]])
    decision = Decisions(corpus, [DEFAULT])
    assert hold_out(decision, ["dev", "test"], seed=1) == {"dev": 50, "test": 50}
    rows = {part: np.flatnonzero(decision.fate == FATES.index(part)) for part in FATES}
    held = corpus.pairs_at(np.concatenate([rows["dev"], rows["test.held_out"]]))
    kept = corpus.pairs_at(rows["train"])
    for side in (0, 1):
        assert not {pair[side] for pair in held} & {pair[side] for pair in kept}
    assert len(rows["overlap"]) == 0, "there were enough that cost nothing"
    assert len(kept) == 2900
