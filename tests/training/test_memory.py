"""Want of memory: errors are recognised, and what does not fit is split."""

import os
from collections.abc import Callable

import numpy as np
import pytest
import torch
from encoded import encoded_side

from transformer_mt.encoding.encoded_corpus import EncodedCorpus
from transformer_mt.errors import TrainingError
from transformer_mt.training.memory import halves, is_out_of_memory


def raised(cause: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as caught:
        cause()
    return caught.value


@pytest.mark.parametrize(
    ("error", "expected", "why"),
    [
        (raised(lambda: torch.empty(10**15)), True, "the CPU allocator"),
        (raised(lambda: np.empty(10**15)), True, "numpy's own kind of MemoryError"),
        (raised(lambda: bytearray(10**15)), True, "Python"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True, "a GPU"),
        (raised(lambda: torch.empty(2**62, dtype=torch.int64)), False, "no such size: a bug"),
        (raised(lambda: torch.ones(3) @ torch.ones(4)), False, "shapes: a bug"),
        (raised(lambda: os.stat("/nowhere/at/all")), False, "a file"),
        (RuntimeError("ran out of memory of patience"), False, "not the allocator's words"),
    ],
)
def test_errors(error: BaseException, expected: bool, why: str) -> None:
    assert is_out_of_memory(error) is expected, why


@pytest.mark.parametrize("n", [2, 3, 8, 101])
def test_halves_are_the_batch_in_its_order(n: int) -> None:
    rows = np.random.default_rng(n).permutation(n)
    sides = encoded_side([[4] * 169] * n), encoded_side([[4] * 189] * n)
    parts = halves(rows, EncodedCorpus(*sides))
    assert np.concatenate(parts).tolist() == rows.tolist()
    assert sorted(map(len, parts)) == [n // 2, n - n // 2]
    with pytest.raises(TrainingError, match=r"pair 1 .*170 source and 190 target .*below 190"):
        halves(np.array([1]), EncodedCorpus(*sides))
