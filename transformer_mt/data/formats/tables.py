"""Tables of any form → pairs: TSV, JSONL, Parquet, Arrow, and rows that others have read.

Comes in: a file, or rows with named columns. Goes out: (source, target) texts, one by one. This
file does not know where files lie, and nothing of markup: see `markup.py`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_mt.config_data import Languages
from transformer_mt.data.formats.streams import COMPRESSED, split_lines
from transformer_mt.errors import ConfigError, DataError
from transformer_mt.languages import canonical_code

if TYPE_CHECKING:
    import pyarrow

Pair = tuple[str, str]

_LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z]{2,4}){0,2}")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_JSON = json.JSONDecoder()
_ROWS = 10_000  # of a table that are in memory at once


@lru_cache(maxsize=10_000)
def language_of(spelling: str) -> str | None:
    """The canonical code that a file ending, key or column name stands for, if any."""
    if not _LANGUAGE.fullmatch(spelling):
        return None
    try:
        return canonical_code(spelling)
    except ConfigError:
        return None


@lru_cache(maxsize=1000)
def find_keys(names: tuple[str, ...], src: str, tgt: str, swapped: bool) -> Pair | None:
    """Which two of the names of columns, or of keys, are the source and the target.

    Args:
        names: in their order; of several spellings of a language the canonical one wins, or else
            the first.
        src: canonical code of the language wanted as source.
        tgt: of the one wanted as target.
        swapped: names that say `source` and `target`, but no language, mean the other way round.
    Returns:
        None if none of the known forms is there.
    """
    by_code = {language_of(name): name for name in reversed(names)}
    by_code.update({name: name for name in names})
    if src in by_code and tgt in by_code:
        return by_code[src], by_code[tgt]
    for pair in (("src", "tgt"), ("source", "target")):
        if pair[0] in names and pair[1] in names:
            return (pair[1], pair[0]) if swapped else pair
    return None


def pair_of_row(
    row: Mapping[str, Any], languages: Languages, where: str, number: int, *, swapped: bool
) -> Pair:
    """Take the pair out of a row.

    Args:
        row: {"translation": {code: text}}, {code: text}, {"src": text, "tgt": text} or
            {"source": text, "target": text}, with any other keys. No text is an empty one.
        languages: which key is the source and which the target.
        where: what messages call a row, without its number.
        number: counted from 1.
        swapped: see `find_keys`.
    Raises:
        DataError: it has none of these forms, or holds something else than text.
    """
    nested = row.get("translation")
    texts = nested if isinstance(nested, dict) else row
    keys = find_keys(tuple(texts), languages.src, languages.tgt, swapped)
    if keys is None:
        raise DataError(f"{where} {number}: {_no_keys(texts, languages)}")
    src, tgt = texts[keys[0]], texts[keys[1]]
    for text in (src, tgt):
        if not isinstance(text, str | None):
            raise DataError(f"{where} {number}: expected text, found {_excerpt(repr(text))}")
    return src or "", tgt or ""


def read_tsv(path: Path) -> Iterator[Pair]:
    """The two columns of each line; empty lines may only end the file."""
    for number, line in _records(path):
        columns = line.split("\t")
        if len(columns) != 2:
            hint = f"; keep two: cut -f1,2 {path.name} > NEW" if len(columns) > 2 else ""
            raise DataError(
                f"{path}: line {number}: expected source TAB target, found {len(columns)} "
                f"column{'s' * (len(columns) > 1)}: {_excerpt(line)}{hint}"
            )
        yield columns[0], columns[1]


def read_jsonl(path: Path, languages: Languages, *, swapped: bool) -> Iterator[Pair]:
    """The pair in the object of each line; see `pair_of_row`."""
    where = f"{path}: line"
    for number, line in _records(path):
        try:
            row = _parse_json(line.strip(" \t"))
        except json.JSONDecodeError as error:
            raise DataError(f"{where} {number}: not JSON: {error.msg}: {_excerpt(line)}") from error
        if not isinstance(row, dict):
            found = _excerpt(line)
            raise DataError(f"{where} {number}: expected one object per line, found {found}")
        src, tgt = pair_of_row(row, languages, where, number, swapped=swapped)
        if "\\ud" in line or "\\uD" in line:
            # JSON can spell half a character, which no UTF-8 file can hold
            src, tgt = _LONE_SURROGATE.sub("\ufffd", src), _LONE_SURROGATE.sub("\ufffd", tgt)
        yield src, tgt


def _parse_json(text: str) -> Any:
    """What `json.loads` does, in half the time: that looks for spaces around the text."""
    value, end = _JSON.raw_decode(text)
    if end < len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def read_arrow(path: Path, languages: Languages, *, swapped: bool) -> Iterator[Pair]:
    """Two columns of a Parquet, Arrow or Feather file, named as in `pair_of_row`.

    Raises:
        DataError: it is damaged, has no such columns, or they do not hold text.
    """
    import pyarrow

    if path.suffix in COMPRESSED:
        raise DataError(f"{path}: such files are compressed inside: decompress this one first")
    try:
        for columns in _columns(path, languages, swapped):
            texts = [column.to_pylist() for column in columns]
            if any(column.null_count for column in columns):
                texts = [[text or "" for text in column] for column in texts]
            yield from zip(*texts, strict=True)
    except (pyarrow.ArrowException, OSError) as error:
        cause = " ".join(str(error).split())
        raise DataError(f"{path}: damaged, or not {path.suffix[1:]} data: {cause}") from error


def _records(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a file with one record per line; empty lines may only end it."""
    empty = 0
    for number, line in enumerate(split_lines(path), 1):
        if not line.strip(" "):
            empty = empty or number
        elif empty:
            raise DataError(f"{path}: line {empty}: empty; expected one pair per line")
        else:
            yield number, line


