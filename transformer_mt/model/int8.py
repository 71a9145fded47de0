"""Linear layers with 8-bit integer products, for search on a CPU.

Comes in: a trained model. Goes out: the same model with its large linear layers quantised; the
weights and all other layers stay as they are. Training does not know this file. Shapes: see
`attention.py`.
"""

import torch
from torch import Tensor, nn

# For smaller matrices, quantising the activations takes as long as the integer product saves
# (docs/lab/engines.md).
MIN_ELEMENTS = 1 << 18
LARGEST = 127  # symmetric: −127 … 127
ZERO = 128  # zero point: VNNI multiplies unsigned activations by signed weights


class Int8Linear(nn.Linear):
    """x Wᵀ + b as (round(x / s) · round(W / t)ᵀ) · s · t + b, with a scale for each row.

    The largest absolute value of a row becomes 127. Rows are independent: the result for a sentence
    does not depend on the others of its batch.
    """

    def __init__(self, linear: nn.Linear) -> None:
        """Args: linear: its parameters are shared, and must not change afterwards."""
        n_in, n_out = linear.in_features, linear.out_features
        super().__init__(n_in, n_out, bias=False, device="meta")  # no memory
        self.weight, self.bias = linear.weight, linear.bias
        weight = linear.weight.detach().float()
        scales = _scales(weight)
        integers = (weight / scales).round_().to(torch.int8)
        self._packed = torch.ops.onednn.qlinear_prepack(integers, None)
        self._scales, self._zeros = scales[:, 0], torch.zeros(n_out, dtype=torch.int64)
        self._bias = None if linear.bias is None else linear.bias.detach().float()

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) → (…, out), in the dtype of x."""
        return self.in_fp32(x.flatten(0, -2)).to(x.dtype).view(*x.shape[:-1], -1)

    def in_fp32(self, x: Tensor) -> Tensor:
        """(N, in) → (N, out) fp32."""
        x = x.float()
        scales = _scales(x)  # (N, 1)
        # Via int8: torch's conversion from float to uint8 is not vectorised.
        integers = (x / scales).round_().to(torch.int8).view(torch.uint8).bitwise_xor_(ZERO)
        y: Tensor = torch.ops.onednn.qlinear_pointwise(
            integers, 1.0, ZERO, self._packed, self._scales, self._zeros,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        y *= scales
        return y if self._bias is None else y.add_(self._bias)


def _scales(x: Tensor) -> Tensor:
    """(N, any) fp32 → (N, 1): the quantisation step of each row; never 0, even for zeros."""
    return x.abs().amax(1, keepdim=True).clamp_(min=torch.finfo(x.dtype).tiny * 128).div_(LARGEST)


def use_int8(model: nn.Module) -> None:
    """Replace the large linear layers of a model, in eval mode on a CPU, by `Int8Linear`."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and child.weight.numel() >= MIN_ELEMENTS:
                setattr(parent, name, Int8Linear(child))


def has_int8(model: nn.Module) -> bool:
    return any(isinstance(module, Int8Linear) for module in model.modules())
