"""Columns of tables → pairs: Parquet, Arrow and Feather files, and Hugging Face datasets.

Arrow checks each column as a whole before its texts are read, since it follows offsets wherever
they point. Files are read, not mapped into memory: a mapped file that gets shorter ends the
process. This file does not know the names of columns: see `tables.py`.
"""

import socket
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from transformer_mt.config.data import Languages, Source
from transformer_mt.corpus.readers.lines import COMPRESSED, expand
from transformer_mt.corpus.readers.paths import looking_at
from transformer_mt.corpus.readers.tables import Pair, Role, find_keys, no_keys
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr

if TYPE_CHECKING:
    import pyarrow

_CONNECT_S = 10.0
_ROWS = 10_000  # in memory as Python texts at once
_SPLITS: dict[Role, str] = {"train": "train", "dev": "validation", "test": "test"}
_Field = tuple[str, ...]  # a column, or a field of the column translation


def read_arrow(path: Path, languages: Languages, *, swapped: bool) -> Iterator[Pair]:
    """Two columns of a Parquet, Arrow or Feather file, named as `find_keys` has it."""
    import pyarrow
    from pyarrow import ipc, parquet

    if path.suffix in COMPRESSED:
        raise DataError(tr("{}: such files are compressed inside: decompress this one first", path))
    batches: Iterable[pyarrow.RecordBatch]
    try:
        with pyarrow.OSFile(str(path)) as file:
            if path.suffix.lower() == ".parquet":
                table = parquet.ParquetFile(file)
                fields = _text_fields(table.schema_arrow, path, languages, swapped)
                names = [".".join(field) for field in fields]
                batches = table.iter_batches(_ROWS, columns=names, use_threads=False)
            else:
                is_file = file.read(6) == b"ARROW1"  # Hugging Face datasets are saved as streams
                file.seek(0)
                table = ipc.open_file(file) if is_file else ipc.open_stream(file)
                fields = _text_fields(table.schema, path, languages, swapped)
                numbers = range(table.num_record_batches) if is_file else ()
                batches = map(table.get_batch, numbers) if is_file else table
            yield from _pairs(batches, fields, path)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: of names
        cause = " ".join(str(error).split())
        raise DataError(
            tr("{}: damaged, or not {} data: {}", path, path.suffix[1:], cause)
        ) from error


def read_hub(
    source: Source, languages: Languages, *, root: Path, role: Role, offline: bool, swapped: bool
) -> Iterator[Pair]:
    """Two columns of a Hugging Face dataset, from the hub, its cache or a local folder.

    Rows are read batch by batch from memory-mapped files, so that the size does not matter. The
    role chooses the split where the source names none.
    """
    assert source.hf is not None
    folder = root / expand(source.hf)
    with looking_at(folder):
        is_file = folder.is_file()
    if is_file:
        raise DataError(
            tr("{}: hf takes a dataset name or a folder; for a file write its path alone", folder)
        )
    split = source.split or _SPLITS[role]
    dataset = _load(source, folder, split, offline, languages).with_format("arrow")
    fields = _text_fields(dataset.features.arrow_schema, source, languages, swapped)
    batches = (batch for table in dataset.iter(_ROWS) for batch in table.to_batches())
    yield from _pairs(batches, fields, source)


def _load(source: Source, folder: Path, split: str, offline: bool, languages: Languages) -> Any:
    import datasets

    name = str(folder) if folder.is_dir() else source.hf
    away = None if offline or folder.is_dir() else _out_of_reach()
    try:
        with _network(not offline and away is None):
            return datasets.load_dataset(name, source.config, split=split)
    except Exception as error:  # its errors have no common class
        cause = away or " ".join(f"{type(error).__name__}: {error}".split())[:300]
        if not folder.exists():
            cause += tr(" (and there is no folder {})", folder)
        if offline:
            cause += tr(
                "; the network is not to be used: get it with tmt data download "
                "CONFIG, or copy the Hugging Face cache of a machine that has it"
            )
        raise DataError(
            tr(
                "{}: cannot load the split {!r}: {}\n"
                "Files of your own work without network. These settings read "
                "my/text.{} and my/text.{} under data.root, and hold dev and test out "
                "of them:\n"
                "  --set 'data.train=[my/text]' --set 'data.dev=[]' --set "
                "'data.test={{}}'\n"
                "Other names: --set 'data.train=[{{files: [my/source.txt, "
                "my/target.txt]}}]'",
                source,
                split,
                cause,
                languages.src,
                languages.tgt,
            )
        ) from error


