"""Beam search for hypotheses that contain given sequences of tokens.

Comes in: a step function, and per sentence the sequences that must occur. Goes out: hypotheses with
scores. This file knows ids and torch: no text, no Transformer.

The beam is divided into banks, one for each number of required tokens written so far, so that a
prefix with an improbable required word need not compete with prefixes that have postponed the
word. Source: Post and Vilar 2018, sections 3 and 4 (dynamic beam allocation).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from transformer_mt.search.beam_search import Hypothesis, SearchTask, best_continuations, is_settled

Phrase = Sequence[int]  # tokens that must occur consecutively


@dataclass(frozen=True)
class _Prefix:
    """The prefix of one beam."""

    ids: tuple[int, ...]
    log_prob: float
    begun: Mapping[int, int]  # missing phrase → number of its first tokens that end `ids`
    n_met: int = 0  # tokens of the phrases that are complete
    parent: int = 0  # the beam of the last step that it continues

    def continued(
        self, token: int, log_prob: float, phrases: Sequence[Phrase], parent: int
    ) -> "_Prefix":
        begun = {i: tokens_begun(phrases[i], n, token) for i, n in self.begun.items()}
        met = [i for i, n in begun.items() if n == len(phrases[i])]
        n_met = self.n_met + sum(begun.pop(i) for i in met)
        return _Prefix((*self.ids, token), log_prob, begun, n_met, parent)

    def coverage(self) -> int:
        """Required tokens written: those of complete phrases, and of the longest begun phrase."""
        return self.n_met + max(self.begun.values(), default=0)

    def wanted(self, phrases: Sequence[Phrase]) -> set[int]:
        """Tokens that would begin or continue a missing phrase."""
        return {phrases[i][at] for i, n in self.begun.items() for at in (0, n)}


def tokens_begun(phrase: Phrase, n: int, token: int) -> int:
    """How many first tokens of a phrase end a prefix with `token`, if `n` did before it."""
    last = [*phrase[:n], token]
    return max(k for k in range(n + 2) if last[n + 1 - k :] == [*phrase[:k]])


_DEAD = _Prefix((), -torch.inf, {})


def constrained_beam_search(
    task: SearchTask,
    *,
    required: Sequence[Sequence[Phrase]],
    beam: int,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """The best hypotheses that contain every phrase of their sentence as consecutive tokens.

    Args:
        required: per sentence, phrases of at least one token.
        beam: with fewer than the required tokens + 1 some banks stay empty.
    Returns:
        Per sentence up to `n_best`, best first. If no hypothesis with all phrases fits into the
        limit: incomplete ones with the most phrases.
    """
    sentences = [
        _Sentence(number, limit, phrases, [_Prefix((), 0.0, dict.fromkeys(range(len(phrases)), 0))])
        for number, (limit, phrases) in enumerate(zip(task.max_lengths, required, strict=True))
    ]
    rows = list(sentences)  # sentences still searched
    tokens = torch.full((len(rows), 1), task.bos_id, device=task.device)
    while rows:
        is_open = [
            sentence.step(found, task, beam, n_best)
            for sentence, found in zip(rows, _continuations(task, tokens, rows, beam), strict=True)
        ]
        stay = [row for row, open_ in enumerate(is_open) if open_]
        if stay and len(stay) < len(rows):
            task.model.select_sentences(torch.tensor(stay, device=task.device))
        rows = [rows[row] for row in stay]
        if rows:
            parents = [[prefix.parent for prefix in sentence.beams] for sentence in rows]
            task.model.select_beams(torch.tensor(parents, device=task.device))
            newest = [[p.ids[-1] if p.ids else task.bos_id for p in s.beams] for s in rows]
            tokens = torch.tensor(newest, device=task.device)
    return [sentence.finished[:n_best] for sentence in sentences]


@dataclass
class _Sentence:
    """The search for one sentence."""

    number: int  # of the sentence in the batch
    limit: int  # the most tokens to produce, EOS included
    phrases: Sequence[Phrase]
    beams: list[_Prefix]  # K, best first, then dead ones
    finished: list[Hypothesis] = field(default_factory=list)  # best first

    def step(self, found: list[_Prefix], task: SearchTask, beam: int, n_best: int) -> bool:
        """Collect ended hypotheses and choose the next beams; whether the search continues.

        Args:
            found: continuations of `beams`.
        """
        found.sort(key=lambda prefix: -prefix.log_prob)
        eos_id = task.rules.eos_id
        live = self._allocate([p for p in found if p.ids[-1] != eos_id], beam)
        ended = [p for p in found if p.ids[-1] == eos_id and not p.begun]
        self.finished += [task.hypothesis([*p.ids], p.log_prob) for p in ended]
        self.finished.sort(key=lambda hypothesis: -hypothesis.score)
        if live and len(live[0].ids) >= self.limit:
            if len(self.finished) < n_best:
                live.sort(key=lambda p: (len(p.begun), -p.coverage(), -p.log_prob))
                self.finished += [task.hypothesis([*p.ids], p.log_prob) for p in live]
            return False
        self.beams = live + [_DEAD] * (beam - len(live))
        possible = self.beams[0].log_prob / task.penalty(self.limit)
        return not is_settled(self.finished, possible, n_best)

    def _allocate(self, live: list[_Prefix], beam: int) -> list[_Prefix]:
        """An equal share of the beam for each bank; unused places go to the best other prefixes.

        Args:
            live: best first.
        """
        n_banks = 1 + sum(map(len, self.phrases))
        room = dict.fromkeys(range(n_banks), beam // n_banks)
        room[n_banks - 1] += beam % n_banks
        chosen: list[_Prefix] = []
        others: list[_Prefix] = []
        for prefix in live:
            bank = prefix.coverage()
            (chosen if room[bank] > 0 else others).append(prefix)
            room[bank] -= 1
        return sorted(chosen + others[: beam - len(chosen)], key=lambda prefix: -prefix.log_prob)


def _continuations(
    task: SearchTask, tokens: Tensor, rows: list[_Sentence], beam: int
) -> Iterator[list[_Prefix]]:
    """Per sentence: the best prefixes one token longer, and all that begin or continue a phrase.

    Args:
        tokens: (B, K), the newest of each prefix.
    """
    log_probs = task.model.step(tokens)  # (B, K, V)
    length = max(len(prefix.ids) for prefix in rows[0].beams)
    ids = [[prefix.ids or (0,) * length for prefix in row.beams] for row in rows]
    history = torch.tensor(ids, device=tokens.device).view(*tokens.shape, length)
    task.rules.apply(log_probs, history, [row.number for row in rows])
    scores = torch.tensor([[p.log_prob for p in row.beams] for row in rows], device=tokens.device)
    best = best_continuations(scores, log_probs, 2 * beam)
    # The two best tokens of each beam: every beam may continue and, if EOS is one of them, end.
    own_best = log_probs.topk(2, dim=-1).indices.tolist()
    for row, sentence in enumerate(rows):
        places = set(zip(best.parents[row].tolist(), best.tokens[row].tolist(), strict=True))
        for parent, prefix in enumerate(sentence.beams):
            wanted = prefix.wanted(sentence.phrases).union(own_best[row][parent])
            places |= {(parent, token) for token in wanted}
        parents, words = zip(*sorted(places), strict=True)
        totals = scores[row, list(parents)] + log_probs[row, list(parents), list(words)]
        yield [
            sentence.beams[parent].continued(token, log_prob, sentence.phrases, parent)
            for parent, token, log_prob in zip(parents, words, totals.tolist(), strict=True)
            if log_prob > -torch.inf
        ]
