"""A model as Hugging Face's MarianMT reads it: for comparisons with other engines.

Comes in: a `Transformer` of the paper's architecture with post-norm, and one vocabulary. Goes out:
the weights under MarianMT's names and its configuration.

MarianMT has the sines of a position in the first half of the features and the cosines in the
second, where the paper interleaves them. So the features of everything that the residual stream
passes through are put into that order: a permutation of the same model.
"""

from typing import Any

import torch
from torch import Tensor

from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, PAD_ID
from transformer_mt.errors import ConfigError
from transformer_mt.model.transformer import Transformer

_MAX_POSITIONS = 1024


def marian_config(model: Transformer) -> dict[str, Any]:
    """What `config.json` says.

    Raises:
        ConfigError: all that MarianMT cannot be, see `check_marian`.
    """
    check_marian(model)
    cfg, vocab_size = model.cfg, model.output.weight.size(0)
    return {
        "model_type": "marian", "architectures": ["MarianMTModel"],
        "vocab_size": vocab_size, "decoder_vocab_size": vocab_size,
        "share_encoder_decoder_embeddings": True, "tie_word_embeddings": True,
        "d_model": cfg.d_model, "activation_function": "relu", "scale_embedding": True,
        "encoder_layers": cfg.encoder_layers, "decoder_layers": cfg.decoder_layers,
        "encoder_attention_heads": cfg.heads, "decoder_attention_heads": cfg.heads,
        "encoder_ffn_dim": cfg.ffn, "decoder_ffn_dim": cfg.ffn,
        "dropout": cfg.dropout, "attention_dropout": 0.0, "activation_dropout": 0.0,
        "max_position_embeddings": _MAX_POSITIONS, "max_length": _MAX_POSITIONS,
        "pad_token_id": PAD_ID, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID,
        "decoder_start_token_id": BOS_ID, "forced_eos_token_id": None, "use_cache": True,
    }  # fmt: skip


def check_marian(model: Transformer) -> None:
    """Raises: ConfigError: every reason why MarianMT cannot hold this model."""
    reasons = []
    if model.cfg.architecture != "paper":
        reasons.append("architecture: modern has rotary positions and SwiGLU")
    if model.cfg.norm != "post":
        reasons.append(f"norm: {model.cfg.norm}, MarianMT normalises after each sub-layer")
    if model.cfg.tie_embeddings != "all":
        reasons.append("the embeddings are not one matrix (tokenizer.joint: true)")
    if reasons:
        raise ConfigError("MarianMT cannot hold this model: " + "; ".join(reasons))


def marian_weights(model: Transformer) -> dict[str, Tensor]:
    """Name → tensor, fp32, of a MarianMTModel that computes the same.

    Raises:
        ConfigError: see `check_marian`.
    """
    check_marian(model)
    source = {name: weight.detach().float() for name, weight in model.state_dict().items()}
    order = _halves(model.cfg.d_model)
    shared = source["output.weight"][:, order]
    weights = {
        "model.shared.weight": shared,
        "final_logits_bias": torch.zeros(1, shared.size(0)),
    }
    for side, n_layers in (("encoder", len(model.encoder_layers)),
                           ("decoder", len(model.decoder_layers))):  # fmt: skip
        for i in range(n_layers):
            layer = {
                name.removeprefix(f"{side}_layers.{i}."): weight
                for name, weight in source.items()
                if name.startswith(f"{side}_layers.{i}.")
            }
            for name, weight in _layer(layer, order).items():
                weights[f"model.{side}.layers.{i}.{name}"] = weight
    return {name: weight.contiguous() for name, weight in weights.items()}


def _layer(source: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """One layer: what reads the residual stream has its columns reordered, what writes its rows."""
    found = {}
    for kind in ("weight", "bias"):
        reads = (lambda w: w[:, order]) if kind == "weight" else (lambda b: b)
        qkv = reads(source[f"self_attn.qkv_proj.{kind}"]).chunk(3)
        named = dict(zip("qkv", qkv, strict=True))
        for name, weight in named.items():
            found[f"self_attn.{name}_proj.{kind}"] = weight
        found[f"self_attn.out_proj.{kind}"] = source[f"self_attn.out_proj.{kind}"][order]
        found[f"self_attn_layer_norm.{kind}"] = source[f"self_attn_residual.layer_norm.{kind}"][
            order
        ]
        if f"encoder_attn.q_proj.{kind}" in source:
            k, v = reads(source[f"encoder_attn.kv_proj.{kind}"]).chunk(2)
            q = reads(source[f"encoder_attn.q_proj.{kind}"])
            for name, weight in (("q", q), ("k", k), ("v", v)):
                found[f"encoder_attn.{name}_proj.{kind}"] = weight
            found[f"encoder_attn.out_proj.{kind}"] = source[f"encoder_attn.out_proj.{kind}"][order]
            norm = source[f"encoder_attn_residual.layer_norm.{kind}"]
            found[f"encoder_attn_layer_norm.{kind}"] = norm[order]
        found[f"fc1.{kind}"] = reads(source[f"ffn.fc1.{kind}"])
        found[f"fc2.{kind}"] = source[f"ffn.fc2.{kind}"][order]
        found[f"final_layer_norm.{kind}"] = source[f"ffn_residual.layer_norm.{kind}"][order]
    return found


def _halves(width: int) -> Tensor:
    """The features in MarianMT's order: all sines, then all cosines."""
    return torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
