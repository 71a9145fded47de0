"""The kernels give the values and gradients of torch's operations; without a GPU, interpreted."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from micro_batches import assert_same, batches, gradients, learner
from torch import Tensor

from transformer_mt.model.attention import causal_mask, merge_heads, split_heads
from transformer_mt.model.transformer import FeedForward

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytest.importorskip("triton")
attention, choice, fused, linear, residual, softmax = (
    importlib.import_module(f"transformer_mt.kernels.{name}")
    for name in ("attention", "choice", "fused", "linear", "residual", "softmax")
)

B, HEADS, WIDTH = 3, 2, 16


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE).requires_grad_()


def with_gradients(out: Tensor, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """The output, and the gradients of the inputs for some gradient of the output."""
    ramp = torch.linspace(-1, 1, out.numel(), device=DEVICE).view(out.shape)
    return [out, *torch.autograd.grad(out, inputs, ramp)]


def assert_close(found: list[Tensor], exact: list[Tensor]) -> None:
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("n_queries", "n_keys"), [(1, 1), (7, 20), (33, 5), (24, 24)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention(n_queries: int, n_keys: int, is_causal: bool) -> None:
    torch.manual_seed(n_queries)
    queries, pairs = draw(B, n_queries, HEADS * WIDTH), draw(B, n_keys, 2 * HEADS * WIDTH)
    mask = torch.rand(B, 1, 1, n_keys, device=DEVICE) < 0.6
    mask[..., 0] = True
    if is_causal:
        mask = causal_mask(max(n_queries, n_keys), torch.device(DEVICE))[..., :n_queries, :n_keys]
    found = []
    for attend in (attention.attend, F.scaled_dot_product_attention):
        q = split_heads(queries, HEADS)
        k, v = (split_heads(x, HEADS) for x in pairs.chunk(2, -1))
        assert attention.fits(q.size(2), k.size(2), q.size(3))
        found.append(with_gradients(merge_heads(attend(q, k, v, mask)), (queries, pairs)))
    assert_close(*found)


@pytest.mark.parametrize("length", [1, 20])
def test_attention_of_a_sequence_over_itself(length: int) -> None:
    """Queries, keys and values are parts of one tensor, and so are their gradients."""
    qkv, mask = draw(B, length, 3 * HEADS * WIDTH), causal_mask(length, torch.device(DEVICE))
    q, k, v = (split_heads(x, HEADS) for x in qkv.chunk(3, -1))
    exact = merge_heads(F.scaled_dot_product_attention(q, k, v, mask))
    found = attention.self_attend(qkv, HEADS, mask)
    assert_close(with_gradients(found, (qkv,)), with_gradients(exact, (qkv,)))


@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("width", [24, 64])
def test_residual_norm(
    width: int, has_bias: bool, has_residual: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where programs of backward have several tiles of rows, or none."""
    monkeypatch.setattr(residual, "PROGRAMS", 3 if has_residual else 9)
    torch.manual_seed(width)
    x, y, weight, bias = draw(B, 70, width), draw(B, 70, width), draw(width), draw(width)
    inputs = (x, *([y] if has_residual else []), weight, *([bias] if has_bias else []))
    out = residual.residual_norm(
        x, y if has_residual else None, weight, bias if has_bias else None, 1e-5, 0.0
    )
    total = x + y if has_residual else x
    if has_bias:
        exact = F.layer_norm(total, (width,), weight, bias, 1e-5)
    else:
        exact = F.rms_norm(total, (width,), weight, 1e-5)
    assert_close(with_gradients(out, inputs), with_gradients(exact, inputs))


