"""Tables → two columns of text: CSV, TSV and workbooks, with or without a header.

Comes in: a file. Goes out: two texts per row, and a description of how the file was read. This file
does not know which of two columns without a name is the source.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from transformer_mt.config.data import Languages
from transformer_mt.corpus.readers.lines import missing, plain_name
from transformer_mt.corpus.readers.table_text import (
    ROWS_LOOKED_AT,
    Dialect,
    Row,
    dialect_of,
    first_row_number,
    read_rows,
)
from transformer_mt.corpus.readers.tables import Pair, excerpt, language_of, read_tsv
from transformer_mt.corpus.readers.workbooks import WORKBOOKS, read_sheets
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.text.identify import identify
from transformer_mt.text.languages import code_of_name, is_chinese, language_name

TABLES = (".tsv", ".csv", *WORKBOOKS)
_SOURCE = re.compile(
    r"(src|source|original|原文|源文|原句|源)( ?(text|sentences?|文本|句子|语言))?", re.IGNORECASE
)
_TARGET = re.compile(
    r"(tgt|trg|target|translation|译文|譯文|翻译|翻譯|目标)( ?(text|sentences?|文本|句子|语言))?",
    re.IGNORECASE,
)
_NUMBERS = ("id", "no", "nr")  # names of columns rather than codes, where there are more than two
_PLAIN = Dialect("utf-8", "\t", quoted=False)
_LONGEST_NAME = 40  # characters of a column's name
_PARTS = re.compile(r"[\s()（）\[\]/:：_-]+|(?<=[文语語])(?=[原译譯句文])")


@dataclass(frozen=True)
class Layout:
    """Attributes:
    dialect: of a text file.
    sheet: of a workbook, and the names of the sheets that are not read.
    header: the row that names the columns: the first one, or the first below rows with one text
        each, such as a title.
    n_above: these rows.
    columns: indices of the two columns of text; with known languages the source first.
    codes: their languages, where the header names them.
    width: columns of the table; a text file has no more in any row.
    """

    dialect: Dialect | None
    sheet: tuple[str, tuple[str, ...]] | None
    header: Row | None
    columns: tuple[int, int]
    codes: tuple[str, str] | None
    width: int
    n_above: int = 0

    @property
    def plain(self) -> bool:
        """Whether it is source TAB target, line by line, and nothing else."""
        is_plain = self.dialect == _PLAIN and self.columns == (0, 1) and self.width == 2
        return is_plain and not self.n_above

    def describe(self) -> str:
        """In one line: what was taken for what."""
        names = [column_name(i) for i in self.columns]
        if self.codes:
            codes = map(language_name, self.codes)
            names = [f"{name} ({code})" for name, code in zip(names, codes, strict=True)]
        parts = [tr("columns {}", tr(" and ").join(names))]
        if self.n_above:
            parts.append(tr("the first row with several texts is a header"))
        else:
            parts.append(tr("the first row is a header") if self.header else tr("no header"))
        if self.dialect:
            parts += self.dialect.describe()
        if self.sheet:
            name, others = self.sheet
            parts.append(tr("sheet {}", name) + tr(", not {}", ", ".join(others)) * bool(others))
        return "; ".join(parts)


def column_name(index: int) -> str:
    """A, B … Z, AA … as spreadsheets show them."""
    name = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        name = chr(ord("A") + digit) + name
    return name


def layout_of(path: Path, languages: Languages | None = None) -> Layout:
    """How a table is to be read.

    Args:
        languages: which columns of a header to take; None: it names two languages, or sides.
    Raises:
        DataError: the two columns of text cannot be told, or are of other languages.
    """
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise DataError(missing(path)) from error
    return _layout_of(path, languages, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _layout_of(path: Path, languages: Languages | None, *_version: int) -> Layout:
    if Path(plain_name(path.name)).suffix.lower() not in WORKBOOKS:
        dialect = dialect_of(path)
        rows = _with_text(read_rows(path, dialect))
        return _layout(path, dialect, None, rows, languages)
    sheets = read_sheets(path, n_rows=5 * ROWS_LOOKED_AT)
    first_rows = {name: _with_text(rows) for name, rows in sheets.items()}
    names = [name for name, rows in first_rows.items() if rows]
    if not names:
        raise DataError(tr("{}: no sheet holds text", path))
    layouts, problems = [], []
    for name in names:
        others = tuple(other for other in names if other != name)
        try:
            layouts.append(_layout(path, None, (name, others), first_rows[name], languages))
        except DataError as error:
            problems.append(error)
    if not layouts:
        raise problems[0]
    return next((layout for layout in layouts if layout.header), layouts[0])


def _with_text(rows: Iterable[Row]) -> list[Row]:
    """The first rows that are not empty."""
    return list(islice((row for row in rows if any(map(str.strip, row))), ROWS_LOOKED_AT))


def _layout(
    path: Path,
    dialect: Dialect | None,
    sheet: tuple[str, tuple[str, ...]] | None,
    rows: Sequence[Row],
    languages: Languages | None,
) -> Layout:
    if not rows and dialect == _PLAIN:
        return Layout(dialect, sheet, None, (0, 1), None, 2)
    if not rows:
        raise DataError(tr("{}: holds no text", path))
    n_above = next((i for i, row in enumerate(rows) if sum(map(bool, map(str.strip, row))) > 1), 0)
    columns, codes = _named_columns(path, rows[n_above], languages)
    header = rows[n_above] if columns else None
    widths = [len(row) for row in rows]
    width = len(header) if header else max(set(widths), key=widths.count)
    columns = columns or _text_columns(rows, width)
    if columns is None and dialect and dialect.separator == "\t":
        columns, width = (0, 1), 2  # `read_tsv` has a message for each line
    if columns is None:
        raise DataError(
            tr(
                "{}: expected two columns of text; its first row is {}; give it a "
                "first row that names the two columns by their languages, such as "
                "Chinese and English",
                path,
                excerpt(" | ".join(rows[0]), 100),
            )
        )
    width = max(width, *(i + 1 for i in columns))
    return Layout(dialect, sheet, header, columns, codes, width, n_above if header else 0)


def _named_columns(
    path: Path, first: Row, languages: Languages | None
) -> tuple[tuple[int, int] | None, tuple[str, str] | None]:
    """The two columns that a header names, and their languages; None: it is no header."""
    wanted = [languages.src, languages.tgt] if languages else []
    named: dict[str, int] = {}
    for i, cell in enumerate(first if len(first) > 1 else []):
        code = _language_in(cell, wanted, len(first))
        known = named.get(code) if code else None
        if code and (known is None or _n_words(cell) < _n_words(first[known])):
            named[code] = i  # the simplest name: en, not en_id
    for code in filter(is_chinese, wanted):  # the other script stands in where there is none
        others = [other for other in named if is_chinese(other) and other not in wanted]
        if code not in named and others:
            named[code] = named.pop(others[0])
    if languages and named.keys() >= {*wanted}:
        return (named[languages.src], named[languages.tgt]), (languages.src, languages.tgt)
    if languages is None and len(named) == 2:
        (src, first_column), (tgt, second_column) = named.items()
        return (first_column, second_column), (src, tgt)
    in_words = [code for code, i in named.items() if code_of_name(first[i])]
    if len(in_words) > 1 and not set(wanted) & named.keys():
        wants = tr(", but languages are {}", " → ".join(wanted)) if wanted else ""
        raise DataError(
            tr(
                "{}: its header names {}{}; give two of these as languages: {}",
                path,
                ", ".join(map(language_name, in_words)),
                wants,
                ", ".join(in_words),
            )
        )
    sides = [
        [i for i, cell in enumerate(first) if side.fullmatch(cell.strip())]
        for side in (_SOURCE, _TARGET)
    ]
    if len(sides[0]) == len(sides[1]) == 1:
        return (sides[0][0], sides[1][0]), None
    return None, None


def _n_words(name: str) -> int:
    return len([*filter(None, _PARTS.split(name.strip()))])


def _language_in(cell: str, wanted: Sequence[str], width: int) -> str | None:
    """The language that a column's name means: `English`, `zh-CN`, `Text (DE)`, `中文原文`.

    A sentence may name a language, but its translation names the same.
    """
    name = cell.strip()
    if not 0 < len(name) <= _LONGEST_NAME:
        return None
    code = language_of(name)
    if code and not wanted and len(name) < 4 and (name.istitle() or len(code) > 2):
        code = None  # a short word, such as Ja
    code = code or code_of_name(name)
    if width > 2 and name.casefold() in _NUMBERS and code not in wanted:
        return None
    if code is None:
        parts = list(filter(None, _PARTS.split(name)))
        found = {language_of(part) if part.isupper() else code_of_name(part) for part in parts}
        codes = found - {None}
        code = codes.pop() if len(codes) == 1 else None
    return code


def _text_columns(rows: Sequence[Row], width: int) -> tuple[int, int] | None:
    """The two columns that hold text, where exactly two do."""
    if width == 2:
        return 0, 1
    filled = [
        i
        for i in range(max(map(len, rows)))
        if sum(any(map(str.isalpha, row[i])) for row in rows if i < len(row)) > len(rows) / 2
    ]
    return (filled[0], filled[1]) if len(filled) == 2 else None


def is_parallel(path: Path, languages: Languages) -> bool:
    """Whether a table is in these languages, by its header, whatever its rows, or by its text."""
    try:
        layout = layout_of(path, languages)
        if layout.codes:
            return True
        sides = zip(*islice(read_columns(path, layout), ROWS_LOOKED_AT), strict=True)
        found: set[str | None] = set(map(identify, sides))
    except DataError:
        return False
    codes = languages.src, languages.tgt
    wanted: set[str | None] = set(codes)
    if not all(map(is_chinese, codes)):  # beside another language either script is Chinese
        found, wanted = (
            {code and code.removesuffix("-Hant") for code in one} for one in (found, wanted)
        )
    return found == wanted


def read_columns(path: Path, layout: Layout) -> Iterator[Pair]:
    """The texts of the two columns, row by row, in their order; rows without text are left out.

    Raises:
        DataError: a row of a text table has more cells than the table has columns.
    """
    return (pair for _, pair in _numbered_rows(path, layout))


def _numbered_rows(path: Path, layout: Layout) -> Iterator[tuple[int, Pair]]:
    """Number, from 1, and texts of each row with text below the header."""
    start = first_row_number(path, layout.dialect) if layout.dialect else 1
    if layout.plain and start == 1:
        yield from islice(enumerate(read_tsv(path), 1), 1 if layout.header else 0, None)
        return
    if layout.dialect:
        rows = read_rows(path, layout.dialect)
    else:
        assert layout.sheet is not None
        name = layout.sheet[0]
        rows = iter(read_sheets(path, only=name).get(name, []))
    first, second = layout.columns
    n_skipped = layout.n_above + 1 if layout.header else 0
    for number, row in enumerate(rows, start):
        if not any(map(str.strip, row)):
            continue
        if n_skipped:
            n_skipped -= 1
            continue
        if layout.dialect and any(row[layout.width :]):
            raise DataError(
                tr(
                    "{}: row {}: has {} cells, expected {}: {}; put cells that hold a "
                    "separator in quotes, or save the table as XLSX",
                    path,
                    number,
                    len(row),
                    layout.width,
                    excerpt(" | ".join(row), 100),
                )
            )
        cells = row + [""] * (layout.width - len(row))
        yield number, (cells[first], cells[second])


def read_table(path: Path, languages: Languages, *, swapped: bool) -> Iterator[tuple[int, Pair]]:
    """Number, as a program for tables counts, and (source, target) of each row.

    Args:
        swapped: of columns without a language in the header, the first is the target.
    """
    layout = layout_of(path, languages)
    flip = swapped and layout.codes is None
    for number, (first, second) in _numbered_rows(path, layout):
        yield number, ((second, first) if flip else (first, second))
