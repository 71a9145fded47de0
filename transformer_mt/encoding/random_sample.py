"""A random sample of a stream of unknown length, of a bounded size, in the order of the stream."""

import random
from typing import Generic, TypeVar

Item = TypeVar("Item")


class RandomSample(Generic[Item]):
    """Every item is as likely to be drawn as any other, whatever its size; the seed decides.

    Args:
        limit: of the sum of sizes; a stream of up to that is drawn whole.
    """

    def __init__(self, limit: int, seed: int) -> None:
        self._limit, self._random = limit, random.Random(seed)
        self._share = 1.0  # of the stream that is kept
        self._size = 0  # of the drawn items
        self._drawn: list[tuple[float, int, Item]] = []  # with a random number in [0, share)

    def add(self, item: Item, size: int) -> None:
        place = self._random.random()
        if place >= self._share:
            return
        self._drawn.append((place, size, item))
        self._size += size
        while self._size > self._limit:
            self._share *= 0.9
            self._drawn = [entry for entry in self._drawn if entry[0] < self._share]
            self._size = sum(size for _, size, _ in self._drawn)

    @property
    def items(self) -> list[Item]:
        return [item for _, _, item in self._drawn]