def _out_of_reach() -> str | None:
    """The reason why the Hub cannot be reached; the library would try for half a minute."""
    from huggingface_hub import constants

    address = urlsplit(constants.ENDPOINT)
    if constants.HF_HUB_OFFLINE or urllib.request.getproxies():
        return None  # not to be reached; or the proxy decides
    try:
        port = address.port or (80 if address.scheme == "http" else 443)
        socket.create_connection((address.hostname or "", port), _CONNECT_S).close()
    except OSError as error:
        return tr(
            "{} cannot be reached ({}) and the cache does not hold it: check the "
            "network, and HTTPS_PROXY if there is a proxy",
            address.hostname,
            error.strerror or error,
        )
    return None


@contextmanager
def _network(allowed: bool) -> Iterator[None]:
    """Both packages ask their own constant, set at import, whether they may use the network."""
    import datasets
    import huggingface_hub

    places: list[Any] = [datasets.config, huggingface_hub.constants]
    before = [place.HF_HUB_OFFLINE for place in places]
    try:
        for place in places:
            place.HF_HUB_OFFLINE = place.HF_HUB_OFFLINE or not allowed
        yield
    finally:
        for place, offline in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = offline


def _pairs(
    batches: Iterable["pyarrow.RecordBatch"], fields: list[_Field], where: object
) -> Iterator[Pair]:
    n_rows = 0
    for batch in batches:
        columns = [_checked(batch, field, where, n_rows) for field in fields]
        for start in range(0, batch.num_rows, _ROWS):
            yield from zip(*(_texts(column.slice(start, _ROWS)) for column in columns), strict=True)
        n_rows += batch.num_rows


def _checked(
    batch: "pyarrow.RecordBatch", field: _Field, where: object, n_before: int
) -> "pyarrow.Array":
    """One side of a batch; its lengths, offsets, texts and indices are sound."""
    import pyarrow

    column = batch.column(field[0])
    try:
        for name in field[1:]:
            column.validate()  # lengths of the fields, not their content
            column = column.flatten()[column.type.get_field_index(name)]
        column.validate(full=True)
    except pyarrow.ArrowInvalid as error:
        row = n_before + 1 + _first_damaged(column)
        cause = " ".join(str(error).split())
        raise DataError(
            tr(
                "{}: row {}: column {}: damaged text: {}; write the file again from "
                "what it was made of",
                where,
                row,
                ".".join(field),
                cause,
            )
        ) from error
    return column


def _first_damaged(column: "pyarrow.Array") -> int:
    """The first row that fails the check alone; 0 if each row passes."""
    import pyarrow

    for row in range(len(column)):
        try:
            column.slice(row, 1).validate(full=True)
        except pyarrow.ArrowInvalid:
            return row
    return 0


def _texts(rows: "pyarrow.Array") -> list[str]:
    """A missing value is an empty text; each text of a dictionary is decoded once."""
    import pyarrow

    if not pyarrow.types.is_dictionary(rows.type):
        return [text or "" for text in rows.to_pylist()]
    used = rows.indices.dictionary_encode()
    texts = rows.dictionary.take(used.dictionary).to_pylist()
    return ["" if i is None else texts[i] or "" for i in used.indices.to_pylist()]


def _text_fields(
    schema: "pyarrow.Schema", where: object, languages: Languages, swapped: bool
) -> list[_Field]:
    """The fields of source and target: a column each, or fields of the column translation."""
    from pyarrow import types

    fields = {field.name: field.type for field in schema}
    inside = "translation" in fields and types.is_struct(fields["translation"])
    if inside:
        fields = {field.name: field.type for field in fields["translation"]}
    keys = find_keys(tuple(fields), languages.src, languages.tgt, swapped)
    if keys is None:
        raise DataError(f"{where}: {no_keys(fields, languages)}")
    kinds = [
        fields[key].value_type if types.is_dictionary(fields[key]) else fields[key] for key in keys
    ]
    for name in ("translation",) if inside else keys:
        if schema.names.count(name) > 1:
            raise DataError(
                tr("{}: column {}: is there {} times", where, name, schema.names.count(name))
            )
    text_kinds = types.is_string, types.is_large_string, types.is_string_view, types.is_null
    for key, kind in zip(keys, kinds, strict=True):
        if not any(is_kind(kind) for is_kind in text_kinds):
            raise DataError(tr("{}: column {}: expected text, found {}", where, key, kind))
    if all(map(types.is_null, kinds)):
        raise DataError(
            tr("{}: columns {}: hold nothing but missing values", where, tr(" and ").join(keys))
        )
    return [("translation", key) if inside else (key,) for key in keys]
