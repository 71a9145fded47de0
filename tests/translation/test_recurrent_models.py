"""A recurrent model through everything after training: search, scores, explanation, no export."""

from pathlib import Path

import pytest
import torch

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID
from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.explain.command import View, attention_text, numbers_text
from transformer_mt.export.formats import FORMATS, load_format, refusals_of
from transformer_mt.export.proof import ExportTask
from transformer_mt.model_dir import build_model, load_tokenizers, save_model_dir, weights_of
from transformer_mt.search.engine import Request
from transformer_mt.search.options import SearchOptions
from transformer_mt.translation.translator import Translator

TEXT = "猫看见狗，孩子喜欢苹果。"
CROSS = View("cross", "mean", "mean")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, toy_config: Config, tokenizer_dir: Path) -> Path:
    tree = toy_config.model_dump()
    tree["model"] |= {"architecture": "rnn"}
    cfg = build_config(tree, "recurrent")
    torch.manual_seed(1)
    model = build_model(cfg, load_tokenizers(tokenizer_dir, joint=False))
    path = tmp_path_factory.mktemp("run") / "model"
    save_model_dir(path, cfg, weights_of(model), tokenizer_dir, {})
    return path


@pytest.fixture(scope="module")
def translator(path: Path) -> Translator:
    return Translator.load(path, precision="fp32")


@torch.inference_mode()
def test_search_and_forced_reading_agree(translator: Translator) -> None:
    src, _ = translator.forced_ids(TEXT, None)
    options = SearchOptions.resolve(translator.cfg.decode)
    ((found, *_),) = translator.engine.search([Request(src[:-1])], options)
    tgt = translator.pad([[BOS_ID, *found.ids]])
    hidden = translator.model(translator.pad([src]), tgt)
    log_probs = translator.model.project(hidden[0]).log_softmax(dim=-1)
    written = [*found.ids, EOS_ID][: len(found.ids) + found.complete]
    expected = sum(float(log_probs[t, token]) for t, token in enumerate(written))
    assert found.log_prob == pytest.approx(expected, abs=1e-3)


def test_only_cross_attention_is_explained(translator: Translator, tmp_path: Path) -> None:
    maps = translator.attention(TEXT, "the cat")
    assert maps.kinds == ["cross"]
    assert maps.cross.shape[:2] == (1, 1)
    assert attention_text(translator, TEXT, "the cat", None, tmp_path).startswith(TEXT)
    assert {path.name for path in tmp_path.glob("[a-z]*")} == {
        "attention.html", "cross.png", "zeroing.png",
    }  # fmt: skip
    page = (tmp_path / "attention.html").read_text(encoding="utf-8")
    assert '"kinds":{"cross"' in page
    assert '"d_model":null' in page, "nothing is added for positions"
    with pytest.raises(ConfigError, match="no attention of the kind encoder"):
        attention_text(translator, TEXT, "the cat", View("encoder", 1, 1), None)
    with pytest.raises(TmtError, match="no queries, keys and values"):
        numbers_text(translator, TEXT, "the cat", CROSS)


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_takes_it(translator: Translator, name: str) -> None:
    task = ExportTask(translator, "float32", [TEXT])
    (reason,) = refusals_of(load_format(name), task)
    assert "recurrent" in reason
