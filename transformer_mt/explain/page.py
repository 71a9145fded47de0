"""Attention maps as one HTML page that needs no network and no other file.

Comes in: `AttentionMaps`. Goes out: `page.html` with the data written into it. This file
decides what the page knows; the template beside it decides how that looks.
"""

import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformer_mt.rendering.html import escape_json
from transformer_mt.system.output import write_text
from transformer_mt.translation.attention_maps import (
    EXPLANATIONS,
    KINDS,
    TITLES,
    AttentionMaps,
    Kind,
)

# Weights travel as whole numbers of this size for 1.0: four decimals in the fewest characters.
UNIT = 10_000


def page_data(maps: AttentionMaps, *, d_model: int | None = 512) -> dict[str, Any]:
    """Everything that the page shows, as plain values ready for JSON.

    Args:
        d_model: model width, for the table of position encodings, which the page computes; None:
            the model adds no such table, and the page shows none.
    """
    steps = zip(maps.tgt_in_pieces, maps.tgt_out_pieces, maps.top_words, strict=True)
    return {
        "source": maps.source,
        "translation": maps.translation,
        "unit": UNIT,
        "d_model": d_model,
        "kinds": {kind: _kind_data(maps, kind) for kind in KINDS},
        "steps": [
            {"reads": reads, "writes": writes, "best": [[piece, round(p, 4)] for piece, p in best]}
            for reads, writes, best in steps
        ],
    }


def _kind_data(maps: AttentionMaps, kind: Kind) -> dict[str, Any]:
    return {
        "title": TITLES[kind],
        "explanation": EXPLANATIONS[kind],
        "rows": maps.row_pieces(kind),
        "columns": maps.column_pieces(kind),
        "writes": maps.written_pieces(kind),
        "masked": maps.masked(kind).astype(int).tolist(),
        "weights": _whole_numbers(maps.weights(kind)),
    }


def _whole_numbers(weights: NDArray[np.float32]) -> list[Any]:
    """(L, H, rows, columns) in units of 1 / UNIT; the page divides again."""
    rounded: list[Any] = np.rint(weights * UNIT).astype(int).tolist()
    return rounded


def write_html(
    maps: AttentionMaps, path: Path, *, title: str | None = None, d_model: int | None = 512
) -> None:
    """Write the page under a temporary name, then rename it.

    Args:
        title: of the page; None: a general one.
        d_model: see `page_data`.
    """
    template = resources.files("transformer_mt.explain") / "page.html"
    data = json.dumps(page_data(maps, d_model=d_model), ensure_ascii=False, separators=(",", ":"))
    fields = {
        "title": html.escape(title or "Attention of one translation"),
        "data": escape_json(data),
    }
    page = template.read_text(encoding="utf-8")
    # One pass, so that a field's text is never searched for fields.
    page = re.sub(r"\{\{(title|data)\}\}", lambda match: fields[match[1]], page)
    write_text(path, page)
