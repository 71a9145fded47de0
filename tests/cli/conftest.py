"""A run that looks finished, with an untrained model, and `tmt` in this process."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
from command import tmt_here
from pairs_of_text import write_sides

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.model_dir import build_model, save_model_dir, weights_of
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.training.checkpoint import CheckpointStore, Progress

CONFIG = """
name: own
languages: {src: zh, tgt: en}
data: {root: ROOT, train: [own], workers: 1}
tokenizer: {vocab_size: 300}
model: {d_model: 16, heads: 2, ffn: 16, encoder_layers: 1, decoder_layers: 1}
train: {max_updates: 1, max_tokens: 500, tokens_per_update: 100, validate_every: 1, average: 1,
        warmup_updates: 10, log_every: 1}
"""
Command = Callable[..., "CompletedProcess[str]"]


@pytest.fixture(scope="session")
def place(
    tmp_path_factory: pytest.TempPathFactory,
    toy_config: Config,
    tokenizers: tuple[Tokenizer, Tokenizer],
    tokenizer_dir: Path,
    toy_pairs: list[tuple[str, str]],
) -> Path:
    """A folder with the run `toy`, whose weights are random, and with text and `own.yaml`."""
    root = tmp_path_factory.mktemp("place")
    run = Run(root / "toy")
    run.claim()
    run.config_path.write_text(toy_config.to_yaml(), encoding="utf-8")
    torch.manual_seed(1)
    weights = weights_of(build_model(toy_config, tokenizers))
    metadata = {"finished": "", "trained": {}, "data": {}, "decode": {}, "scores": {}}
    save_model_dir(run.model_dir, toy_config, weights, tokenizer_dir, metadata)
    run.tokenizer_dir.parent.mkdir()
    run.tokenizer_dir.symlink_to(tokenizer_dir)
    store = CheckpointStore(run.checkpoints_dir, {})
    for update in (1, 2):
        progress = Progress(update=update, validated=True, best_update=1)
        store.save(progress, weights, {}, keep_last=2)
    run.clean_dir.mkdir()
    write_sides(run.clean_dir / "dev", toy_pairs[:3], ("src", "tgt"))
    write_sides(run.clean_dir / "test.toy", toy_pairs[:6], ("src", "tgt"))
    write_sides(run.clean_dir / "train", toy_pairs, ("src", "tgt"))
    write_sides(root / "own", toy_pairs)
    (root / "page.md").write_text("# 猫\n\n猫看见狗。\n", encoding="utf-8")
    (root / "own.yaml").write_text(CONFIG.replace("ROOT", str(root)), encoding="utf-8")
    return root


@pytest.fixture
def tmt(place: Path) -> Command:
    """Run a command line; RUN and ROOT stand for the folders."""

    def call(*words: str | Path) -> "CompletedProcess[str]":
        named = [str(word).replace("RUN", "ROOT/toy") for word in words]
        return tmt_here(*(word.replace("ROOT", str(place)) for word in named), code=None)

    return call
