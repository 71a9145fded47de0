"""Loss and speed of a training between two lines of its log."""

import math
import time

import torch

from transformer_mt.system.processes.distributed import Ranks


class Meter:
    """Loss and speed of all processes since the last log line."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._nll, self._tokens = 0.0, 0
        self.restart_clock()

    def add(self, nll: float, n_tokens: int) -> None:
        """Add an update. Args: nll: nats, of this process. n_tokens: of all processes."""
        self._nll += nll
        self._tokens += n_tokens
        self._timed_tokens += n_tokens

    def restart_clock(self) -> None:
        """Measure the speed from now on, so that the time of a validation does not count."""
        self._timed_tokens, self._since = 0, time.monotonic()

    def take(self) -> dict[str, float]:
        """Mean loss in nats per token, perplexity and real target tokens per second."""
        nll = self._ranks.sum(torch.tensor(self._nll, dtype=torch.float64)).item()
        loss = nll / self._tokens if self._tokens else math.nan  # nan: all updates were skipped
        speed = self._timed_tokens / max(1e-9, time.monotonic() - self._since)
        self._nll, self._tokens = 0.0, 0
        self.restart_clock()
        return {"loss": loss, "ppl": math.exp(min(loss, 50)), "tgt_tokens_per_s": speed}
