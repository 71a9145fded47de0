"""Decoding step by step against teacher forcing, for every architecture and way to multiply."""

import math
from typing import Any

import pytest
import torch
from test_transformer import (
    BOS,
    KINDS,
    assert_beams_equal_rows,
    assert_same,
    make_model,
    random_ids,
)

from transformer_mt.model import decoder_cache, few_rows
from transformer_mt.model import incremental_decoder as incremental
from transformer_mt.model.incremental_decoder import IncrementalDecoder

pytestmark = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


# As in bf16: the fewest heads and the most positions of explicit products. Of three sentences with
# four heads, one or two make fewer than 12.
DENSE = {"dense": (1, 96), "dense, then long": (1, 10), "dense, then few": (12, 96)}


def filled_with_nan(tensor: torch.Tensor, *shape: Any) -> torch.Tensor:
    """What `new_empty` may hold."""
    return tensor.new_full(shape[0] if len(shape) == 1 else shape, math.nan)


@pytest.fixture(params=["transposed", "onednn", "plain", "explicit", *DENSE])
def products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Matrices in the layouts for few rows, transposed and oneDNN's, and as they are; attention
    without the fused kernel, also with the cache that bf16 has."""
    if request.param == "plain":
        monkeypatch.setattr(few_rows, "FEW_ROWS", 0)
    if request.param == "explicit":
        monkeypatch.setattr(decoder_cache, "EXPLICIT_MIN_HEADS", 1)
    if request.param in DENSE:
        min_heads, max_positions = DENSE[request.param]
        monkeypatch.setattr(decoder_cache, "EXPLICIT_MIN_HEADS", min_heads)
        monkeypatch.setattr(decoder_cache, "EXPLICIT_MAX_POSITIONS", max_positions)
        monkeypatch.setattr(decoder_cache, "DENSE", torch.float32)
        monkeypatch.setattr(torch.Tensor, "new_empty", filled_with_nan)
    if request.param == "onednn":
        if not torch.backends.mkldnn.is_available():
            pytest.skip("this build of torch has no oneDNN")
        monkeypatch.setattr(few_rows, "ONEDNN_MIN_ELEMENTS", 1)
    return str(request.param)


@pytest.mark.parametrize(
    "lengths", [(6, 3, 5), (4, 4, 4), (17, 17, 17)], ids=["padded", "equal", "long"]
)
@torch.inference_mode()
def test_a_step_equals_the_position_of_teacher_forcing(
    kind: dict[str, str], lengths: tuple[int, ...], products: str
) -> None:
    model = make_model(**kind)
    src, tgt_in = random_ids(*lengths), random_ids(40, 40, 40)
    expected = model.project(model(src, tgt_in))
    decoding = IncrementalDecoder(model).start(src)
    for step in range(40):  # the buffers have to grow twice
        assert decoding.length == step
        assert_same(decoding.step(tgt_in[:, step : step + 1]), expected[:, step : step + 1])


@pytest.mark.parametrize("length", [3, 4, 5])
@torch.inference_mode()
def test_a_sentence_alone_is_that_of_teacher_forcing(kind: dict[str, str], length: int) -> None:
    """Up to the width of a head, 4, its source attention has two products instead of four."""
    model = make_model(**kind)
    src, tgt_in = random_ids(length), random_ids(12)
    expected = model.project(model(src, tgt_in))
    decoding = IncrementalDecoder(model).start(src)
    for step in range(12):
        assert_same(decoding.step(tgt_in[:, step : step + 1]), expected[:, step : step + 1])


@pytest.mark.parametrize("left_after", [0, 1, 3])
@torch.inference_mode()
def test_the_last_sentence_of_a_batch_keeps_its_padding_masked(
    kind: dict[str, str], left_after: int, products: str
) -> None:
    model = make_model(**kind)
    src, tgt_in = random_ids(2, 4, 3), random_ids(16, 16, 16)
    expected = model.project(model(src, tgt_in))
    decoding, left = IncrementalDecoder(model).start(src), [0, 1, 2]
    for step in range(16):
        if step == left_after:
            decoding.select_sentences(torch.tensor(left := [0]))
        tokens = slice(step, step + 1)
        assert_same(decoding.step(tgt_in[left, tokens]), expected[left, tokens])


@torch.inference_mode()
def test_beams_equal_rows_run_alone(kind: dict[str, str], products: str) -> None:
    assert_beams_equal_rows(make_model(**kind))


@torch.inference_mode()
def test_sentences_read_some_at_a_time_are_those_read_at_once(
    kind: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is padded to its own longest sentence; the longest of all is not in the first."""
    monkeypatch.setattr(incremental, "ENCODED_ROWS", 2)
    model = make_model(**kind)
    widths = []
    encode = model.encode
    monkeypatch.setattr(model, "encode", lambda src: (widths.append(src.size(1)), encode(src))[1])
    decoder = IncrementalDecoder(model)
    lengths = (3, 5, 9, 9, 2)
    decoding = decoder.start(random_ids(*lengths))
    assert widths == [5, 9, 2]
    tokens = random_ids(*[1] * len(lengths))
    logits = decoding.step(tokens)
    for row, length in enumerate(lengths):
        alone = decoder.start(random_ids(*lengths)[row : row + 1, :length])
        assert_same(logits[row : row + 1], alone.step(tokens[row : row + 1]))


@torch.inference_mode()
def test_a_new_order_of_beams_moves_no_keys(kind: dict[str, str]) -> None:
    """What `DecoderCache` promises: only the mask changes."""
    decoding = IncrementalDecoder(make_model(**kind)).start(random_ids(6, 3))
    decoding.step(torch.full((2, 3), BOS))
    (slots,) = decoding._cache._slots
    before = slots[:, :, :, :3].clone()
    decoding.select_beams(torch.tensor([[2, 2, 0], [1, 0, 0]]))
    assert decoding._cache._slots[0] is slots and slots[:, :, :, :3].equal(before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.inference_mode()
def test_half_precision_stays_near_fp32(
    kind: dict[str, str], dtype: torch.dtype, products: str
) -> None:
    """Also on processors whose product library does not know it."""
    src, tgt_in = random_ids(6, 3), random_ids(9, 9)
    exact = IncrementalDecoder(make_model(**kind)).start(src)
    rounded = IncrementalDecoder(make_model(**kind).to(dtype)).start(src)
    for step in range(9):
        tokens = tgt_in[:, step : step + 1]
        expected, found = exact.step(tokens), rounded.step(tokens)
        assert found.dtype == dtype
        assert (found.float() - expected).abs().max() < 0.05 * expected.abs().max()
