"""Columns made of buffers are those that pyarrow makes, and pandas is not asked."""

import subprocess
import sys

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_mt.corpus.readers.arrow_columns import array_of, column_of_bytes, column_of_numbers


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts(texts: list[str]) -> None:
    column = column_of_bytes([text.encode() for text in texts], pyarrow.large_string())
    column.validate(full=True)
    assert column.equals(pyarrow.array(texts, pyarrow.large_string()))


@pytest.mark.parametrize("dtype", ["uint16", "int32", "uint64", "float32", "float64"])
@given(values=st.lists(st.integers(0, 2**16 - 1)), step=st.sampled_from([1, 2, -1]))
def test_numbers_and_back(dtype: str, values: list[int], step: int) -> None:
    array = np.array(values, dtype)[::step]
    column = column_of_numbers(array)
    column.validate(full=True)
    assert column.equals(pyarrow.array(array))
    for chunks in ([column], [column[1:]], [column[:3], column[3:]], []):
        found = array_of(pyarrow.chunked_array(chunks, column.type))
        expected = pyarrow.chunked_array(chunks, column.type).to_numpy()
        assert found.dtype == expected.dtype and found.tolist() == expected.tolist()


def test_a_shard_is_written_and_read_without_pandas() -> None:
    code = """if True:
        import sys, tempfile
        from pathlib import Path
        import numpy as np
        from transformer_mt.corpus.cleaning.score_store import Shard, write_scored
        path = Path(tempfile.mkdtemp()) / "0.arrow"
        pairs = [("猫", "cat"), ("狗", "dog"), ("", "")]
        write_scored(path, pairs, pairs, {"length": np.array([1, 2, np.nan], np.float32)})
        shard = Shard(path, 0, 0, 3)
        (lengths,), rows = shard.columns("length"), shard.values(np.array([2, 0]), "src", "tgt")
        print(lengths.tolist(), list(rows), "pandas" in sys.modules)
    """
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[1.0, 2.0, nan] [('', ''), ('猫', 'cat')] False\n"
