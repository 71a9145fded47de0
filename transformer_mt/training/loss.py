"""The output layer and its label-smoothed cross-entropy as one operation.

Comes in: hidden states, the output matrix and target ids. Goes out: sums in nats and, through
autograd, exact gradients. The logits (n, V) exist once, in the model's precision; a few rows at a
time they are turned, in fp32, into their gradient, which takes their place.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CHUNK_BYTES = 2 << 20  # of fp32 logits at a time: they stay in the cache of a core
GPU_CHUNK_BYTES = 256 << 20  # enough work for one launch


@dataclass(frozen=True)
class LossSums:
    """Sums over the non-padding tokens of a batch, in nats."""

    loss: Tensor  # scalar, smoothed; is minimised and carries the gradient
    nll: Tensor  # scalar, unsmoothed, detached: exp(nll / n_tokens) is the perplexity
    n_tokens: int


class OutputLoss:
    """Label-smoothed cross-entropy of an output layer; keeps one buffer between calls.

    The target distribution is (1 − s) on the right word plus s / V on every word.
    Source: Vaswani et al. 2017, section 5.4; Szegedy et al. 2015, section 7.
    """

    def __init__(self, smoothing: float, pad_id: int) -> None:
        self.smoothing = smoothing
        self.pad_id = pad_id
        self._workspace = torch.empty(0)

    def __call__(
        self, hidden: Tensor, weight: Tensor, tgt_out: Tensor, rows: Tensor | None = None
    ) -> LossSums:
        """
        Args:
            hidden: (B, T, D), any float dtype. weight: (V, D), the same dtype.
            tgt_out: (B, T) int64; positions equal to `pad_id` are ignored.
            rows: (n,) int64, the others, flattened; who gives them spares a GPU the counting, which
                the host would wait for.
        Raises:
            ValueError: `tgt_out` holds no real token.
        """
        if rows is None:
            rows = (tgt_out != self.pad_id).flatten().nonzero().squeeze(1)
        if not len(rows):
            raise ValueError("tgt_out contains no real token")
        hidden = hidden.flatten(0, 1).index_select(0, rows)  # (n, D)
        targets = tgt_out.flatten()[rows]
        needed = (len(rows), weight.size(0))
        if self._workspace.dtype != weight.dtype or self._workspace.numel() < needed[0] * needed[1]:
            self._workspace = weight.new_empty(needed[0] * needed[1])
        workspace = self._workspace[: needed[0] * needed[1]].view(needed)
        loss, nll = _OutputLoss.apply(hidden, weight, targets, self.smoothing, workspace)
        return LossSums(loss, nll, len(rows))


class _OutputLoss(torch.autograd.Function):
    """With z = W h, p = softmax(z), q the smoothed target: loss = −Σ q log p, ∂loss/∂z = p − q.

    The part of q that is s / V everywhere is taken out of the (n, V) work: its share of the
    gradients is s / V times the sum of the rows of W, and of h.

    `buffer` (n, V) holds, one after the other, the logits z, the probabilities p, and p − q without
    that part; a new name says that its content has changed.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, buffer: Tensor
    ) -> tuple[Tensor, Tensor]:
        n_rows, vocab_size = buffer.shape
        uniform = smoothing / vocab_size
        weight_sum = weight.sum(0, dtype=torch.float32)  # (D,)
        logits = torch.mm(hidden, weight.T, out=buffer)  # (n, V)
        target_logits = logits.gather(1, targets[:, None]).squeeze(1).float()  # (n,)
        probs, log_normaliser = _softmax_in_place(logits)
        target_log_probs = target_logits - log_normaliser
        sum_log_probs = hidden.float() @ weight_sum - vocab_size * log_normaliser
        nll = -target_log_probs.sum(dtype=torch.float64)
        loss = (1 - smoothing) * nll - uniform * sum_log_probs.sum(dtype=torch.float64)
        grad_logits, rows = probs, torch.arange(n_rows, device=probs.device)
        at_targets = target_log_probs.exp() - (1 - smoothing)
        grad_logits[rows, targets] = at_targets.to(grad_logits.dtype)
        hidden_sum = hidden.sum(0, dtype=torch.float32)  # (D,)
        grad_hidden = torch.addmm((-uniform * weight_sum).to(weight.dtype), grad_logits, weight)
        grad_weight = torch.addmm((-uniform * hidden_sum).to(weight.dtype), grad_logits.T, hidden)
        ctx.save_for_backward(grad_hidden, grad_weight)
        loss, nll = loss.float(), nll.float()
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        grad_loss, _ = grad_outputs
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad_loss, grad_weight * grad_loss, None, None, None


def _softmax_in_place(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Turn the rows of (n, V) into probabilities, computed in fp32.

    Returns:
        The same tensor, and log Σ exp of each row of logits, (n,) fp32.
    """
    n_bytes = CHUNK_BYTES if logits.device.type == "cpu" else GPU_CHUNK_BYTES
    parts = logits.split(max(1, n_bytes // (4 * logits.size(1))))
    exacts, all_probs = torch.empty(2, *parts[0].shape, device=logits.device)
    largest_logits, largest_probs = [], []
    for rows in parts:
        exact = exacts[: len(rows)].copy_(rows)
        probs = torch.softmax(exact, 1, out=all_probs[: len(rows)])
        largest_logits.append(exact.amax(1))
        largest_probs.append(probs.amax(1))
        rows.copy_(probs)
    # The largest probability is 1 / Σ exp(z − max z), and never rounded to 0.
    return logits, torch.cat(largest_logits) - torch.cat(largest_probs).log()
