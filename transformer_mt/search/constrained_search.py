"""Beam search for hypotheses that contain given sequences of tokens.

Comes in: a step function, and per sentence the sequences that must occur. Goes out: hypotheses with
scores. This file knows ids and torch: no text, no Transformer.

The beam is divided into banks, one for each number of required tokens written so far, so that
prefixes which write a required word early and improbably need not compete with those that put it
off. Source: Post and Vilar 2018, sections 3 and 4 (dynamic beam allocation).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer_mt.search.beam_search import (
    Hypothesis,
    LengthPenalty,
    StepModel,
    best_continuations,
    is_settled,
)
from transformer_mt.search.token_rules import TokenRules

Phrases = Sequence[Sequence[int]]


@dataclass(frozen=True)
class _Prefix:
    """What one beam has written."""

    ids: tuple[int, ...]
    log_prob: float
    begun: Mapping[int, int]  # by missing phrase: its longest proper beginning that stands last
    n_met: int = 0  # tokens of the phrases that it contains
    parent: int = 0  # beam of the step before that it continues

    def continued(
        self, token: int, log_prob: float, phrases: Sequence["_Phrase"], parent: int
    ) -> "_Prefix":
        begun, n_met = {}, self.n_met
        for index, n in self.begun.items():
            phrase = phrases[index]
            n = phrase.after(n, token)
            if n == len(phrase.ids):
                n_met += n
            else:
                begun[index] = n
        return _Prefix((*self.ids, token), log_prob, begun, n_met, parent)

    def coverage(self) -> int:
        """Required tokens written: of whole phrases, and of the one that may be under way."""
        return self.n_met + max(self.begun.values(), default=0)

    def wanted(self, phrases: Sequence["_Phrase"]) -> set[int]:
        """Tokens that would begin a missing phrase or go on with it."""
        starts = {phrases[index].ids[0] for index in self.begun}
        return starts | {phrases[index].ids[n] for index, n in self.begun.items()}


@dataclass(frozen=True)
class _Phrase:
    """A sequence that must occur, and how to look for it token by token.

    Source: Knuth, Morris and Pratt 1977.
    Attributes:
        borders: for each n the longest beginning shorter than n that the first n tokens end with.
    """

    ids: Sequence[int]
    borders: Sequence[int]

    @classmethod
    def of(cls, ids: Sequence[int]) -> "_Phrase":
        borders = [0, 0]
        for token in ids[1:]:
            n = borders[-1]
            while n and ids[n] != token:
                n = borders[n]
            borders.append(n + 1 if ids[n] == token else 0)
        return cls(ids, borders)

    def after(self, n: int, token: int) -> int:
        """How many tokens of the phrase stand last, if it were `n` before one more token."""
        while n and self.ids[n] != token:
            n = self.borders[n]
        return n + 1 if self.ids[n] == token else 0


_DEAD = _Prefix((), -torch.inf, {})


def constrained_beam_search(
    model: StepModel,
    max_lengths: Sequence[int],
    rules: TokenRules,
    *,
    required: Sequence[Phrases],
    beam: int,
    bos_id: int,
    penalty: LengthPenalty,
    n_best: int = 1,
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses that contain every phrase of their sentence as consecutive tokens.

    Args:
        max_lengths: per sentence, the most tokens to produce, EOS included; at least 1.
        required: per sentence, phrases of at least one token.
        beam: with fewer than the required tokens + 1 some banks stay empty.
    Returns:
        Per sentence up to `n_best`, best first. Where no hypothesis with all phrases fits into the
        limit: those with most of them, not complete.
    """
    finished: list[list[Hypothesis]] = [[] for _ in max_lengths]
    sentences = list(range(len(max_lengths)))
    phrases_of = [[_Phrase.of(ids) for ids in phrases] for phrases in required]
    rows = [[_Prefix((), 0.0, dict.fromkeys(range(len(own)), 0))] for own in phrases_of]
    tokens = torch.full((len(sentences), 1), bos_id, device=device)
    while sentences:
        found = _continuations(model, tokens, rows, rules, sentences, phrases_of, beam)
        next_rows, stay = [], []
        for row, sentence in enumerate(sentences):
            limit, n_required = max_lengths[sentence], sum(map(len, required[sentence]))
            live, ended = _step(found[row], n_required, beam, rules.eos_id, penalty)
            best = finished[sentence] = sorted(finished[sentence] + ended, key=lambda h: -h.score)
            if live and len(live[0].ids) >= limit:
                best += _cut(live, penalty) if len(best) < n_best else []
                continue
            possible = max((p.log_prob for p in live), default=-torch.inf) / penalty(limit)
            if len(best) < beam and not is_settled(best, possible, n_best):
                stay.append(row)
                next_rows.append(live + [_DEAD] * (beam - len(live)))
        if len(stay) < len(sentences):
            sentences = [sentences[row] for row in stay]
            if sentences:
                model.select_sentences(torch.tensor(stay, device=device))
        rows = next_rows
        if rows:
            parents = [[prefix.parent for prefix in row] for row in rows]
            model.select_beams(torch.tensor(parents, device=device))
            newest = [[prefix.ids[-1] if prefix.ids else bos_id for prefix in row] for row in rows]
            tokens = torch.tensor(newest, device=device)
    return [hypotheses[:n_best] for hypotheses in finished]


