"""A model written for CTranslate2 says there what it says here."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from transformer_mt.config import Config
from transformer_mt.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from transformer_mt.errors import ConfigError
from transformer_mt.export.ctranslate2 import save_ctranslate2
from transformer_mt.inference.engine import Request
from transformer_mt.inference.options import SearchOptions
from transformer_mt.inference.translator import Translator
from transformer_mt.model_dir import build_model

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra export is not installed")
Tokenizers = tuple[Tokenizer, Tokenizer]
KINDS: dict[str, dict[str, Any]] = {
    "post-norm": {"norm": "post"},
    "pre-norm": {"norm": "pre"},
    "modern": {"architecture": "modern", "norm": "pre"},
}


@pytest.fixture(scope="module", params=KINDS)
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


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_and_scores_are_the_same(
    translator: Translator, toy_pairs: list[tuple[str, str]], tmp_path: Path, beam: int
) -> None:
    tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
    save_ctranslate2(translator.model, tokenizers, tmp_path / "model")
    sentences = tokenizers[0].encode([zh for zh, _ in toy_pairs[:40]])
    options = SearchOptions(
        beam=beam, penalty="average", length_penalty=1.0, max_length=30, max_length_ratio=99
    )
    mine = translator.engine.search([Request(ids) for ids in sentences], options)
    theirs = ctranslate2.Translator(str(tmp_path / "model")).translate_batch(
        [tokenizers[0].pieces(ids) for ids in sentences],
        beam_size=beam, length_penalty=1.0, max_decoding_length=31, return_scores=True,
    )  # fmt: skip
    same = 0
    for (best, *_), other in zip(mine, theirs, strict=True):
        if tokenizers[1].pieces(best.ids) == other.hypotheses[0]:
            same += 1
            if best.complete:
                assert best.score == pytest.approx(other.scores[0], abs=2e-3)
    assert same >= (40 if beam == 1 else 37)
    assert len({tuple(best.ids) for best, *_ in mine}) > 3, "they must differ to tell much"


def test_an_existing_directory_is_not_touched(translator: Translator, tmp_path: Path) -> None:
    tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
    with pytest.raises(ConfigError, match="exists; name a new directory"):
        save_ctranslate2(translator.model, tokenizers, tmp_path)
