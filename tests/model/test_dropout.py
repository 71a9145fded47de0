"""Dropout: the right share, the right scale, and a function of the seed."""

import pytest
import torch

from transformer_mt.model.dropout import Dropout, keep_scale

N = 1 << 20
FIVE_SIGMA = 5 * 0.5 / N**0.5  # of a share among N draws, at its widest


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9])
def test_share_and_scale(p: float) -> None:
    """Also of each of the four neighbours that share a draw; they are independent."""
    torch.manual_seed(0)
    factors = keep_scale(torch.ones(N), p)
    kept = factors != 0
    assert (~kept).float().mean().item() == pytest.approx(p, abs=min(1e-3, FIVE_SIGMA))
    assert factors[kept].unique().tolist() == pytest.approx([1 / (1 - p)])
    dropped = (~kept).float().view(-1, 4)
    assert dropped.mean(0).tolist() == pytest.approx([p] * 4, abs=2 * FIVE_SIGMA)
    correlations = torch.corrcoef(dropped.T) - torch.eye(4)
    assert correlations.abs().max().item() < 0.01


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 5, 7), (0,), (4, 1, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_shape_and_precision(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.ones(shape, dtype=dtype).transpose(0, -1)  # rows that are not in one piece
    dropped = Dropout(0.5).train()(x)
    assert dropped.shape == x.shape and dropped.dtype == dtype
    assert set(dropped.flatten().tolist()) <= {0.0, 2.0}


def test_a_share_next_to_one_drops_nearly_all() -> None:
    torch.manual_seed(0)
    assert (keep_scale(torch.ones(N), 0.999995) != 0).float().mean().item() < 1e-4


def test_nothing_is_dropped_outside_training_or_with_p_zero() -> None:
    x = torch.randn(10)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x


def test_gradient_passes_where_the_input_passed() -> None:
    x = torch.randn(512, 16).T.requires_grad_()
    y = Dropout(0.4).train()(x)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x, y)
    assert (x.grad == 0).float().mean().item() == pytest.approx(0.4, abs=0.05)


def test_a_seed_decides_what_is_dropped() -> None:
    dropout = Dropout(0.3).train()
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(dropout(torch.ones(1000)))
    assert draws[0].equal(draws[1])
    assert not draws[0].equal(draws[2])
    assert not draws[0].equal(dropout(torch.ones(1000))), "a second call draws anew"
