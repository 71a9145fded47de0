"""Random choice of the next token, for `beam_search.step_by_step_search`.

Comes in: log-probabilities. Goes out: token ids, drawn from a seeded generator of its own.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SamplingOptions:
    """How to draw tokens.
    Attributes:
        temperature: log-probabilities are divided by it; below 1 the distribution is sharper.
        top_k: only the k most probable tokens; 0: all. Source: Fan et al. 2018, section 5.
        top_p: only the smallest set of most probable tokens with this total probability.
            Source: Holtzman et al. 2020, section 3.1.
        seed: the same seed draws the same tokens for the same batch.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1


class Sampler:
    """Draws tokens. Use one for all steps of a batch: each draw advances its generator."""

    def __init__(self, sampling: SamplingOptions, device: torch.device) -> None:
        self._sampling = sampling
        self._generator = torch.Generator(device).manual_seed(sampling.seed)

    def __call__(self, log_probs: Tensor) -> Tensor:
        """(B, V) → (B,)."""
        # Tokens whose score is NaN can be drawn, so that the caller notices.
        probs = candidate_probs(log_probs, self._sampling).nan_to_num_(1.0)
        return torch.multinomial(probs, 1, generator=self._generator)[:, 0]


def candidate_probs(log_probs: Tensor, sampling: SamplingOptions) -> Tensor:
    """(B, V) log-probabilities → (B, V) probabilities to draw from, 0 for excluded tokens."""
    scaled = log_probs / sampling.temperature
    if 0 < sampling.top_k < scaled.size(1):
        smallest = scaled.topk(sampling.top_k, dim=1).values[:, -1:]
        scaled = scaled.masked_fill(scaled < smallest, -torch.inf)
    probs = scaled.softmax(dim=1)
    if sampling.top_p < 1.0:
        ordered, ids = probs.sort(dim=1, descending=True)
        before = ordered.cumsum(dim=1) - ordered  # total of the more probable tokens
        probs = probs.scatter(1, ids, ordered.masked_fill(before >= sampling.top_p, 0.0))
    return probs
