"""NumPy arrays → `.npy` files, so that a disk that is full is noticed; parts of files, read ahead.

`numpy.save` writes through buffers of the C library and does not ask whether closing them
succeeded; a file that is mapped while the disk fills up ends the process. Python's files raise.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


def save_array(path: Path, array: Array) -> None:
    """Write an array, of one dimension or more, as `numpy.load` reads it."""
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        _write_header(file, array.dtype, array.shape)
        file.write(array.data)


@contextmanager
def growing_array(path: Path, dtype: np.dtype[Any] | type) -> Iterator[Callable[[Array], None]]:
    """Write an array of one dimension block by block, with the function that is yielded."""
    dtype = np.dtype(dtype)
    length = 0

    def append(block: Array) -> None:
        nonlocal length
        file.write(np.ascontiguousarray(block, dtype=dtype).data)
        length += len(block)

    with path.open("wb") as file:
        _write_header(file, dtype, (0,))
        start = file.tell()
        yield append
        file.seek(0)
        _write_header(file, dtype, (length,))
        assert file.tell() == start, "NumPy leaves room in a header for a longer first axis"


def _write_header(file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)


def read_ahead(path: Path, starts: Ints, ends: Ints) -> None:
    """Ask the system to read these bytes of a file into its cache; it may read them later.

    Args:
        starts, ends: (parts,) bytes. A few bytes more or less make no difference: it reads pages.
    """
    if hasattr(os, "posix_fadvise"):  # macOS has none
        with path.open("rb", buffering=0) as file:
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                os.posix_fadvise(file.fileno(), start, end - start, os.POSIX_FADV_WILLNEED)
