"""Small workbooks, as spreadsheet programs write them."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

Cell = str | int | float
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OPEN = "urn:oasis:names:tc:opendocument:xmlns"


def write_workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[Cell]]]) -> Path:
    """An XLSX or ODS file, by its ending."""
    parts = _ods(sheets) if path.suffix == ".ods" else _xlsx(sheets)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path


def _xlsx(sheets: Mapping[str, Sequence[Sequence[Cell]]]) -> dict[str, str]:
    numbers = range(1, len(sheets) + 1)
    overrides = "".join(
        f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="application/vnd.'
        'openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
        for n in numbers
    )
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{n}" r:id="rId{n}"/>'
        for n, name in zip(numbers, sheets, strict=True)
    )
    links = "".join(
        f'<Relationship Id="rId{n}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in numbers
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default '
        'Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
        f"{overrides}</Types>",
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{listed}'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{links}'
        "</Relationships>",
    }
    for n, rows in zip(numbers, sheets.values(), strict=True):
        data = "".join(
            f'<row r="{i}">{"".join(_xlsx_cell(f"{chr(65 + j)}{i}", c) for j, c in enumerate(r))}'
            "</row>"
            for i, r in enumerate(rows, 1)
        )
        text = f'<worksheet xmlns="{_MAIN}"><sheetData>{data}</sheetData></worksheet>'
        parts[f"xl/worksheets/sheet{n}.xml"] = text
    return {name: f'<?xml version="1.0" encoding="UTF-8"?>{text}' for name, text in parts.items()}


def _xlsx_cell(place: str, cell: Cell) -> str:
    if cell == "":
        return ""
    if not isinstance(cell, str):
        return f'<c r="{place}"><v>{cell}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(cell)}</t></is></c>'


def _ods(sheets: Mapping[str, Sequence[Sequence[Cell]]]) -> dict[str, str]:
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    tables = ""
    for name, rows in sheets.items():
        lines = "".join(
            "<table:table-row>"
            + "".join(
                f'<table:table-cell office:value-type="string"><text:p>{escape(str(cell))}</text:p>'
                "</table:table-cell>"
                for cell in row
            )
            + "</table:table-row>"
            for row in rows
        )
        tables += f'<table:table table:name="{escape(name)}">{lines}</table:table>'
    names = "".join(f' xmlns:{key}="{_OPEN}:{key}:1.0"' for key in ("office", "table", "text"))
    manifest = (
        f'<manifest:manifest xmlns:manifest="{_OPEN}:manifest:1.0"><manifest:file-entry '
        f'manifest:full-path="/" manifest:media-type="{kind}"/></manifest:manifest>'
    )
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content{names}><office:body>'
        f"<office:spreadsheet>{tables}</office:spreadsheet></office:body></office:document-content>"
    )
    return {"mimetype": kind, "content.xml": content, "META-INF/manifest.xml": manifest}
