"""Dropout with cheap random numbers on a CPU.

`torch.dropout` on a CPU draws one number per element in one thread. Here one 64-bit draw serves
four elements, 16 bits each, so the drop probability is exact to 1 / 65536.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Zero each element with probability `p` in training and scale the rest by 1 / (1 − p).

    Source: Srivastava et al. 2014; where it is applied: Vaswani et al. 2017, section 5.4.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        return x * keep_scale(x, self.p)


def keep_scale(x: Tensor, p: float) -> Tensor:
    """A tensor like `x`; an element is 0 with probability `p`, else 1 / (1 − p)."""
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64)
    bits = words.random_(-(2**63), None).view(torch.int16)[: x.numel()].view(x.shape)
    dropped_below = min(round(p * 65536), 65535) - 32768  # signed 16-bit
    kept = torch.ge(bits, dropped_below, out=torch.empty_like(bits))  # 0 or 1
    scale = torch.tensor(1 / (1 - p), dtype=x.dtype)
    if x.element_size() == 2:  # a product of integers is several times faster than a conversion
        return kept.mul_(scale.view(torch.int16)).view(x.dtype)
    return kept.to(x.dtype).mul_(scale)
