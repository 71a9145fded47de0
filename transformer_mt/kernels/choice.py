"""The kernels of this folder where they run: on a GPU, if Triton came with torch, as on Linux.

Elsewhere torch's own. Triton is imported only where it is used.
"""

from importlib.util import find_spec

import torch
from torch import Tensor, nn


def use_kernels(model: nn.Module) -> None:
    """Let the layers of a Transformer on a GPU compute with the kernels of this folder."""
    if find_spec("triton"):
        from transformer_mt.kernels.fused import fuse

        fuse(model)


def softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities of the rows of (n, V) on a GPU, maybe in their memory, and log Σ exp of each
    row, (n,) fp32; both computed in fp32."""
    if find_spec("triton"):
        from transformer_mt.kernels.softmax import softmax_

        return logits, softmax_(logits)
    return torch_softmax(logits)


def torch_softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The same in as few passes over memory as torch's kernels allow."""
    # The largest probability is 1 / Σ exp(z − max z), and never rounded to 0.
    probs = torch.softmax(logits, 1)
    return probs, logits.amax(1).float() - probs.amax(1).float().log()
