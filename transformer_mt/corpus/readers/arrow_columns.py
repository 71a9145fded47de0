"""NumPy arrays and texts ↔ Arrow columns, by their buffers.

`pyarrow.array` and `to_numpy` import pandas where it is installed, to know its series: 0.3 s and
40 MiB in each process that prepares a corpus.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from transformer_mt.system.arrays import Array

if TYPE_CHECKING:
    import pyarrow


def column_of_numbers(values: Array) -> "pyarrow.Array":
    """(n,) of integers or floats; the buffer is shared."""
    import pyarrow

    kind = pyarrow.from_numpy_dtype(values.dtype)
    buffer = pyarrow.py_buffer(np.ascontiguousarray(values))
    return pyarrow.Array.from_buffers(kind, len(values), [None, buffer])


def column_of_bytes(values: Sequence[bytes], kind: "pyarrow.DataType") -> "pyarrow.Array":
    """(n,) Args: kind: `large_binary`, or `large_string` where each is UTF-8."""
    import pyarrow

    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=ends[1:])
    buffers = [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(b"".join(values))]
    return pyarrow.Array.from_buffers(kind, len(values), buffers)


def array_of(column: "pyarrow.ChunkedArray") -> Array:
    """(n,) numbers without nulls; the buffer is shared if there is one chunk."""
    dtype = np.dtype(column.type.to_pandas_dtype())  # NumPy's, in spite of its name
    chunks = [
        np.frombuffer(chunk.buffers()[1], dtype, len(chunk), chunk.offset * dtype.itemsize)
        for chunk in column.chunks
    ]
    return chunks[0] if len(chunks) == 1 else np.concatenate([np.empty(0, dtype), *chunks])
