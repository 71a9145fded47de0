"""The softmax of long rows of logits, in their memory, in two passes."""

import torch
import triton
import triton.language as tl
from torch import Tensor

COLUMNS, WARPS = 4096, 16  # of a row at a time; of a program


def softmax_(logits: Tensor) -> Tensor:
    """Turn the rows of (n, V) into probabilities, computed in fp32.

    Returns:
        log Σ exp of each row of logits, (n,) fp32.
    """
    log_normaliser = torch.empty(len(logits), device=logits.device)
    columns = min(COLUMNS, triton.next_power_of_2(logits.size(1)))
    _softmax[(len(logits),)](
        logits, log_normaliser, WIDTH=logits.size(1), COLUMNS=columns, num_warps=WARPS
    )
    return log_normaliser


@triton.jit
def _softmax(logits, log_normaliser, WIDTH: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    start = logits + row.to(tl.int64) * WIDTH
    largest = tl.full((COLUMNS,), -1e30, tl.float32)
    total = tl.zeros((COLUMNS,), tl.float32)
    for first in range(0, WIDTH, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        x = tl.load(start + column, mask=column < WIDTH, other=-1e30).to(tl.float32)
        larger = tl.maximum(largest, x)
        total = total * tl.exp(largest - larger) + tl.exp(x - larger)
        largest = larger
    row_largest = tl.max(largest, 0)
    normaliser = row_largest + tl.log(tl.sum(total * tl.exp(largest - row_largest), 0))
    tl.store(log_normaliser + row, normaliser)
    for first in range(0, WIDTH, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        x = tl.load(start + column, mask=column < WIDTH, other=-1e30).to(tl.float32)
        probability = tl.exp(x - normaliser).to(logits.dtype.element_ty)
        tl.store(start + column, probability, mask=column < WIDTH)
