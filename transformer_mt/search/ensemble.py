"""Models as the step functions that search asks for: one Transformer, or several that vote.

Comes in: padded source ids. Goes out: scores of the next tokens. This file knows no text and no
search.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from transformer_mt.model.incremental_decoder import IncrementalDecoder
from transformer_mt.search.beam_search import StepModel


class Stepper:
    """One Transformer that has read its source, as a `beam_search.StepModel`."""

    def __init__(self, decoder: IncrementalDecoder, src: Tensor) -> None:
        """Args: src: (B, S) ids, padded."""
        self._decoding = decoder.start(src)

    def step(self, tokens: Tensor) -> Tensor:
        log_probs = self._decoding.step(tokens).float()
        return torch.log_softmax(log_probs, dim=-1, out=log_probs)  # in the place of the logits

    def select_beams(self, parents: Tensor) -> None:
        self._decoding.select_beams(parents)

    def select_sentences(self, sentences: Tensor) -> None:
        self._decoding.select_sentences(sentences)


class Ensemble:
    """Several step functions over one vocabulary: the mean of their probabilities."""

    def __init__(self, members: Sequence[StepModel]) -> None:
        self._members = members

    def step(self, tokens: Tensor) -> Tensor:
        log_probs = [member.step(tokens) for member in self._members]
        return torch.stack(log_probs).logsumexp(dim=0) - math.log(len(log_probs))

    def select_beams(self, parents: Tensor) -> None:
        for member in self._members:
            member.select_beams(parents)

    def select_sentences(self, sentences: Tensor) -> None:
        for member in self._members:
            member.select_sentences(sentences)
