"""The kernels of this folder on GPUs on which they run, elsewhere torch's operations.

Triton is imported only where it is used. Besides itself it needs a C compiler on the machine.
"""

import logging
import subprocess
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from transformer_mt.messages.catalogue import tr

_log = logging.getLogger(__name__)
_AMPERE = (8, 0)


def use_kernels(model: nn.Module, device: torch.device) -> None:
    """Let the layers of a Transformer on a GPU compute with these kernels; else say why not."""
    if reason := reason_without(device):
        _log.warning(tr("without kernels of tmt, which train faster: {}", reason))
        return
    from transformer_mt.kernels.fused import fuse

    fuse(model)


@cache
def reason_without(device: torch.device) -> str:
    """Why the kernels do not run on a GPU; empty if they do."""
    if not find_spec("triton"):
        return tr("Triton is not installed; torch for Linux brings it along")
    if torch.version.cuda is None or torch.cuda.get_device_capability(device) < _AMPERE:
        return tr("they are for NVIDIA's GPUs from Ampere on (capability 8.0)")
    try:
        from transformer_mt.kernels.softmax import softmax_

        softmax_(torch.zeros(1, 1, device=device))
    except (ImportError, OSError, RuntimeError, subprocess.CalledProcessError) as error:
        needs = tr("Triton needs a C compiler and Python's headers (gcc, python3-dev)")
        return f"{needs}: {error}"
    return ""


def softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities of the rows of (n, V) on a GPU, maybe in their memory, and log Σ exp of each
    row, (n,) fp32; both computed in fp32."""
    if reason_without(logits.device):
        return torch_softmax(logits)
    from transformer_mt.kernels.softmax import softmax_

    return logits, softmax_(logits)


def torch_softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The same in as few passes over memory as torch's kernels allow."""
    # The largest probability is 1 / Σ exp(z − max z), and never rounded to 0.
    probs = torch.softmax(logits, 1)
    return probs, logits.amax(1).float() - probs.amax(1).float().log()
