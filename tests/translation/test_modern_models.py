"""A modern model through everything after training: the directory, search, pictures, numbers."""

from pathlib import Path

import pytest
import torch

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.explain.command import View, attention_text, numbers_text
from transformer_mt.explain.head_numbers import head_numbers
from transformer_mt.model.encoder_decoder import AttentionWeights
from transformer_mt.model_dir import (
    build_model,
    load_tokenizers,
    save_model_dir,
    weights_of,
)
from transformer_mt.translation.attention_maps import KINDS, Kind
from transformer_mt.translation.translator import Translator

TEXT = "猫看见狗，孩子喜欢苹果。"


@pytest.fixture(scope="module")
def translator(
    tmp_path_factory: pytest.TempPathFactory, toy_config: Config, tokenizer_dir: Path
) -> Translator:
    """A random modern model, deep encoder and shallow decoder, read from its directory."""
    tree = toy_config.model_dump()
    tree["model"] |= {"architecture": "modern", "norm": "pre", "encoder_layers": 3}
    tree["model"] |= {"decoder_layers": 1}
    cfg = build_config(tree, "modern")
    torch.manual_seed(1)
    model = build_model(cfg, load_tokenizers(tokenizer_dir, joint=False))
    path = tmp_path_factory.mktemp("run") / "model"
    save_model_dir(path, cfg, weights_of(model), tokenizer_dir, {})
    return Translator.load(path, precision="fp32")


def test_pictures_page_and_numbers(translator: Translator, tmp_path: Path) -> None:
    """Deep encoder, shallow decoder: as many maps as there are layers of each."""
    maps = translator.attention(TEXT)
    assert translator.translate([TEXT])[0].text == maps.translation
    assert (len(maps.encoder), len(maps.cross), len(maps.decoder)) == (3, 1, 1)
    assert attention_text(translator, TEXT, None, View("encoder", 3, 4), tmp_path).startswith(TEXT)
    assert len(list(tmp_path.glob("*.png"))) >= 3
    page = (tmp_path / "attention.html").read_text(encoding="utf-8")
    assert '"d_model":null' in page, "the page must not tell of added positions"
    assert "layer 3, head 4" in numbers_text(translator, TEXT, None, View("encoder", 3, 4))


def test_the_page_of_a_paper_model_knows_its_width(
    toy_config: Config, tokenizers: tuple[Tokenizer, Tokenizer], tmp_path: Path
) -> None:
    translator = Translator(build_model(toy_config, tokenizers).eval(), tokenizers, toy_config)
    attention_text(translator, TEXT, "the cat", View("cross", 1, 1), tmp_path)
    assert '"d_model":32' in (tmp_path / "attention.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_a_head_are_the_weights_that_the_model_reports(
    translator: Translator, kind: Kind
) -> None:
    """Queries and keys are shown as they are multiplied: turned by their positions."""
    model = translator.model
    src, tgt_in = torch.tensor([[5, 6, 7, 3, 0, 0]]), torch.tensor([[2, 8, 9, 10]])
    reported = AttentionWeights()
    with torch.no_grad():
        model(src, tgt_in, reported)
    for layer, expected in enumerate(getattr(reported, kind), start=1):
        for head in range(1, 5):
            numbers = head_numbers(model, src, tgt_in, kind, layer, head)
            torch.testing.assert_close(numbers.weights, expected[0, head - 1])
            torch.testing.assert_close(numbers.scores, numbers.q @ numbers.k.T)
