"""A package of Argos Translate, `translate-zh_en-1_0.argosmodel`; LibreTranslate installs it too.

Comes in: a `Transformer` with its tokenizers. Goes out: a zip archive of a CTranslate2 model, the
SentencePiece model of the source, and the codes and names of the languages. Of two directions each
has a package of its own, whose model puts the tag of the target language before a text. Needs the
extra: pip install 'transformer-mt[argos]'.

Argos decodes translations with that one SentencePiece model, too. A target vocabulary of its own is
carried all the same: a piece that the model does not know is decoded as its own spelling, and the
pieces of bytes are in both vocabularies or in neither.
"""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from transformer_mt.config.data import Languages
from transformer_mt.encoding.tags import language_tag
from transformer_mt.export import ctranslate2
from transformer_mt.export.proof import ExportTask
from transformer_mt.messages.catalogue import tr
from transformer_mt.translation.direction import both_directions

if TYPE_CHECKING:
    from transformer_mt.export.argos_engine import ArgosModel

QUANTIZATIONS = ctranslate2.QUANTIZATIONS
_ENDING = ".argosmodel"


def refusals(task: ExportTask) -> list[str]:
    """None: CTranslate2 has every architecture, and the package one or two vocabularies."""
    return []


def write(task: ExportTask, folder: Path) -> None:
    """Write the package of each direction.

    Raises:
        TmtError: CTranslate2 is not installed.
    """
    for direction in both_directions(task.translator.cfg.languages):
        from_code, to_code = (_argos_code(code) for code in (direction.src, direction.tgt))
        name = f"translate-{from_code}_{to_code}-1_0"
        with TemporaryDirectory(dir=folder) as content:
            _write_content(task, direction, Path(content) / name)
            archive = shutil.make_archive(str(folder / name), "zip", content, name)
            Path(archive).rename(folder / (name + _ENDING))


def load(task: ExportTask, folder: Path) -> "ArgosModel":
    from transformer_mt.export.argos_engine import ArgosModel

    return ArgosModel(task.translator, folder)


def next_step(path: Path, model_dir: Path) -> str:
    package = min(path.glob("*" + _ENDING))
    return tr('in Python, argostranslate.package.install_from_path("{}")', package)


def _argos_code(code: str) -> str:
    """The code of a language there."""
    return "zt" if code == "zh-Hant" else code


def _write_content(task: ExportTask, direction: Languages, folder: Path) -> None:
    import langcodes

    (folder / "model").mkdir(parents=True)
    ctranslate2.write(task, folder / "model")
    if direction.bidirectional:
        config_path = folder / "model" / "config.json"
        tag = {"bos_token": language_tag(direction.tgt), "add_source_bos": True}
        config_path.write_text(json.dumps(json.loads(config_path.read_bytes()) | tag), "utf-8")
    model = task.translator.src_tokenizer.serialised
    (folder / "sentencepiece.model").write_bytes(model)
    metadata = {"package_version": "1.0", "argos_version": "1.11", "type": "translate"}
    for end, code in (("from", direction.src), ("to", direction.tgt)):
        metadata[f"{end}_code"] = _argos_code(code)
        metadata[f"{end}_name"] = langcodes.Language.get(code).display_name()
    (folder / "metadata.json").write_text(json.dumps(metadata, indent=2), "utf-8")
    (folder / "README.md").write_text(f"# {_readme(task, direction)}\n", "utf-8")


def _readme(task: ExportTask, direction: Languages) -> str:
    return tr(
        "{}, {}\n\nWritten by tmt export. Argos Translate computes in int8 whatever is in the "
        "package, unless ARGOS_COMPUTE_TYPE=default is set, and writes a space for each _.",
        task.translator.cfg.name, f"{direction.src} → {direction.tgt}",
    )  # fmt: skip
