"""What decides a word: nothing zeroed moves nothing, and what one head alone looks at decides."""

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from transformer_mt.encoding.tokenizer import EOS_ID, PAD_ID
from transformer_mt.explain.terminal import render_deciding
from transformer_mt.explain.value_zeroing import (
    _values_times,
    deciding_words,
    movements,
    word_shares,
)
from transformer_mt.translation.translator import Translator


@pytest.fixture
def ids(translator: Translator, texts: list[str]) -> tuple[list[int], list[int]]:
    return translator.forced_ids(texts[0], None)


@pytest.mark.parametrize("encoder", [False, True])
def test_only_values_that_are_taken_move_anything(
    translator: Translator, ids: tuple[list[int], list[int]], encoder: bool
) -> None:
    src_ids, tgt_ids = ids
    src = torch.tensor([[*src_ids, PAD_ID, PAD_ID]])
    n = len(src_ids)
    groups = [[], [n, n + 1], *([i] for i in range(n)), list(range(n))]
    moved = movements(translator.model, src, tgt_ids, groups, encoder=encoder)
    assert moved.shape == (len(tgt_ids) + 1, len(groups)) and (moved >= 0).all()
    assert moved[:, 0].max() == 0, "nothing is zeroed"
    assert moved[:, 1].max() < 1e-5, "padding is not attended to"
    assert moved[:, 2:].max(dim=1).values.min() > 1e-4
    for column in (3, len(groups) - 1):
        alone = movements(
            translator.model, src, tgt_ids, groups[column : column + 1], encoder=encoder
        )
        assert torch.allclose(moved[:, column], alone[:, 0], atol=1e-4), "a batch is one by one"
    after = movements(translator.model, src, tgt_ids, [[]])
    assert after.max() == 0, "no hook stays behind"


@pytest.mark.parametrize("encoder", [False, True])
def test_other_threads_translate_as_if_nothing_were_zeroed(
    translator: Translator, ids: tuple[list[int], list[int]], encoder: bool
) -> None:
    src, tgt = translator.pad([ids[0]]), translator.pad([ids[1]])
    with ThreadPoolExecutor(1) as pool, torch.inference_mode():
        expected = translator.model(src, tgt)
        with _values_times(translator.model, torch.zeros(1, src.size(1), 1), encoder=encoder):
            assert not torch.allclose(translator.model(src, tgt), expected, atol=1e-3)
            assert torch.equal(pool.submit(translator.model, src, tgt).result(), expected)


def test_the_logits_of_one_row_are_in_memory_at_a_time(
    translator: Translator, ids: tuple[list[int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once take gigabytes where a sentence of 150 tokens meets a vocabulary of 32,000."""
    src_ids, tgt_ids = ids
    n_projected = []

    def projected(hidden: torch.Tensor) -> torch.Tensor:
        n_projected.append(hidden.numel() // hidden.size(-1))
        return translator.model.output(hidden)

    monkeypatch.setattr(translator.model, "project", projected)
    groups = [[i] for i in range(len(src_ids))]
    movements(translator.model, torch.tensor([src_ids]), tgt_ids, groups)
    assert max(n_projected) == len(tgt_ids) + 1


def test_where_every_head_looks_at_one_word_that_word_decides(
    translator: Translator, ids: tuple[list[int], list[int]]
) -> None:
    """Keys are a feature that only one position has, so that all weights lie on it."""
    src_ids, tgt_ids = ids
    model: Any = copy.deepcopy(translator.model)
    only = 2
    for layer in model.decoder_layers:
        attention, width = layer.encoder_attn, model.cfg.d_model
        torch.nn.init.zeros_(attention.q_proj.weight)
        torch.nn.init.constant_(attention.q_proj.bias, 1.0)

        def keys_of_one(_module: Any, _inputs: Any, output: torch.Tensor, d: int = width) -> Any:
            keys, values = output.split([d, d], dim=-1)
            keys = torch.zeros_like(keys)
            keys[:, only] = 1000.0
            return torch.cat([keys, values], dim=-1)

        attention.kv_proj.register_forward_hook(keys_of_one)
    groups = [[i] for i in range(len(src_ids))]
    moved = movements(model, torch.tensor([src_ids]), tgt_ids, groups)
    assert moved[:, [i for i in range(len(src_ids)) if i != only]].max() < 1e-4
    assert (moved[:, only] > 1e-3).any()


def test_words_have_shares_and_a_line_each(
    translator: Translator, ids: tuple[list[int], list[int]], texts: list[str]
) -> None:
    maps, languages = translator.attention(texts[0]), translator.cfg.languages
    found = word_shares(translator, maps, ids, languages)
    tgt, src, *both = found
    for shares in both:
        assert shares.shape == (len(tgt), len(src)) and shares.min() >= 0
        assert shares.sum(axis=1) == pytest.approx(1, abs=1e-5)
    decided = deciding_words(*found)
    assert [one.word for one in decided] == [word.text for word in tgt]
    assert " ".join(one.word for one in decided) in maps.translation.replace(",", "")
    row = both[0][0]
    assert decided[0].by_zeroing == src[int(row.argmax())].text
    assert decided[0].zeroing == pytest.approx(row.max())
    lines = render_deciding(decided).split("\n")
    assert len(lines) == len(decided) + 2 and all("%" in line for line in lines[2:])
    assert ids[0][-1] == EOS_ID
