"""A model directory as MarianMT of Hugging Face's transformers reads it.

Comes in: a `Transformer` of the paper with post-norm, and its tokenizers. Goes out: a directory
for `MarianMTModel` and `MarianTokenizer`. The proof needs the extra: pip install
'transformer-mt[export]'. Not carried: a text that begins with `>>name<<` has a language code there,
and `<unk>`, which only a vocabulary without byte_fallback writes, is left out of translations.

MarianMT has the sines of a position in the first half of the features and the cosines in the
second, where the paper interleaves them. So the features of everything that the residual stream
passes through are put into that order: a permutation of the same model.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from transformer_mt.config.data import Languages
from transformer_mt.encoding.tags import language_tag
from transformer_mt.encoding.tokenizer import BOS, BOS_ID, EOS, EOS_ID, PAD, PAD_ID, UNK, Tokenizer
from transformer_mt.export.proof import ExportTask
from transformer_mt.export.weights import plain_weights, sines_then_cosines
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.transformer import Transformer

if TYPE_CHECKING:
    from transformer_mt.export.marian_engine import MarianModel

QUANTIZATIONS = ("float32", "bfloat16", "float16")
_MAX_POSITIONS = 1024  # tokens of a text, and of a translation
_SHARED = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
_OUTPUT = "lm_head.weight"
_IDS = {"pad_token_id": PAD_ID, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID,
        "decoder_start_token_id": BOS_ID, "forced_eos_token_id": None}  # fmt: skip


def refusals(task: ExportTask) -> list[str]:
    """Every architecture but the paper's with post-norm."""
    cfg, reasons = task.translator.model.cfg, []
    if cfg.modern:
        reasons.append(tr("MarianMT has no rotary positions and no SwiGLU (architecture: modern)"))
    if cfg.norm != "post":
        reasons.append(
            tr("MarianMT normalises after each sub-layer, this model before (norm: {})", cfg.norm)
        )
    nearest = tr("--to ctranslate2 carries it; or train with architecture: paper and norm: post")
    return [*reasons, nearest] if reasons else []


def write(task: ExportTask, folder: Path) -> None:
    """Write a directory for `from_pretrained`."""
    translator, dtype = task.translator, getattr(torch, task.quantization)
    weights = {name: w.to(dtype) for name, w in marian_weights(task.model).items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    cfg, src, tgt = translator.cfg, translator.src_tokenizer, translator.tgt_tokenizer
    files = {
        "config.json": {**marian_config(task.model), "dtype": task.quantization},
        "generation_config.json": {
            **_IDS, "max_length": _MAX_POSITIONS, "num_beams": cfg.decode.beam,
            "suppress_tokens": tgt.silent_ids,
        },
        "tokenizer_config.json": {
            "tokenizer_class": "MarianTokenizer", "source_lang": cfg.languages.src,
            "target_lang": cfg.languages.tgt, "separate_vocabs": not cfg.tokenizer.joint,
            "model_max_length": _MAX_POSITIONS, "clean_up_tokenization_spaces": False,
            "split_special_tokens": True,  # a text that spells </s> does not end there
            "unk_token": UNK, "bos_token": BOS, "eos_token": EOS, "pad_token": PAD,
        },
        "vocab.json": _vocabulary(src, cfg.languages),
    }  # fmt: skip
    if not cfg.tokenizer.joint:
        files["target_vocab.json"] = _vocabulary(tgt, cfg.languages)
    for name, content in files.items():
        text = json.dumps(content, ensure_ascii=False, indent=2)
        (folder / name).write_text(text + "\n", encoding="utf-8")
    for name, tokenizer in (("source.spm", src), ("target.spm", tgt)):
        (folder / name).write_bytes(tokenizer.serialised)


def load(task: ExportTask, folder: Path) -> "MarianModel":
    from transformer_mt.export.marian_engine import MarianModel

    return MarianModel(task.translator, folder)


def next_step(path: Path, model_dir: Path) -> str:
    return tr('MarianMTModel.from_pretrained("{}"), and MarianTokenizer likewise', path)


def marian_config(model: Transformer) -> dict[str, Any]:
    """The `config.json` of a model that `refusals` has nothing against."""
    cfg = model.cfg
    return {
        "model_type": "marian", "architectures": ["MarianMTModel"],
        "vocab_size": model.encoder_embedding.tokens.num_embeddings,
        "decoder_vocab_size": model.output.out_features,
        "share_encoder_decoder_embeddings": cfg.tie_embeddings == "all",
        "tie_word_embeddings": cfg.tie_embeddings != "none",
        "d_model": cfg.d_model, "activation_function": "relu", "scale_embedding": True,
        "encoder_layers": cfg.encoder_layers, "decoder_layers": cfg.decoder_layers,
        "encoder_attention_heads": cfg.heads, "decoder_attention_heads": cfg.heads,
        "encoder_ffn_dim": cfg.ffn, "decoder_ffn_dim": cfg.ffn,
        "dropout": cfg.dropout, "attention_dropout": 0.0, "activation_dropout": 0.0,
        "max_position_embeddings": _MAX_POSITIONS, "use_cache": True, **_IDS,
    }  # fmt: skip


def marian_weights(model: Transformer) -> dict[str, Tensor]:
    """Name → tensor, fp32, of a MarianMTModel that computes the same; tied matrices once."""
    plain = plain_weights(model, sines_then_cosines(model.cfg.d_model))
    found = {_marian_name(name): weight for name, weight in plain.items()}
    if model.cfg.tie_embeddings == "all":
        found["model.shared.weight"] = found.pop(_SHARED[0])
        del found[_SHARED[1]]
    if model.cfg.tie_embeddings != "none":
        del found[_OUTPUT]
    return found | {"final_logits_bias": torch.zeros(1, model.output.out_features)}


def _marian_name(name: str) -> str:
    name = re.sub(r"^(encoder|decoder)\.(\d+)\.(ffn\.)?", r"model.\1.layers.\2.", name)
    name = re.sub(r"^(encoder|decoder)\.embedding", r"model.\1.embed_tokens", name)
    return name.replace("ffn_layer_norm", "final_layer_norm").replace("output.", "lm_head.")


def _vocabulary(tokenizer: Tokenizer, languages: Languages) -> dict[str, int]:
    """Piece → id; the tag of a language is spelled as a text asks MarianTokenizer for it."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    tags = {language_tag(code): f">>{code}<<" for code in (languages.src, languages.tgt)}
    spelled = {tag: code for tag, code in tags.items() if tag in tokenizer.tags}
    return {spelled.get(piece, piece): id_ for id_, piece in enumerate(pieces)}
