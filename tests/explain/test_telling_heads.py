"""Heads that tell something about a pronoun are found, and plain explanations are not enough."""

from dataclasses import replace

import numpy as np
import pytest
from toy_maps import make_maps

from transformer_mt.config.data import Languages
from transformer_mt.errors import TmtError
from transformer_mt.explain.telling_heads import (
    Finding,
    head_weights,
    pronoun_findings,
    word_findings,
)
from transformer_mt.translation.attention_maps import AttentionMaps

ZH_EN = Languages(src="zh", tgt="en")
SRC = ["这", "只", "动", "物", "没", "有", "，", "因", "为", "它", "累", "</s>"]
TGT = ["<s>", "▁The", "▁animal", "▁not", ",", "▁because", "▁it", "▁tired", "."]
N_SRC, N_TGT, IT, STEP = len(SRC), len(TGT), 9, 5


def even(n_layers: int = 2, n_heads: int = 2) -> AttentionMaps:
    """Every row looks everywhere alike; a step rather more at the word that it translates."""
    maps = make_maps(SRC, TGT, n_layers, n_heads)
    cross = np.full((n_layers, n_heads, N_TGT, N_SRC), 1.0)
    for step, columns in enumerate([[0, 1], [2, 3], [4, 5], [6], [7, 8], [9], [10], [11], [11]]):
        cross[..., step, columns] += 0.5
    decoder = np.tril(np.ones((n_layers, n_heads, N_TGT, N_TGT)))
    return replace(
        maps,
        encoder=np.full((n_layers, n_heads, N_SRC, N_SRC), 1 / N_SRC, np.float32),
        cross=shares(cross),
        decoder=shares(decoder),
    )


def shares(values: np.ndarray) -> np.ndarray:
    return (values / values.sum(axis=-1, keepdims=True)).astype(np.float32)


def one_row(n: int, **weights: float) -> np.ndarray:
    """Weights by column, `c3=0.5`; the rest is spread evenly."""
    row = np.full(n, (1 - sum(weights.values())) / (n - len(weights)), np.float32)
    for column, weight in weights.items():
        row[int(column[1:])] = weight
    return row


def test_a_row_that_stands_out_is_found_and_neither_a_sink_nor_a_distance() -> None:
    maps = even()
    maps.encoder[0, 0] = one_row(N_SRC, c3=0.9)  # every row looks at 物
    for row in range(1, N_SRC):
        maps.encoder[0, 1, row] = one_row(N_SRC, **{f"c{row - 1}": 0.9})  # always the piece before
    maps.encoder[1, 1, IT] = one_row(N_SRC, c3=0.3, c2=0.15)
    finding = pronoun_findings(maps, ZH_EN)[0]
    assert (finding.kind, finding.layer, finding.head, finding.row) == ("encoder", 2, 2, IT)
    assert finding.label == "它 → 物"
    for part in ("它 looks most at 物", "encoder layer 2, head 2", "weight 0.30"):
        assert part in finding.text


def test_a_pronoun_of_the_translation_asks_for_a_word_translated_before() -> None:
    maps = even()
    maps.cross[1, 0, STEP] = one_row(N_SRC, c10=0.9)  # tired: a later step writes it
    maps.cross[0, 1, STEP] = one_row(N_SRC, c2=0.4)
    finding = pronoun_findings(maps, ZH_EN)[0]
    assert (finding.kind, finding.layer, finding.head, finding.row) == ("cross", 1, 2, STEP)
    assert "it (step 6) looks most at 动" in finding.text


def test_the_most_telling_pronoun_comes_first_and_each_has_its_line() -> None:
    maps = even()
    maps.encoder[1, 1, IT] = one_row(N_SRC, c3=0.3)
    maps.cross[0, 1, STEP] = one_row(N_SRC, c2=0.6)
    found = pronoun_findings(maps, ZH_EN)
    assert [finding.kind for finding in found] == ["cross", "encoder"]


