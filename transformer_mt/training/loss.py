"""The output layer and its label-smoothed cross-entropy as one operation.

Comes in: hidden states, the output matrix and target ids. Goes out: sums in nats and, through
autograd, their gradients. On a CPU one buffer (n, V) in the model's precision holds the logits and
then their gradient, which is computed in fp32, a few rows at a time.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transformer_mt.kernels.choice import softmax

CHUNK_BYTES = 2 << 20  # of fp32 logits at a time: they stay in the cache of a core


@dataclass(frozen=True)
class LossSums:
    """Sums over the non-padding tokens of a batch, in nats."""

    loss: Tensor  # scalar, smoothed; is minimised and carries the gradient
    nll: Tensor  # scalar, unsmoothed, detached: exp(nll / n) is the perplexity of n tokens


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
        """The loss of a batch.
        Args:
            hidden: (B, T, D), any float dtype. weight: (V, D), the same dtype.
            tgt_out: (B, T) int64; positions equal to `pad_id` are ignored.
            rows: (n,) int64, flat positions without padding. None: the output layer computes all
                positions, so that the operations depend on shapes alone.
        """
        hidden, targets = hidden.flatten(0, 1), tgt_out.flatten()
        if rows is None:
            real = targets != self.pad_id
            hidden = hidden.masked_fill(~real[:, None], 0)
        else:
            hidden, targets, real = hidden.index_select(0, rows), targets[rows], None
        buffer = self._buffer(len(targets), weight)
        return LossSums(*_OutputLoss.apply(hidden, weight, targets, real, self.smoothing, buffer))

    def _buffer(self, n_rows: int, weight: Tensor) -> Tensor:
        """(n, V), on a CPU in the memory of earlier calls: new memory would cost page faults."""
        needed = n_rows * weight.size(0)
        if weight.device.type != "cpu":
            return weight.new_empty(n_rows, weight.size(0))
        if self._workspace.dtype != weight.dtype or self._workspace.numel() < needed:
            self._workspace = weight.new_empty(needed)
        return self._workspace[:needed].view(n_rows, -1)


class _OutputLoss(torch.autograd.Function):
    """With z = W h, p = softmax(z), q the smoothed target: loss = −Σ q log p, ∂loss/∂z = p − q.

    The uniform part of q, s / V, is kept out of the (n, V) work: its share of the gradients is
    s / V times the sum of the rows of W, or of h.

    On a CPU `buffer` (n, V) holds first the logits z, then the probabilities p, then p − q without
    the uniform part; each content has its own variable. On a GPU the buffer holds z only.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, real: Tensor | None,
        smoothing: float, buffer: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        n_rows, vocab_size = buffer.shape
        uniform = smoothing / vocab_size
        weight_sum = weight.sum(0, dtype=torch.float32)  # (D,)
        logits = torch.mm(hidden, weight.T, out=buffer)  # (n, V)
        target_logits = logits.gather(1, targets[:, None]).squeeze(1).float()  # (n,)
        probs, log_normaliser = _softmax(logits)
        target_log_probs = target_logits - log_normaliser
        sum_log_probs = hidden.float() @ weight_sum - vocab_size * log_normaliser
        if real is not None:
            target_log_probs, sum_log_probs = target_log_probs * real, sum_log_probs * real
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
        return grad_hidden * grad_loss, grad_weight * grad_loss, None, None, None, None


def _softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Turn the rows of (n, V) into probabilities, computed in fp32.

    Returns:
        Probabilities, (n, V) in the dtype of `logits` and on a CPU in their memory, and
        log Σ exp of each row of logits, (n,) fp32.
    """
    if logits.device.type != "cpu":
        return softmax(logits)
    # The largest probability is 1 / Σ exp(z − max z), and never rounded to 0.
    parts = logits.split(max(1, CHUNK_BYTES // (4 * logits.size(1))))
    exacts, all_probs = torch.empty(2, *parts[0].shape)
    largest_logits, largest_probs = [], []
    for rows in parts:
        exact = exacts[: len(rows)].copy_(rows)
        probs = torch.softmax(exact, 1, out=all_probs[: len(rows)])
        largest_logits.append(exact.amax(1))
        largest_probs.append(probs.amax(1))
        rows.copy_(probs)
    return logits, torch.cat(largest_logits) - torch.cat(largest_probs).log()
