"""Greedy and beam search over a step function.

Comes in: something that turns the newest tokens into log-probabilities of the next ones, and length
limits. Goes out: token ids with scores. This file knows ids and torch: no text, no Transformer.

Shapes: `B` sentences still searched · `K` beam · `V` vocabulary; rows are sentences × beams.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class StepModel(Protocol):
    """One decoding step for all rows, and the bookkeeping of rows."""

    def step(self, tokens: Tensor) -> Tensor:
        """(B·K,) newest token ids → (B·K, V) log-probabilities of the next, float32."""

    def select_rows(self, rows: Tensor) -> None:
        """Make row i the continuation of former row `rows[i]`. Args: rows: (B'·K,) int64."""

    def select_sentences(self, sentences: Tensor) -> None:
        """Keep these of the B sentences. Args: sentences: (B',) int64, ascending."""


@dataclass(frozen=True)
class Hypothesis:
    ids: list[int]  # without BOS and EOS
    log_prob: float  # sum over the tokens, EOS included, in nats
    score: float  # log_prob / length penalty: what hypotheses are ranked by
    complete: bool  # ended with EOS; False: cut at the length limit


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^alpha; 1 when alpha is 0.

    Source: Wu et al. 2016, formula 14; used by Vaswani et al. 2017, section 6.1, with alpha 0.6.
    Args:
        length: tokens of the hypothesis, EOS included.
    """
    return ((5 + length) / 6) ** alpha


def greedy_search(
    model: StepModel,
    max_lengths: Sequence[int],
    *,
    bos_id: int,
    eos_id: int,
    alpha: float = 0.0,
    device: torch.device | None = None,
) -> list[Hypothesis]:
    """The most probable next token at every step.

    Args:
        max_lengths: per sentence, the most tokens to produce, EOS included; at least 1.
        alpha: of the length penalty; it changes scores, not the search.
    """
    rows = torch.tensor(max_lengths, device=device)
    limits, sentences = rows, torch.arange(len(rows), device=device)
    tokens = torch.full_like(sentences, bos_id)
    log_probs = torch.zeros(len(rows), device=device)
    ended = torch.zeros_like(sentences, dtype=torch.bool)
    history = tokens[:, None][:, :0]  # (B, steps so far)
    hypotheses: dict[int, Hypothesis] = {}
    while len(sentences):
        step_log_probs, tokens = model.step(tokens).max(dim=-1)
        log_probs += step_log_probs.masked_fill(ended, 0.0)
        tokens = tokens.masked_fill(ended, eos_id)
        history = torch.cat([history, tokens[:, None]], dim=1)
        ended = ended | (tokens == eos_id) | (history.size(1) >= limits)
        # Ended rows leave in groups, because each leaving copies the caches of those that stay.
        if int(ended.sum()) * 4 < len(ended):
            continue
        for row in ended.nonzero().squeeze(1).tolist():
            ids = history[row, : int(limits[row])].tolist()
            hypotheses[int(sentences[row])] = _hypothesis(ids, log_probs[row].item(), eos_id, alpha)
        stay = (~ended).nonzero().squeeze(1)
        sentences, limits, tokens = sentences[stay], limits[stay], tokens[stay]
        log_probs, ended, history = log_probs[stay], ended[stay], history[stay]
        if len(stay):
            model.select_sentences(stay)
            model.select_rows(stay)
    return [hypotheses[sentence] for sentence in range(len(rows))]


def _hypothesis(ids: list[int], log_prob: float, eos_id: int, alpha: float) -> Hypothesis:
    """Cut `ids` at EOS and score them."""
    complete = eos_id in ids
    length = ids.index(eos_id) + 1 if complete else len(ids)
    score = log_prob / length_penalty(length, alpha)
    return Hypothesis(ids[: length - complete], log_prob, score, complete)


def beam_search(
    model: StepModel,
    max_lengths: Sequence[int],
    *,
    beam: int,
    bos_id: int,
    eos_id: int,
    alpha: float = 0.0,
    n_best: int = 1,
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """The `beam` most probable prefixes at every step.

    A prefix ends when EOS is among the `beam` best continuations; the next best ones take its
    place. A sentence is finished with `beam` ended hypotheses, or as soon as no live prefix can
    reach the `n_best` it has: log-probabilities only fall, and the penalty is largest at the length
    limit, so leaving early changes nothing. A beam of 1 is greedy search.

    Args:
        max_lengths: per sentence, the most tokens to produce, EOS included; at least 1.
        alpha: exponent of the length penalty.
        n_best: hypotheses to return per sentence, at most `beam`.
    Returns:
        Per sentence up to `n_best` hypotheses, best first.
    """
    if not 1 <= n_best <= beam:
        raise ValueError(f"n_best {n_best} must be between 1 and the beam, {beam}")
    finished: list[list[Hypothesis]] = [[] for _ in max_lengths]
    sentences = list(range(len(max_lengths)))
    tokens = torch.full((len(sentences) * beam,), bos_id, device=device)
    scores = torch.full((len(sentences), beam), -torch.inf, device=device)  # (B, K)
    scores[:, 0] = 0.0  # all beams start equal: count the first only
    history = tokens.view(-1, beam, 1)[:, :, :0]  # (B, K, steps so far)
    while sentences:
        log_probs = model.step(tokens)
        candidates = _best_candidates(scores, log_probs)
        length = history.size(2) + 1
        at_limit = [length >= max_lengths[sentence] for sentence in sentences]
        for row, hypothesis in _ended(candidates, beam, history, eos_id, alpha, at_limit):
            best = finished[sentences[row]]
            best.append(hypothesis)
            best.sort(key=lambda h: -h.score)
        scores, order = candidates.scores.masked_fill(candidates.tokens == eos_id, -torch.inf).topk(
            beam, dim=1
        )
        parents = candidates.parents.gather(1, order)
        new_tokens = candidates.tokens.gather(1, order)
        history = torch.cat([_gather_beams(history, parents), new_tokens[:, :, None]], dim=2)
        best_alive = scores[:, 0].tolist()
        stay = [
            row
            for row, sentence in enumerate(sentences)
            if not at_limit[row]
            and len(finished[sentence]) < beam
            and not _is_settled(
                finished[sentence], best_alive[row], max_lengths[sentence], alpha, n_best
            )
        ]
        first_rows = torch.arange(len(sentences), device=device)[:, None] * beam
        rows = parents + first_rows  # (B, K) rows of the step that the survivors continue
        if len(stay) < len(sentences):
            kept = torch.tensor(stay, dtype=torch.int64, device=device)
            rows, scores, history, new_tokens = (
                x[kept] for x in (rows, scores, history, new_tokens)
            )
            sentences = [sentences[row] for row in stay]
            if sentences:
                model.select_sentences(kept)
        if sentences:
            model.select_rows(rows.flatten())
        tokens = new_tokens.flatten()
    return [hypotheses[:n_best] for hypotheses in finished]


@dataclass(frozen=True)
class _Candidates:
    """The best one-token continuations per sentence, (B, C) each, best first."""

    scores: Tensor
    parents: Tensor  # beam that is continued
    tokens: Tensor


def _best_candidates(scores: Tensor, log_probs: Tensor) -> _Candidates:
    """2·K continuations per sentence: at most K of them end, so K live ones remain.

    Args:
        scores: (B, K). log_probs: (B·K, V).
    """
    batch, beam = scores.shape
    vocab_size = log_probs.size(1)
    # The best of a row first: a top-k over V, then a small one over K · that many.
    per_row = min(2 * beam, vocab_size)
    row_log_probs, row_tokens = log_probs.topk(per_row, dim=1)
    totals = (scores[:, :, None] + row_log_probs.view(batch, beam, per_row)).flatten(1)
    best, flat = totals.topk(min(2 * beam, totals.size(1)), dim=1)
    tokens = row_tokens.view(batch, -1).gather(1, flat)
    return _Candidates(best, flat // per_row, tokens)


def _ended(
    candidates: _Candidates,
    beam: int,
    history: Tensor,
    eos_id: int,
    alpha: float,
    at_limit: list[bool],
) -> Iterator[tuple[int, Hypothesis]]:
    """Hypotheses that this step ends, with their row: by EOS, or all of a row at its limit."""
    limits = torch.tensor(at_limit, device=history.device)[:, None]
    ends = (candidates.tokens == eos_id) | limits
    ends &= candidates.scores > -torch.inf
    ends[:, beam:] = False  # what would not have stayed in the beam does not end in it
    for row, column in ends.nonzero().tolist():
        prefix = history[row, candidates.parents[row, column]].tolist()
        ids = [*prefix, int(candidates.tokens[row, column])]
        yield row, _hypothesis(ids, candidates.scores[row, column].item(), eos_id, alpha)


def _gather_beams(history: Tensor, parents: Tensor) -> Tensor:
    """(B, K, t) rearranged so that beam k continues beam `parents[:, k]`."""
    return history.gather(1, parents[:, :, None].expand(-1, -1, history.size(2)))


def _is_settled(
    finished: list[Hypothesis], best_alive: float, max_length: int, alpha: float, n_best: int
) -> bool:
    """Whether no live prefix can still reach the `n_best` finished hypotheses."""
    if best_alive == -torch.inf:
        return True
    if len(finished) < n_best:
        return False
    return best_alive / length_penalty(max_length, alpha) <= finished[n_best - 1].score
