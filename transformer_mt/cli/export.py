"""`tmt export`: a model in the format of another program, and the proof that it is the same."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transformer_mt.cli.options import Always, Device, ModelPath, find_model_path, one_of, say
from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr

if TYPE_CHECKING:
    from transformer_mt.export.proof import ExportOrigin, ExportTask

_TO = "ctranslate2, marian, onnx, argos, bergamot or html"
_SRC = "texts for the proof; default: dev of the model's run, with its references"


def export(
    model: ModelPath = None,
    to: Annotated[str, typer.Option(help=_TO)] = "ctranslate2",
    out_dir: Annotated[
        Path | None, typer.Option("-o", "--out", help="default: MODEL.FORMAT, beside MODEL")
    ] = None,
    quantization: Annotated[
        str | None,
        typer.Option(help="of the weights; default: bfloat16 of html, else the most exact"),
    ] = None,
    src_path: Annotated[Path | None, typer.Option("--src", help=_SRC)] = None,
    ref_path: Annotated[
        Path | None, typer.Option("--ref", help="reference translations of --src")
    ] = None,
    max_bleu_loss: Annotated[
        float, typer.Option(min=0, help="above which an export is not kept")
    ] = 0.3,
    device: Device = "auto",
) -> None:
    """Write a model for another program, and have that program prove that it translates the same.

    Exits with 1, and leaves nothing, where the translations differ. What an earlier export of other
    weights left in its place is replaced.
    """
    from transformer_mt.export.card import export_card
    from transformer_mt.export.formats import FORMATS, exported_path, load_format, refusals_of
    from transformer_mt.export.proof import MANIFEST, ExportOrigin, prove
    from transformer_mt.model_dir import CARD, weights_digest
    from transformer_mt.system.output import refuse_foreign, writing_folder

    name = one_of("--to", to, FORMATS)
    format_ = load_format(name)
    kind = one_of("--quantization", quantization or format_.QUANTIZATIONS[0], format_.QUANTIZATIONS)
    model_dir = find_model_path(model)
    task = _task(model_dir, kind, src_path, ref_path)
    if reasons := refusals_of(format_, task):
        raise TmtError(tr("{} cannot carry this model: {}", name, "; ".join(reasons)))
    path = out_dir or exported_path(model_dir, name)
    origin = ExportOrigin(weights_digest(model_dir), kind, name)
    refuse_foreign(path, MANIFEST)
    if _is_up_to_date(path, origin):
        say(tr("{} is up to date; next: {}", path, format_.next_step(path, model_dir)))
        return
    with writing_folder(path, MANIFEST) as unproven:
        format_.write(task, unproven)
        proof = prove(task, format_.load(task, unproven))
        say(str(proof))
        exact = kind == "float32"
        if problems := proof.problems(exact=exact, most_bleu_lost=max_bleu_loss):
            text = tr("the exported model does not translate as it should, nothing was kept: {}",
                      "; ".join(problems))  # fmt: skip
            say(Always(f"tmt: {text}"))
            raise typer.Exit(1)
        made = replace(origin, proof=vars(proof))
        (unproven / CARD).write_text(export_card(model_dir, path, made), encoding="utf-8")
        made.write(unproven)
    say(tr("{}; next: {}", path, format_.next_step(path, model_dir)))


def _is_up_to_date(path: Path, origin: "ExportOrigin") -> bool:
    """Whether a folder holds this export whole; says what is damaged."""
    from transformer_mt.export.proof import MANIFEST, ExportOrigin
    from transformer_mt.system.state import Damaged, damages, read_manifest

    try:
        if ExportOrigin.read(path) != origin:
            return False
        problems = damages(path, read_manifest(path, MANIFEST) or {})
    except Damaged as error:
        problems = [str(error)]
    for problem in problems:
        say(tr("{}; making it anew", problem))
    return not problems


def _task(
    model_dir: Path, quantization: str, src_path: Path | None, ref_path: Path | None
) -> "ExportTask":
    from transformer_mt.corpus.readers.lines import split_lines
    from transformer_mt.export.proof import N_TEXTS, ExportTask
    from transformer_mt.translation.translator import Translator

    dev = model_dir.parent / "data" / "clean"
    if src_path is None:
        src_path, ref_path = dev / "dev.src", ref_path or dev / "dev.tgt"
    if not src_path.is_file():
        message = tr("{}: no such file; give --src FILE, texts to prove the export on", src_path)
        raise TmtError(message)
    srcs = list(split_lines(src_path))
    refs = list(split_lines(ref_path)) if ref_path is not None else [""] * len(srcs)
    if len(srcs) != len(refs):
        message = tr("{} has {} lines, {} has {}", src_path, len(srcs), ref_path, len(refs))
        raise TmtError(message)
    pairs = [(src, ref) for src, ref in zip(srcs, refs, strict=True) if src.strip()][:N_TEXTS]
    if not pairs:
        raise TmtError(tr("{}: there is no text", src_path))
    return ExportTask(
        Translator.load(model_dir, precision="fp32"),
        quantization,
        [src for src, _ in pairs],
        [ref for _, ref in pairs] if ref_path is not None else [],
    )
