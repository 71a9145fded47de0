"""Workbooks (XLSX, XLS, ODS …) → sheets → rows of cells as text, by python-calamine.

This file does not know which columns are text: see `spreadsheets.py`.
"""

import zipfile
from pathlib import Path
from typing import Any

from transformer_mt.corpus.readers.table_text import Row
from transformer_mt.errors import DataError
from transformer_mt.messages.catalogue import tr

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
    except (zipfile.BadZipFile, ValueError, RuntimeError) as error:  # RuntimeError: of a newer kind
        raise DataError(tr("{}: damaged: {}; get the file again", path, error)) from error
    if size > _LARGEST:
        raise DataError(
            tr(
                "{}: would take {:,} MiB unpacked, more than {:,}; save it as CSV UTF-8",
                path,
                size >> 20,
                _LARGEST >> 20,
            )
        )


def _rows(sheet: Any, n_rows: int | None) -> list[Row]:
    rows = sheet.to_python(skip_empty_area=False, nrows=n_rows)
    return [[_text(cell) for cell in row] for row in rows]


def _text(cell: object) -> str:
    """A cell as the spreadsheet shows it, by and large."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell)
