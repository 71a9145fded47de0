"""A model with a vocabulary of four, the search with it, and everything that it can write."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from transformer_mt.search.beam_search import Hypothesis, LengthPenalty, SearchTask
from transformer_mt.search.loop_detection import LoopWatch
from transformer_mt.search.token_rules import TokenRules

VOCAB, BOS, EOS = 4, 0, 1
NO_PENALTY = LengthPenalty()
GNMT = LengthPenalty("gnmt", 0.6)


class ToyModel:
    """Scores that depend on the sentence and on the whole prefix, at random."""

    def __init__(self, n_sentences: int, seed: int = 0) -> None:
        self.seed = seed
        self.sentences = list(range(n_sentences))
        self.prefixes: list[list[tuple[int, ...]]] = [[()] for _ in range(n_sentences)]
        self.steps = 0

    def next_log_probs(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, sentence, *prefix)) % 2**31)
        logits = 2 * torch.randn(VOCAB, generator=generator)
        logits[BOS] = -math.inf
        return logits.log_softmax(0)

    def log_prob(self, sentence: int, ids: Sequence[int]) -> float:
        """Of tokens, the last of which may be EOS."""
        numbers = (self.next_log_probs(sentence, tuple(ids[:i]))[id_] for i, id_ in enumerate(ids))
        return float(sum(numbers))

    def step(self, tokens: Tensor) -> Tensor:
        self.steps += 1
        self.prefixes = [
            [p if token == BOS else (*p, token) for p, token in zip(beams, new, strict=True)]
            for beams, new in zip(self.prefixes, tokens.tolist(), strict=True)
        ]
        rows = [
            [self.next_log_probs(sentence, prefix) for prefix in beams]
            for sentence, beams in zip(self.sentences, self.prefixes, strict=True)
        ]
        return torch.stack([torch.stack(row) for row in rows])

    def select_beams(self, parents: Tensor) -> None:
        self.prefixes = [
            [beams[parent] for parent in new]
            for beams, new in zip(self.prefixes, parents.tolist(), strict=True)
        ]

    def select_sentences(self, sentences: Tensor) -> None:
        kept = sentences.tolist()
        self.sentences = [self.sentences[i] for i in kept]
        self.prefixes = [self.prefixes[i] for i in kept]


def toy_task(
    model: ToyModel,
    limits: Sequence[int],
    penalty: LengthPenalty = NO_PENALTY,
    loops: LoopWatch | None = None,
    **rules: Any,
) -> SearchTask:
    return SearchTask(model, limits, TokenRules(eos_id=EOS, **rules), BOS, penalty, loops)


def contains(ids: list[int], part: list[int]) -> bool:
    return any(ids[i : i + len(part)] == part for i in range(len(ids) - len(part) + 1))


def every_hypothesis(
    model: ToyModel, sentence: int, max_length: int, penalty: LengthPenalty
) -> list[Hypothesis]:
    """All that can be written within the limit, best first."""
    words = [token for token in range(VOCAB) if token not in (BOS, EOS)]
    found = []
    for length in range(1, max_length + 1):
        for body in itertools.product(words, repeat=length - 1):
            lasts = [EOS] if length < max_length else [EOS, *words]
            for last in lasts:
                ids = [*body, last]
                log_prob = model.log_prob(sentence, ids)
                complete = last == EOS
                score = log_prob / penalty(length)
                found.append(Hypothesis(ids[:-1] if complete else ids, log_prob, score, complete))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)
