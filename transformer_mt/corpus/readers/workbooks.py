"""Workbooks (XLSX, XLS, ODS …) → sheets → rows of cells as text, by python-calamine.

This file does not know which columns are text: see `spreadsheets.py`.
"""

import re
import zipfile
from pathlib import Path
from typing import Any

from transformer_mt.corpus.readers.table_text import Row
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.zip_damage import ZIP_DAMAGE

WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_LARGEST = 1 << 30  # bytes, unpacked; a full sheet of short texts has 100 MB
_MOST_CELLS = 100_000_000  # of a rectangle; for an ODS python-calamine has this limit itself
_CHUNK = 1 << 20  # bytes
# The place of a cell in an XLSX: <c r="AB1234" s="1">
_CELL = r"""<(?:\w{1,20}:)?c\s[^<>]{0,80}?\br=["']"""
_FAR_COLUMN = re.compile(rf"{_CELL}([A-Z]{{2,3}})[0-9]".encode())
_FAR_ROW = re.compile(rf"{_CELL}[A-Z]{{1,3}}([0-9]{{4,7}})".encode())


def read_sheets(
    path: Path, *, only: str | None = None, n_rows: int | None = None
) -> dict[str, list[Row]]:
    """The rows of each sheet, by its name.

    Args:
        only: the one sheet to read.
        n_rows: rows to read of each, from its start.
    Raises:
        DataError: it is no workbook, or locked, or swells beyond reason, or a cell stands so far
            from the others that the cells between would fill the memory.
    """
    from python_calamine import CalamineError, CalamineWorkbook, SheetVisibleEnum

    _check_size(path)
    try:
        book = CalamineWorkbook.from_path(str(path))
        seen = SheetVisibleEnum.Visible
        hidden = {sheet.name for sheet in book.sheets_metadata if sheet.visible != seen}
        names = [name for name in book.sheet_names if only in (None, name)]
        names = [name for name in names if name not in hidden] or names  # what people see
        return {name: _rows(book.get_sheet_by_name(name), n_rows) for name in names}
    except (CalamineError, OSError) as error:
        cause = " ".join(str(error).split())
        raise DataError(
            tr(
                "{}: cannot be read as a workbook: {}; open it in the program that "
                "wrote it, and save it as XLSX without a password, or as CSV UTF-8",
                path,
                cause,
            )
        ) from error


def _check_size(path: Path) -> None:
    if not zipfile.is_zipfile(path):  # XLS
        return
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            names = filter(_is_sheet, archive.namelist() if size <= _LARGEST else [])
            reach = [_reach(archive, name) for name in names]
    except ZIP_DAMAGE as error:
        raise DataError(tr("{}: damaged: {}; get the file again", path, error)) from error
    for n_columns, n_rows in reach:
        if n_columns * n_rows > _MOST_CELLS:
            raise DataError(
                tr(
                    "{}: a cell stands in column {:,}, and one in row {:,}; delete what stands "
                    "far from the table, or save it as CSV UTF-8",
                    path,
                    n_columns,
                    n_rows,
                )
            )
    if size > _LARGEST:
        raise DataError(
            tr(
                "{}: would take {:,} MiB unpacked, more than {:,}; save it as CSV UTF-8",
                path,
                size >> 20,
                _LARGEST >> 20,
            )
        )


def _is_sheet(name: str) -> bool:
    return name.endswith(".xml") and "sharedStrings" not in name


def _reach(archive: zipfile.ZipFile, name: str) -> tuple[int, int]:
    """Columns and rows from A1 to the farthest cells of a part of an XLSX, or a few more."""
    n_columns, n_rows, rest = 26, 1000, b""
    with archive.open(name) as file:
        while chunk := file.read(_CHUNK):
            text = rest + chunk
            columns, rows = set(_FAR_COLUMN.findall(text)), _FAR_ROW.findall(text)
            n_columns = max([n_columns, *map(_column_number, columns)])
            n_rows = max([n_rows, *map(int, rows)])
            rest = text[max(text.rfind(b"<"), len(text) - 200) :]
    return n_columns, n_rows


def _column_number(letters: bytes) -> int:
    """A is 1, Z is 26, AA is 27."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number


def _rows(sheet: Any, n_rows: int | None) -> list[Row]:
    rows = sheet.to_python(skip_empty_area=False, nrows=n_rows)
    return [[_text(cell) for cell in row] for row in rows]


def _text(cell: object) -> str:
    """A cell as the spreadsheet shows it, by and large."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell)
