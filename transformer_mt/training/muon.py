"""Muon: updates each hidden matrix by its momentum, with all singular values made nearly equal.

Comes in: the summed gradient of an update. Goes out: updated matrices. Embeddings, norms and biases
are left to Adam. Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural
networks"; for update size and weight decay Liu et al. 2025, arXiv 2502.16982, section 2.2.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from transformer_mt.system.processes.distributed import ALONE, Ranks

UPDATE_RMS = 0.4  # root mean square of an update's entries, times lr; Adam's is 0.2 to 0.4
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic that pulls singular values towards 1
_ITERATIONS = 5


def orthogonalise(matrices: Tensor) -> Tensor:
    """Nearly U Vᵀ of each matrix U Σ Vᵀ: singular values between 0.7 and 1.2, tiny ones less.

    Newton–Schulz iterations on the smaller of the two Gram matrices, in the dtype of the input.
    Args:
        matrices: (K, n, m).
    Returns: (K, n, m).
    """
    is_tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if is_tall else matrices
    x = x / (x.float().norm(dim=(1, 2), keepdim=True) + 1e-7).to(x.dtype)
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x


def momentum_at(step: int, warmup: int) -> float:
    """From 0.8 to 0.95 in `warmup` updates: early gradients are soon out of date."""
    return 0.8 + 0.15 * step / warmup if step < warmup else 0.95  # docs/lab/short-trainings.md


class _Part(NamedTuple):
    """A matrix of the model: fp32 views of its weight, gradient and momentum."""

    weight: Tensor
    gradient: Tensor
    momentum: Tensor  # moving average of gradients


class Muon:
    """Updates matrices in place; equal shapes are orthogonalised as one batch.

    Several processes divide the matrices among them and send the results to each other.
    """

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        gradients: Mapping[str, Tensor],
        momenta: Mapping[str, Tensor],
        n_stacked: Mapping[str, int],
        dtype: torch.dtype,
        ranks: Ranks = ALONE,
    ) -> None:
        """
        Args:
            weights, gradients, momenta: by parameter name; read and written at each step.
            n_stacked: number of projections stacked in each matrix, by name.
            dtype: of the matrix products.
        """
        self._ranks, self._dtype = ranks, dtype
        self._parts: dict[torch.Size, list[_Part]] = defaultdict(list)  # by shape
        for name, n_parts in n_stacked.items():
            views = (tensors[name].chunk(n_parts) for tensors in (weights, gradients, momenta))
            for part in map(_Part._make, zip(*views, strict=True)):
                self._parts[part.weight.shape].append(part)

    @torch.no_grad()
    def step(self, lr: float, momentum: float) -> None:
        """Update the momenta with the gradients, then the matrices with the momenta."""
        waits = []
        for shape, parts in self._parts.items():
            _, gradients, momenta = zip(*parts, strict=True)
            torch._foreach_lerp_(momenta, gradients, 1 - momentum)
            updates = self._own_updates(shape, parts, momentum)
            waits.append((parts, updates, self._ranks.start_sum(updates)))
        for parts, updates, wait in waits:
            wait()
            size = UPDATE_RMS * max(updates.shape[1:]) ** 0.5
            weights = [part.weight for part in parts]
            torch._foreach_add_(weights, updates.float().unbind(), alpha=-lr * size)

    def _own_updates(self, shape: torch.Size, parts: list[_Part], momentum: float) -> Tensor:
        """(K, n, m) updates; zeros for the matrices of other processes."""
        updates = torch.zeros(len(parts), *shape, dtype=self._dtype, device=parts[0].weight.device)
        own = self._ranks.share(parts)
        if own:
            # Nesterov momentum: the average after the same gradient once more.
            _, gradients, momenta = zip(*own, strict=True)
            ahead = torch.stack(torch._foreach_lerp(gradients, momenta, momentum))
            updates[self._ranks.rank :: self._ranks.size] = orthogonalise(ahead.to(self._dtype))
        return updates
