"""Parquet, Arrow and Feather files → pairs.

Comes in: a file of unknown origin. Goes out: (source, target) texts, one by one. Arrow checks each
column as a whole before its texts are read, since it follows offsets wherever they point. Files are
read, not mapped into memory: a mapped file that gets shorter ends the process. This file does not
know where files lie, nor the names of columns: see `tables.py`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_mt.config.data import Languages
from transformer_mt.corpus.readers.lines import COMPRESSED
from transformer_mt.corpus.readers.tables import Pair, find_keys, no_keys
from transformer_mt.errors import DataError

if TYPE_CHECKING:
    import pyarrow

_ROWS = 10_000  # in memory as Python texts at once
Field = tuple[str, ...]  # a column, or a field of the column translation


def read_arrow(path: Path, languages: Languages, *, swapped: bool) -> Iterator[Pair]:
    """Two columns of a Parquet, Arrow or Feather file, named as in `pair_of_row`.

    Raises:
        DataError: the file is damaged, lacks the columns, or they do not hold text.
    """
    import pyarrow

    if path.suffix in COMPRESSED:
        raise DataError(f"{path}: such files are compressed inside: decompress this one first")
    try:
        first_row = 1
        for batch, fields in _batches(path, languages, swapped):
            columns = [_Column(batch, field, path, first_row) for field in fields]
            for start in range(0, batch.num_rows, _ROWS):
                texts = [column.texts(start) for column in columns]
                yield from zip(*texts, strict=True)
            first_row += batch.num_rows
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: of names
        cause = " ".join(str(error).split())
        raise DataError(f"{path}: damaged, or not {path.suffix[1:]} data: {cause}") from error


def _batches(
    path: Path, languages: Languages, swapped: bool
) -> Iterator[tuple["pyarrow.RecordBatch", list[Field]]]:
    """Batches of rows, with the fields of the source and the target column."""
    import pyarrow
    from pyarrow import ipc, parquet

    with pyarrow.OSFile(str(path)) as file:
        if path.suffix.lower() == ".parquet":
            table = parquet.ParquetFile(file)
            fields = _text_fields(table.schema_arrow, path, languages, swapped)
            names = [".".join(field) for field in fields]
            batches = table.iter_batches(_ROWS, columns=names, use_threads=False)
            yield from ((batch, fields) for batch in batches)
            return
        # Hugging Face datasets are saved as streams
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        open_table = ipc.open_file if is_file else ipc.open_stream
        schema = open_table(file).schema
        fields = _text_fields(schema, path, languages, swapped)
        file.seek(0)
        wanted = [schema.names.index(field[0]) for field in fields]
        options = ipc.IpcReadOptions(included_fields=sorted(set(wanted)), use_threads=False)
        table = open_table(file, options=options)
        for number in range(table.num_record_batches) if is_file else ():
            yield table.get_batch(number), fields
        if not is_file:
            yield from ((batch, fields) for batch in table)


class _Column:
    """One side of a batch, checked."""

    def __init__(
        self, batch: "pyarrow.RecordBatch", field: Field, path: Path, first_row: int
    ) -> None:
        """Raises: DataError: its offsets, its text or its indices are damaged; names the row."""
        import pyarrow

        column = batch.column(field[0])
        try:
            for name in field[1:]:
                column.validate()  # lengths of the fields, not their content
                column = column.flatten()[column.type.get_field_index(name)]
            column.validate(full=True)
        except pyarrow.ArrowInvalid as error:
            row = first_row + _first_damaged(column)
            cause = " ".join(str(error).split())
            raise DataError(
                f"{path}: row {row}: column {'.'.join(field)}: damaged text: {cause}; write the "
                "file again from what it was made of"
            ) from error
        self._column = column

    def texts(self, start: int) -> list[str]:
        """Up to `_ROWS` texts from row `start` on; a missing value is an empty text."""
        import pyarrow

        rows = self._column.slice(start, _ROWS)
        if pyarrow.types.is_dictionary(rows.type):
            return _dictionary_texts(rows)
        texts = rows.to_pylist()
        return [text or "" for text in texts] if rows.null_count else texts


def _dictionary_texts(rows: "pyarrow.DictionaryArray") -> list[str]:
    """The texts of rows; each distinct text is decoded once."""
    used = rows.indices.dictionary_encode()
    texts = rows.dictionary.take(used.dictionary).to_pylist()
    return ["" if i is None else texts[i] or "" for i in used.indices.to_pylist()]


def _first_damaged(column: "pyarrow.Array") -> int:
    """The first row that fails the check alone; 0 if each row passes."""
    import pyarrow

    for row in range(len(column)):
        try:
            column.slice(row, 1).validate(full=True)
        except pyarrow.ArrowInvalid:
            return row
    return 0


def _text_fields(
    schema: "pyarrow.Schema", path: Path, languages: Languages, swapped: bool
) -> list[Field]:
    """The fields of source and target: a column each, or fields of the column translation."""
    from pyarrow import types

    fields = {field.name: field.type for field in schema}
    inside = "translation" in fields and types.is_struct(fields["translation"])
    if inside:
        fields = {field.name: field.type for field in fields["translation"]}
    keys = find_keys(tuple(fields), languages.src, languages.tgt, swapped)
    if keys is None:
        raise DataError(f"{path}: {no_keys(fields, languages)}")
    kinds = [
        fields[key].value_type if types.is_dictionary(fields[key]) else fields[key] for key in keys
    ]
    for name in ("translation",) if inside else keys:
        if schema.names.count(name) > 1:
            raise DataError(f"{path}: column {name}: is there {schema.names.count(name)} times")
    for key, kind in zip(keys, kinds, strict=True):
        if not (types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind)):
            raise DataError(f"{path}: column {key}: expected text, found {kind}")
    if all(map(types.is_null, kinds)):
        raise DataError(f"{path}: columns {' and '.join(keys)}: hold nothing but missing values")
    return [("translation", key) if inside else (key,) for key in keys]
