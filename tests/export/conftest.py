"""A translator of each architecture, trained for a moment."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from transformer_mt.model_dir import build_model
from transformer_mt.translation.translator import Translator

Tokenizers = tuple[Tokenizer, Tokenizer]
KINDS: dict[str, dict[str, Any]] = {
    "post-norm": {"norm": "post"},
    "pre-norm": {"norm": "pre"},
    "modern": {"architecture": "modern", "norm": "pre"},
}


@pytest.fixture(scope="session", params=KINDS)
def translator(
    request: pytest.FixtureRequest,
    toy_config: Config,
    tokenizers: Tokenizers,
    toy_pairs: list[tuple[str, str]],
) -> Translator:
    """Trained for a moment, so that sentences end and differ."""
    tree = toy_config.model_dump()
    tree["model"] |= KINDS[request.param]
    cfg = Config.model_validate(tree)
    torch.manual_seed(1)
    found = Translator(build_model(cfg, tokenizers), tokenizers, cfg)
    srcs, tgts = (tokenizers[i].encode([pair[i] for pair in toy_pairs[:60]]) for i in (0, 1))
    src = found.pad([[*ids, EOS_ID] for ids in srcs])
    tgt_in = found.pad([[BOS_ID, *ids] for ids in tgts])
    tgt_out = found.pad([[*ids, EOS_ID] for ids in tgts])
    adam = torch.optim.Adam(found.model.parameters(), lr=5e-3)
    for _ in range(40):
        logits = found.model.project(found.model(src, tgt_in))
        loss = F.cross_entropy(logits.transpose(1, 2), tgt_out, ignore_index=PAD_ID)
        adam.zero_grad()
        loss.backward()
        adam.step()
    found.model.eval()
    return found
