"""A model for the engine of Firefox's translations: Marian in WebAssembly, from npm's
@browsermt/bergamot-translator.

Comes in: a translator of one direction, of the paper with post-norm. Goes out: `model.bin` in
Marian's binary format (`bergamot_weights.py` has the numbers), the vocabularies, `config.yml` for
the constructor of the engine's `TranslationModel`, and `translate.cjs`, which runs the engine under
Node, in the proof as well. Each line of a text is a sentence there.
"""

import json
import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from torch import Tensor

from transformer_mt.config.model import ModelConfig
from transformer_mt.errors import TmtError
from transformer_mt.export.bergamot_weights import marian_parameters
from transformer_mt.export.proof import ExportTask
from transformer_mt.messages.catalogue import tr

QUANTIZATIONS = ("float32",)
PACKAGE = "@browsermt/bergamot-translator"
_PROGRAM = "translate.cjs"
_FLOAT32, _INT8 = 0x404, 0x101  # kind and bytes of a number
_ALIGNMENT = 256  # bytes
_LEAST_BREAK = 128  # tokens of a source, EOS included, as in Firefox


def refusals(task: ExportTask) -> list[str]:
    """Every reason at once."""
    translator = task.translator
    cfg, reasons = translator.model.cfg, []
    if cfg.modern:
        reasons.append(tr("Marian has no rotary positions and no SwiGLU (architecture: modern)"))
    if cfg.norm != "post":
        reasons.append(
            tr("Marian normalises neither keys nor values before a sub-layer, this model does "
               "(norm: {})", cfg.norm)
        )  # fmt: skip
    if translator.cfg.languages.bidirectional:
        reasons.append(tr("it translates both ways, but the engine cannot be told which"))
    nearest = tr(
        "--to ctranslate2 carries it; or train one direction, architecture: paper and norm: post"
    )
    return [*reasons, nearest] if reasons else []


def write(task: ExportTask, folder: Path) -> None:
    translator = task.translator
    model, longest = task.model, max(_LEAST_BREAK, translator.cfg.data.max_length + 1)
    parameters = marian_parameters(model, 2 * longest, translator.tgt_tokenizer.silent_ids)
    (folder / "model.bin").write_bytes(binary(parameters, marian_options(model.cfg, parameters)))
    engine_config = {
        "beam-size": 1, "skip-cost": True, "allow-unk": True, "gemm-precision": "float32",
        "max-length-break": longest, "max-length-factor": 4.0, "mini-batch-words": 1024,
        "workspace": 128, "ssplit-mode": "sentence",
    }  # fmt: skip
    (folder / "config.yml").write_text(yaml.safe_dump(engine_config, sort_keys=False))
    (folder / "srcvocab.spm").write_bytes(translator.src_tokenizer.serialised)
    (folder / "trgvocab.spm").write_bytes(translator.tgt_tokenizer.serialised)
    shutil.copyfile(Path(__file__).with_name(f"bergamot_{_PROGRAM}"), folder / _PROGRAM)


def load(task: ExportTask, folder: Path) -> "BergamotModel":
    return BergamotModel(folder)


def next_step(path: Path, model_dir: Path) -> str:
    return tr('npm install {}; node {} "…"', PACKAGE, path / _PROGRAM)


def marian_options(cfg: ModelConfig, parameters: Mapping[str, Tensor]) -> dict[str, Any]:
    """The description of the architecture inside of a model file."""
    embeddings = [parameters[f"{side}_Wemb"] for side in ("encoder", "decoder")]
    return {
        "type": "transformer", "version": "v1.9.0",
        "dim-vocabs": [len(embedding) for embedding in embeddings],
        "dim-emb": embeddings[0].size(1),
        "transformer-dim-ffn": parameters["encoder_l1_ffn_W1"].size(1),
        "enc-depth": cfg.encoder_layers + 1, "dec-depth": cfg.decoder_layers + 1,
        "transformer-heads": cfg.heads, "transformer-ffn-activation": "relu",
        "transformer-preprocess": "", "transformer-postprocess": "dan",
    }  # fmt: skip


def binary(parameters: Mapping[str, Tensor], options: Mapping[str, Any]) -> bytes:
    """A model file, version 1: headers, names, shapes, then numbers, each aligned.

    Args:
        parameters: float32.
    """
    items = [(name, _FLOAT32, tuple(parameter.shape), parameter.numpy().tobytes())
             for name, parameter in parameters.items()]  # fmt: skip
    description = yaml.safe_dump(dict(options), sort_keys=False).encode() + b"\0"
    items.append(("special:model.yml", _INT8, (len(description),), description))
    names = [name.encode() + b"\0" for name, *_ in items]
    padded = [data + bytes(-len(data) % _ALIGNMENT) for *_, data in items]
    found = struct.pack("<QQ", 1, len(items))
    for name, (_, kind, shape, _), data in zip(names, items, padded, strict=True):
        found += struct.pack("<QQQQ", len(name), kind, len(shape), len(data))
    found += b"".join(names)
    for _, _, shape, _ in items:
        found += struct.pack(f"<{len(shape)}i", *shape)
    gap = -(len(found) + 8) % _ALIGNMENT
    return b"".join([found, struct.pack("<Q", gap), bytes(gap), *padded])


class BergamotModel:
    """An export in the engine under Node; see `ExportedModel`."""

    def __init__(self, folder: Path) -> None:
        """
        Raises:
            TmtError: Node or the package is not installed, or the engine does not take the model.
        """
        self._program = folder / _PROGRAM
        self.translate([])

    def translate(self, texts: Sequence[str]) -> list[str]:
        """
        Raises:
            TmtError: the engine fails.
        """
        try:
            done = subprocess.run(
                ["node", self._program], input=json.dumps(list(texts)).encode(), capture_output=True
            )
        except FileNotFoundError as error:
            raise TmtError(tr("Node is not installed; the engine runs under it")) from error
        if b"Cannot find module" in done.stderr:
            raise TmtError(
                tr("{} is in no node_modules folder from here upward, nor in $NODE_PATH: "
                   "npm install {}", PACKAGE, PACKAGE)
            )  # fmt: skip
        if done.returncode:
            raise TmtError(tr("the engine fails: {}", done.stderr.decode().strip()))
        return json.loads(done.stdout)

    def log_probs(self, srcs: Sequence[str], tgts: Sequence[str]) -> None:
        """The engine does not tell them."""
