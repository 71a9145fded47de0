"""The model directory: the only input of translation, evaluation, explanation and export.

`config.yaml`, `model.safetensors`, one or two SentencePiece models, `metadata.json`. No pickle. It
can be copied anywhere. The metadata holds a digest of every other file, so that a truncated or
altered one is noticed.

torch is loaded by what touches weights: it takes two seconds, and much reads only what lies beside.
"""

import math
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zipfile import BadZipFile

from safetensors import SafetensorError, safe_open

from transformer_mt import __version__
from transformer_mt.config.experiment import Config, load_config
from transformer_mt.encoding.tokenizer import PAD_ID, Tokenizer
from transformer_mt.errors import ModelDirError
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.output import writing, writing_folder
from transformer_mt.system.state import Damaged, damages, read_manifest, sealed, write_manifest
from transformer_mt.text.known_units import KnownUnits
from transformer_mt.text.word_translations import WordTranslations

if TYPE_CHECKING:
    from torch import Tensor

    from transformer_mt.model.encoder_decoder import EncoderDecoder

FORMAT = 1
_WEIGHTS = "model.safetensors"
METADATA = "metadata.json"  # the manifest
CARD = "README.md"  # says what the model is; not every model has one
DISTILLED = "distilled"  # key of the metadata: the teacher beside this model
_KNOWN = "source_units.npz"  # of the training text; older model directories have none
_WORDS = "word_translations.npz"  # likewise
# Every file that a model directory may list.
FILES = {
    "config.yaml", _WEIGHTS, _KNOWN, _WORDS,
    "tokenizer.model", "tokenizer.src.model", "tokenizer.tgt.model",
}  # fmt: skip
_FLOATS = {"F32", "F16", "BF16", "F64"}

Shapes = Mapping[str, tuple[int, ...]]
_Table = TypeVar("_Table")


@dataclass(frozen=True)
class LoadedModel:
    config: Config
    model: "EncoderDecoder"  # fp32, on the CPU, in eval mode
    tokenizers: tuple[Tokenizer, Tokenizer]  # source, target
    metadata: dict[str, Any]
    known: KnownUnits | None = None  # words of the source side that training has seen
    words: WordTranslations | None = None  # of the training text


def build_model(cfg: Config, tokenizers: tuple[Tokenizer, Tokenizer]) -> "EncoderDecoder":
    """A freshly initialised model that fits these tokenizers."""
    from transformer_mt.model.architectures import new_model
    from transformer_mt.model.encoder_decoder import resolve_tying

    model_cfg = resolve_tying(cfg.model, joint=cfg.tokenizer.joint)
    vocab_sizes = [tokenizer.vocab_size for tokenizer in tokenizers]
    return new_model(model_cfg, *vocab_sizes, pad_id=PAD_ID)


def tokenizer_paths(directory: Path, *, joint: bool) -> tuple[Path, Path]:
    """Where the source and the target tokenizer lie; the same file when they are one."""
    if joint:
        return directory / "tokenizer.model", directory / "tokenizer.model"
    return directory / "tokenizer.src.model", directory / "tokenizer.tgt.model"


def load_tokenizers(directory: Path, *, joint: bool) -> tuple[Tokenizer, Tokenizer]:
    src_path, tgt_path = tokenizer_paths(directory, joint=joint)
    src = Tokenizer.load(src_path)
    return src, (src if joint else Tokenizer.load(tgt_path))


