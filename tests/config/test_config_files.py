"""The configurations that come with tmt load, explain every key, and have the paper's sizes."""

import re
from pathlib import Path

import pytest
import torch
from places import ROOT

from transformer_mt.config.experiment import load_config
from transformer_mt.model.transformer import Transformer, resolve_tying

CONFIGS = sorted(ROOT.glob("configs/*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_key_is_written_out_and_carries_a_comment(path: Path) -> None:
    cfg = load_config(path)
    lines = path.read_text(encoding="utf-8").split("\n")
    bare = [line for line in lines if re.match(r"\s*(- )?\w+: *[^#\s]", line) and "#" not in line]
    assert bare == []
    written = {match[1] for line in lines if (match := re.match(r"\s+(\w+):", line))}
    for section in ("tokenizer", "model", "train", "decode"):
        assert set(type(getattr(cfg, section)).model_fields) <= written, section


@pytest.mark.parametrize(
    ("name", "millions", "heads", "ffn", "dropout", "average", "peak_lr"),
    [("base", 65, 8, 2048, 0.1, 5, 6.99e-4), ("big", 213, 16, 4096, 0.3, 20, 4.94e-4)],
)
def test_base_and_big_are_the_paper_s(
    name: str, millions: float, heads: int, ffn: int, dropout: float, average: int, peak_lr: float
) -> None:
    """Source: Vaswani et al. 2017, table 3 (parameters with a shared vocabulary of 37,000)."""
    cfg = load_config(next(path for path in CONFIGS if path.stem == name))
    model, train = cfg.model, cfg.train
    assert (model.heads, model.ffn, model.dropout) == (heads, ffn, dropout)
    assert (model.encoder_layers, model.decoder_layers, model.norm) == (6, 6, "post")
    assert (train.average, train.warmup_updates, train.label_smoothing) == (average, 4000, 0.1)
    assert (train.adam_betas, train.adam_eps, train.tokens_per_update) == ([0.9, 0.98], 1e-9, 25000)
    assert (cfg.decode.beam, cfg.decode.length_penalty) == (4, 0.6)
    assert train.peak_lr(model.d_model) == pytest.approx(peak_lr, rel=1e-2)
    with torch.device("meta"):
        network = Transformer(resolve_tying(model, joint=True), 37_000, 37_000)
    n_parameters = sum(parameter.numel() for parameter in network.parameters())
    assert n_parameters == pytest.approx(millions * 1e6, rel=0.04)
