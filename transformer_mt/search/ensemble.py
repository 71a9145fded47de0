"""One model, or an ensemble of several, as the step function of search."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from transformer_mt.model.architectures import StepDecoder


class Stepper:
    """A `beam_search.StepModel`: the mean probabilities of models that have encoded the source.

    Args:
        decoders: of models with the same two vocabularies.
        src: (B, S) ids, padded.
    """

    def __init__(self, decoders: Sequence[StepDecoder], src: Tensor) -> None:
        self._decodings = [decoder.start(src) for decoder in decoders]

    def step(self, tokens: Tensor) -> Tensor:
        logits = [decoding.step(tokens).float() for decoding in self._decodings]
        log_probs = [torch.log_softmax(x, dim=-1, out=x) for x in logits]  # in place
        if len(log_probs) == 1:
            return log_probs[0]
        return torch.stack(log_probs).logsumexp(dim=0) - math.log(len(log_probs))

    def select_beams(self, parents: Tensor) -> None:
        for decoding in self._decodings:
            decoding.select_beams(parents)

    def select_sentences(self, sentences: Tensor) -> None:
        for decoding in self._decodings:
            decoding.select_sentences(sentences)
