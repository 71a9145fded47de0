"""A model directory as CTranslate2 reads it.

Comes in: a `Transformer` with its tokenizers. Goes out: a directory for `ctranslate2.Translator`,
whose tokens are the pieces of the tokenizers. Needs the extra: pip install
'transformer-mt[export]'. This file knows names and shapes; it translates nothing.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from transformer_mt.encoding.tokenizer import BOS, EOS, UNK
from transformer_mt.export.ctranslate2_engine import MAX_POSITIONS, CTranslate2Model
from transformer_mt.export.formats import exported_path, require
from transformer_mt.export.proof import ExportTask
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.encoder_decoder import Embedding, sinusoidal_positions
from transformer_mt.model.transformer import NORM_EPS, Transformer

QUANTIZATIONS = ("float32", "int8", "int16", "bfloat16", "float16")
_MOST = 63  # of an integer of 8 bits: see `_quantise`
_PLACES = {  # of the modules of a layer: here, there
    "self_attn_residual.layer_norm": "self_attention.layer_norm",
    "self_attn.qkv_proj": "self_attention.linear.0",
    "self_attn.out_proj": "self_attention.linear.1",
    "encoder_attn_residual.layer_norm": "attention.layer_norm",
    "encoder_attn.q_proj": "attention.linear.0",
    "encoder_attn.kv_proj": "attention.linear.1",
    "encoder_attn.out_proj": "attention.linear.2",
    "ffn_residual.layer_norm": "ffn.layer_norm",
    "ffn.fc1": "ffn.linear_0",
    "ffn.fc2": "ffn.linear_1",
    "ffn.gate_proj": "ffn.linear_0",
    "ffn.up_proj": "ffn.linear_0_noact",
    "ffn.down_proj": "ffn.linear_1",
}


def refusals(task: ExportTask) -> list[str]:
    """None: it has every architecture of tmt."""
    return []


def write(task: ExportTask, folder: Path) -> None:
    """Write a CTranslate2 model directory.

    Raises:
        TmtError: the package is not installed.
    """
    model = task.model
    tokenizers = task.translator.src_tokenizer, task.translator.tgt_tokenizer
    spec = _specification(model)
    _embedding(spec.encoder, model.encoder_embedding)
    _embedding(spec.decoder, model.decoder_embedding)
    layers = [*model.encoder_layers, *model.decoder_layers]
    for layer, target in zip(layers, [*spec.encoder.layer, *spec.decoder.layer], strict=True):
        for name, module in layer.named_modules():
            if name in _PLACES:
                _copy(module, _part(target, _PLACES[name]))
    if model.cfg.norm == "pre":
        _copy(model.encoder_norm, spec.encoder.layer_norm)
        _copy(model.decoder_norm, spec.decoder.layer_norm)
    _copy(model.output, spec.decoder.projection)
    src_pieces, tgt_pieces = (t.pieces(range(t.vocab_size)) for t in tokenizers)
    spec.register_source_vocabulary(src_pieces)
    spec.register_target_vocabulary(tgt_pieces)
    config = spec.config
    config.unk_token, config.bos_token, config.eos_token = UNK, BOS, EOS
    config.decoder_start_token, config.add_source_eos, config.add_source_bos = BOS, True, False
    config.layer_norm_epsilon = NORM_EPS
    spec.validate()  # every place is filled
    _quantise(spec, task.quantization)
    spec.save(str(folder))


def load(task: ExportTask, folder: Path) -> CTranslate2Model:
    return CTranslate2Model(task.translator, folder)


def next_step(path: Path, model_dir: Path) -> str:
    if path != exported_path(model_dir):
        return tr('in Python, ctranslate2.Translator("{}")', path)
    return tr("tmt translate -m {} --engine ctranslate2 TEXT", model_dir)


def _specification(model: Transformer) -> Any:
    """An empty specification of the model's sizes and kinds of layers."""
    specs, cfg = require("ctranslate2.specs", "CTranslate2"), model.cfg
    activation = specs.common_spec.Activation
    kinds: dict[str, Any] = {"pre_norm": cfg.norm == "pre", "activation": activation.RELU}
    if cfg.modern:
        kinds |= {
            "activation": activation.SWISH, "ffn_glu": True, "rms_norm": True,
            "rotary_dim": 0, "rotary_interleave": True,  # all of a head, in neighbouring pairs
        }  # fmt: skip
    encoder = specs.TransformerEncoderSpec(cfg.encoder_layers, cfg.heads, **kinds)
    decoder = specs.TransformerDecoderSpec(cfg.decoder_layers, cfg.heads, **kinds)
    if cfg.modern:
        del encoder.position_encodings  # the class has them whatever is in the layers
    return specs.TransformerSpec(encoder, decoder)


def _embedding(target: Any, source: Embedding) -> None:
    embeddings = target.embeddings
    table = embeddings[0] if isinstance(embeddings, list) else embeddings
    table.weight = _array(source.tokens.weight)
    target.scale_embeddings = True
    if source.add_positions:
        width = source.tokens.embedding_dim
        target.position_encodings.encodings = _array(sinusoidal_positions(MAX_POSITIONS, width))


def _part(target: Any, path: str) -> Any:
    for name in path.split("."):
        target = target[int(name)] if name.isdigit() else getattr(target, name)
    return target


def _copy(source: nn.Module, target: Any) -> None:
    """Weights of a linear layer or a norm, which have other names there."""
    names = {"weight": "weight", "bias": "bias"}
    if not isinstance(source, nn.Linear):
        names = {"weight": "gamma", "bias": "beta"}
    for name, parameter in source.named_parameters():
        setattr(target, names[name], _array(parameter))


def _quantise(spec: Any, kind: str) -> None:
    """Round the weights; 8 bits as integers up to 63, instead of CTranslate2's 127.

    x86 without VNNI adds two products of 8 bits in 16 signed ones: 2 · 255 · 63 fits, 2 · 255 · 127
    is cut off. So the sums are exact on every processor.
    """
    specs = require("ctranslate2.specs", "CTranslate2").model_spec
    exact = {}
    if kind == "int8":  # a copy, since `optimize` rounds in place
        exact = {name: weight.numpy().copy() for name, weight in spec.variables().items()}
    spec.optimize(quantization=None if kind == "float32" else kind)
    rounded = spec.variables()
    for of, weight in exact.items():
        if f"{of}_scale" not in rounded:
            continue
        scales = _MOST / np.abs(weight).max(axis=1).clip(min=1e-30)  # a row may be 0
        folder, _, key = of.rpartition("/")
        part = specs.index_spec(spec, folder)
        integers = np.rint(weight * scales[:, None]).astype(np.int8)
        setattr(part, key, specs.NumpyVariable(integers))
        setattr(part, f"{key}_scale", specs.NumpyVariable(scales.astype(np.float32)))


def _array(tensor: Tensor) -> Any:
    """NumPy, float32, a copy: CTranslate2 quantises in place."""
    return tensor.detach().to("cpu", torch.float32, copy=True).numpy()