def test_dropout_of_a_residual(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share of y is dropped, the rest scaled; backward drops the same; a seed decides."""
    monkeypatch.setattr(residual, "PROGRAMS", 4)
    x, y, weight = (torch.zeros(4, 200, 64, device=DEVICE), draw(4, 200, 64), draw(64))
    x.requires_grad_()

    def run(seed: int) -> tuple[Tensor, Tensor, Tensor]:
        torch.manual_seed(seed)
        out = residual.residual_norm(x, y, weight, None, 1e-5, 0.25)
        return out, *torch.autograd.grad(out.square().sum(), (x, y))

    out, grad_x, grad_y = run(1)
    kept = out != 0
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.01)
    assert kept.float().mean((0, 1)).std().item() == pytest.approx(
        (0.75 * 0.25 / 800) ** 0.5, rel=0.4
    )
    torch.testing.assert_close(grad_y, grad_x * kept / 0.75)
    exact = F.rms_norm(y * kept / 0.75, (64,), weight, 1e-5)
    torch.testing.assert_close(out, exact, rtol=1e-4, atol=1e-5)
    assert run(1)[0].equal(out)
    assert 0.5 < (run(2)[0] != 0).eq(kept).float().mean().item() < 0.7, "0.625 by chance"


@pytest.mark.parametrize("relu", [False, True])
def test_linear(relu: bool) -> None:
    x, weight, bias = draw(B, 7, 24), draw(40, 24), draw(40)
    exact = F.linear(x, weight, bias)
    inputs = (x, weight, bias)
    found = with_gradients(linear.linear(x, weight, bias, relu=relu), inputs)
    assert_close(found, with_gradients(F.relu(exact) if relu else exact, inputs))


@pytest.mark.parametrize("columns", [16, 4096])
def test_softmax(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a row whose largest number is far above the others."""
    monkeypatch.setattr(softmax, "COLUMNS", columns)
    logits = 20 * torch.randn(5, 50, device=DEVICE)
    logits[0, 3] = 300
    probabilities = logits.clone()
    torch.testing.assert_close(softmax.softmax_(probabilities), logits.logsumexp(1))
    torch.testing.assert_close(probabilities, logits.softmax(1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("architecture", "norm"), [("paper", "post"), ("modern", "pre")])
def test_a_model_with_kernels_has_the_gradients_of_one_without(
    architecture: str, norm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some sentences are longer than what this attention is for."""
    monkeypatch.setattr(attention, "LONGEST", 16)
    monkeypatch.setattr(residual, "PROGRAMS", 2)
    plain, other = (learner(DEVICE, architecture=architecture, norm=norm) for _ in range(2))
    names = [name for name, _ in other.model.named_parameters()]
    fused.fuse(other.model)
    assert [name for name, _ in other.model.named_parameters()] == names
    made = batches(DEVICE, padded=True)[1:4:2]
    assert_same(gradients(other, made), gradients(plain, made), 1e-4)


def test_a_gpu_without_triton_has_the_same_softmax() -> None:
    logits = torch.randn(5, 50, device=DEVICE)
    probabilities, log_normaliser = choice.torch_softmax(logits)
    torch.testing.assert_close(log_normaliser, logits.logsumexp(1))
    torch.testing.assert_close(probabilities, logits.softmax(1))


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kernels are chosen here as on a GPU of NVIDIA."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    choice.reason_without.cache_clear()
    yield
    choice.reason_without.cache_clear()


@pytest.mark.usefixtures("on_a_gpu")
def test_kernels_are_used_where_they_run(caplog: pytest.LogCaptureFixture) -> None:
    plain = learner(DEVICE).model
    choice.use_kernels(plain, torch.device(DEVICE))
    assert isinstance(plain.encoder_layers[0].ffn, fused.FusedFeedForward)
    logits = torch.randn(5, 50, device=DEVICE)
    probabilities, _ = choice.softmax(logits)
    assert probabilities is logits and not caplog.messages


@pytest.mark.usefixtures("on_a_gpu")
@pytest.mark.parametrize(
    ("owner", "name", "change", "reason"),
    [
        (choice, "find_spec", lambda _: None, "not installed"),
        (torch.cuda, "get_device_capability", lambda _: (7, 5), "Ampere"),
        (softmax, "softmax_", lambda _: (_ for _ in ()).throw(RuntimeError("no cc")), "no cc"),
    ],
)
def test_where_kernels_do_not_run_the_reason_is_said(
    owner: Any, name: str, change: Any, reason: str,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(owner, name, change)
    plain = learner(DEVICE).model
    choice.use_kernels(plain, torch.device(DEVICE))
    assert type(plain.encoder_layers[0].ffn) is FeedForward
    assert reason in caplog.text
    logits = torch.randn(5, 50, device=DEVICE)
    assert choice.softmax(logits)[0] is not logits


def test_the_bench_compares_operations_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench: Any = importlib.import_module("kernels")  # scripts/bench
    monkeypatch.setattr(bench, "DTYPE", torch.float32)
    monkeypatch.setattr(bench, "HEADS", 2)
    monkeypatch.setattr(bench, "WIDTH", 2 * 16)
    rows = [*bench.attentions(64, torch.device(DEVICE)), *bench.layers(64, torch.device(DEVICE))]
    for name, own, torchs in rows:
        if "dropout" not in name and "softmax" not in name:
            assert_close(list(own()), list(torchs()))
    assert len(rows) == 7
