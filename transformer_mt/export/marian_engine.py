"""MarianMT of Hugging Face's transformers: what it makes of an exported model."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.export.formats import require
from transformer_mt.translation.translator import Translator

BATCH_SENTENCES = 50


class MarianModel:
    """MarianMTModel with MarianTokenizer; see `ExportedModel`."""

    def __init__(self, translator: Translator, folder: Path) -> None:
        package = require("transformers", "transformers")
        self._languages = translator.cfg.languages
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it recommends sacremoses, and then has no use for it
            self._tokenizer = package.MarianTokenizer.from_pretrained(folder)
        package.logging.disable_progress_bar()
        self._model = package.MarianMTModel.from_pretrained(folder).eval()

    @torch.inference_mode()
    def translate(self, texts: Sequence[str]) -> list[str]:
        found: dict[int, str] = {}
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(order), BATCH_SENTENCES):
            part = order[start : start + BATCH_SENTENCES]
            batch = self._encoded([texts[i] for i in part])
            ids = self._model.generate(**batch, num_beams=1, do_sample=False)
            decoded = self._tokenizer.batch_decode(ids, skip_special_tokens=True)
            found.update(zip(part, decoded, strict=True))
        return [found[i] for i in range(len(texts))]

    @torch.inference_mode()
    def log_probs(self, srcs: Sequence[str], tgts: Sequence[str]) -> list[float]:
        found: list[float] = []
        for start in range(0, len(srcs), BATCH_SENTENCES):
            part = slice(start, start + BATCH_SENTENCES)
            batch = self._encoded(srcs[part], text_target=list(tgts[part]))
            logits = self._model(**batch).logits.float()  # (B, T, V)
            nll = F.cross_entropy(
                logits.transpose(1, 2), batch["labels"], ignore_index=PAD_ID, reduction="none"
            )
            found += (-nll.sum(dim=1)).tolist()
        return found

    def _encoded(self, texts: Sequence[str], **target: list[str]) -> Any:
        """Padded ids with the attention mask."""
        if self._languages.bidirectional:
            texts = [f">>{self._languages.tgt}<<{text}" for text in texts]
        return self._tokenizer(list(texts), **target, return_tensors="pt", padding=True)
