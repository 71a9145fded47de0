"""Options of a search: numbers that a search can be run with, and a message for all others."""

from typing import Any

import pytest

from transformer_mt.config import DecodeConfig
from transformer_mt.errors import ConfigError
from transformer_mt.inference.options import SearchOptions
from transformer_mt.inference.sampling import Sampling

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("value", [NAN, INF, -INF, 1e308, -1.0, 10**30])
@pytest.mark.parametrize(
    "name",
    ["beam", "length_penalty", "max_length_ratio", "min_length", "max_length", "n_best",
     "no_repeat_ngram", "repetition_penalty", "mbr"],
)  # fmt: skip
def test_numbers_of_no_use(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{name.replace('_', ' ')} .*expected [0-9]"):
        SearchOptions.of(DecodeConfig(), **{name: value})


@pytest.mark.parametrize(
    ("sampling", "message"),
    [
        (Sampling(temperature=NAN), "temperature nan: expected 0.01 to 1,000"),
        (Sampling(temperature=INF), "temperature inf: expected 0.01 to 1,000"),
        (Sampling(temperature=0.0), "temperature 0: expected 0.01 to 1,000"),
        (Sampling(top_p=NAN), "top-p nan: expected more than 0"),
        (Sampling(top_k=-1), "top-k -1: expected a number of tokens"),
        (Sampling(seed=10**30), "the seed has more than 64 bits"),
    ],
)
def test_sampling_of_no_use(sampling: Sampling, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SearchOptions(sampling=sampling)


def test_the_ends_of_the_ranges() -> None:
    SearchOptions(beam=1000, length_penalty=10.0, max_length_ratio=1000.0, repetition_penalty=1.0)
    SearchOptions(length_penalty=0.0, max_length_ratio=0.1, sampling=Sampling(seed=-1))
