"""A model directory as CTranslate2 reads it.

Comes in: a `Transformer` with its tokenizers. Goes out: a directory for `ctranslate2.Translator`,
whose tokens are the pieces of the tokenizers. Needs the extra: pip install
'transformer-mt[export]'. This file knows names and shapes; it translates nothing.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from transformer_mt.encoding.tokenizer import BOS, EOS, UNK, Tokenizer
from transformer_mt.errors import TmtError
from transformer_mt.model.attention import CrossAttention, SelfAttention
from transformer_mt.model.modern import SwiGLU
from transformer_mt.model.transformer import (
    NORM_EPS,
    DecoderLayer,
    Embedding,
    EncoderLayer,
    FeedForward,
    Transformer,
    sinusoidal_positions,
)
from transformer_mt.system.output import writing_folder
from transformer_mt.system.state import Damaged, content_of, read_manifest, write_manifest

Quantization = Literal["float32", "int8", "int16", "bfloat16", "float16"]
_MAX_POSITIONS = 1024  # rows of the position table; CTranslate2 refuses longer texts


MANIFEST = "made_from.json"


@dataclass(frozen=True)
class ExportOrigin:
    """The weights of an export. It is written when both engines have been compared."""

    weights: str  # SHA-256 of the file with the weights
    quantization: Quantization

    def write(self, path: Path) -> None:
        """Args: path: what `save_ctranslate2` wrote."""
        write_manifest(path, MANIFEST, asdict(self))

    @classmethod
    def read(cls, path: Path) -> "ExportOrigin | None":
        """None: there is no export, or nothing is known about it.

        Raises:
            Damaged: what is written about it has been altered.
        """
        manifest = read_manifest(path, MANIFEST)
        if manifest is None:
            return None
        try:
            return cls(**content_of(manifest))
        except TypeError as error:
            raise Damaged(f"{path / MANIFEST}: damaged: {error}") from error


def exported_path(model_dir: Path) -> Path:
    """Where the export of a model is looked for."""
    return model_dir.with_name(f"{model_dir.name}.ctranslate2")


def save_ctranslate2(
    model: Transformer,
    tokenizers: tuple[Tokenizer, Tokenizer],
    out_dir: Path,
    quantization: Quantization = "float32",
) -> None:
    """Write a CTranslate2 model directory; it appears whole or not at all.

    Raises:
        TmtError: the package is not installed.
        TmtError: `out_dir` holds something.
    """
    spec = _specification(model)
    for embedding, side in (
        (model.encoder_embedding, spec.encoder),
        (model.decoder_embedding, spec.decoder),
    ):
        _embedding(side, embedding)
    for encoder_layer, target in zip(model.encoder_layers, spec.encoder.layer, strict=True):
        assert isinstance(encoder_layer, EncoderLayer)
        _self_attention(target.self_attention, encoder_layer)
        _feed_forward(target.ffn, encoder_layer)
    for decoder_layer, target in zip(model.decoder_layers, spec.decoder.layer, strict=True):
        assert isinstance(decoder_layer, DecoderLayer)
        _self_attention(target.self_attention, decoder_layer)
        _cross_attention(target.attention, decoder_layer)
        _feed_forward(target.ffn, decoder_layer)
    if model.cfg.norm == "pre":
        _norm(spec.encoder.layer_norm, model.encoder_norm)
        _norm(spec.decoder.layer_norm, model.decoder_norm)
    _linear(spec.decoder.projection, model.output)
    pieces = [[*t.pieces(range(t.vocab_size))] for t in tokenizers]
    spec.register_source_vocabulary(pieces[0])
    spec.register_target_vocabulary(pieces[1])
    config = spec.config
    config.unk_token, config.bos_token, config.eos_token = UNK, BOS, EOS
    config.decoder_start_token, config.add_source_eos, config.add_source_bos = BOS, True, False
    config.layer_norm_epsilon = NORM_EPS
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    with writing_folder(out_dir, None) as temporary:
        spec.save(str(temporary))


def _specification(model: Transformer) -> Any:
    """An empty specification of the model's sizes and kinds of layers."""
    try:
        from ctranslate2.specs import (
            TransformerDecoderSpec,
            TransformerEncoderSpec,
            TransformerSpec,
        )
        from ctranslate2.specs.common_spec import Activation
    except ImportError as error:
        raise TmtError(
            "CTranslate2 is not installed: pip install 'transformer-mt[export]'"
        ) from error
    cfg = model.cfg
    kinds: dict[str, Any] = {"pre_norm": cfg.norm == "pre", "activation": Activation.RELU}
    if cfg.modern:
        kinds |= {
            "activation": Activation.SWISH, "ffn_glu": True, "rms_norm": True,
            "rotary_dim": 0, "rotary_interleave": True,  # all of a head, in neighbouring pairs
        }  # fmt: skip
    encoder = TransformerEncoderSpec(cfg.encoder_layers, cfg.heads, **kinds)
    decoder = TransformerDecoderSpec(cfg.decoder_layers, cfg.heads, **kinds)
    if cfg.modern:
        del encoder.position_encodings  # the class has them whatever is in the layers
    return TransformerSpec(encoder, decoder)


def _embedding(target: Any, source: Embedding) -> None:
    embeddings = target.embeddings
    (embeddings[0] if isinstance(embeddings, list) else embeddings).weight = _array(
        source.tokens.weight
    )
    target.scale_embeddings = True
    if source.add_positions:
        width = source.tokens.embedding_dim
        target.position_encodings.encodings = _array(sinusoidal_positions(_MAX_POSITIONS, width))


def _self_attention(target: Any, layer: EncoderLayer | DecoderLayer) -> None:
    attention = layer.self_attn
    assert isinstance(attention, SelfAttention)
    _norm(target.layer_norm, layer.self_attn_residual.layer_norm)
    _linear(target.linear[0], attention.qkv_proj)
    _linear(target.linear[1], attention.out_proj)


def _cross_attention(target: Any, layer: DecoderLayer) -> None:
    attention = layer.encoder_attn
    assert isinstance(attention, CrossAttention)
    _norm(target.layer_norm, layer.encoder_attn_residual.layer_norm)
    _linear(target.linear[0], attention.q_proj)
    _linear(target.linear[1], attention.kv_proj)
    _linear(target.linear[2], attention.out_proj)


def _feed_forward(target: Any, layer: EncoderLayer | DecoderLayer) -> None:
    _norm(target.layer_norm, layer.ffn_residual.layer_norm)
    ffn = layer.ffn
    if isinstance(ffn, SwiGLU):
        _linear(target.linear_0, ffn.gate_proj)
        _linear(target.linear_0_noact, ffn.up_proj)
        _linear(target.linear_1, ffn.down_proj)
    else:
        assert isinstance(ffn, FeedForward)
        _linear(target.linear_0, ffn.fc1)
        _linear(target.linear_1, ffn.fc2)


def _linear(target: Any, source: nn.Linear) -> None:
    target.weight = _array(source.weight)
    if source.bias is not None:
        target.bias = _array(source.bias)


def _norm(target: Any, source: nn.Module) -> None:
    assert isinstance(source, nn.LayerNorm | nn.RMSNorm)
    target.gamma = _array(source.weight)
    if isinstance(source, nn.LayerNorm):
        target.beta = _array(source.bias)


def _array(tensor: Tensor) -> Any:
    """NumPy, float32: what quantisation starts from."""
    return tensor.detach().to("cpu", torch.float32).numpy()
