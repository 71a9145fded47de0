"""A sample of a stream: all of a short one, a fair part of a long one, in its order."""

from transformer_mt.encoding.random_sample import RandomSample


def drawn(sizes: list[int], limit: int, seed: int) -> list[int]:
    sample: RandomSample[int] = RandomSample(limit, seed)
    for item, size in enumerate(sizes):
        sample.add(item, size)
        assert sum(sizes[kept] for kept in sample.items) <= limit
    assert sample.items == sorted(sample.items)
    return sample.items


def test_every_item_is_as_likely_as_any_other_and_the_limit_is_used() -> None:
    sizes = [1 + i % 3 for i in range(100)]
    counts = [0] * len(sizes)
    for seed in range(1000):
        items = drawn(sizes, sum(sizes) // 2, seed)
        assert sum(sizes[item] for item in items) > sum(sizes) / 4
        for item in items:
            counts[item] += 1
    # Each is drawn with the same chance; the standard deviation of a count is at most 16.
    assert max(counts) - min(counts) < 8 * 16


def test_a_short_stream_is_drawn_whole() -> None:
    assert drawn([20] * 50, 1000, seed=1) == list(range(50))


def test_the_seed_decides() -> None:
    first, again, other = (drawn([1] * 1000, 100, seed) for seed in (1, 1, 2))
    assert first == again != other
