"""CSV and TSV files → rows of cells: encoding, separator and quotes as they are found.

This file does not know which columns are text: see `spreadsheets.py`.
"""

import codecs
import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from transformer_mt.corpus.readers.lines import (
    LONGEST,
    blocks_of,
    open_bytes,
    plain_name,
    split_lines,
    split_stream,
)
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr

Row = list[str]

ROWS_LOOKED_AT = 200
# In order of preference: commas are frequent in text.
_SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
_FOR_EXCEL = re.compile("sep=.", re.IGNORECASE)
_START = 1 << 20  # bytes looked at for the encoding
_ASCII = bytes(range(128))
# Two bytes of GB 2312, level 1: the frequent characters of Simplified Chinese, by their sound.
_FREQUENT = re.compile(rb"[\xa1-\xa3\xb0-\xd7][\xa1-\xfe]")
_FREQUENT_S_TO_Z = re.compile(rb"[\xc9-\xd7].")  # the Hangul of EUC-KR end before
_CELL = r'(?:"[^"\t]*(?:""[^"\t]*)*"|[^"\t]*)'
_RECORD_OF_A_SPREADSHEET = re.compile(rf"{_CELL}(?:\t{_CELL})*")
_QUOTED = re.compile(r'(?:^|\t)"([^"]*(?:""[^"]*)*)"')
_FEWEST_QUOTED = 5  # cells, to see a habit
_LONGEST_RECORD = 100  # lines


@dataclass(frozen=True)
class Dialect:
    """Attributes:
    encoding: utf-8, utf-16 or gb18030.
    separator: of cells.
    quoted: whether quotes around cells are the file's, not the text's.
    """

    encoding: str
    separator: str
    quoted: bool

    def describe(self) -> Iterator[str]:
        yield tr("cells between {}", _SEPARATORS[self.separator])
        if self.quoted and self.separator == "\t":
            yield tr("quotes around cells taken off")
        if self.encoding != "utf-8":
            yield f"{self.encoding.upper()} text"


def dialect_of(path: Path) -> Dialect:
    """How a text table is written; tabs separate the cells, unless it is called CSV.

    Quotes of a TSV are text, unless all of its lines are as spreadsheets write them.
    """
    encoding = _encoding_of(path)
    separator = "\t"
    if Path(plain_name(path.name)).suffix.lower() == ".csv":
        lines = list(islice(_lines(path, encoding), ROWS_LOOKED_AT))
        found = {separator: _regularity(lines, separator) for separator in _SEPARATORS}
        separator = max(found, key=found.__getitem__) if any(found.values()) else ","
    quoted = separator != "\t" or _from_a_spreadsheet(_lines(path, encoding))
    return Dialect(encoding, separator, quoted)


def read_rows(path: Path, dialect: Dialect) -> Iterator[Row]:
    """The cells of all rows.

    Raises:
        DataError: an undecodable byte, or a quote that is not closed.
    """
    lines = _lines(path, dialect.encoding)
    if not dialect.quoted:
        yield from (line.split(dialect.separator) for line in lines)
        return
    csv.field_size_limit(LONGEST)
    ended = (f"{line}\n" for line in lines)
    reader = csv.reader(ended, delimiter=dialect.separator, strict=True)
    try:
        yield from reader
    except csv.Error as error:
        if "new-line" in str(error):
            raise DataError(
                tr(
                    "{}: line {}: holds a carriage return (CR) outside of quotes; if its lines "
                    "end with CR alone, write: tr '\\r' '\\n' < {} > NEW",
                    path,
                    reader.line_num,
                    path,
                )
            ) from error
        raise DataError(
            tr(
                "{}: line {}: {}: a cell with quotes must begin and end with one, and "
                'each quote in it be doubled ("")',
                path,
                reader.line_num,
                error,
            )
        ) from error


def first_row_number(path: Path, dialect: Dialect) -> int:
    """0 where the first line tells Excel the separator, which is no row of the table; else 1."""
    first = next(_raw_lines(path, dialect.encoding), "")
    return 0 if _FOR_EXCEL.fullmatch(first) else 1


