"""NumPy arrays → `.npy` files, so that a disk that is full is noticed; parts of files, read ahead.

`numpy.save` writes through buffers of the C library and does not ask whether closing them
succeeded; a file that is mapped while the disk fills up ends the process. Python's files raise.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]


def save_array(path: Path, array: Array) -> None:
    """Write an array, of one dimension or more, as `numpy.load` reads it."""
    array = np.ascontiguousarray(array)
    save_blocks(path, array.dtype, array.shape, [array])


def save_blocks(
    path: Path, dtype: np.dtype[Any] | type, shape: tuple[int, ...], blocks: Iterable[Array]
) -> None:
    """Write an array that comes in blocks along its first axis."""
    dtype = np.dtype(dtype)
    n_bytes = 0
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": dtype.str, "fortran_order": False, "shape": shape}
        )
        for block in blocks:
            content = np.ascontiguousarray(block, dtype=dtype)
            file.write(content.data)
            n_bytes += content.nbytes
    if n_bytes != dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
        raise ValueError(f"{n_bytes} bytes for the shape {shape} of {dtype}")


def read_ahead(path: Path, starts: Ints, ends: Ints) -> None:
    """Ask the system to read these bytes of a file into its cache; it may read them later.

    Args:
        starts, ends: (parts,) bytes. A few bytes more or less make no difference: it reads pages.
    """
    if hasattr(os, "posix_fadvise"):  # macOS has none
        with path.open("rb", buffering=0) as file:
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                os.posix_fadvise(file.fileno(), start, end - start, os.POSIX_FADV_WILLNEED)