def test_where_no_head_tells_the_sharpest_is_shown_and_said_to_be_that() -> None:
    maps = even()
    maps.encoder[1, 1, IT] = one_row(N_SRC, c9=0.5, c3=0.2)  # most at itself
    found = pronoun_findings(maps, ZH_EN)
    assert found[0].text.startswith("in no head does 它 look most at an earlier word; nearest: 物")
    maps = even()
    maps.cross[1, 1, :4] = np.eye(N_SRC, dtype=np.float32)[:4]
    first, *others = pronoun_findings(maps, ZH_EN)
    assert (first.kind, first.layer, first.head, first.label) == ("cross", 2, 2, "sharpest head")
    assert all("in no head" in finding.text for finding in others)
    cats = [*["猫"] * (N_SRC - 1), "</s>"]
    without = replace(maps, src_pieces=cats, tgt_out_pieces=["a"] * N_TGT)
    (only,) = pronoun_findings(without, ZH_EN)
    assert first.text == only.text.replace("no pronoun to ask about", "shown instead")


@pytest.mark.parametrize(
    ("src", "tgt"), [(["</s>"], ["<s>"]), (["它", "</s>"], ["<s>", "▁it"]), (["。"], ["<s>", "!"])]
)
def test_texts_of_hardly_a_word(src: list[str], tgt: list[str]) -> None:
    (finding,) = pronoun_findings(make_maps(src, tgt), ZH_EN)
    assert finding.label == "sharpest head"
    assert 0 <= finding.row < len(tgt)


def find(maps: AttentionMaps, first: str, second: str) -> list[Finding]:
    return word_findings(maps, ZH_EN, first, second)


def test_the_heads_in_which_one_word_looks_most_at_another() -> None:
    maps = even()
    maps.encoder[0, 0, IT] = one_row(N_SRC, c2=0.2, c3=0.2)
    maps.encoder[1, 1, IT] = one_row(N_SRC, c3=0.7)
    maps.encoder[1, 0, IT] = one_row(N_SRC, c9=0.6, c3=0.35)  # more on itself
    found = find(maps, "它", "动物")
    assert [(own.layer, own.head, own.row) for own in found] == [(2, 2, IT), (1, 1, IT)]
    assert "它 looks most at 动物: encoder layer 2, head 2, weight 0.73" in found[0].text
    assert "(its other rows: 0.17)" in found[0].text


@pytest.mark.parametrize(
    ("first", "second", "kind", "row"),
    [("it", "动物", "cross", 5), ("It", "animal", "decoder", 5), ("它", "动物", "encoder", 9)],
)
def test_the_words_say_which_attention_is_meant(
    first: str, second: str, kind: str, row: int
) -> None:
    found = find(even(), first, second)[0]
    assert (found.kind, found.row) == (kind, row)


def test_no_head_that_looks_there_is_said_honestly() -> None:
    maps = even()
    (found,) = find(maps, "它", "动物")
    assert found.text == ("no head of this model looks from 它 to 动物 above its average of 0.17")
    maps.encoder[1, 0, IT] = one_row(N_SRC, c9=0.6, c3=0.35)
    (found,) = find(maps, "它", "动物")
    assert found.text.startswith("in no head does 它 look most at 动物; nearest: encoder layer 2")
    assert (found.layer, found.head) == (2, 1)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("它", "街道", "'街道' is neither in the text, 这只动物没有，因为它累, nor in"),
        ("", "动物", "'' is neither"),
        ("它", "animal", "--find animal 它 asks where the step that writes animal looks"),
        ("它", "它", "give two different words"),
        ("animal", "it", "the step that writes animal cannot see a later word"),
    ],
)
def test_words_that_cannot_be_found(first: str, second: str, message: str) -> None:
    with pytest.raises(TmtError, match=message):
        find(even(), first, second)


def test_a_recurrent_model_has_no_self_attention_to_ask_about() -> None:
    none = np.zeros(0, np.float32)
    maps = replace(even(), encoder=none, decoder=none)
    with pytest.raises(TmtError, match="no attention of the kind encoder"):
        find(maps, "它", "动物")
    assert find(maps, "it", "动物")[0].kind == "cross"


def test_weights_of_a_head_between_two_words() -> None:
    maps = even(1, 1)
    maps.encoder[0, 0, IT] = one_row(N_SRC, c2=0.2, c3=0.4)
    (own,) = head_weights(maps, "encoder", [IT], [2, 3])
    assert own.weight == pytest.approx(0.6)
    assert own.elsewhere == pytest.approx(2 / N_SRC)
    assert own.excess == pytest.approx(0.6 - 2 / N_SRC)
    assert own.peaks
    assert not head_weights(maps, "encoder", [IT], [2])[0].peaks
