"""A translator of a toy model: trained for a second, or changed so that it errs on purpose."""

import copy
import random
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tags import tag_pieces
from transformer_mt.encoding.tokenizer import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    Tokenizer,
    train_tokenizer,
)
from transformer_mt.model_dir import build_model
from transformer_mt.translation.translator import Translator


def trained(
    cfg: Config, tokenizers: tuple[Tokenizer, Tokenizer], pairs: list[tuple[str, str]]
) -> Translator:
    """It ends its sentences, and says different things of different texts."""
    torch.manual_seed(3)
    model = build_model(cfg, tokenizers)
    found = Translator(model, tokenizers, cfg)
    srcs, tgts = (tokenizers[i].encode([pair[i] for pair in pairs]) for i in (0, 1))
    adam = torch.optim.Adam(model.parameters(), lr=5e-3)
    generator = random.Random(3)
    for _ in range(80):
        rows = generator.sample(range(len(pairs)), 40)
        tgt_in = found.pad([[BOS_ID, *tgts[i]] for i in rows])
        tgt_out = found.pad([[*tgts[i], EOS_ID] for i in rows])
        logits = model.project(model(found.pad([[*srcs[i], EOS_ID] for i in rows]), tgt_in))
        loss = F.cross_entropy(logits.transpose(1, 2), tgt_out, ignore_index=PAD_ID)
        adam.zero_grad()
        loss.backward()
        adam.step()
    model.eval()
    return found


def both_ways(
    cfg: Config, pairs: list[tuple[str, str]], path: Path, src: str, tgt: str
) -> Translator:
    """An untrained translator between two languages, whatever the texts are in."""
    languages = cfg.languages.model_copy(update={"src": src, "tgt": tgt, "bidirectional": True})
    cfg = cfg.model_copy(update={"languages": languages})
    texts = [text for pair in pairs for text in pair]
    tags = tag_pieces(cfg)
    tokenizer = train_tokenizer(texts, path, cfg.tokenizer, [src, tgt], seed=1, tags=tags)
    torch.manual_seed(3)
    model = build_model(cfg, (tokenizer, tokenizer)).eval()
    model.encoder_embedding.tokens.weight.data[list(tokenizer.tags.values())] *= 3  # they matter
    return Translator(model, (tokenizer, tokenizer), cfg)


def other_way(translator: Translator) -> Translator:
    """The same model with its languages in the other order."""
    cfg = translator.cfg.model_copy(update={"languages": translator.cfg.languages.reversed()})
    return Translator(translator.model, (translator.src_tokenizer, translator.tgt_tokenizer), cfg)


def configured(translator: Translator, **decode: Any) -> Translator:
    """The same model with another `decode` configuration."""
    cfg = translator.cfg
    cfg = cfg.model_copy(update={"decode": cfg.decode.model_copy(update=decode)})
    tokenizers = (translator.src_tokenizer, translator.tgt_tokenizer)
    return Translator(translator.model, tokenizers, cfg, words=translator.words)


def biased(translator: Translator, ids: list[int], value: float) -> Translator:
    """A copy whose output layer adds a number to the scores of these words."""
    model = copy.deepcopy(translator.model)
    model.output.bias = torch.nn.Parameter(torch.zeros(model.output.out_features))
    model.output.bias.data[ids] = value
    tokenizers = (translator.src_tokenizer, translator.tgt_tokenizer)
    return Translator(model, tokenizers, translator.cfg)
