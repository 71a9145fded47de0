"""`tmt export`: a model in the format of another program, and the proof that it is the same."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from transformer_mt.cli.options import Device, ModelPath, find_model_path, one_of, say
from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.messages.catalogue import tr

PROOF_TEXTS = 100  # texts that both engines translate
_SRC = "texts for the proof; default: dev of the model's run"


def export(
    model: ModelPath = None,
    to: Annotated[str, typer.Option(help="ctranslate2")] = "ctranslate2",
    out_dir: Annotated[
        Path | None, typer.Option("-o", "--out", help="default: MODEL.ctranslate2, beside MODEL")
    ] = None,
    quantization: Annotated[
        str, typer.Option(help="float32, int8, int16, bfloat16 or float16")
    ] = "float32",
    src_path: Annotated[Path | None, typer.Option("--src", help=_SRC)] = None,
    device: Device = "auto",
) -> None:
    """Write a model for CTranslate2, and have both engines translate a sample.

    Exits with 1, and leaves nothing, where the translations differ. What an earlier export of other
    weights left in its place is replaced.
    """
    from transformer_mt.export.ctranslate2 import (
        MANIFEST,
        ExportOrigin,
        Quantization,
        exported_path,
        save_ctranslate2,
    )
    from transformer_mt.export.ctranslate2_engine import CTranslate2Engine
    from transformer_mt.export.proof import ENOUGH, count_equal
    from transformer_mt.model_dir import weights_digest
    from transformer_mt.system.output import refuse_foreign, writing_folder
    from transformer_mt.system.state import Damaged
    from transformer_mt.translation.translator import Translator

    one_of("--to", to, ("ctranslate2",))
    kinds: tuple[Quantization, ...] = get_args(Quantization)
    kind = one_of("--quantization", quantization, kinds)
    model_dir = find_model_path(model)
    texts = _sample(model_dir, src_path)
    translator = Translator.load(model_dir, precision="fp32")
    tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
    path = out_dir or exported_path(model_dir)
    origin = ExportOrigin(weights_digest(model_dir), kind)
    refuse_foreign(path, MANIFEST)
    try:
        if ExportOrigin.read(path) == origin:
            raise ConfigError(tr("{} exists; name a new directory", path))
    except Damaged as error:
        say(tr("{}; making it anew", error))
    with writing_folder(path, MANIFEST) as unproven:
        save_ctranslate2(translator.model, tokenizers, unproven, kind)
        exported = CTranslate2Engine(unproven, tokenizers, threads=1)
        n_equal = count_equal(translator, exported, texts)
        say(tr("{} of {} translations are the same in both engines", n_equal, len(texts)))
        if kind == "float32" and n_equal < ENOUGH * len(texts):
            say(tr("tmt: the exported model does not translate as it should; nothing was kept"))
            raise typer.Exit(1)
        origin.write(unproven)
    say(tr("{}; next: tmt translate -m {} --engine ctranslate2 TEXT", path, model_dir))


def _sample(model_dir: Path, src_path: Path | None) -> list[str]:
    from transformer_mt.corpus.readers.lines import split_lines

    path = src_path or model_dir.parent / "data" / "clean" / "dev.src"
    if not path.is_file():
        raise TmtError(tr("{}: no such file; give --src FILE, texts to prove the export on", path))
    texts = [text for text in split_lines(path) if text.strip()][:PROOF_TEXTS]
    if not texts:
        raise TmtError(tr("{}: there is no text", path))
    return texts
