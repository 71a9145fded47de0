"""The output of `tmt explain`, put together from maps, numbers and contrasts; and its page.

The page needs no network and no other file; its look is that of the template `page.html.j2`.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transformer_mt.encoding.tokenizer import BOS_ID
from transformer_mt.errors import TmtError
from transformer_mt.evaluation.contrast import evaluate_contrast, read_contrast
from transformer_mt.explain.figures import write_pngs, write_zeroing_png
from transformer_mt.explain.head_numbers import head_numbers, render_numbers
from transformer_mt.explain.telling_heads import (
    CAUTION,
    Finding,
    pronoun_findings,
    word_findings,
)
from transformer_mt.explain.terminal import (
    map_title,
    render_deciding,
    render_terminal,
    render_top_words,
)
from transformer_mt.explain.value_zeroing import Deciding, deciding_words, word_shares
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.transformer import Transformer
from transformer_mt.rendering.cells import clip, wrap_cells
from transformer_mt.rendering.pages import write_html
from transformer_mt.system.output import writing_files
from transformer_mt.system.terminal import is_screen
from transformer_mt.translation.attention_maps import (
    EXPLANATIONS,
    TITLES,
    AttentionMaps,
    Choice,
    Kind,
    parse_choice,
    parse_kind,
)
from transformer_mt.translation.direction import direction_of
from transformer_mt.translation.translator import Translator

_TITLE_COLUMNS = 120
# Weights travel as whole numbers of this size for 1.0: four decimals in the fewest characters.
UNIT = 10_000


@dataclass(frozen=True)
class View:
    """Which attention to look at; layers and heads count from 1, rows from 0."""

    kind: Kind
    layer: Choice
    head: Choice
    row: int | None = None  # one to be marked

    @classmethod
    def parse(cls, kind: str | None, layer: str | None, head: str | None) -> "View":
        """Read command-line texts; see `parse_kind` and `parse_choice` for the errors."""
        return cls(
            parse_kind(kind or "cross"),
            parse_choice(layer or "mean", "--layer"),
            parse_choice(head or "mean", "--head"),
        )

    @classmethod
    def of(cls, finding: Finding) -> "View":
        return cls(finding.kind, finding.layer, finding.head, finding.row)


def attention_text(
    translator: Translator,
    text: str,
    target: str | None,
    view: View | None,
    out_dir: Path | None,
    *,
    to: str | None = None,
    find: tuple[str, str] | None = None,
) -> str:
    """One map and the best next words; with `out_dir`, also all pictures and the page.

    Args:
        view: None: the most telling one, with the reason for it.
        find: two words: the heads in which the first looks most at the second.
    """
    maps = translator.attention(text, target, to=to)
    languages = direction_of(text, translator.cfg.languages, to)
    if find is None:
        findings = pronoun_findings(maps, languages)
    else:
        findings = word_findings(maps, languages, *find)
    opened = view or View.of(findings[0])
    ids = translator.forced_ids(text, target, to=to)
    shares = word_shares(translator, maps, ids, languages)
    decided = deciding_words(*shares)
    maps.pick(opened.kind, opened.layer, opened.head)  # they are there, before files are written
    if out_dir is not None:
        model_cfg = translator.cfg.model
        with writing_files(out_dir) as folder:
            write_pngs(maps, folder, opened.kind, opened.layer, opened.head)
            if decided:
                write_zeroing_png(maps, folder / "zeroing.png", *shares[:3])
            write_attention_page(
                maps,
                folder / "attention.html",
                name=translator.cfg.name,
                findings=findings,
                decided=decided,
                view=opened,
                d_model=model_cfg.d_model if model_cfg.architecture == "paper" else None,
            )
    width = shutil.get_terminal_size().columns
    heatmap = render_terminal(
        maps, opened.kind, opened.layer, opened.head, row=opened.row, width=width,
        color=is_screen(sys.stdout) and not os.environ.get("NO_COLOR"),
    )  # fmt: skip
    reasons = [] if view else [*(finding.text for finding in findings), CAUTION]
    parts = [
        *(wrap_cells("\n".join(lines), width)
          for lines in ([maps.source, maps.translation], reasons) if lines),
        heatmap, *([render_deciding(decided)] if decided else []),
        render_top_words(maps, width=width),
    ]  # fmt: skip
    return "\n\n".join(parts)


def numbers_text(
    translator: Translator, text: str, target: str | None, view: View, *, to: str | None = None
) -> str:
    """Q, K, scores, scaled scores, weights and output of one head; the means stand for head 1."""
    if not isinstance(translator.model, Transformer):
        raise TmtError(tr("--numbers: a recurrent model has no queries, keys and values"))
    layer, head = (1 if choice == "mean" else choice for choice in (view.layer, view.head))
    src_ids, tgt_ids = translator.forced_ids(text, target, to=to)
    tgt_in_ids = [BOS_ID, *tgt_ids]
    src, tgt_in = translator.pad([src_ids]), translator.pad([tgt_in_ids])
    numbers = head_numbers(translator.model, src, tgt_in, view.kind, layer, head)
    src_pieces = translator.src_tokenizer.pieces(src_ids)
    tgt_pieces = translator.tgt_tokenizer.pieces(tgt_in_ids)
    rows = src_pieces if view.kind == "encoder" else tgt_pieces
    columns = tgt_pieces if view.kind == "decoder" else src_pieces
    title, width = map_title(view.kind, layer, head), shutil.get_terminal_size().columns
    return render_numbers(numbers, title, rows, columns, width=width)


def contrast_text(
    translator: Translator, path: Path, *, to: str | None = None, n_failures: int = 5
) -> str:
    """Accuracy on a contrast set, and some of the sentences that the model gets wrong."""
    result = evaluate_contrast(translator, read_contrast(path), to=to)
    share = result.score.score
    lines = [tr("{:.1f} % of {} sentences prefer the right translation", share, result.n)]
    for failure in result.failures[:n_failures]:
        lines.append(f"  {failure.item.source}")
        lines.append(f"    {failure.log_prob_right:8.2f}  {failure.item.right}")
        lines.append(f"    {failure.log_prob_wrong:8.2f}  {failure.item.wrong}")
    return "\n".join(lines)


def write_attention_page(
    maps: AttentionMaps,
    path: Path,
    *,
    name: str,
    findings: Sequence[Finding],
    decided: Sequence[Deciding] = (),
    view: View,
    d_model: int | None,
) -> None:
    """Write the page, whole or not at all.

    Args:
        name: of the run.
        findings: rows of heads that the page offers at its top.
        decided: words of the translation with what decided them.
        view: where the page opens.
        d_model: width of the table of position encodings; None: the model adds none.
    """
    title = clip(f"{name}: {maps.source} → {maps.translation}", _TITLE_COLUMNS)
    write_html(
        Path(__file__).with_name("page.html.j2"),
        path,
        title=tr("Attention in {}", title),
        name=name,
        findings=findings,
        caution=CAUTION,
        decided=decided,
        data=page_data(maps, findings, view, d_model),
    )


def page_data(
    maps: AttentionMaps, findings: Sequence[Finding], view: View, d_model: int | None
) -> dict[str, Any]:
    """The content of the page as plain values; arguments as for the page."""
    steps = zip(maps.tgt_in_pieces, maps.tgt_out_pieces, maps.top_words, strict=True)
    return {
        "source": maps.source,
        "translation": maps.translation,
        "unit": UNIT,
        "d_model": d_model,
        "open": asdict(view),
        "findings": [asdict(View.of(finding)) for finding in findings],
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
            for kind in maps.kinds
        },
        "steps": [
            {"reads": reads, "writes": writes, "best": [[piece, round(p, 4)] for piece, p in best]}
            for reads, writes, best in steps
        ],
    }
