"""Options of a search: which numbers there are."""

import itertools
import math
import re
from typing import Any

import pytest

from transformer_mt.errors import ConfigError
from transformer_mt.search.options import MOST_ROWS, SearchOptions
from transformer_mt.search.sampling import SamplingOptions

NUMBERS = ["length_penalty", "max_length_ratio", "repetition_penalty"]
COUNTS = ["beam", "n_best", "mbr", "min_length"]
SAMPLING = ["temperature", "top_p"]


@pytest.mark.parametrize(
    ("names", "values"),
    [
        ([*NUMBERS, *SAMPLING], [math.nan, math.inf, -math.inf, 1e308, -1.0]),
        (COUNTS, [-1, 10**6, 10**30]),
    ],
)
def test_numbers_out_of_range(names: list[str], values: list[float]) -> None:
    for name, value in itertools.product(names, values):
        changes: dict[str, Any] = {name: value}
        if name in SAMPLING:
            changes = {"sampling": SamplingOptions(**changes)}
        message = f"^{name.replace('_', ' ')} {re.escape(str(value))}: expected a"
        with pytest.raises(ConfigError, match=message):
            SearchOptions(**changes)


def test_all_problems_are_told() -> None:
    with pytest.raises(ConfigError, match=r"beam 0: .*\nlength penalty nan: .*\nseed"):
        SearchOptions(beam=0, length_penalty=math.nan, sampling=SamplingOptions(seed=2**70))


def test_the_product_is_limited() -> None:
    assert SearchOptions(beam=10, n_best=MOST_ROWS // 10, diverse=True).rows == MOST_ROWS
    with pytest.raises(ConfigError, match="their product may be 1000 at most"):
        SearchOptions(beam=11, n_best=MOST_ROWS // 10, diverse=True)


def test_the_ends_of_the_ranges() -> None:
    SearchOptions(beam=1, length_penalty=0, max_length_ratio=0.01, repetition_penalty=1)
    SearchOptions(beam=MOST_ROWS, n_best=MOST_ROWS, length_penalty=10, max_length_ratio=1000)
    SearchOptions(sampling=SamplingOptions(0.01, 10**9, 0.001, -(2**63)))
