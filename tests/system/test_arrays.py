"""Arrays on disk: the same bytes as NumPy's, and a full disk is an error."""

from pathlib import Path

import numpy as np
import pytest
from full_disk import limited_file_size

from transformer_mt.system.arrays import growing_array, save_array


@pytest.mark.parametrize("dtype", ["uint16", "int64", "float32", "bool", "uint8"])
@pytest.mark.parametrize("shape", [(0,), (1,), (1000,), (3, 5), (0, 4)])
def test_a_file_is_what_numpy_writes(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).integers(0, 2, size=shape).astype(dtype)
    save_array(tmp_path / "own.npy", array)
    np.save(tmp_path / "numpy.npy", array)
    assert (tmp_path / "own.npy").read_bytes() == (tmp_path / "numpy.npy").read_bytes()
    save_array(tmp_path / "own.npy", np.asfortranarray(array)[::-1])
    assert np.array_equal(np.load(tmp_path / "own.npy"), array[::-1])


@pytest.mark.parametrize("n", [0, 10, 123_456])
def test_blocks_make_up_one_array(tmp_path: Path, n: int) -> None:
    with growing_array(tmp_path / "own.npy", np.int64) as append:
        for block in (np.arange(n // 3), np.arange(0), np.arange(n // 3, n, dtype=np.int32)):
            append(block)
    np.save(tmp_path / "numpy.npy", np.arange(n))
    assert (tmp_path / "own.npy").read_bytes() == (tmp_path / "numpy.npy").read_bytes()


def test_a_disk_that_takes_no_more_is_an_error(tmp_path: Path) -> None:
    with limited_file_size(1000), pytest.raises(OSError, match="File too large"):
        save_array(tmp_path / "a.npy", np.zeros(1000))
    with (
        limited_file_size(1000),
        pytest.raises(OSError, match="File too large"),
        growing_array(tmp_path / "b.npy", np.float64) as append,
    ):
        append(np.zeros(1000))
