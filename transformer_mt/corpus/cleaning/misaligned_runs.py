"""Evidence of each pair, along a corpus → the probability that the pair is mismatched.

Two ways to be wrong are told apart: a line alone, and a run of lines, as a missing line leaves
behind; within a run weak evidence adds up. How common either is comes from the corpus itself, so
that a clean one loses next to nothing. Where a run is possible, the evidence that neighbouring
lines belong together tells whether it is shifted: a line that resembles the next one fits its
target, too, but less well. This file does not know any text.

It is a hidden Markov chain with the states aligned and run, over all lines: forward and backward,
as odds. The lines are cut into chunks that are worked on side by side, each with a run-up into its
neighbours, after which the chain has forgotten where it started.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transformer_mt.system.arrays import Floats

MEAN_RUN = 60  # lines
NO_GAIN = -1e3
_FITTING_IN_RUN = 0.005  # share of the lines of a run that fit nevertheless
_MAX_EVIDENCE = 12.0  # no pair says more than this, whatever its words
_FIRST_GUESS, _LEAST, _MOST = 0.005, 1e-6, 0.4  # share of lines of either kind
_ROUNDS = 8
_CHUNK, _RUN_UP = 1024, 256  # lines
_BLOCK = 1024 * _CHUNK
_STRETCHES = 4  # of a block each, from which the shares of a longer corpus are learned
_SUSPECT = 1e-3  # least probability of a run for which neighbouring lines are compared
_AROUND = 12  # lines compared before and after suspicious ones
_MAX_GAIN = 6.0  # no line says more for a shift than this


@dataclass(frozen=True)
class Mismatches:
    """Probabilities given the evidence of the lines as they stand."""

    in_run: Floats  # (n,) that a line is mismatched within a run, given all lines
    alone: Floats  # (n,) that it is mismatched by itself
    runs: float  # share of lines within runs

    def suspects(self) -> NDArray[np.bool_]:
        """(n,) lines in and around what may be a run."""
        places = np.flatnonzero(self.in_run > _SUSPECT)
        marks = np.zeros(len(self.in_run) + 1, dtype=np.int32)
        np.add.at(marks, (places - _AROUND).clip(min=0), 1)
        np.add.at(marks, (places + _AROUND + 1).clip(max=len(self.in_run)), -1)
        return np.cumsum(marks[:-1], dtype=np.int32) > 0

    def probability(self, gains: Floats) -> Floats:
        """(n,) that a line is mismatched.

        Args:
            gains: (n_shifts, n) how much more evidence there is that the source belongs to the
                target that many lines on than to its own; `NO_GAIN` where it is not known.
        """
        good = 1 - self.in_run
        good -= self.alone
        for gain in gains:
            for rows, seen, inner in _blocks(len(gain)):
                ratio = np.exp(gain[seen].clip(-_MAX_GAIN, _MAX_GAIN))
                good[rows] /= 1 + _run_odds(ratio, self.runs / len(gains))[inner]
        return np.subtract(1, good, out=good)


def find_mismatches(evidence: Floats) -> Mismatches:
    """How likely each line is mismatched, given all lines.

    Args:
        evidence: (n,) log-odds of "belongs together" against "does not", in corpus order; 0 where
            nothing is known, as for pairs that are dropped already.
    """
    runs = single = _FIRST_GUESS
    some = _stretches(evidence)
    for _ in range(_ROUNDS):
        shares = [
            part.sum(dtype=np.float64) / max(1, len(part))
            for part in _posteriors(some, runs, single)
        ]  # without a name for the parts, which would stay beside the next ones
        runs, single = np.clip(shares, _LEAST, _MOST).tolist()
    return Mismatches(*_posteriors(evidence, runs, single), runs)


def _stretches(evidence: Floats) -> Floats:
    """All of it or, if that is much, stretches spread over it: a round for all takes seconds."""
    if len(evidence) <= _STRETCHES * _BLOCK:
        return evidence
    starts = np.linspace(0, len(evidence) - _BLOCK, _STRETCHES, dtype=np.int64).tolist()
    return np.concatenate([evidence[start : start + _BLOCK] for start in starts])


def _blocks(n: int) -> Iterator[tuple[slice, slice, slice]]:
    """Lines worked on at a time; these with a run-up on both sides; their place in the latter."""
    for start in range(0, n, _BLOCK):
        end, first = min(start + _BLOCK, n), max(0, start - _CHUNK)
        seen = slice(first, min(n, end + _CHUNK))
        yield slice(start, end), seen, slice(start - first, end - first)


def _posteriors(evidence: Floats, runs: float, single: float) -> tuple[Floats, Floats]:
    """(n,) probability of a mismatch within a run, and of one alone; both given all lines."""
    in_run, alone = np.empty_like(evidence), np.empty_like(evidence)
    for rows, seen, inner in _blocks(len(evidence)):
        # How much better each line is explained by a mismatch.
        likelihood: Floats = np.exp(-evidence[seen].clip(-_MAX_EVIDENCE, _MAX_EVIDENCE))
        aligned = 1 - single + single * likelihood
        run = _FITTING_IN_RUN + (1 - _FITTING_IN_RUN) * likelihood
        odds = _run_odds(run / aligned, runs)
        p_run = odds / (1 + odds)
        in_run[rows] = (p_run * (1 - _FITTING_IN_RUN / run))[inner]
        alone[rows] = ((1 - p_run) * single * likelihood / aligned)[inner]
    return in_run, alone


def _run_odds(ratio: Floats, share: float) -> Floats:
    """(n,) odds that a line is within a run, given how much better a run explains each line.

    Source: Rabiner 1989, section III.A, for two states, as odds.
    """
    leave = 1 / MEAN_RUN
    enter = leave * share / (1 - share)
    before = _chain(ratio, share / (1 - share), (1 - leave, enter, leave, 1 - enter))
    after = _chain(ratio[::-1], 1.0, (1 - leave, leave, enter, 1 - enter))[::-1]
    return before * ratio * after


def _chain(ratio: Floats, start: float, step: tuple[float, float, float, float]) -> Floats:
    """(n,) odds x before each line, where a line takes x to (a·rx + b) / (c·rx + d)."""
    a, b, c, d = map(np.float32, step)
    n_chunks = -(-len(ratio) // _CHUNK)
    padded = np.ones(_RUN_UP + n_chunks * _CHUNK, dtype=np.float32)
    padded[_RUN_UP : _RUN_UP + len(ratio)] = ratio
    windows = np.lib.stride_tricks.sliding_window_view(padded, _RUN_UP + _CHUNK)[::_CHUNK]
    odds = np.full(n_chunks, start, dtype=np.float32)
    out = np.empty((_CHUNK, n_chunks), dtype=np.float32)
    for line, row in enumerate(np.ascontiguousarray(windows.T), -_RUN_UP):
        if line >= 0:
            out[line] = odds
        seen = odds * row
        odds = (seen * a + b) / (seen * c + d)
    return out.T.reshape(-1)[: len(ratio)]
