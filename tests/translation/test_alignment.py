"""Alignment by attention: pieces of the tokenizers are mapped to the characters of both texts."""

import numpy as np
import pytest
import torch

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.model_dir import build_model
from transformer_mt.translation.alignment import AttentionAligner, character_alignment
from transformer_mt.translation.attention_maps import AttentionMaps
from transformer_mt.translation.translator import Translator


def maps(src: list[str], tgt: list[str], looks_at: list[int]) -> AttentionMaps:
    """Two layers; in the upper one each step looks at one piece, in the lower one at the end."""
    n_src, n_tgt = len(src), len(tgt)
    cross = np.zeros((2, 1, n_tgt, n_src), np.float32)
    cross[0, :, :, -1] = 1
    cross[1, 0, range(n_tgt), looks_at] = 1
    cross[1, 0, :, -1] += 2  # the end of the text draws attention, but is no word
    return AttentionMaps(
        src, ["<s>", *tgt[:-1]], tgt, np.zeros((2, 1, n_src, n_src), np.float32),
        np.zeros((2, 1, n_tgt, n_tgt), np.float32), cross, [[]] * n_tgt, "", "",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("src", "text", "tgt", "translation", "looks_at", "origins"),
    [
        (["太", "累", "</s>"], "太累", ["▁too", "▁tired", "</s>"], "too tired", [0, 1, 2],
         "000-11111"),
        (["<2en>", "▁ab", "c", "</s>"], "abc", ["字", "</s>"], "字", [2, 3], "2"),
        (["a", "b", "</s>"], "a b", ["<0xE5>", "<0xAD>", "<0x97>", "x", "</s>"], "字x",
         [0, 1, 1, 1, 2], "02"),
        (["ｆ", "ｉ", "b", "</s>"], "ﬁb", ["x", "y", "</s>"], "xy", [0, 2, 3], "01"),
        (["a", "</s>"], "a", ["</s>"], "", [0], ""),
    ],
)  # fmt: skip
def test_pieces_and_characters(
    src: list[str], text: str, tgt: list[str], translation: str, looks_at: list[int], origins: str
) -> None:
    expected = [-1 if origin == "-" else int(origin) for origin in origins]
    assert character_alignment(maps(src, tgt, looks_at), text, translation, ["<2en>"]) == expected


@pytest.fixture(scope="module")
def aligner(toy_config: Config, tokenizers: tuple[Tokenizer, Tokenizer]) -> AttentionAligner:
    torch.manual_seed(1)
    return AttentionAligner(Translator(build_model(toy_config, tokenizers), tokenizers, toy_config))


def test_long_texts_are_aligned_by_sentences(aligner: AttentionAligner) -> None:
    text, translation = "狗看见猫。" * 20, " ".join(["the dog sees the cat."] * 20)
    origins = aligner(text, translation)
    assert origins is not None and len(origins) == len(translation)
    for i, origin in enumerate(origins):
        assert (origin < 0) == (translation[i] == " ")
        assert origin < 0 or origin // 5 == i // 22, "within its sentence"
    assert aligner(text, "the dog. " * 3) is None
    assert aligner("", "a") is None