def _columns(path: Path, languages: Languages, swapped: bool) -> Iterator[list["pyarrow.Array"]]:
    """The source and the target column, some rows at a time."""
    import pyarrow
    from pyarrow import ipc, parquet

    with pyarrow.memory_map(str(path)) as file:
        if path.suffix.lower() == ".parquet":
            table = parquet.ParquetFile(file)
            columns = _text_columns(table.schema_arrow, path, languages, swapped)
            names = [".".join(column) for column in columns]
            batches = table.iter_batches(_ROWS, columns=names, use_threads=False)
        else:
            # Hugging Face datasets are saved as streams
            is_file = file.read(6) == b"ARROW1"
            file.seek(0)
            table = ipc.open_file(file) if is_file else ipc.open_stream(file)
            columns = _text_columns(table.schema, path, languages, swapped)
            batches = map(table.get_batch, range(table.num_record_batches)) if is_file else table
        for batch in batches:
            for first in range(0, batch.num_rows, _ROWS):
                rows = batch.slice(first, _ROWS)
                yield [_column(rows, column) for column in columns]


def _column(batch: "pyarrow.RecordBatch", names: tuple[str, ...]) -> "pyarrow.Array":
    """A column, or a field of a column; null where that is null."""
    column = batch.column(names[0])
    for name in names[1:]:
        column = column.flatten()[column.type.get_field_index(name)]
    return column


def _text_columns(
    schema: "pyarrow.Schema", path: Path, languages: Languages, swapped: bool
) -> list[tuple[str, ...]]:
    """Where the source and the target are: a column each, or fields of the column translation."""
    from pyarrow import types

    fields = {field.name: field.type for field in schema}
    inside = "translation" in fields and types.is_struct(fields["translation"])
    if inside:
        fields = {field.name: field.type for field in fields["translation"]}
    keys = find_keys(tuple(fields), languages.src, languages.tgt, swapped)
    if keys is None:
        raise DataError(f"{path}: {_no_keys(fields, languages)}")
    for key in keys:
        kind = fields[key].value_type if types.is_dictionary(fields[key]) else fields[key]
        if not (types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind)):
            raise DataError(f"{path}: column {key}: expected text, found {kind}")
    return [("translation", key) if inside else (key,) for key in keys]


def _no_keys(names: Iterable[str], languages: Languages) -> str:
    return (
        f"found the keys {', '.join(map(str, names))}; expected "
        f'{{"translation": {{"{languages.src}": …, "{languages.tgt}": …}}}}, '
        "the two languages themselves, src and tgt, or source and target"
    )


def _excerpt(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "…"