def _lines(path: Path, encoding: str) -> Iterator[str]:
    """The lines of a table; in place of a line that tells Excel the separator an empty one."""
    lines = _raw_lines(path, encoding)
    first = ("" if _FOR_EXCEL.fullmatch(line) else line for line in islice(lines, 1))
    return chain(first, lines)


def _raw_lines(path: Path, encoding: str) -> Iterator[str]:
    if encoding == "utf-8":
        return split_lines(path)
    return split_stream(_recoded(path, encoding), path)


def _recoded(path: Path, encoding: str) -> Iterator[bytes]:
    """The content of a file in UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with open_bytes(path) as stream:
            for block in blocks_of(stream):
                yield decoder.decode(block).encode()
            yield decoder.decode(b"", final=True).encode()
    except UnicodeDecodeError as error:
        found = error.object[error.start : error.start + 2].hex(" ")
        raise DataError(
            tr(
                "{}: the bytes {} are not {}, as its others are; save it as CSV UTF-8 "
                "in the program that wrote it",
                path,
                found,
                encoding.upper(),
            )
        ) from error


def _encoding_of(path: Path) -> str:
    """UTF-16 by its mark, GB 18030 by its frequent characters; all else is taken for UTF-8."""
    with open_bytes(path) as stream:
        start = stream.read(_START)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        frequent = _FREQUENT.findall(start)
        n_late = sum(map(bool, map(_FREQUENT_S_TO_Z.match, frequent)))
        n_other = len(start.translate(None, _ASCII))
        is_chinese = 2 * len(frequent) > 0.8 * n_other and n_late > 0.1 * len(frequent)
        return "gb18030" if is_chinese else "utf-8"
    return "utf-8"


def _regularity(lines: Sequence[str], separator: str) -> int:
    """Rows with the usual number of cells, if that is more than one."""
    csv.field_size_limit(LONGEST)
    rows = csv.reader((f"{line}\n" for line in lines), delimiter=separator)
    try:
        widths = [len(row) for row in rows if row]
    except csv.Error:
        return 0
    usual = max(set(widths), key=widths.count, default=1)
    return widths.count(usual) if usual > 1 else 0


def _from_a_spreadsheet(lines: Iterable[str]) -> bool:
    """Whether a spreadsheet has put quotes around cells between tabs.

    All records must be as spreadsheets write them: of one width, but for titles above them, with
    quotes around each cell that holds one, and doubled inside. And that must show: in a cell with
    doubled quotes or with a line end; or in all cells with a comma and no others; or in all.
    """
    shown = False
    widths = set[int]()
    quoted, bare, commas, bare_commas = 0, 0, 0, 0  # cells
    for record in _records(lines):
        if not widths and "\t" not in record:
            continue  # a title, or an empty line above it
        if record:
            widths.add(record.count("\t"))
        if len(widths) > 1:
            return False
        if '"' not in record:  # most lines; the rest is slow
            bare, bare_commas = bare + bool(record.strip()), bare_commas + ("," in record)
            continue
        if not _RECORD_OF_A_SPREADSHEET.fullmatch(record):
            return False
        cells = _QUOTED.findall(record)
        shown = shown or any('""' in cell or "\n" in cell for cell in cells)
        rest = [cell for cell in _QUOTED.sub("", record).split("\t") if cell]
        quoted, bare = quoted + len(cells), bare + len(rest)
        commas += sum("," in cell for cell in cells)
        bare_commas += sum("," in cell for cell in rest)
    habit = not bare or (quoted == commas and not bare_commas)
    return shown or (quoted >= _FEWEST_QUOTED and habit)


def _records(lines: Iterable[str]) -> Iterator[str]:
    """Lines that belong together, because a quote is open at their ends."""
    pending: list[str] = []
    n_quotes = 0
    for line in lines:
        pending.append(line)
        n_quotes += line.count('"')
        if n_quotes % 2 == 0 or len(pending) > _LONGEST_RECORD:
            yield "\n".join(pending)
            pending, n_quotes = [], 0
    if pending:
        yield "\n".join(pending)
