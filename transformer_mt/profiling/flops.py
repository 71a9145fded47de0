"""Matrix products: how many a training step needs, and how fast this machine does them."""

import time
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.model.recurrent import RecurrentModel

# Small ones stay in cache, large ones keep wide units busy; which is faster depends on the machine.
_WIDTHS = {"cpu": (768, 2048), "cuda": (4096, 8192)}


def training_flops(
    model: EncoderDecoder, src_lengths: NDArray[np.int64], tgt_lengths: NDArray[np.int64]
) -> int:
    """Floating-point operations of the matrix products that these sentences need in training.

    A product of (n, k) and (k, m) counts 2·n·k·m. Counted are all linear layers, the output layer
    once for each target token, and the two products of each attention over all pairs of positions,
    masked or not; backward needs two products for each one of forward. Not counted: padding,
    embeddings, soft-max, norms, dropout, the optimizer, anything computed twice to save memory.

    Args:
        src_lengths, tgt_lengths: (n,) tokens of each sentence, EOS included.
    """
    src, tgt = np.asarray(src_lengths, np.int64), np.asarray(tgt_lengths, np.int64)
    read_by_decoder = _matrices(model.value_projections())  # that it applies to the source
    encoder = _matrices(model.encoder_layers) + read_by_decoder
    decoder = _matrices([*model.decoder_layers, model.output]) - read_by_decoder
    if isinstance(model, RecurrentModel):
        encoder += _matrices([model.attention.key])
        decoder += _matrices([model.attention.query, model.readout])
        pairs = src * tgt
    else:
        seen_by_target = len(model.decoder_layers) * (tgt**2 + src * tgt)
        pairs = len(model.encoder_layers) * src**2 + seen_by_target
    in_attention = 2 * model.cfg.d_model * int(pairs.sum())
    return 3 * 2 * (encoder * int(src.sum()) + decoder * int(tgt.sum()) + in_attention)


def _matrices(modules: Iterable[nn.Module]) -> int:
    """Entries of all matrices: multiplications for each token."""
    parameters = (parameter for module in modules for parameter in module.parameters())
    return sum(parameter.numel() for parameter in parameters if parameter.dim() == 2)


def peak_gflops(device: torch.device, dtype: torch.dtype) -> float:
    """The fastest square matrix product of some sizes, in 10⁹ operations per second."""
    return max(product_gflops(device, dtype, width) for width in _WIDTHS[device.type])


def product_gflops(
    device: torch.device, dtype: torch.dtype, width: int, budget_s: float = 0.1
) -> float:
    """Speed of the fastest of the matrix products that fit into the budget, at least two."""
    factor = torch.randn(width, width, device=device).to(dtype)  # a GPU is faster with ones
    times_s: list[float] = []
    while len(times_s) < 2 or sum(times_s[1:]) < budget_s:  # the first one pays for the set-up
        start = time.perf_counter()
        float((factor @ factor)[0, 0])  # reading a value waits for the device
        times_s.append(time.perf_counter() - start)
    return 2e-9 * width**3 / min(times_s)
