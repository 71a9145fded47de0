"""Beam search for hypotheses that contain given sequences of tokens.

Comes in: a step function, and per sentence the sequences that must occur. Goes out: hypotheses with
scores. This file knows ids and torch: no text, no Transformer.

The beam is divided into banks, one for each number of required tokens written so far, so that
prefixes which write a required word early and improbably need not compete with those that put it
off. Source: Post and Vilar 2018, sections 3 and 4 (dynamic beam allocation).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer_mt.inference.search import (
    Hypothesis,
    LengthPenalty,
    StepModel,
    best_continuations,
    is_settled,
)
from transformer_mt.inference.token_rules import TokenRules

Phrases = Sequence[Sequence[int]]


@dataclass(frozen=True)
class _Prefix:
    """What one beam has written."""

    ids: tuple[int, ...]
    log_prob: float
    met: frozenset[int]  # indices of the phrases that it contains
    parent: int = 0  # beam of the step before that it continues

    def continued(self, token: int, log_prob: float, phrases: Phrases, parent: int) -> "_Prefix":
        ids = (*self.ids, token)
        ended = (i for i, phrase in enumerate(phrases) if ids[-len(phrase) :] == tuple(phrase))
        return _Prefix(ids, log_prob, self.met.union(ended), parent)

    def coverage(self, phrases: Phrases) -> int:
        """Required tokens written: of whole phrases, and of the one that may be under way."""
        under_way = (self.begun(phrase) for phrase in self._unmet(phrases))
        return sum(len(phrases[i]) for i in self.met) + max(under_way, default=0)

    def wanted(self, phrases: Phrases) -> set[int]:
        """Tokens that would begin a missing phrase or go on with it."""
        starts = {phrase[0] for phrase in self._unmet(phrases)}
        return starts | {phrase[self.begun(phrase)] for phrase in self._unmet(phrases)}

    def begun(self, phrase: Sequence[int]) -> int:
        """The longest proper beginning of a phrase that stands at the end."""
        lengths = range(min(len(phrase) - 1, len(self.ids)), 0, -1)
        return next((n for n in lengths if self.ids[-n:] == tuple(phrase[:n])), 0)

    def _unmet(self, phrases: Phrases) -> list[Sequence[int]]:
        return [phrase for i, phrase in enumerate(phrases) if i not in self.met]


_DEAD = _Prefix((), -torch.inf, frozenset())


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
    rows = [[_Prefix((), 0.0, frozenset())] for _ in sentences]
    tokens = torch.full((len(sentences), 1), bos_id, device=device)
    while sentences:
        found = _continuations(model, tokens, rows, rules, sentences, required, beam)
        next_rows, stay = [], []
        for row, sentence in enumerate(sentences):
            phrases, limit = required[sentence], max_lengths[sentence]
            live, ended = _step(found[row], phrases, beam, rules.eos_id, penalty)
            best = finished[sentence] = sorted(finished[sentence] + ended, key=lambda h: -h.score)
            if live and len(live[0].ids) >= limit:
                best += _cut(live, phrases, penalty) if len(best) < n_best else []
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
    required: Sequence[Phrases],
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
    found: list[_Prefix], phrases: Phrases, beam: int, eos_id: int, penalty: LengthPenalty
) -> tuple[list[_Prefix], list[Hypothesis]]:
    """Sort out what ended and choose the next beam.

    Returns:
        Up to `beam` live prefixes; ended hypotheses, all of which have every phrase.
    """
    found.sort(key=lambda prefix: -prefix.log_prob)
    ended = [
        Hypothesis(list(p.ids[:-1]), p.log_prob, p.log_prob / penalty(len(p.ids)), True)
        for p in found
        if p.ids[-1] == eos_id and len(p.met) == len(phrases)
    ]
    return _allocate([p for p in found if p.ids[-1] != eos_id], phrases, beam), ended


def _allocate(live: list[_Prefix], phrases: Phrases, beam: int) -> list[_Prefix]:
    """An equal share of the beam for each bank, and what banks leave unused for the best others.

    Args:
        live: best first.
    """
    n_banks = sum(map(len, phrases)) + 1
    room = dict.fromkeys(range(n_banks), beam // n_banks)
    room[n_banks - 1] += beam % n_banks
    chosen: list[_Prefix] = []
    others: list[_Prefix] = []
    for prefix in live:
        bank = prefix.coverage(phrases)
        (chosen if room[bank] > 0 else others).append(prefix)
        room[bank] -= 1
    return sorted(chosen + others[: beam - len(chosen)], key=lambda prefix: -prefix.log_prob)


def _cut(live: list[_Prefix], phrases: Phrases, penalty: LengthPenalty) -> list[Hypothesis]:
    """What stands at the length limit, those with most of the phrases first."""
    order = sorted(live, key=lambda p: (-len(p.met), -p.coverage(phrases), -p.log_prob))
    return [
        Hypothesis(list(p.ids), p.log_prob, p.log_prob / penalty(len(p.ids)), False) for p in order
    ]
