"""docs/python.md → docs/python.ipynb: its text and its Python blocks as cells.

python scripts/write_notebook.py
"""

import json
import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "python.md"
NOTEBOOK = PAGE.with_suffix(".ipynb")
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def notebook_of(page: str) -> str:
    """The notebook (nbformat 4) of a Markdown page, as JSON."""
    cells: list[dict[str, object]] = []
    for number, text in enumerate(_PYTHON.split(page)):
        cell: dict[str, object] = {
            "cell_type": "code" if number % 2 else "markdown",
            "id": f"cell-{number}",
            "metadata": {},
            "source": text.strip().splitlines(keepends=True),
        }
        cells.append(cell | ({"execution_count": None, "outputs": []} if number % 2 else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook_of(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
