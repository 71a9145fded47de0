"""norm(x + dropout(y)) as one kernel, and its gradients as another.

What is dropped follows from a seed and the place of a number, so backward draws it again instead of
reading it. Shapes: see `model/attention.py`; n = B·T rows.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE_ELEMENTS = 2048  # a few rows
WARPS = 2  # of a program
PROGRAMS = 528  # of backward: four for each multiprocessor of a large GPU
ROUNDS = tl.constexpr(7)  # of Philox: the fewest that pass all tests; Salmon et al. 2011, table 2


def residual_norm(
    x: Tensor, y: Tensor | None, weight: Tensor, bias: Tensor | None, eps: float, dropout: float
) -> Tensor:
    """LayerNorm(x + dropout(y)), or without `bias` RMSNorm; without `y` the norm of x.

    Args:
        x, y: (B, T, D). weight, bias: (D,). dropout: the probability that a number of y is dropped.
    """
    out: Tensor = _ResidualNorm.apply(x, y, weight, bias, eps, dropout)
    return out


def _tile(width: int) -> dict[str, int]:
    tile = triton.next_power_of_2(width)
    return {"WIDTH": width, "TILE": tile, "ROWS": max(1, TILE_ELEMENTS // tile), "num_warps": WARPS}


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor | None, weight: Tensor, bias: Tensor | None,
        eps: float, dropout: float,
    ) -> Tensor:  # fmt: skip
        x = x.contiguous()
        y, dropout = (None, 0.0) if y is None else (y.contiguous(), dropout)
        n, sizes = x.numel() // x.size(-1), _tile(x.size(-1))
        total = x if y is None else torch.empty_like(x)
        out = torch.empty_like(x)
        # On the device, so that each replay of a recording draws another one.
        seed = torch.empty(1, dtype=torch.int64, device=x.device).random_() if dropout else None
        statistics = torch.empty(2, n, dtype=torch.float32, device=x.device)
        _residual_forward[(triton.cdiv(n, sizes["ROWS"]),)](
            x, y, weight, bias, seed, total, out, statistics, n, eps, dropout, **sizes
        )
        ctx.save_for_backward(total, weight, seed, statistics)
        ctx.has_residual, ctx.has_bias, ctx.dropout = y is not None, bias is not None, dropout
        return out

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        total, weight, seed, statistics = ctx.saved_tensors
        grad = grad_outputs[0].contiguous()
        n, sizes = statistics.size(1), _tile(total.size(-1))
        grad_x = torch.empty_like(total)
        grad_y = torch.empty_like(total) if ctx.dropout else None
        n_sums = 2 if ctx.has_bias else 1
        sums = torch.empty(n_sums, PROGRAMS, total.size(-1), device=total.device)
        _residual_backward[(PROGRAMS,)](
            grad, total, weight, seed, statistics, grad_x, grad_y, sums, n, ctx.dropout,
            HAS_BIAS=ctx.has_bias, PROGRAMS=PROGRAMS, **sizes,
        )  # fmt: skip
        of_parameters = sums.sum(1).to(weight.dtype)
        grad_bias = of_parameters[1] if ctx.has_bias else None
        if ctx.has_residual and grad_y is None:
            grad_y = grad_x
        return grad_x, grad_y, of_parameters[0], grad_bias, None, None


@triton.jit
def _kept(seed, row, dropout, TILE: tl.constexpr, ROWS: tl.constexpr):
    """(ROWS, TILE): 0 with probability `dropout`, else 1 / (1 − dropout); four from one draw."""
    quarter: tl.constexpr = TILE // 4
    places = row[:, None] * quarter + tl.arange(0, quarter)[None, :]
    a, b, c, d = tl.rand4x(tl.load(seed), places, n_rounds=ROUNDS)
    drawn = tl.reshape(tl.join(tl.join(a, b), tl.join(c, d)), (ROWS, TILE))
    return tl.where(drawn >= dropout, 1 / (1 - dropout), 0.0)


@triton.jit(do_not_specialize=["n"])
def _residual_forward(
    x_ptr, y_ptr, weight_ptr, bias_ptr, seed, total_ptr, out_ptr, statistics, n, eps, dropout,
    WIDTH: tl.constexpr, TILE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, TILE)
    inside = (row < n)[:, None] & (column < WIDTH)[None, :]
    offsets = row.to(tl.int64)[:, None] * WIDTH + column[None, :]
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    if y_ptr is not None:
        y = tl.load(y_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        if seed is not None:
            y *= _kept(seed, row, dropout, TILE, ROWS)
        total = (x + y).to(total_ptr.dtype.element_ty)
        tl.store(total_ptr + offsets, total, mask=inside)
        x = total.to(tl.float32)
    if bias_ptr is not None:
        mean = tl.sum(x, 1) / WIDTH
        tl.store(statistics + row, mean, mask=row < n)
        x = tl.where(inside, x - mean[:, None], 0.0)
    inverse = tl.rsqrt(tl.sum(x * x, 1) / WIDTH + eps)
    tl.store(statistics + n + row, inverse, mask=row < n)
    weight = tl.load(weight_ptr + column, mask=column < WIDTH, other=0.0).to(tl.float32)
    out = x * inverse[:, None] * weight[None, :]
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + column, mask=column < WIDTH, other=0.0).to(tl.float32)
        out += bias[None, :]
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["n"])
def _residual_backward(
    grad_ptr, total_ptr, weight_ptr, seed, statistics, grad_x_ptr, grad_y_ptr, sums, n, dropout,
    HAS_BIAS: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr, ROWS: tl.constexpr,
    PROGRAMS: tl.constexpr,
):  # fmt: skip
    """With x̂ = (x − mean) / σ and g = grad · weight: ∂x = (g − mean g − x̂ · mean(g · x̂)) / σ;
    without a bias the mean is 0 and not subtracted."""
    program = tl.program_id(0)
    column = tl.arange(0, TILE)
    real = column < WIDTH
    weight = tl.load(weight_ptr + column, mask=real, other=0.0).to(tl.float32)
    grad_weight = tl.zeros((TILE,), tl.float32)
    grad_bias = tl.zeros((TILE,), tl.float32)
    for first in range(program * ROWS, n, PROGRAMS * ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < n)[:, None] & real[None, :]
        offsets = row.to(tl.int64)[:, None] * WIDTH + column[None, :]
        grad = tl.load(grad_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(total_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        inverse = tl.load(statistics + n + row, mask=row < n, other=0.0)[:, None]
        if HAS_BIAS:
            x -= tl.load(statistics + row, mask=row < n, other=0.0)[:, None]
        normed = tl.where(inside, x * inverse, 0.0)
        grad_weight += tl.sum(grad * normed, 0)
        weighted = grad * weight[None, :]
        change = normed * (tl.sum(weighted * normed, 1) / WIDTH)[:, None]
        if HAS_BIAS:
            grad_bias += tl.sum(grad, 0)
            change += (tl.sum(weighted, 1) / WIDTH)[:, None]
        grad_x = (weighted - change) * inverse
        tl.store(grad_x_ptr + offsets, grad_x.to(grad_x_ptr.dtype.element_ty), mask=inside)
        if seed is not None:
            grad_y = grad_x * _kept(seed, row, dropout, TILE, ROWS)
            tl.store(grad_y_ptr + offsets, grad_y.to(grad_y_ptr.dtype.element_ty), mask=inside)
    tl.store(sums + program * WIDTH + column, grad_weight, mask=real)
    if HAS_BIAS:
        tl.store(sums + (PROGRAMS + program) * WIDTH + column, grad_bias, mask=real)
