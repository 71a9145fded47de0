"""A modern model through everything after training: the directory, search, pictures, numbers."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, Tokenizer
from transformer_mt.errors import ModelDirError
from transformer_mt.explain.command import View, attention_text, numbers_text
from transformer_mt.explain.head_numbers import head_numbers
from transformer_mt.model.incremental_decoder import IncrementalDecoder
from transformer_mt.model.transformer import AttentionWeights
from transformer_mt.model_dir import (
    build_model,
    load_model_dir,
    load_tokenizers,
    save_model_dir,
    weights_of,
)
from transformer_mt.search.beam_search import LengthPenalty, SearchTask, beam_search
from transformer_mt.search.ensemble import Stepper
from transformer_mt.search.token_rules import TokenRules
from transformer_mt.system.state import content_of, write_manifest
from transformer_mt.translation.attention_maps import KINDS, Kind
from transformer_mt.translation.translator import Translator

TEXT = "猫看见狗，孩子喜欢苹果。"


def configured(cfg: Config, **model: Any) -> Config:
    tree = cfg.model_dump()
    tree["model"] |= model
    return build_config(tree, "modern")


@pytest.fixture(scope="module")
def model_dir(
    tmp_path_factory: pytest.TempPathFactory, toy_config: Config, tokenizer_dir: Path
) -> Path:
    """A random modern model, deep encoder and shallow decoder."""
    cfg = configured(
        toy_config, architecture="modern", norm="pre", encoder_layers=3, decoder_layers=1
    )
    torch.manual_seed(1)
    model = build_model(cfg, load_tokenizers(tokenizer_dir, joint=False))
    weights = weights_of(model)
    path = tmp_path_factory.mktemp("run") / "model"
    save_model_dir(path, cfg, weights, tokenizer_dir, {})
    return path


@pytest.fixture(scope="module")
def translator(model_dir: Path) -> Translator:
    return Translator.load(model_dir, precision="fp32")


def test_round_trip(model_dir: Path) -> None:
    loaded = load_model_dir(model_dir)
    assert (loaded.config.model.architecture, loaded.config.model.norm) == ("modern", "pre")
    torch.manual_seed(1)
    built = build_model(loaded.config, loaded.tokenizers).eval()  # what the fixture saved
    src, tgt_in = torch.tensor([[5, 9, 3, 0]]), torch.tensor([[2, 7, 30]])
    with torch.no_grad():
        assert loaded.model(src, tgt_in).equal(built(src, tgt_in))


def test_weights_of_the_other_architecture_are_refused(model_dir: Path, tmp_path: Path) -> None:
    paper = tmp_path / "paper"
    shutil.copytree(model_dir, paper)
    text = (paper / "config.yaml").read_text(encoding="utf-8")
    text = text.replace("architecture: modern", "architecture: paper")
    (paper / "config.yaml").write_text(text, encoding="utf-8")
    metadata = json.loads((paper / "metadata.json").read_text(encoding="utf-8"))
    write_manifest(paper, "metadata.json", content_of(metadata))
    with pytest.raises(ModelDirError, match=r"model.safetensors: does not fit config.yaml"):
        load_model_dir(paper)


@torch.inference_mode()
@pytest.mark.parametrize("beam", [1, 4])
def test_a_beams_scores_are_those_of_one_teacher_forced_pass(
    translator: Translator, beam: int
) -> None:
    """Also with sentences that leave early, and prefixes that change their row at every step."""
    model = translator.model
    sources = [[5, 9, 30, 3], [7, 3], [8, 6, 11, 20, 40, 3]]
    stepper = Stepper([IncrementalDecoder(model)], translator.pad(sources))
    rules = TokenRules(eos_id=EOS_ID)
    task = SearchTask(stepper, [24, 3, 11], rules, BOS_ID, LengthPenalty())
    search = beam_search(task, beam=beam, n_best=beam)
    for source, found in zip(sources, search, strict=True):
        assert len(found) == beam
        for hypothesis in found:
            written = [*hypothesis.ids, EOS_ID] if hypothesis.complete else hypothesis.ids
            hidden = model(torch.tensor([source]), torch.tensor([[BOS_ID, *written[:-1]]]))
            log_probs = model.project(hidden)[0].log_softmax(dim=-1)
            total = log_probs[range(len(written)), written].sum().item()
            assert hypothesis.log_prob == pytest.approx(total, abs=1e-3)


def test_texts_are_translated_alone_as_together(translator: Translator) -> None:
    texts = [TEXT, "猫", "", "老师忘记书。"]
    together = translator.translate(texts)
    assert together[0].text and not together[2].text
    for text, found in zip(texts, together, strict=True):
        (alone,) = translator.translate([text])
        assert alone.text == found.text and alone.score == pytest.approx(found.score, abs=1e-3)


def test_pictures_page_and_numbers(translator: Translator, tmp_path: Path) -> None:
    """Deep encoder, shallow decoder: as many maps as there are layers of each."""
    maps = translator.attention(TEXT)
    assert (len(maps.encoder), len(maps.cross), len(maps.decoder)) == (3, 1, 1)
    text = attention_text(translator, TEXT, None, View("encoder", 3, 4), tmp_path)
    assert text.startswith(TEXT)
    assert len(list(tmp_path.glob("*.png"))) >= 3
    page = (tmp_path / "attention.html").read_text(encoding="utf-8")
    data = re.search(r'type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["d_model"] is None, "the page must not tell of added positions"
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
