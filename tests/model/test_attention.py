"""Attention against the formula written out, and against torch's own."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_mt.model import attention
from transformer_mt.model.attention import SelfAttention, attend, causal_mask, may_attend
from transformer_mt.model.modern import RotaryPositions

CPU = torch.device("cpu")
KINDS = pytest.mark.parametrize("kind", ["none", "padding", "causal", "both"])


def random_heads(*lengths: int) -> list[Tensor]:
    """(2, 3, length, 5) for each length."""
    generator = torch.Generator().manual_seed(len(lengths) + sum(lengths))
    return [torch.randn(2, 3, n, 5, generator=generator) for n in lengths]


def mask_of(kind: str, n_queries: int, n_keys: int) -> Tensor | None:
    """Each leaves every query at least one key."""
    padding = torch.zeros(2, n_keys, dtype=torch.bool)
    padding[0, n_keys - 2 :] = True
    causal = torch.ones(n_queries, n_keys, dtype=torch.bool).tril()[None, None]
    both = may_attend(padding) & causal
    return {"none": None, "padding": may_attend(padding), "causal": causal, "both": both}[kind]


@KINDS
def test_attend_is_the_papers_formula(kind: str) -> None:
    """softmax(QKᵀ / √d_k) V with plain numbers, one query at a time."""
    q, k, v = random_heads(4, 6, 6)
    mask = mask_of(kind, 4, 6)
    collected: list[Tensor] = []
    outputs = attend(q, k, v, mask, collected)
    (weights,) = collected
    allowed = torch.ones(2, 3, 4, 6, dtype=torch.bool) if mask is None else mask.expand(2, 3, 4, 6)
    assert weights[~allowed].eq(0).all(), "exactly"
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


@KINDS
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
    for limit, weights in ((0, None), (10**9, None), (0, [])):
        monkeypatch.setattr(attention, "EXPLICIT_MAX_CELLS", limit)
        inputs = [x.requires_grad_() for x in random_heads(4, 6, 6)]
        outputs = attend(*inputs, mask_of(kind, 4, 6), weights)
        outputs.square().sum().backward()
        results.append([outputs.detach(), *(x.grad for x in inputs)])
    assert len(calls) == 1, "one must have taken the fused kernel, and none that wants weights"
    for fast, *others in zip(*results, strict=True):
        for explicit in others:
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


def test_mask_polarity() -> None:
    padding_mask = torch.tensor([[False, False, True]])
    assert may_attend(padding_mask).tolist() == [[[[True, True, False]]]]
    assert causal_mask(3, CPU).tolist() == [
        [[[True, False, False], [True, True, False], [True, True, True]]]
    ]


@pytest.mark.parametrize("rotary", [None, RotaryPositions(4)], ids=["paper", "modern"])
def test_multi_head_attention_is_its_heads_side_by_side(rotary: RotaryPositions | None) -> None:
    """Section 3.2.2: Concat(head_1 … head_h) W^O, each head with projections of its own.

    Rotary positions turn queries and keys after the split into heads.
    """
    torch.manual_seed(3)
    module = SelfAttention(12, 3, rotary=rotary)
    x = torch.randn(2, 5, 12)
    collected: list[Tensor] = []
    outputs = module(x, causal_mask(5, CPU), collected)
    heads = []
    for h in range(3):
        rows = slice(4 * h, 4 * h + 4)
        q, k, v = (
            F.linear(x, weight[rows], bias[rows])
            for weight, bias in zip(
                module.qkv_proj.weight.split(12), module.qkv_proj.bias.split(12), strict=True
            )
        )
        if rotary is not None:
            q, k = rotary(q), rotary(k)
        scores = (q @ k.transpose(1, 2) / 2).masked_fill(~causal_mask(5, CPU)[0], -math.inf)
        torch.testing.assert_close(collected[0][:, h], scores.softmax(-1))
        heads.append(scores.softmax(-1) @ v)
    torch.testing.assert_close(outputs, module.out_proj(torch.cat(heads, dim=-1)))
