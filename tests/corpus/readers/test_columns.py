"""Arrow and Parquet of unknown origin: nothing is followed before it is checked."""

import struct
from pathlib import Path

import pyarrow
import pytest
from pyarrow import ipc, parquet

from transformer_mt.config.data import Languages
from transformer_mt.corpus.readers import columns
from transformer_mt.corpus.readers.columns import read_arrow
from transformer_mt.errors import DataError

ZH_EN = Languages(src="zh", tgt="en")


def texts(offsets: list[int], data: bytes) -> pyarrow.Array:
    buffers = (struct.pack(f"<{len(offsets)}i", *offsets), data)
    return pyarrow.StringArray.from_buffers(len(offsets) - 1, *map(pyarrow.py_buffer, buffers))


def write(path: Path, en: pyarrow.Array, *, stream: bool = False) -> None:
    zh = pyarrow.array(["x"] * len(en))
    batch = pyarrow.RecordBatch.from_arrays([zh, en], ["zh", "en"])
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_batches([batch]), path)
        return
    with (ipc.new_stream if stream else ipc.new_file)(str(path), batch.schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch)


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        list(read_arrow(path, ZH_EN, swapped=False))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("stream", [False, True])
def test_offsets_that_point_elsewhere(tmp_path: Path, stream: bool) -> None:
    """Followed, these end the process."""
    path = tmp_path / "t.arrow"
    write(path, texts([0, 1, 2_000_000_000, 3], b"abc"), stream=stream)
    message = refusal(path)
    assert message.startswith(f"{path}: row 2: column en: damaged text: ")


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_text_that_is_not_utf8(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    write(path, texts([0, 1, 2, 3], b"ab\xff"))
    assert f"{path}: row 3: column en: damaged text: Invalid UTF8" in refusal(path)


def test_the_row_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    size = columns._ROWS + 500
    write(path, texts(list(range(size + 1)), b"a" * (size - 1) + b"\xff"))
    assert f"row {size}: column en" in refusal(path)


def test_indices_beyond_the_dictionary(tmp_path: Path) -> None:
    indices = pyarrow.array([0, 10**6], pyarrow.int32())
    en = pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(["a"]), safe=False)
    write(tmp_path / "t.arrow", en)
    assert "row 2: column en: damaged text: Dictionary indices invalid" in refusal(
        tmp_path / "t.arrow"
    )


def test_a_large_text_of_a_dictionary_is_decoded_once(tmp_path: Path) -> None:
    """A MiB, ten thousand times: as many copies would not fit into memory."""
    indices = pyarrow.array([0, None, 1] * 3000, pyarrow.int32())
    dictionary = pyarrow.array(["a" * 2**20, None])
    write(tmp_path / "t.arrow", pyarrow.DictionaryArray.from_arrays(indices, dictionary))
    found = [tgt for _, tgt in read_arrow(tmp_path / "t.arrow", ZH_EN, swapped=False)]
    assert len(found) == 18_000 and found[:3] == ["a" * 2**20, "", ""]
    assert len(set(map(id, found))) <= 5


def test_nothing_but_missing_values_and_names_twice(tmp_path: Path) -> None:
    nulls = pyarrow.nulls(3)
    table = pyarrow.table([nulls, nulls], ["zh", "en"])
    parquet.write_table(table, tmp_path / "t.parquet")
    assert "columns zh and en: hold nothing but missing values" in refusal(tmp_path / "t.parquet")
    twice = pyarrow.RecordBatch.from_arrays([pyarrow.array(["a"])] * 3, ["zh", "en", "en"])
    with ipc.new_file(str(tmp_path / "t.arrow"), twice.schema) as writer:
        writer.write_batch(twice)
    assert "column en: is there 2 times" in refusal(tmp_path / "t.arrow")
