"""Parts of `architecture: modern` that replace parts of the paper's model.

Rotary positions replace the added table, SwiGLU replaces the ReLU network; RMSNorm before each
sub-layer and projections without biases go with them. This file has the parts only;
`transformer.py` decides where they are used. Shapes: see `attention.py`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RotaryPositions(nn.Module):
    """Rotates queries and keys by angles that grow with their position.

    Features 2k and 2k + 1 of a head are one complex number, which is multiplied by
    exp(i · pos · 10000^(−2k / Dh)): the frequencies of the paper's table. The dot product of a
    query and a key then depends on their positions only through their distance.
    Source: Su et al. 2021 (RoFormer), section 3.2.2, formulas 14 and 15; pairs are interleaved as
    there, which on a CPU is one complex product.
    """

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.head_width = head_width
        # Not a buffer: casting the model to bf16 would drop the imaginary parts and round the rest.
        self._turns = rotary_turns(512, head_width)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """(…, T, Dh) → the same shape; `start` is the position of the first row."""
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))  # (…, T, Dh / 2)
        turned = pairs * self._table(start + x.size(-2), x.device)[start:]
        return torch.view_as_real(turned).flatten(-2).to(x.dtype)  # (…, T, Dh)

    def _table(self, length: int, device: torch.device) -> Tensor:
        """The first `length` rows of the table, which is extended or moved when needed."""
        if length > self._turns.size(0) or self._turns.device != device:
            n_rows = max(2 * length, self._turns.size(0))
            with torch.inference_mode(False):  # autograd may use the table later
                self._turns = rotary_turns(n_rows, self.head_width).to(device)
        return self._turns[:length]


def rotary_turns(length: int, head_width: int) -> Tensor:
    """exp(i · pos · 10000^(−2k / Dh)) as (length, Dh / 2) complex64; row 0 is position 0."""
    positions = torch.arange(length, dtype=torch.float64)[:, None]
    exponents = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
    angles = positions / 10000**exponents  # (length, Dh / 2)
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)


class SwiGLU(nn.Module):
    """(swish(x W_gate) ⊙ x W_up) W_down at each position separately; swish(z) = z · sigmoid(z).

    Three matrices of 2/3 the width have as many parameters as the paper's two.
    Source: Shazeer 2020, section 2, formula 6.
    """

    def __init__(self, d_model: int, ffn: int) -> None:
        """Args: ffn: inner width of the ReLU network that this one replaces."""
        super().__init__()
        inner = gated_width(ffn)
        self.gate_proj = nn.Linear(d_model, inner, bias=False)
        self.up_proj = nn.Linear(d_model, inner, bias=False)
        self.down_proj = nn.Linear(inner, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) → (B, T, D)."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def gated_width(ffn: int) -> int:
    """Two thirds of `ffn`, to the nearest multiple of 8, at least 8."""
    return max(8, 8 * round(ffn * 2 / 3 / 8))
