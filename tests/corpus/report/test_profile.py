"""What a text is like: counted here by hand, and on real text."""

import pytest

from transformer_mt.config.data import Languages
from transformer_mt.corpus.report.profile import LENGTH_EDGES, RATIO_EDGES, Histogram, profile

ZH_EN = Languages(src="zh", tgt="en")


def bin_of(histogram: Histogram) -> int:
    """The only bin that holds anything."""
    (found,) = [i for i, count in enumerate(histogram.counts) if count]
    return found


@pytest.mark.parametrize("length", [0, 1, 2, 3, 5, 7, 8, 10, 11, 45, 1023, 1024, 9999])
def test_bins_of_lengths(length: int) -> None:
    histogram = profile([("字" * length, "x")], ZH_EN).src.characters
    i = bin_of(histogram)
    assert LENGTH_EDGES[i] <= length
    assert i + 1 == len(LENGTH_EDGES) or length < LENGTH_EDGES[i + 1]
    assert histogram.edges == LENGTH_EDGES and len(histogram.counts) == len(LENGTH_EDGES)


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