def _continuations(
    model: StepModel,
    tokens: Tensor,
    rows: list[list[_Prefix]],
    rules: TokenRules,
    sentences: list[int],
    required: Sequence[Sequence[_Phrase]],
    beam: int,
) -> list[list[_Prefix]]:
    """Per sentence: the best prefixes one token longer, and all that come closer to a phrase."""
    log_probs = model.step(tokens)
    length = max(len(prefix.ids) for prefix in rows[0])
    ids = [[prefix.ids or (0,) * length for prefix in row] for row in rows]
    history = torch.tensor(ids, device=tokens.device).view(*tokens.shape, length)
    rules.apply(log_probs, history, sentences)
    scores = torch.tensor([[p.log_prob for p in row] for row in rows], device=tokens.device)
    best = best_continuations(scores, log_probs, 2 * beam)
    # Each beam may go on and, if that is nearly as good, end, however improbable it is.
    own_best = log_probs.topk(2, dim=-1).indices.tolist()
    found = []
    for row, sentence in enumerate(sentences):
        phrases = required[sentence]
        places = set(zip(best.parents[row].tolist(), best.tokens[row].tolist(), strict=True))
        for parent, prefix in enumerate(rows[row]):
            places |= {(parent, token) for token in prefix.wanted(phrases)}
            places |= {(parent, token) for token in own_best[row][parent]}
        parents, words = map(list, zip(*sorted(places), strict=True))
        totals = (scores[row, parents] + log_probs[row, parents, words]).tolist()
        found.append(
            [
                rows[row][parent].continued(token, total, phrases, parent)
                for parent, token, total in zip(parents, words, totals, strict=True)
                if total > -torch.inf
            ]
        )
    return found


def _step(
    found: list[_Prefix], n_required: int, beam: int, eos_id: int, penalty: LengthPenalty
) -> tuple[list[_Prefix], list[Hypothesis]]:
    """Sort out what ended and choose the next beam.

    Returns:
        Up to `beam` live prefixes; ended hypotheses, all of which have every phrase.
    """
    found.sort(key=lambda prefix: -prefix.log_prob)
    ended = [
        Hypothesis(list(p.ids[:-1]), p.log_prob, p.log_prob / penalty(len(p.ids)), True)
        for p in found
        if p.ids[-1] == eos_id and not p.begun
    ]
    return _allocate([p for p in found if p.ids[-1] != eos_id], n_required, beam), ended


def _allocate(live: list[_Prefix], n_required: int, beam: int) -> list[_Prefix]:
    """An equal share of the beam for each bank, and what banks leave unused for the best others.

    Args:
        live: best first.
    """
    n_banks = n_required + 1
    room = dict.fromkeys(range(n_banks), beam // n_banks)
    room[n_banks - 1] += beam % n_banks
    chosen: list[_Prefix] = []
    others: list[_Prefix] = []
    for prefix in live:
        bank = prefix.coverage()
        (chosen if room[bank] > 0 else others).append(prefix)
        room[bank] -= 1
    return sorted(chosen + others[: beam - len(chosen)], key=lambda prefix: -prefix.log_prob)


def _cut(live: list[_Prefix], penalty: LengthPenalty) -> list[Hypothesis]:
    """What stands at the length limit, those with most of the phrases first."""
    order = sorted(live, key=lambda p: (len(p.begun), -p.coverage(), -p.log_prob))
    return [
        Hypothesis(list(p.ids), p.log_prob, p.log_prob / penalty(len(p.ids)), False) for p in order
    ]
