"""Rules for hypotheses: forbidden tokens, forced prefixes, no repetition, a minimum length.

Comes in: scores of next tokens, and the tokens so far. Goes out: the same scores, forbidden tokens
at −∞. This file knows ids and torch: no text, no Transformer, no search.

Shapes: `B` sentences still searched · `K` beam · `V` vocabulary · `t` tokens written so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

FORBIDDEN = -torch.inf


@dataclass(frozen=True)
class TokenRules:
    """The rules of one batch.
    Attributes:
        eos_id: ends a hypothesis; only `min_length` and a prefix forbid it.
        never: ids that no hypothesis contains.
        banned: sequences of ids that no hypothesis contains.
        prefixes: per sentence, the ids that every hypothesis begins with; empty: none.
        min_length: fewest tokens before EOS, unless all other tokens are forbidden.
        no_repeat_ngram: n; no n-gram occurs twice; 0: off.
        repetition_penalty: factor on the log-probability of tokens written before, from 1.
            Source: Keskar et al. 2019 (CTRL), section 4.1, on log-probabilities.
    """

    eos_id: int
    never: Sequence[int] = ()
    banned: Sequence[Sequence[int]] = ()
    prefixes: Sequence[Sequence[int]] = ()
    min_length: int = 0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0

    def apply(self, log_probs: Tensor, history: Tensor, sentences: Sequence[int]) -> None:
        """Change `log_probs` in place; they are not normalised again.

        Args:
            log_probs: (B, K, V).
            history: (B, K, t) int64, without BOS.
            sentences: index in `prefixes` of each row.
        """
        forced = self._forced(log_probs, history.size(2), sentences)
        if self.repetition_penalty != 1.0 and history.size(2):
            written = log_probs.gather(2, history)
            log_probs.scatter_(2, history, written * self.repetition_penalty)
        eos = log_probs[..., self.eos_id].clone()
        if self.no_repeat_ngram and history.size(2) >= self.no_repeat_ngram:
            self._forbid_repeated(log_probs, history)
        for sequence in self.banned:
            *start, last = sequence
            log_probs[..., last].masked_fill_(_ends_with(history, start), FORBIDDEN)
        log_probs.index_fill_(2, self._never.to(log_probs.device), FORBIDDEN)
        too_short = history.size(2) < self.min_length
        log_probs[..., self.eos_id] = FORBIDDEN if too_short else eos
        n_forbidden = len(self.never) + len(self.banned) + history.size(2)  # at most
        if too_short and n_forbidden >= log_probs.size(2) // 2:
            stuck = (log_probs == FORBIDDEN).all(-1)  # no other token is allowed
            log_probs[..., self.eos_id] = torch.where(stuck, eos, FORBIDDEN)
        for row, token, values in forced:
            log_probs[row] = FORBIDDEN
            log_probs[row, :, token] = values

    @cached_property
    def _never(self) -> Tensor:
        return torch.tensor(self.never, dtype=torch.int64)

    def _forced(
        self, log_probs: Tensor, step: int, sentences: Sequence[int]
    ) -> list[tuple[int, int, Tensor]]:
        """For rows within their prefix: (row, its next token, the scores of the token, (K,))."""
        if not self.prefixes:
            return []
        prefixes = [(row, self.prefixes[sentence]) for row, sentence in enumerate(sentences)]
        within = [(row, prefix[step]) for row, prefix in prefixes if step < len(prefix)]
        return [(row, token, log_probs[row, :, token].clone()) for row, token in within]

    def _forbid_repeated(self, log_probs: Tensor, history: Tensor) -> None:
        n = self.no_repeat_ngram
        ngrams = history.unfold(2, n, 1)  # (B, K, t − n + 1, n)
        newest = history[:, :, None, history.size(2) - n + 1 :]  # (B, K, 1, n − 1)
        again = (ngrams[..., :-1] == newest).all(-1)  # the first n − 1 are also the newest tokens
        rows, beams, places = again.nonzero(as_tuple=True)
        log_probs[rows, beams, ngrams[rows, beams, places, -1]] = FORBIDDEN


def _ends_with(history: Tensor, start: Sequence[int]) -> Tensor:
    """(B, K, t) → (B, K) bool: whether the newest tokens are `start`."""
    if len(start) > history.size(2):
        return torch.zeros(history.shape[:2], dtype=torch.bool, device=history.device)
    newest = history[:, :, history.size(2) - len(start) :]
    return (newest == torch.tensor(start, device=history.device, dtype=history.dtype)).all(-1)
