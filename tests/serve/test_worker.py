"""What a worker answers, without a server around it."""

import shutil
from pathlib import Path

import pytest
import torch

from transformer_mt.config.data import Languages
from transformer_mt.config.experiment import Config
from transformer_mt.explain.value_zeroing import movements
from transformer_mt.model_dir import (
    build_model,
    load_tokenizers,
    save_model_dir,
    tokenizer_paths,
    weights_of,
)
from transformer_mt.serve.jobs import Call
from transformer_mt.serve.worker import Answerer
from transformer_mt.translation.translator import Translator

METADATA = {"finished": "", "trained": {}, "data": {}, "decode": {}, "scores": {}}


@pytest.fixture
def english_model(tmp_path: Path, toy_config: Config, tokenizer_dir: Path) -> Path:
    """An untrained model from English, whose words have several pieces, to Chinese."""
    cfg = toy_config.model_copy(update={"languages": Languages(src="en", tgt="zh")})
    paths = tokenizer_paths(tokenizer_dir, joint=False)
    folder = tmp_path / "tokenizers"
    folder.mkdir()
    for path, other in zip(paths, reversed(paths), strict=True):
        shutil.copyfile(path, folder / other.name)
    torch.manual_seed(1)
    model = build_model(cfg, load_tokenizers(folder, joint=False))
    save_model_dir(tmp_path / "model", cfg, weights_of(model), folder, METADATA)
    return tmp_path / "model"


def test_the_values_of_a_word_are_zeroed_together(english_model: Path) -> None:
    """As `tmt explain` does it: of two pieces that say the same, neither decides alone."""
    text, translation = "the zebra sees xylophones", "猫看见狗。"
    call = Call("explain", 0, "zh", against=translation)
    (found,) = Answerer([english_model], "native", "fp32").answer(call, [text])
    starts = [i for i, piece in enumerate(found["sourcePieces"]) if piece.startswith("▁")]
    ends = [*starts[1:], len(found["sourcePieces"]) - 1]
    words = [list(range(*span)) for span in zip(starts, ends, strict=True)]
    assert len(words) == 4 and max(map(len, words)) > 2
    translator = Translator.load(english_model, precision="fp32")
    src, tgt = translator.forced_ids(text, translation)
    moved = movements(translator.model, torch.tensor([src]), tgt, [*words, [len(src) - 1]])
    shares = moved / moved.sum(dim=1, keepdim=True)
    assert torch.allclose(torch.tensor(found["zeroing"]), shares, atol=1e-3)
