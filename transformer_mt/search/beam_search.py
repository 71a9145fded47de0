"""Greedy search, sampling and beam search over a step function.

Comes in: a step function, newest tokens → log-probabilities of the next, and length limits.
Goes out: token ids with scores. This file knows ids and torch: no text, no Transformer.

Shapes: `B` sentences still searched · `K` beam · `V` vocabulary · `t` tokens written so far.
"""

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from transformer_mt.search.loop_detection import LoopWatch
from transformer_mt.search.token_rules import TokenRules


class StepModel(Protocol):
    """The step function: decodes one position of all beams, and selects beams and sentences."""

    def step(self, tokens: Tensor) -> Tensor:
        """(B, K) newest ids → (B, K, V) log-probabilities, fp32, which the caller may overwrite."""

    def select_beams(self, parents: Tensor) -> None:
        """Reorder: beam k continues the old beam `parents[:, k]`, (B, K) int64; K may change."""

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep only the sentences with these indices, (B',) int64, ascending."""


@dataclass(frozen=True)
class LengthPenalty:
    """The divisor of log-probabilities, which takes away the advantage of short hypotheses.

    gnmt: ((5 + n) / 6)^alpha, for n tokens, EOS included.
    Source: Wu et al. 2016, formula 14; used by Vaswani et al. 2017, section 6.1, with alpha 0.6.
    average: n^alpha; with alpha 1 a score is the mean log-probability of a token.
    """

    kind: Literal["gnmt", "average"] = "gnmt"
    alpha: float = 0.0

    def __call__(self, length: int) -> float:
        return float(((5 + length) / 6 if self.kind == "gnmt" else length) ** self.alpha)


@dataclass(frozen=True)
class Hypothesis:
    ids: list[int]  # without BOS and EOS
    log_prob: float  # sum over the tokens, EOS included, in nats
    score: float  # log_prob / length penalty; hypotheses are ranked by it
    complete: bool  # ended with EOS; False: cut at the length limit, or in a loop


@dataclass(frozen=True)
class SearchTask:
    """B sentences to search, for any algorithm.

    Attributes:
        max_lengths: per sentence, the most tokens to produce, EOS included; at least 1.
        penalty: changes the scores of greedy search and sampling, not their hypotheses.
        loops: hypotheses that it finds are cut, as at the length limit; None: do not look.
    """

    model: StepModel
    max_lengths: Sequence[int]
    rules: TokenRules
    bos_id: int
    penalty: LengthPenalty
    loops: LoopWatch | None = None
    device: torch.device | None = None

    def stuck(self, written: Tensor, sentences: Sequence[int]) -> list[int]:
        """See `LoopWatch.stuck`."""
        return [] if self.loops is None else self.loops.stuck(written, sentences)

    def hypothesis(self, ids: list[int], log_prob: float) -> Hypothesis:
        """Cut `ids` at EOS and score them."""
        eos_id = self.rules.eos_id
        complete = eos_id in ids
        length = ids.index(eos_id) + 1 if complete else len(ids)
        score = log_prob / self.penalty(length)
        return Hypothesis(ids[: length - complete], log_prob, score, complete)


_BLOCK = 64  # tokens; only blocks whose best token may be among the chosen are searched
SMALL = 1 << 16  # numbers; up to this many are not divided into blocks

Choose = Callable[[Tensor], Tensor]


def most_probable(log_probs: Tensor) -> Tensor:
    """(B, V) → (B,): the choice of greedy search; the first of equal ones."""
    n_blocks = log_probs.size(1) // _BLOCK
    if not n_blocks or log_probs.numel() <= SMALL or log_probs.device.type != "cpu":
        return log_probs.argmax(dim=1)
    # On a CPU, the maximum is several times faster to compute than its position.
    whole = n_blocks * _BLOCK
    blocks = log_probs[:, :whole].unflatten(1, (n_blocks, _BLOCK))
    block = blocks.amax(dim=2).argmax(dim=1)
    rows = torch.arange(len(block))
    at = _side_by_side(blocks[rows, block], log_probs[:, whole:]).argmax(dim=1)
    return torch.where(at < _BLOCK, block * _BLOCK, whole - _BLOCK) + at


def step_by_step_search(task: SearchTask, choose: Choose = most_probable) -> list[Hypothesis]:
    """One hypothesis per sentence, chosen token by token: greedy search or sampling.

    Args:
        choose: picks a token per sentence from their log-probabilities, (B, V) → (B,).
    """
    limits = torch.tensor(task.max_lengths, device=task.device)  # (B,)
    sentences = torch.arange(len(limits), device=task.device)
    tokens = torch.full_like(sentences, task.bos_id)
    log_probs = torch.zeros(len(limits), device=task.device)
    ended = torch.zeros_like(sentences, dtype=torch.bool)
    history = tokens[:, None][:, :0]  # (B, t)
    hypotheses: dict[int, Hypothesis] = {}
    while len(sentences):
        beams_log_probs = task.model.step(tokens[:, None])
        task.rules.apply(beams_log_probs, history[:, None], sentences.tolist())
        step_log_probs = beams_log_probs[:, 0]
        tokens = choose(step_log_probs).masked_fill(ended, task.rules.eos_id)
        chosen = step_log_probs.gather(1, tokens[:, None])[:, 0]
        log_probs += chosen.masked_fill(ended, 0.0)
        history = torch.cat([history, tokens[:, None]], dim=1)
        for row in task.stuck(history, sentences.tolist()):
            limits[row].clamp_(max=history.size(1))
        ended = ended | (tokens == task.rules.eos_id) | (history.size(1) >= limits)
        if not _worth_leaving(int(ended.sum()), len(ended)):
            continue
        gone = ended.nonzero().squeeze(1)
        found = (x[gone].tolist() for x in (sentences, limits, history, log_probs))
        for sentence, limit, ids, log_prob in zip(*found, strict=True):
            hypotheses[sentence] = task.hypothesis(ids[:limit], log_prob)
        stay = (~ended).nonzero().squeeze(1)
        sentences, limits, tokens, log_probs, ended, history = (
            x[stay] for x in (sentences, limits, tokens, log_probs, ended, history)
        )
        if len(stay):
            task.model.select_sentences(stay)
    return [hypotheses[sentence] for sentence in range(len(task.max_lengths))]


def _worth_leaving(n_ended: int, n_rows: int) -> bool:
    """Whether to remove ended rows now: in groups, since each removal copies the other caches."""
    return 4 * n_ended >= n_rows


def beam_search(task: SearchTask, *, beam: int, n_best: int = 1) -> list[list[Hypothesis]]:
    """Beam search: keep the `beam` most probable prefixes at every step.

    A prefix ends when EOS is among the `beam` best continuations; the next best ones take its
    place. A sentence is finished as soon as no live prefix can beat its `n_best` hypotheses; this
    loses nothing, since log-probabilities only fall, and the penalty is largest at the length
    limit. With `beam` hypotheses it is finished, too, which may lose a better one. A beam of 1 is
    greedy search.

    Args:
        n_best: hypotheses to return per sentence, at most `beam`.
    Returns:
        Per sentence up to `n_best` hypotheses, best first.
    """
    limits = list(task.max_lengths)
    n = len(limits)
    finished: list[list[Hypothesis]] = [[] for _ in limits]  # best first
    bos = torch.full((n, 1, 1), task.bos_id, device=task.device)
    scores = torch.zeros((n, 1), device=task.device)
    beams = _Beams(list(range(n)), [False] * n, bos[..., 0], scores, bos[..., :0])
    while beams.sentences:
        log_probs = task.model.step(beams.tokens)
        task.rules.apply(log_probs, beams.history, beams.sentences)
        candidates = best_continuations(beams.scores, log_probs, 2 * beam)
        length = beams.history.size(2) + 1
        for row in task.stuck(beams.history[:, 0], beams.sentences):
            limits[beams.sentences[row]] = length
        at_limit = [length >= limits[sentence] for sentence in beams.sentences]
        for row, hypothesis in _ended(task, beams, candidates, beam, at_limit):
            insort(finished[beams.sentences[row]], hypothesis, key=lambda h: -h.score)
        parents = beams.extend(candidates, beam, task.rules.eos_id)
        best_alive = beams.scores[:, 0].tolist()
        for row, sentence in enumerate(beams.sentences):
            best, possible = finished[sentence], best_alive[row] / task.penalty(limits[sentence])
            beams.done[row] |= (
                at_limit[row] or len(best) >= beam or is_settled(best, possible, n_best)
            )
        task.model.select_beams(parents)
        stay = beams.leave()
        if stay is not None and beams.sentences:
            task.model.select_sentences(stay)
    return [hypotheses[:n_best] for hypotheses in finished]


@dataclass
class _Beams:
    """Live prefixes of the sentences still searched: one row of K beams per sentence."""

    sentences: list[int]  # B: the number of the sentence in each row, ascending
    done: list[bool]  # B: finished rows that wait for their removal
    tokens: Tensor  # (B, K) int64: the newest; one beam at first
    scores: Tensor  # (B, K) float32: log-probability of each prefix, −∞ for dead ones
    history: Tensor  # (B, K, t) int64, without BOS

    def extend(self, candidates: "Candidates", beam: int, eos_id: int) -> Tensor:
        """Continue with the `beam` best candidates that are not EOS.

        Returns:
            (B, K): the old beam that each new one continues.
        """
        alive = candidates.scores.masked_fill(candidates.tokens == eos_id, -torch.inf)
        self.scores, order = alive.topk(min(beam, alive.size(1)), dim=1)
        parents = candidates.parents.gather(1, order)
        self.tokens = candidates.tokens.gather(1, order)
        continued = parents[:, :, None].expand(-1, -1, self.history.size(2))
        prefixes = self.history.gather(1, continued)
        self.history = torch.cat([prefixes, self.tokens[:, :, None]], dim=2)
        return parents

    def leave(self) -> Tensor | None:
        """Mark the prefixes of done rows as dead, and remove these rows if there are enough.

        Returns:
            (B',): the rows that stay; None: all.
        """
        device = self.scores.device
        if any(self.done):
            self.scores.masked_fill_(torch.tensor(self.done, device=device)[:, None], -torch.inf)
        if not _worth_leaving(sum(self.done), len(self.done)):
            return None
        rows = [row for row, is_done in enumerate(self.done) if not is_done]
        self.sentences, self.done = [self.sentences[row] for row in rows], [False] * len(rows)
        stay = torch.tensor(rows, dtype=torch.int64, device=device)
        self.tokens, self.scores = self.tokens[stay], self.scores[stay]
        self.history = self.history[stay]
        return stay


class Candidates(NamedTuple):
    """The best one-token continuations per sentence, (B, C) each, best first."""

    scores: Tensor
    parents: Tensor  # beam that is continued
    tokens: Tensor


def best_continuations(scores: Tensor, log_probs: Tensor, n: int) -> Candidates:
    """The `n` largest `scores + log_probs` of each sentence.

    Exact without sorting K·V numbers: the n best tokens are in the n blocks with the largest
    maxima, so the maxima are compared first.

    Args:
        scores: (B, K), −∞ for dead beams.
        log_probs: (B, K, V).
    Returns:
        `n` per sentence, or K·V if that is less.
    """
    batch, beam, vocab_size = log_probs.shape
    n_blocks = vocab_size // _BLOCK
    if beam * n_blocks <= n or log_probs.numel() <= SMALL:
        totals = (log_probs + scores[..., None]).flatten(1)
        found, at = totals.topk(min(n, totals.size(1)), dim=1)
        return Candidates(found, at // vocab_size, at % vocab_size)
    whole = n_blocks * _BLOCK  # tokens in whole blocks; all others are candidates
    blocks = log_probs[..., :whole].unflatten(-1, (n_blocks, _BLOCK))  # (B, K, blocks, _BLOCK)
    best = (blocks.amax(dim=-1) + scores[..., None]).flatten(1).topk(n, dim=1).indices  # (B, n)
    parents, block = best // n_blocks, best % n_blocks
    rows = torch.arange(batch, device=scores.device)[:, None]
    cells = blocks[rows, parents, block] + scores.gather(1, parents)[..., None]  # (B, n, _BLOCK)
    others = log_probs[..., whole:] + scores[..., None]  # (B, K, V − whole)
    beams, ids = (torch.arange(size, device=scores.device) for size in (beam, vocab_size))
    parents = _side_by_side(parents[..., None].expand_as(cells), beams[:, None].expand_as(others))
    tokens = _side_by_side(
        block[..., None] * _BLOCK + ids[:_BLOCK].expand_as(cells), ids[whole:].expand_as(others)
    )
    found, at = _side_by_side(cells, others).topk(n, dim=1)
    return Candidates(found, parents.gather(1, at), tokens.gather(1, at))


def _side_by_side(*tensors: Tensor) -> Tensor:
    """Concatenate tensors, each flattened: (B, …) → (B, all)."""
    return torch.cat([tensor.flatten(1) for tensor in tensors], dim=1)


def _ended(
    task: SearchTask, beams: _Beams, candidates: Candidates, beam: int, at_limit: list[bool]
) -> Iterator[tuple[int, Hypothesis]]:
    """Hypotheses that this step ends, with their row: by EOS, or all of a row at its limit."""
    # Only the first `beam` candidates may end: the others would not have stayed in the beam.
    tokens, eos_id = candidates.tokens[:, :beam].tolist(), task.rules.eos_id
    ends = [
        (row, column)
        for row, ids in enumerate(tokens)
        for column, token in enumerate(ids)
        if at_limit[row] or token == eos_id
    ]
    if not ends:
        return
    rows, columns = map(list, zip(*ends, strict=True))
    # All at once: reading one number from a GPU takes as long as reading many.
    parents, chosen = candidates.parents[rows, columns], candidates.scores[rows, columns]
    listed = (beams.history[rows, parents].tolist(), chosen.tolist())
    for (row, column), prefix, log_prob in zip(ends, *listed, strict=True):
        if log_prob > -torch.inf:
            yield row, task.hypothesis([*prefix, tokens[row][column]], log_prob)


def is_settled(finished: list[Hypothesis], best_possible: float, n_best: int) -> bool:
    """Whether no live prefix can still beat one of the `n_best` finished hypotheses."""
    if best_possible == -torch.inf:
        return True
    return len(finished) >= n_best and best_possible <= finished[n_best - 1].score
