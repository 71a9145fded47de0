"""Linear layers and norms of few rows, as search calls them: what a call costs decides their time.

Comes in: modules of a trained model. Goes out: functions that compute the same. Shapes: see
`attention.py`.
"""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_mt.model.int8 import Int8Linear
from transformer_mt.model.transformer import NORM_EPS

# On a CPU, a product of few rows with a matrix takes about as long as reading the matrix, which is
# faster transposed, by MKL, or, on AMD's processors sooner, in oneDNN's layout
# (docs/lab/decoding-changes.md). In bf16 and fp16, any matrix is in the latter.
_capabilities: Callable[[], dict[str, object]] = getattr(torch.cpu, "get_capabilities", dict)
_IS_AMD = "AMD" in str(_capabilities().get("cpu_name"))
ONEDNN_MIN_ELEMENTS = 1 << (18 if _IS_AMD else 19)
FEW_ROWS = 512
ONEDNN_FOR_ROWS = 8  # in the layout for one row, each further row costs more

Function = Callable[[Tensor], Tensor]
_onednn = torch.ops.mkldnn


class Linear:
    """A linear layer with a second copy of its matrix, in the layout that few rows want."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias
        self._layout = _layout_for_few_rows(self._weight)
        self._copy: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """(N, in) → (N, out)."""
        if self._layout is None or x.size(0) > FEW_ROWS:
            return F.linear(x, self._weight, self._bias)
        if self._layout == "onednn":
            if self._copy is None:
                self._copy = _onednn._reorder_linear_weight(self._weight, ONEDNN_FOR_ROWS)
            return _onednn._linear_pointwise(x, self._copy, self._bias, "none", [], "")
        if self._copy is None:
            self._copy = self._weight.t().contiguous()
        return x @ self._copy if self._bias is None else torch.addmm(self._bias, x, self._copy)


def is_plain(module: nn.Linear) -> bool:
    """Whether it computes in fp32 on a CPU, so that its matrix may be multiplied ahead: in bf16 the
    product would lose digits."""
    in_fp32 = module.weight.dtype == torch.float32 and not isinstance(module, Int8Linear)
    return in_fp32 and module.weight.device.type == "cpu"


def linear(module: nn.Linear, dtype: torch.dtype) -> Function:
    """A linear layer, (N, in) of this dtype → (N, out) in the precision of the module; integers
    give fp32."""
    if isinstance(module, Int8Linear):
        return module.in_fp32
    layer, own = Linear(module.weight, module.bias), module.weight.dtype
    return layer if own == dtype else lambda x: layer(x.to(own))


def _layout_for_few_rows(weight: Tensor) -> Literal["onednn", "transposed"] | None:
    """The fastest that this CPU supports in this precision; None: as the matrix is."""
    if weight.device.type != "cpu":
        return None
    is_fp32, has_onednn = weight.dtype == torch.float32, torch.backends.mkldnn.is_available()
    if weight.dtype == torch.bfloat16:
        has_onednn = has_onednn and _onednn._is_mkldnn_bf16_supported()
    if weight.dtype == torch.float16:
        has_onednn = has_onednn and _onednn._is_mkldnn_fp16_supported()
    if has_onednn and not (is_fp32 and weight.numel() < ONEDNN_MIN_ELEMENTS):
        return "onednn"
    return "transposed" if is_fp32 else None


def norm(module: nn.Module, dtype: torch.dtype) -> Function:
    """A norm of rows of this dtype without the calls of its module, which take as long as the norm
    of few numbers."""
    if isinstance(module, nn.Identity):
        return module
    assert isinstance(module, nn.LayerNorm | nn.RMSNorm)
    shape, weight = module.normalized_shape, module.weight.to(dtype)
    if isinstance(module, nn.RMSNorm):
        return lambda x: torch.rms_norm(x, shape, weight, NORM_EPS)
    bias = module.bias.to(dtype)
    return lambda x: torch.layer_norm(x, shape, weight, bias, NORM_EPS)
