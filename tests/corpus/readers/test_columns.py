"""Arrow and Parquet of unknown origin: nothing is followed before it is checked."""

import struct
from pathlib import Path

import pyarrow
import pytest
from pyarrow import ipc, parquet
from reading import read, refusal

from transformer_mt.corpus.readers import columns

BEYOND = pyarrow.array([0, 10**6], pyarrow.int32())


def texts(offsets: list[int], data: bytes) -> pyarrow.Array:
    buffers = (struct.pack(f"<{len(offsets)}i", *offsets), data)
    return pyarrow.StringArray.from_buffers(len(offsets) - 1, *map(pyarrow.py_buffer, buffers))


def write(path: Path, en: pyarrow.Array, names: tuple[str, ...] = ("zh", "en")) -> None:
    zh = pyarrow.array(["x"] * len(en))
    batch = pyarrow.RecordBatch.from_arrays([zh, en, en][: len(names)], names)
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_batches([batch]), path)
        return
    new = ipc.new_stream if path.stem == "stream" else ipc.new_file
    with new(str(path), batch.schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch)


@pytest.mark.parametrize(
    ("name", "en", "message"),
    [
        ("t.arrow", texts([0, 1, 2_000_000_000, 3], b"abc"), "row 2: column en: damaged text: "),
        ("stream.arrow", texts([0, 1, 2_000_000_000, 3], b"abc"), "row 2: column en: damaged "),
        ("t.arrow", texts([0, 1, 2, 3], b"ab\xff"), "row 3: column en: damaged text: Invalid UTF8"),
        ("t.parquet", texts([0, 1, 2, 3], b"ab\xff"), "row 3: column en: damaged text: Invalid"),
        ("t.parquet", texts([*range(10_501)], b"a" * 10_499 + b"\xff"), "row 10500: column en"),
        ("t.arrow", pyarrow.DictionaryArray.from_arrays(BEYOND, pyarrow.array(["a"]), safe=False),
         "row 2: column en: damaged text: Dictionary indices invalid"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_damaged_columns(tmp_path: Path, name: str, en: pyarrow.Array, message: str) -> None:
    """Followed, such offsets and indices end the process."""
    assert columns._ROWS == 10_000, "the row is that of the file, not of a batch"
    write(tmp_path / name, en)
    assert refusal(tmp_path, path=name).startswith(f"{tmp_path / name}: {message}")


def test_a_name_twice(tmp_path: Path) -> None:
    write(tmp_path / "t.arrow", pyarrow.array(["a"]), ("zh", "en", "en"))
    assert "column en: is there 2 times" in refusal(tmp_path, path="t.arrow")


def test_a_large_text_of_a_dictionary_is_decoded_once(tmp_path: Path) -> None:
    """A MiB, ten thousand times: as many copies would not fit into memory."""
    indices = pyarrow.array([0, None, 1] * 3000, pyarrow.int32())
    dictionary = pyarrow.array(["a" * 2**20, None])
    write(tmp_path / "t.arrow", pyarrow.DictionaryArray.from_arrays(indices, dictionary))
    found = [tgt for _, tgt in read(tmp_path, path="t.arrow")]
    assert len(found) == 18_000 and found[:3] == ["a" * 2**20, "", ""]
    assert len(set(map(id, found))) <= 5
