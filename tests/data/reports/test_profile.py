"""What a text is like: counted here by hand, and on real text."""

import random
from pathlib import Path

import pytest

from transformer_mt.config import TokenizerConfig
from transformer_mt.config_data import Languages
from transformer_mt.data.reports.profile import (
    LENGTH_EDGES,
    RATIO_EDGES,
    Histogram,
    profile,
    vocabulary_report,
)
from transformer_mt.data.tokenizer import train_tokenizer

SHARED_DATA = Path(__file__).parents[4] / "shared/data"
ZH_EN = Languages(src="zh", tgt="en")


def bin_of(histogram: Histogram) -> int:
    """The only bin that holds anything."""
    (found,) = [i for i, count in enumerate(histogram.counts) if count]
    return found


def test_every_pair_is_in_one_bin_of_each_histogram() -> None:
    draw = random.Random(3)
    pairs = [("字" * draw.randrange(0, 3000), "w" * draw.randrange(0, 3000)) for _ in range(500)]
    found = profile(pairs, ZH_EN)
    for histogram in (found.src.characters, found.tgt.characters, found.ratio):
        assert sum(histogram.counts) == found.pairs == 500
        assert len(histogram.edges) == len(histogram.counts)
        assert histogram.edges == sorted(histogram.edges)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 7, 8, 10, 11, 45, 1023, 1024, 9999])
def test_bins_of_lengths(length: int) -> None:
    i = bin_of(profile([("字" * length, "x")], ZH_EN).src.characters)
    assert LENGTH_EDGES[i] <= length
    assert i + 1 == len(LENGTH_EDGES) or length < LENGTH_EDGES[i + 1]


@pytest.mark.parametrize("ratio", [1 / 8, 1 / 2, 1, 2, 4, 8])
def test_a_ratio_on_an_edge_belongs_to_the_bin_above(ratio: float) -> None:
    i = bin_of(profile([("字" * 16, "w" * int(16 * ratio))], ZH_EN).ratio)
    assert RATIO_EDGES[i] == pytest.approx(ratio)


def test_shares_and_counts() -> None:
    pairs = [
        ("我们有3个苹果", "We have 3 apples"),
        ("見 https://a.org", "See https://a.org"),
        ("<b>山</b>", "a <b>mountain</b>"),
        ("山", "We"),
    ]
    found = profile(pairs, ZH_EN)
    assert (found.src.with_digits, found.src.with_urls, found.src.with_markup) == (0.25, 0.25, 0.25)
    assert (found.tgt.with_digits, found.tgt.with_urls, found.tgt.with_markup) == (0.25, 0.25, 0.25)
    assert found.src.chinese == {
        "simplified": 0.25, "traditional": 0.25, "mixed": 0.0, "either": 0.5
    }  # fmt: skip
    assert found.tgt.chinese == {}
    assert found.src.distinct_words is None
    words = {"we", "have", "3", "apples", "see", "https", "a", "org", "b", "mountain"}
    assert found.tgt.distinct_words == len(words)
    assert found.tgt.scripts == {"Latin": 1.0}
    assert list(found.src.scripts) == ["Latin", "Han"]
    assert sum(found.src.scripts.values()) == pytest.approx(1)
    assert found.src.quantiles["max"] == 15
    assert found.src.quantiles["min"] == 1


def test_no_pairs_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="at least one pair"):
        profile([], ZH_EN)


def test_vocabulary_report(tmp_path: Path) -> None:
    cfg = TokenizerConfig.model_validate({"type": "bpe", "vocab_size": 290})
    train = ["the cat sat on the mat", "the dog sat"] * 20
    tokenizer = train_tokenizer(train, tmp_path / "t.model", cfg, ["en"], seed=1)
    seen = vocabulary_report(tokenizer, train, train, "en")
    assert (seen.type_coverage, seen.token_coverage, seen.unknown_rate) == (1, 1, 0)
    assert seen.byte_rate == 0
    assert seen.vocab_size == tokenizer.vocab_size
    other = vocabulary_report(tokenizer, train, ["the the the zebra"], "en")
    assert (other.type_coverage, other.token_coverage) == (0.5, 0.75)
    n_tokens = len(tokenizer.encode(["the the the zebra"])[0])
    assert other.tokens_per_word == n_tokens / 4
    assert other.tokens_per_character == n_tokens / len("the the the zebra")
    chinese = vocabulary_report(tokenizer, ["我们"], ["我 你"], "zh")
    assert (chinese.type_coverage, chinese.token_coverage) == (0.5, 0.5)
    assert chinese.tokens_per_word is None
    assert chinese.byte_rate > 0.5  # three bytes for each character
    nothing = vocabulary_report(tokenizer, [], [], "en")
    assert nothing.tokens_per_character == 0


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason=f"no real corpora in {SHARED_DATA}")
def test_real_text_looks_like_itself() -> None:
    folder = SHARED_DATA / "tatoeba-zh-en"
    texts = [
        (folder / f"dev.{code}").read_text(encoding="utf-8").split("\n")[:-1]
        for code in ("zh", "en")
    ]
    found = profile(list(zip(*texts, strict=True)), ZH_EN)
    assert found.src.scripts["Han"] > 0.99
    assert found.tgt.scripts["Latin"] == 1
    assert found.src.chinese["simplified"] > 0.5
    assert found.src.chinese["traditional"] < 0.01
    assert 2 < found.ratio_quantiles["p50"] < 4
