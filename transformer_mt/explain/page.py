"""Attention maps as one HTML page that needs no network and no other file.

This file chooses the values; the look is that of the template `page.html.j2`.
"""

from pathlib import Path
from typing import Any

import numpy as np

from transformer_mt.rendering.pages import write_html
from transformer_mt.translation.attention_maps import EXPLANATIONS, KINDS, TITLES, AttentionMaps

# Weights travel as whole numbers of this size for 1.0: four decimals in the fewest characters.
UNIT = 10_000


def write_attention_page(maps: AttentionMaps, path: Path, *, d_model: int | None) -> None:
    """Write the page, whole or not at all.

    The page computes a table of position encodings `d_model` wide; None: the model adds none.
    """
    title = "Attention of one translation"
    write_html(
        Path(__file__).with_name("page.html.j2"), path, title=title, data=page_data(maps, d_model)
    )


def page_data(maps: AttentionMaps, d_model: int | None) -> dict[str, Any]:
    """The content of the page as plain values; `d_model` as for the page."""
    steps = zip(maps.tgt_in_pieces, maps.tgt_out_pieces, maps.top_words, strict=True)
    return {
        "source": maps.source,
        "translation": maps.translation,
        "unit": UNIT,
        "d_model": d_model,
        "kinds": {
            kind: {
                "title": TITLES[kind],
                "explanation": EXPLANATIONS[kind],
                "rows": maps.row_pieces(kind),
                "columns": maps.column_pieces(kind),
                "writes": maps.written_pieces(kind),
                "masked": maps.masked(kind).astype(int).tolist(),
                "weights": np.rint(maps.weights(kind) * UNIT).astype(int).tolist(),
            }
            for kind in KINDS
        },
        "steps": [
            {"reads": reads, "writes": writes, "best": [[piece, round(p, 4)] for piece, p in best]}
            for reads, writes, best in steps
        ],
    }