def weights_of(model: "EncoderDecoder") -> "dict[str, Tensor]":
    """One entry per distinct parameter, as `save_model_dir` takes them."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def save_model_dir(
    path: Path,
    cfg: Config,
    weights: "dict[str, Tensor]",
    tokenizer_dir: Path,
    metadata: dict[str, Any],
    *,
    known: KnownUnits | None = None,
    words: WordTranslations | None = None,
    ours: bool = False,
) -> None:
    """Write a model directory at once; an existing one is replaced.

    Args:
        weights: fp32, one entry per distinct parameter of `build_model`.
        tokenizer_dir: where `tokenizer_paths` finds the tokenizers.
        metadata: plain values to keep with the model: scores, signatures, data fingerprints.
        known: words of the source side that training has seen.
        words: what the words of the training text say about the source of a translation.
        ours: see `writing_folder`.
    """
    import torch
    from safetensors.torch import save_file

    with writing_folder(path, METADATA, ours=ours) as directory:
        (directory / "config.yaml").write_text(cfg.to_yaml(), encoding="utf-8")
        save_file({name: w.contiguous() for name, w in weights.items()}, directory / _WEIGHTS)
        for source in set(tokenizer_paths(tokenizer_dir, joint=cfg.tokenizer.joint)):
            shutil.copyfile(source, directory / source.name)
        if known is not None:
            known.save(directory / _KNOWN)
        if words is not None:
            words.save(directory / _WORDS)
        versions = {"tmt": __version__, "torch": torch.__version__}
        content = {"format": FORMAT, "versions": versions, **metadata}
        write_manifest(directory, METADATA, content)


def load_model_dir(path: Path) -> LoadedModel:
    """Read and check a model directory.

    Raises:
        ModelDirError: it is missing, incomplete, truncated or altered; the message names the file.
    """
    from safetensors.torch import load_file

    from transformer_mt.model.architectures import UndrawnNumbers

    metadata = read_metadata(path)
    cfg = load_config(path / "config.yaml")
    tokenizers = load_tokenizers(path, joint=cfg.tokenizer.joint)
    try:
        _check_sizes(cfg, path / _WEIGHTS)
        with UndrawnNumbers():
            model = build_model(cfg, tokenizers)
        load_weights(model, load_file(path / _WEIGHTS))
    except (SafetensorError, ValueError, OSError) as error:
        raise ModelDirError(
            tr("{}: does not fit config.yaml: {}", path / _WEIGHTS, error)
        ) from error
    known = _load_table(path / _KNOWN, KnownUnits.load, metadata)
    words = _load_table(path / _WORDS, WordTranslations.load, metadata)
    return LoadedModel(cfg, model.eval(), tokenizers, metadata, known, words)


def _load_table(
    path: Path, load: Callable[[Path], _Table], metadata: dict[str, Any]
) -> _Table | None:
    if path.name not in metadata["files"]:
        return None
    try:
        return load(path)
    except (ValueError, OSError, KeyError, BadZipFile) as error:
        raise ModelDirError(tr("{}: cannot be read: {}", path, error)) from error


def _check_sizes(cfg: Config, path: Path) -> None:
    """Compare a file of weights with a configuration roughly, before either takes memory.

    Raises:
        ValueError: weights that are no floats, or sizes far beyond those of the file.
        SafetensorError: it is no such file.
    """
    with safe_open(path, framework="pt") as file:
        names = file.keys()  # the file itself cannot be iterated
        found = [file.get_slice(name) for name in names]
        n_numbers = sum(math.prod(part.get_shape()) for part in found)
        kinds = {part.get_dtype() for part in found}
    if not kinds <= _FLOATS:
        raise ValueError(f"weights of the type {', '.join(sorted(kinds - _FLOATS))}")
    if cfg.model.matrix_parameters > 2 * n_numbers:  # the exact comparison comes with the model
        expected = cfg.model.matrix_parameters
        raise ValueError(f"the layers have {expected:,} parameters, the file {n_numbers:,} numbers")


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata of a model directory, after comparing every file with its digest."""
    if not path.is_dir():
        raise ModelDirError(
            tr("{}: no such model directory; train one with tmt train CONFIG", path)
        )
    try:
        metadata = read_manifest(path, METADATA)
    except Damaged as error:
        raise ModelDirError(tr("{}; copy the whole model directory again", error)) from error
    if metadata is None:
        raise ModelDirError(tr("{}: not a model directory: {} is missing", path, METADATA))
    if metadata.get("format") != FORMAT:
        found = metadata.get("format")
        raise ModelDirError(tr("{}: format {}; this tmt reads format {}", path, found, FORMAT))
    missing = {"config.yaml", _WEIGHTS} - metadata.get("files", {}).keys()
    if missing:
        raise ModelDirError(tr("{}: lists no {}", path / METADATA, ", ".join(sorted(missing))))
    if problems := damages(path, metadata):
        raise ModelDirError("\n".join(problems) + tr("; copy the whole model directory"))
    return metadata


def add_metadata(path: Path, values: Mapping[str, Any]) -> None:
    """Keep more plain values with a finished model; its other files stay as they are."""
    content = sealed({**read_metadata(path), **values})
    with writing(path / METADATA) as temporary:
        temporary.write_bytes(content)


def weights_digest(path: Path) -> str:
    """The SHA-256 that the metadata of a checked model directory has for its weights."""
    metadata = read_manifest(path, METADATA) or {}
    return str(metadata["files"][_WEIGHTS])


def load_weights(model: "EncoderDecoder", weights: "dict[str, Tensor]") -> None:
    """Copy named weights into a model; both must name exactly the same parameters.

    Raises:
        ValueError: names or shapes differ.
    """
    import torch

    parameters = dict(model.named_parameters())
    _compare_shapes(
        {name: tuple(weight.shape) for name, weight in weights.items()},
        {name: tuple(parameter.shape) for name, parameter in parameters.items()},
    )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


def _compare_shapes(found: Shapes, expected: Shapes) -> None:
    if found.keys() != expected.keys():
        differing = sorted(found.keys() ^ expected.keys())
        raise ValueError(f"parameters differ: {', '.join(differing[:5])}")
    for name, shape in expected.items():
        if found[name] != shape:
            raise ValueError(f"{name}: shape {found[name]}, expected {shape}")
