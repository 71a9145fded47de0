"""A small translator, trained for a second."""

import random

import pytest
import torch
import torch.nn.functional as F

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from transformer_mt.model_dir import build_model
from transformer_mt.translation.translator import Translator

Tokenizers = tuple[Tokenizer, Tokenizer]


@pytest.fixture(scope="session")
def translator(
    toy_config: Config, tokenizers: Tokenizers, toy_pairs: list[tuple[str, str]]
) -> Translator:
    """Trained for a second: it ends its sentences, and says different things of different texts."""
    torch.manual_seed(3)
    model = build_model(toy_config, tokenizers)
    found = Translator(model, tokenizers, toy_config)
    srcs, tgts = (tokenizers[i].encode([pair[i] for pair in toy_pairs]) for i in (0, 1))
    adam = torch.optim.Adam(model.parameters(), lr=5e-3)
    generator = random.Random(3)
    for _ in range(80):
        rows = generator.sample(range(len(toy_pairs)), 40)
        tgt_in = found.pad([[BOS_ID, *tgts[i]] for i in rows])
        tgt_out = found.pad([[*tgts[i], EOS_ID] for i in rows])
        logits = model.project(model(found.pad([[*srcs[i], EOS_ID] for i in rows]), tgt_in))
        loss = F.cross_entropy(logits.transpose(1, 2), tgt_out, ignore_index=PAD_ID)
        adam.zero_grad()
        loss.backward()
        adam.step()
    model.eval()
    return found


@pytest.fixture(scope="session")
def texts(toy_pairs: list[tuple[str, str]]) -> list[str]:
    return [zh for zh, _ in toy_pairs[:25]]
