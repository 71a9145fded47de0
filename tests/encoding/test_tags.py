"""Which marks an experiment knows, and in which order they stand before a sentence."""

from pathlib import Path
from typing import Any

import pytest

from transformer_mt.config.experiment import Config
from transformer_mt.config.model import TokenizerConfig
from transformer_mt.encoding.tags import Tagging, tag_pieces, tagging
from transformer_mt.encoding.tokenizer import train_tokenizer


def configured(cfg: Config, sources: list[dict[str, Any]], *, both: bool) -> Config:
    tree = cfg.model_dump()
    tree["data"]["train"] = sources
    tree["tokenizer"]["joint"] = both
    tree["languages"]["bidirectional"] = both
    return Config.model_validate(tree)


BT, NEW, PLAIN = {"path": "a", "tag": "bt"}, {"path": "b", "tag": "a-new"}, {"path": "c"}


@pytest.mark.parametrize(
    ("sources", "both", "pieces"),
    [
        ([PLAIN], False, []),
        ([PLAIN, BT, BT], False, ["<bt>"]),
        ([BT, NEW], False, ["<a-new>", "<bt>"]),
        ([PLAIN], True, ["<2en>", "<2zh>"]),
        ([BT, PLAIN], True, ["<2en>", "<2zh>", "<bt>"]),
    ],
)
def test_pieces(
    toy_config: Config, sources: list[dict[str, Any]], both: bool, pieces: list[str]
) -> None:
    """Neither the order of the sources nor the direction matters."""
    cfg = configured(toy_config, sources, both=both)
    assert tag_pieces(cfg) == pieces
    assert tag_pieces(configured(toy_config, sources[::-1], both=both)) == pieces
    assert tag_pieces(cfg.reversed()) == pieces


def test_tagging_names_ids(
    toy_config: Config, toy_pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    cfg = configured(toy_config, [PLAIN, BT], both=True)
    texts = [text for pair in toy_pairs for text in pair]
    tokenizer = train_tokenizer(
        texts, tmp_path / "t", TokenizerConfig(vocab_size=400), ["zh", "en"], seed=1,
        tags=tag_pieces(cfg),
    )  # fmt: skip
    ids = tokenizer.tags
    found = tagging(cfg, tokenizer)
    assert found.directions == ((ids["<2en>"],), (ids["<2zh>"],)), "as it stands, then backwards"
    assert found.sources == ((), (ids["<bt>"],))
    assert tagging(cfg.reversed(), tokenizer).directions == found.directions[::-1]
    assert tagging(configured(toy_config, [PLAIN], both=False), tokenizer) == Tagging()


@pytest.mark.parametrize("tag", ["s", "pad", "unk"])
def test_a_tag_that_would_be_a_special_piece_is_refused(toy_config: Config, tag: str) -> None:
    with pytest.raises(ValueError, match=f"tag '{tag}'"):
        configured(toy_config, [{"path": "a", "tag": tag}], both=False)
