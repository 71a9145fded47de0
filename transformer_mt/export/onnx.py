"""A model for ONNX Runtime: in Python, and in browsers and Node with transformers.js.

Comes in: a translator. Goes out: a directory for `pipeline("translation", directory)` of
@huggingface/transformers 4.3: two graphs (`onnx_graph.py`), one tokenizer of both sides
(`onnx_tokenizer.py`, which says how two vocabularies share its ids), and what generation needs.
`marian` in its `config.json` decides no more than the names of files and tensors.

Long texts are not divided there as tmt does: a text is to be a sentence. With int8 the numbers of a
batch share one scale, so that neighbours change a translation a little.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from transformer_mt.export.formats import require
from transformer_mt.export.onnx_graph import decoder_graph, encoder_graph
from transformer_mt.export.onnx_tokenizer import (
    N_SPECIAL,
    has_bytes,
    source_offset,
    special_names,
    tokenizer_json,
)
from transformer_mt.export.proof import ExportTask
from transformer_mt.messages.catalogue import tr

QUANTIZATIONS = ("float32", "int8")
_DTYPES = {"float32": "fp32", "int8": "q8"}  # names of transformers.js
_SUFFIXES = {"float32": "", "int8": "_quantized"}
_READY = {"onnx.quant.pre_process": "onnxruntime.quant"}  # or it warns; nothing is to be fused
_MOST_BYTES = 2**31  # of one file of protocol buffers
_BATCH_SENTENCES = 32
_MAX_NEW_TOKENS = 256  # as in the translation pipeline of transformers.js


def refusals(task: ExportTask) -> list[str]:
    translator = task.translator
    reasons = []
    if translator.cfg.languages.bidirectional:
        reasons.append(
            tr("it translates both ways, but a pipeline cannot be told which: --to ctranslate2")
        )
    if translator.src_tokenizer.kind == "unigram" and has_bytes(translator.src_tokenizer):
        reasons.append(
            tr("transformers.js does not spell characters in bytes with tokenizer.type: unigram: "
               "train with bpe, or with tokenizer.byte_fallback: false; or --to ctranslate2")
        )  # fmt: skip
    n_bytes = 4 * sum(parameter.numel() for parameter in translator.model.parameters())
    if n_bytes >= _MOST_BYTES:
        reasons.append(tr("{:.1f} GB do not fit into one file: --to ctranslate2", n_bytes / 2**30))
    return reasons


def write(task: ExportTask, folder: Path) -> None:
    """Write the directory.

    Raises:
        TmtError: a package is not installed.
    """
    onnx, translator = require("onnx", "ONNX"), task.translator
    tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
    offset = source_offset(*tokenizers)
    graphs = {
        "encoder_model": encoder_graph(task.model, n_shared=N_SPECIAL, offset=offset),
        "decoder_model_merged": decoder_graph(task.model),
    }
    (folder / "onnx").mkdir()
    for name, graph in graphs.items():
        onnx.checker.check_model(graph)
        path = folder / "onnx" / f"{name}{_SUFFIXES[task.quantization]}.onnx"
        if task.quantization == "int8":
            quantization = require("onnxruntime.quantization", "ONNX Runtime")
            onnx.helper.set_model_props(graph, _READY)
            # Unsigned like the activations: sums of unsigned times signed products are cut off on
            # x86 without VNNI.
            unsigned = quantization.QuantType.QUInt8
            quantization.quantize_dynamic(graph, path, weight_type=unsigned)
        else:
            onnx.save(graph, path)
    for name, content in {
        "config": _config(task),
        "generation_config": _generation_config(task),
        "tokenizer": tokenizer_json(*tokenizers, translator.cfg.languages.src),
        "tokenizer_config": _tokenizer_config(task),
    }.items():
        text = json.dumps(content, ensure_ascii=False, indent=1)
        (folder / f"{name}.json").write_text(text, "utf-8")


def load(task: ExportTask, folder: Path) -> "OnnxModel":
    return OnnxModel(task, folder)


def next_step(path: Path, model_dir: Path) -> str:
    return tr(
        'npm install @huggingface/transformers; await pipeline("translation", "{}")', path.resolve()
    )


def _special_ids() -> dict[str, int]:
    return {
        "pad_token_id": PAD_ID, "bos_token_id": BOS_ID, "eos_token_id": EOS_ID,
        "decoder_start_token_id": BOS_ID,
    }  # fmt: skip


def _config(task: ExportTask) -> dict[str, Any]:
    translator = task.translator
    cfg, target = translator.model.cfg, translator.tgt_tokenizer
    offset = source_offset(translator.src_tokenizer, target)
    return {
        "model_type": "marian", "architectures": ["MarianMTModel"], "is_encoder_decoder": True,
        "vocab_size": offset + translator.src_tokenizer.vocab_size,
        "decoder_vocab_size": target.vocab_size, "d_model": cfg.d_model,
        "encoder_layers": cfg.encoder_layers, "decoder_layers": cfg.decoder_layers,
        "encoder_attention_heads": cfg.heads, "decoder_attention_heads": cfg.heads,
        "encoder_ffn_dim": cfg.ffn, "decoder_ffn_dim": cfg.ffn, "use_cache": True,
        **_special_ids(),
        "transformers.js_config": {"dtype": _DTYPES[task.quantization]},
    }  # fmt: skip


def _generation_config(task: ExportTask) -> dict[str, Any]:
    silent = task.translator.tgt_tokenizer.silent_ids
    return {**_special_ids(), "suppress_tokens": silent, "max_new_tokens": _MAX_NEW_TOKENS}


def _tokenizer_config(task: ExportTask) -> dict[str, Any]:
    names = special_names(task.translator.tgt_tokenizer)
    return {
        "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
        "pad_token": names[PAD_ID], "unk_token": names[UNK_ID],
        "bos_token": names[BOS_ID], "eos_token": names[EOS_ID],
    }  # fmt: skip


class OnnxModel:
    """The directory as ONNX Runtime and `tokenizers` read it; see `ExportedModel`."""

    def __init__(self, task: ExportTask, folder: Path) -> None:
        runtime = require("onnxruntime", "ONNX Runtime")
        tokenizer = require("tokenizers", "tokenizers").Tokenizer
        self._tokenizer = tokenizer.from_file(str(folder / "tokenizer.json"))
        self._encoder, self._decoder = (
            runtime.InferenceSession(
                str(folder / "onnx" / f"{name}{_SUFFIXES[task.quantization]}.onnx"),
                providers=["CPUExecutionProvider"],
            )
            for name in ("encoder_model", "decoder_model_merged")
        )
        self._translator = task.translator
        self._silent = task.translator.tgt_tokenizer.silent_ids

    def translate(self, texts: Sequence[str]) -> list[str]:
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        found: dict[int, str] = {}
        for start in range(0, len(order), _BATCH_SENTENCES):
            part = order[start : start + _BATCH_SENTENCES]
            ids = self.greedy([texts[i] for i in part])
            found.update(zip(part, self._tokenizer.decode_batch(ids), strict=True))
        return [found[i] for i in range(len(texts))]

    def greedy(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of the translations, each from the first after BOS to EOS."""
        feed = self._encoded(texts)
        newest = np.full((len(texts), 1), BOS_ID)
        written: list[Any] = []
        while len(written) < _MAX_NEW_TOKENS and not (newest == EOS_ID).all():
            logits, feed = self._step(newest, feed)
            logits[:, :, self._silent] = -np.inf
            newest = logits.argmax(-1)
            written.append(newest)
        return np.concatenate(written, axis=1).tolist()

    def log_probs(self, srcs: Sequence[str], tgts: Sequence[str]) -> list[float]:
        found = []
        for src, tgt in zip(srcs, tgts, strict=True):
            _, ids = self._translator.encode_pair(src, tgt)
            (logits,), _ = self._step(np.array([[BOS_ID, *ids]]), self._encoded([src]))
            chosen = logits[range(len(ids) + 1), [*ids, EOS_ID]]
            top = logits.max(-1)
            norm = top + np.log(np.exp(logits - top[:, None]).sum(-1))
            found.append(float((chosen - norm).sum()))
        return found

    def _encoded(self, texts: Sequence[str]) -> dict[str, Any]:
        """What the decoder takes beside ids, before the first step."""
        self._tokenizer.enable_padding(pad_id=PAD_ID)
        rows = self._tokenizer.encode_batch(list(texts))
        mask = np.array([row.attention_mask for row in rows])
        feed = {"input_ids": np.array([row.ids for row in rows]), "attention_mask": mask}
        (memory,) = self._encoder.run(None, feed)
        batch, _, heads, _, head_width = memory.shape
        empty = np.zeros((batch, heads, 0, head_width), np.float32)
        past = [one.name for one in self._decoder.get_inputs() if one.name.startswith("past")]
        cache = dict.fromkeys(past, empty)
        return {"encoder_attention_mask": mask, "encoder_hidden_states": memory, **cache}

    def _step(self, ids: Any, feed: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(B, T) → logits (B, T, V), and what the next step takes beside its ids."""
        logits, *present = self._decoder.run(None, {"input_ids": ids, **feed})
        names = [one.name.replace("present", "past_key_values")
                 for one in self._decoder.get_outputs()[1:]]  # fmt: skip
        return logits, {**feed, **dict(zip(names, present, strict=True))}
