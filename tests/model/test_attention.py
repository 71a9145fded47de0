"""Attention against the formula written out, and its cache against plain concatenation."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_mt.model import attention
from transformer_mt.model.attention import (
    SelfAttention,
    attend,
    causal_mask,
    may_attend,
    merge_heads,
    split_heads,
)

CPU = torch.device("cpu")


def random_heads(*lengths: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """(2, 3, length, 5) for each length."""
    generator = torch.Generator().manual_seed(len(lengths) + sum(lengths))
    return [torch.randn(2, 3, n, 5, generator=generator).to(dtype) for n in lengths]


def masks(n_queries: int, n_keys: int) -> dict[str, Tensor | None]:
    """One of every kind; each leaves every query at least one key."""
    padding = torch.zeros(2, n_keys, dtype=torch.bool)
    padding[0, n_keys - 2 :] = True
    causal = torch.ones(n_queries, n_keys, dtype=torch.bool).tril()[None, None]
    return {
        "none": None,
        "padding": may_attend(padding),
        "causal": causal,
        "both": may_attend(padding) & causal,
    }


@pytest.mark.parametrize("kind", ["none", "padding", "causal", "both"])
def test_attend_is_the_papers_formula(kind: str) -> None:
    """softmax(QKᵀ / √d_k) V with plain numbers, one query at a time."""
    q, k, v = random_heads(4, 6, 6)
    mask = masks(4, 6)[kind]
    outputs, weights = attend(q, k, v, mask, return_weights=True)
    assert weights is not None
    allowed = torch.ones(2, 3, 4, 6, dtype=torch.bool) if mask is None else mask.expand(2, 3, 4, 6)
    for b, h, t in [(0, 0, 0), (0, 1, 3), (1, 2, 2), (1, 0, 1)]:
        scores = [
            sum(q[b, h, t, i].item() * k[b, h, s, i].item() for i in range(5)) / math.sqrt(5)
            for s in range(6)
        ]
        powers = [math.exp(x) * bool(allowed[b, h, t, s]) for s, x in enumerate(scores)]
        expected = [power / sum(powers) for power in powers]
        assert weights[b, h, t].tolist() == pytest.approx(expected, abs=1e-6)
        output = [sum(expected[s] * v[b, h, s, i].item() for s in range(6)) for i in range(5)]
        assert outputs[b, h, t].tolist() == pytest.approx(output, abs=1e-5)


@pytest.mark.parametrize("kind", ["none", "padding", "causal", "both"])
def test_weights_are_shares_and_masked_ones_exactly_zero(kind: str) -> None:
    q, k, v = random_heads(6, 6, 6)
    mask = masks(6, 6)[kind]
    outputs, weights = attend(10 * q, k, v, mask, return_weights=True)
    assert weights is not None
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 6))
    torch.testing.assert_close(outputs, weights @ v)
    if mask is not None:
        forbidden = ~mask.expand_as(weights)
        assert forbidden.any()
        assert weights[forbidden].eq(0).all()


@pytest.mark.parametrize("kind", ["none", "padding", "causal", "both"])
def test_the_fused_kernel_equals_the_explicit_products(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    fused = F.scaled_dot_product_attention

    def counted(*args: Any, **kwargs: Any) -> Tensor:
        calls.append(1)
        return fused(*args, **kwargs)

    monkeypatch.setattr(attention.F, "scaled_dot_product_attention", counted)
    results = []
    for limit in (0, 10**9):
        monkeypatch.setattr(attention, "EXPLICIT_MAX_CELLS", limit)
        inputs = [x.requires_grad_() for x in random_heads(4, 6, 6)]
        q, k, v = inputs
        outputs, weights = attend(q, k, v, masks(4, 6)[kind])
        assert weights is None
        outputs.square().sum().backward()
        results.append([outputs.detach(), *(x.grad for x in inputs)])
    assert len(calls) == 1, "one of the two must have taken the fused kernel"
    for fast, explicit in zip(*results, strict=True):
        torch.testing.assert_close(fast, explicit, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n_keys", [1, 3, 7, 8, 15, 16, 31, 32, 33])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_rows_of_every_length_have_the_same_softmax(dtype: torch.dtype, n_keys: int) -> None:
    """Short ones have code of their own; the reference is in double precision."""
    generator = torch.Generator().manual_seed(n_keys)
    scores = (20 * torch.randn(2, 3, 5, n_keys, generator=generator)).to(dtype)
    scores[0, 0, 0, 1:] = -math.inf
    scores[0, 0, 1] = 1e4
    grad = torch.randn(scores.shape, generator=generator).to(dtype)
    found, exact = scores.clone().requires_grad_(), scores.double().requires_grad_()
    weights, expected = attention.softmax(found), exact.softmax(-1)
    weights.backward(grad)
    expected.backward(grad.double())
    assert weights.dtype == dtype
    assert found.grad is not None and exact.grad is not None and found.grad.dtype == dtype
    accuracy = {"rtol": torch.finfo(dtype).eps, "atol": 4 * torch.finfo(dtype).eps}
    torch.testing.assert_close(weights.double(), expected, **accuracy)
    accuracy["atol"] *= n_keys
    torch.testing.assert_close(found.grad.double(), exact.grad, **accuracy)


def test_weights_can_be_had_beyond_the_size_of_the_explicit_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attention, "EXPLICIT_MAX_CELLS", 0)
    q, k, v = random_heads(4, 6, 6)
    outputs, weights = attend(q, k, v, None, return_weights=True)
    assert weights is not None
    torch.testing.assert_close(outputs, attend(q, k, v, None)[0])


def test_gradient_of_attention() -> None:
    inputs = [x.requires_grad_() for x in random_heads(2, 3, 3, dtype=torch.float64)]
    mask = masks(2, 3)["causal"]
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, mask)[0], inputs)


def test_scaling_keeps_the_scores_variance_at_one() -> None:
    """Section 3.2.1, footnote 4: the dot product of d_k unit-variance parts has variance d_k."""
    generator = torch.Generator().manual_seed(1)
    for width in (4, 64, 512):
        q = torch.randn(1, 1, 400, width, generator=generator)
        k = torch.randn(1, 1, 400, width, generator=generator)
        one_hot = torch.eye(400)[None, None]
        weights, _ = attend(q, k, one_hot, None)  # values that show the weights themselves
        scores = weights.log() - weights.log().mean(-1, keepdim=True)
        assert scores.var().item() == pytest.approx(1, rel=0.1)


def test_mask_polarity() -> None:
    padding_mask = torch.tensor([[False, False, True]])
    assert may_attend(padding_mask).tolist() == [[[[True, True, False]]]]
    assert causal_mask(3, CPU).tolist() == [
        [[[True, False, False], [True, True, False], [True, True, True]]]
    ]


def test_heads_are_consecutive_slices_of_the_features() -> None:
    x = torch.arange(2 * 3 * 8.0).view(2, 3, 8)
    heads = split_heads(x, 4)
    assert heads.shape == (2, 4, 3, 2)
    for h in range(4):
        assert heads[:, h].equal(x[:, :, 2 * h : 2 * h + 2])
    assert merge_heads(heads).equal(x)


def test_multi_head_attention_is_its_heads_side_by_side() -> None:
    """Section 3.2.2: Concat(head_1 … head_h) W^O, each head with projections of its own."""
    torch.manual_seed(3)
    module = SelfAttention(12, 3)
    x = torch.randn(2, 5, 12)
    collected: list[Tensor] = []
    outputs = module(x, causal_mask(5, CPU), weights=collected)
    heads = []
    for h in range(3):
        rows = slice(4 * h, 4 * h + 4)
        q, k, v = (
            F.linear(x, weight[rows], bias[rows])
            for weight, bias in zip(
                module.qkv_proj.weight.split(12), module.qkv_proj.bias.split(12), strict=True
            )
        )
        scores = (q @ k.transpose(1, 2) / 2).masked_fill(~causal_mask(5, CPU)[0], -math.inf)
        torch.testing.assert_close(collected[0][:, h], scores.softmax(-1))
        heads.append(scores.softmax(-1) @ v)
    torch.testing.assert_close(outputs, module.out_proj(torch.cat(heads, dim=-1)))
