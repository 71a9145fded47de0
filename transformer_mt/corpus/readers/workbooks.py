"""Workbooks (XLSX, XLS, ODS …) → sheets → rows of cells as text, by python-calamine.

This file does not know which columns are text: see `spreadsheets.py`.
"""

import zipfile
from pathlib import Path
from typing import Any

from transformer_mt.corpus.readers.table_text import Row
from transformer_mt.errors import DataError

WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_LARGEST = 1 << 30  # bytes, unpacked; a full sheet of short texts has 100 MB


def read_sheets(
    path: Path, *, only: str | None = None, n_rows: int | None = None
) -> dict[str, list[Row]]:
    """The rows of each sheet, by its name.

    Args:
        only: the one sheet to read.
        n_rows: rows to read of each, from its start.
    Raises:
        DataError: it is no workbook, or locked, or swells beyond reason.
    """
    from python_calamine import CalamineError, CalamineWorkbook

    _check_size(path)
    try:
        book = CalamineWorkbook.from_path(str(path))
        names = [name for name in book.sheet_names if only in (None, name)]
        return {name: _rows(book.get_sheet_by_name(name), n_rows) for name in names}
    except (CalamineError, OSError) as error:
        cause = " ".join(str(error).split())
        raise DataError(
            f"{path}: cannot be read as a workbook: {cause}; open it in the program that wrote it, "
            "and save it as XLSX without a password, or as CSV UTF-8"
        ) from error


def _check_size(path: Path) -> None:
    if not zipfile.is_zipfile(path):  # XLS
        return
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise DataError(f"{path}: damaged: {error}; get the file again") from error
    if size > _LARGEST:
        raise DataError(
            f"{path}: would take {size >> 20:,} MiB unpacked, more than {_LARGEST >> 20:,}; save "
            "it as CSV UTF-8"
        )


def _rows(sheet: Any, n_rows: int | None) -> list[Row]:
    rows = sheet.to_python(skip_empty_area=False, nrows=n_rows)
    return [[_text(cell) for cell in row] for row in rows]


def _text(cell: object) -> str:
    """A cell as the spreadsheet shows it, by and large."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell)
