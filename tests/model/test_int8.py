"""Products of 8-bit integers against their formula, and searches with them against fp32."""

from typing import Any

import pytest
import torch
from test_transformer import KINDS, make_model, random_ids
from torch import nn

from transformer_mt.config.model import ModelConfig
from transformer_mt.model import decoder_cache, int8
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.model.incremental_decoder import IncrementalDecoder
from transformer_mt.model.int8 import Int8Linear, has_int8, use_int8
from transformer_mt.profiling.bench_decode import bench_size
from transformer_mt.rendering.progress import Stages
from transformer_mt.search.engine import Engine, Request
from transformer_mt.search.options import SearchOptions
from transformer_mt.system.machine import cpu_flags

pytestmark = pytest.mark.skipif(
    not cpu_flags() & {"avx512_vnni", "avx_vnni"}, reason="this processor has no VNNI"
)


def scaled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers, and the step between them, of each row; in double precision."""
    step = x.double().abs().amax(1, keepdim=True) / 127
    return (x.double() / step).round(), step


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("n_rows", [1, 5, 160])
@torch.inference_mode()
def test_the_formula(n_rows: int, bias: bool) -> None:
    torch.manual_seed(1)
    linear, x = nn.Linear(48, 40, bias=bias), 3 * torch.randn(n_rows, 48)
    x[:, 0] *= 10  # as a few features of a trained model are
    (rows, s), (matrix, t) = scaled(x), scaled(linear.weight)
    expected = (rows @ matrix.T) * s * t.T + (linear.bias.double() if bias else 0)
    found = Int8Linear(linear)(x)
    assert (found - expected).abs().max() < 1e-4
    assert (found - linear(x)).abs().max() < 0.02 * linear(x).abs().max() + 0.1
    in_bf16 = Int8Linear(linear)(x.view(n_rows, 1, 48).bfloat16())
    assert in_bf16.dtype == torch.bfloat16 and in_bf16.shape == (n_rows, 1, 40)


@torch.inference_mode()
def test_a_row_depends_on_no_other() -> None:
    """Among the rows are zeros, as of padding, and very large numbers."""
    torch.manual_seed(1)
    layer, x = Int8Linear(nn.Linear(32, 24)), torch.randn(6, 32)
    x[2], x[4] = 0, 1e4 * x[4]
    found = layer(x)
    assert found[2].equal(layer.bias)
    for row in range(6):
        assert found[row].equal(layer(x[row : row + 1])[0])


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the matrices of tiny models."""
    monkeypatch.setattr(int8, "MIN_ELEMENTS", 1)


def kept_and_rounded(kind: dict[str, Any]) -> tuple[EncoderDecoder, EncoderDecoder]:
    model, rounded = make_model(**kind), make_model(**kind)
    use_int8(rounded)
    assert has_int8(rounded) and not has_int8(model)
    assert all(a.equal(b) for a, b in zip(model.parameters(), rounded.parameters(), strict=True))
    return model, rounded


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("min_heads", [1, 1000], ids=["products", "fused kernel"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@torch.inference_mode()
def test_log_probabilities_stay_near_fp32(
    kind: dict[str, str], dtype: torch.dtype, min_heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_cache, "EXPLICIT_MIN_HEADS", min_heads)
    model, rounded = kept_and_rounded(kind)
    src, tgt_in = random_ids(6, 3), random_ids(9, 9)
    exact = IncrementalDecoder(model).start(src)
    near = IncrementalDecoder(rounded.to(dtype)).start(src)
    for step in range(9):
        tokens = tgt_in[:, step : step + 1]
        expected, found = exact.step(tokens), near.step(tokens)
        assert found.dtype == torch.float32  # without rounding before the softmax
        difference = found.log_softmax(-1) - expected.log_softmax(-1)
        assert difference.abs().max() < 0.05 * expected.abs().max()


@pytest.mark.parametrize(("ffn", "large"), [(24, "qkv_proj"), (128, "ffn")])
@pytest.mark.parametrize("min_heads", [1, 1000], ids=["products", "fused kernel"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@torch.inference_mode()
def test_integers_beside_products_in_bf16(
    kind: dict[str, str], min_heads: int, ffn: int, large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where only some matrices of a layer are large enough, rows change their precision."""
    monkeypatch.setattr(decoder_cache, "EXPLICIT_MIN_HEADS", min_heads)
    monkeypatch.setattr(int8, "MIN_ELEMENTS", 3 * 16 * 16 if ffn == 24 else 1000)
    model, rounded = kept_and_rounded({**kind, "ffn": ffn})
    for name, module in rounded.decoder_layers.named_modules():
        if type(module) in (nn.Linear, Int8Linear):
            assert isinstance(module, Int8Linear) == (large in name), name
    src, tgt_in = random_ids(6, 3), random_ids(9, 9)
    exact = IncrementalDecoder(model).start(src)
    near = IncrementalDecoder(rounded.bfloat16()).start(src)
    for step in range(9):
        tokens = tgt_in[:, step : step + 1]
        expected, found = exact.step(tokens), near.step(tokens)
        assert (found - expected).abs().max() < 0.05 * expected.abs().max()


@pytest.mark.usefixtures("everything")
@torch.inference_mode()
def test_beam_search_finds_what_fp32_finds() -> None:
    model, rounded = kept_and_rounded(KINDS["post"])
    requests = [Request(ids.tolist()) for ids in (random_ids(5)[0], random_ids(3)[0])]
    options = SearchOptions(beam=4, n_best=4, min_length=5, max_length=5)
    exact, near = (Engine([one], [0]).search(requests, options) for one in (model, rounded))
    for expected, found in zip(exact, near, strict=True):
        scores = {tuple(h.ids): h.score for h in expected}
        assert found[0].score == pytest.approx(expected[0].score, abs=0.1)
        assert tuple(found[0].ids) in scores


def test_the_benchmark_names_it() -> None:
    """Its output layer, 8000 × 64 numbers, is large enough for integers."""
    cfg = ModelConfig(d_model=64, heads=2, ffn=16, encoder_layers=1, decoder_layers=1,
                      tie_embeddings="all")  # fmt: skip
    report = bench_size("x", cfg, precision="int8", n_sentences=2, rounds=1, stages=Stages())
    assert report.precision == "int8"
