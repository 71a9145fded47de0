"""Evidence of each pair, along a corpus → the probability that the pair is mismatched.

Comes in: the evidence of `lexical_model.py`, one number per line in the order of the corpus. Goes
out: one probability per line. Two ways to be wrong are told apart: a line alone, and a run of
lines, as a missing line leaves behind; within a run weak evidence adds up. How common either is
comes from the corpus itself, so that a clean one loses next to nothing. Where a run is possible,
the evidence that neighbouring lines belong together tells whether it is shifted: a line that
resembles the next one fits its target, too, but less well. This file does not know any text.

It is a hidden Markov chain with the states aligned and run, over all lines: forward and backward,
as odds. The lines are cut into chunks that are worked on side by side, each with a run-up into its
neighbours, after which the chain has forgotten where it started.
"""

from collections.abc import Iterator, Sequence
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
_SUSPECT = 1e-3  # least probability of a run for which neighbouring lines are compared
_AROUND = 12  # lines compared before and after suspicious ones
_MAX_GAIN = 6.0  # no line says more for a shift than this


@dataclass(frozen=True)
class _Shares:
    """Shares of mismatches: lines within runs, and single ones among the aligned lines."""

    runs: float
    alone: float


@dataclass(frozen=True)
class Mismatches:
    """Probabilities given the evidence of the lines as they stand.

    Attributes:
        in_run: (n,) probability that a line is mismatched within a run, given all lines.
        alone: (n,) that it is mismatched by itself.
        runs: share of lines within runs.
    """

    in_run: Floats
    alone: Floats
    runs: float

    def suspects(self) -> NDArray[np.bool_]:
        """(n,) lines in and around what may be a run."""
        places = np.flatnonzero(self.in_run > _SUSPECT)
        marks = np.zeros(len(self.in_run) + 1, dtype=np.int32)
        np.add.at(marks, (places - _AROUND).clip(min=0), 1)
        np.add.at(marks, (places + _AROUND + 1).clip(max=len(self.in_run)), -1)
        return np.cumsum(marks[:-1], dtype=np.int32) > 0

    def probability(self, gains: Sequence[Floats] = ()) -> Floats:
        """(n,) that a line is mismatched.

        Args:
            gains: for each shift (n,) how much more evidence there is that the source belongs to
                the target that many lines on than to its own; `NO_GAIN` where it is not known.
        """
        good = 1 - self.in_run - self.alone
        for gain in gains:
            for block in _blocks(len(gain)):
                seen = gain[block.seen].clip(-_MAX_GAIN, _MAX_GAIN)
                odds = _run_odds(np.exp(seen), self.runs / len(gains))
                good[block.rows] /= 1 + odds[block.inner]
        return 1 - good


def find_mismatches(evidence: Floats, prior: float | None = None) -> Mismatches:
    """How likely each line is mismatched, given all lines.

    Args:
        evidence: (n,) log-odds of "belongs together" against "does not", in corpus order; 0 where
            nothing is known, as for pairs that are dropped already.
        prior: the share of lines to expect, half of them in runs; None: estimated from all lines.
    """
    if not len(evidence):
        return Mismatches(np.zeros(0, np.float32), np.zeros(0, np.float32), _LEAST)
    if prior is not None:
        shares = _Shares(runs=prior / 2, alone=prior / 2)
    else:
        shares = _Shares(runs=_FIRST_GUESS, alone=_FIRST_GUESS)
        for _ in range(_ROUNDS):
            sums = np.zeros(2)
            for block in _blocks(len(evidence)):
                parts = _posteriors(evidence[block.seen], shares)
                sums += [part[block.inner].sum(dtype=np.float64) for part in parts]
            shares = _Shares(*np.clip(sums / len(evidence), _LEAST, _MOST).tolist())
    in_run, alone = np.empty_like(evidence), np.empty_like(evidence)
    for block in _blocks(len(evidence)):
        parts = _posteriors(evidence[block.seen], shares)
        in_run[block.rows], alone[block.rows] = (part[block.inner] for part in parts)
    return Mismatches(in_run, alone, shares.runs)


@dataclass(frozen=True)
class _Block:
    """Lines worked on at a time, so that memory does not grow with the corpus."""

    rows: slice
    seen: slice  # these lines, and a run-up into their neighbours on both sides

    @property
    def inner(self) -> slice:
        """`rows`, counted from the first line that is seen."""
        first = self.rows.start - self.seen.start
        return slice(first, first + self.rows.stop - self.rows.start)


def _blocks(n: int) -> Iterator[_Block]:
    for start in range(0, n, _BLOCK):
        end = min(start + _BLOCK, n)
        yield _Block(slice(start, end), slice(max(0, start - _CHUNK), min(n, end + _CHUNK)))


def _posteriors(evidence: Floats, shares: _Shares) -> tuple[Floats, Floats]:
    """(n,) probability of a mismatch within a run, and of one alone; both given all lines."""
    # How much better each line is explained by a mismatch.
    likelihood = np.exp(-np.clip(evidence, -_MAX_EVIDENCE, _MAX_EVIDENCE)).astype(np.float32)
    aligned = 1 - shares.alone + shares.alone * likelihood
    run = _FITTING_IN_RUN + (1 - _FITTING_IN_RUN) * likelihood
    odds = _run_odds(run / aligned, shares.runs)
    p_run = odds / (1 + odds)
    in_run = p_run * (1 - _FITTING_IN_RUN / run)
    alone = (1 - p_run) * shares.alone * likelihood / aligned
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
