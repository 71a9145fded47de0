"""Lines in their order → runs of them where each source fits the target of a neighbouring line.

The fit is learned from the first lines of the source itself: frequent characters and beginnings of
words that stand across from each other, rare words on both sides, and lengths. This file does not
know any language, and keeps no text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transformer_mt.corpus.diagnostics.line_units import (
    FIRST_CHARACTER,
    FIRST_WORD,
    N_UNITS,
    LineUnits,
)
from transformer_mt.corpus.diagnostics.logistic_regression import fit_logistic
from transformer_mt.system.arrays import Floats, Ints

_TRACKED, _RARE = 128, 63  # columns of frequent units, and of the words among the others
_WIDTH = _TRACKED + _RARE + 1  # the last one is for units that do not count
_RANK = 24  # directions in which both sides agree most
# Log-odds of a run against none: by chance, a corpus of a million lines has some e^-4 such runs.
_THRESHOLD = 18.0

Block = tuple[LineUnits, LineUnits]


@dataclass(frozen=True)
class ShiftedRun:
    """Lines `first` to `last`, from 1: the source of each fits the target `shift` lines on."""

    first: int
    last: int
    shift: int  # 1 or -1


class ShiftFinder:
    """Learns the fit from the first blocks of a source; looks at all blocks, one by one."""

    def __init__(self, blocks: list[Block]) -> None:
        self._fit = _Fit(blocks)
        self._last: list[Floats] = []  # the line before the next block
        self._searches = _Search(1), _Search(-1)
        self._runs: list[ShiftedRun] = []

    def look(self, block: Block) -> None:
        """The next lines."""
        rows = self._fit.describe(block)
        if self._last:
            rows = list(map(np.concatenate, zip(self._last, rows, strict=True)))
        straight, onward, back = (self._fit.log_odds(rows, shift) for shift in (0, 1, -1))
        straight = (straight[:-1] + straight[1:]) * np.float32(0.5)
        # Compare with the other direction, too: inside a run of it, the unshifted alignment is
        # easy to beat by chance.
        for search, crossed, other in zip(
            self._searches, (onward, back), (back, onward), strict=True
        ):
            self._runs += search.go_on(crossed - np.maximum(straight, other))
        self._last = [side[-1:] for side in rows]

    def finish(self) -> list[ShiftedRun]:
        """All runs, in order, after the last line."""
        for search in self._searches:
            self._runs += search.finish()
        return sorted(self._runs, key=lambda run: run.first)


class _Search:
    """Stretches of gaps between lines whose evidence for one shift adds up to the threshold.

    Source: Page 1954, the cumulative sum test.
    """

    def __init__(self, shift: int) -> None:
        self.shift = shift
        self.n_gaps = self.start = 0  # gaps seen; the gap where the open stretch begins
        self.total = self.peak = 0.0  # evidence of the open stretch, and its highest value
        self.peak_at = 0  # the gap of that value

    def go_on(self, evidence: Floats) -> list[ShiftedRun]:
        """The runs that end in the next gaps."""
        found = []
        for gap, value in enumerate(evidence.tolist(), self.n_gaps):
            self.total += value
            if self.total > self.peak:
                self.peak, self.peak_at = self.total, gap
            elif self.total <= 0 or self.total < self.peak - _THRESHOLD:
                found += self.finish()
                self.total = self.peak = 0.0
                self.start = gap + 1
        self.n_gaps += len(evidence)
        return found

    def finish(self) -> list[ShiftedRun]:
        """The open run, if there is one."""
        enough = self.peak >= _THRESHOLD
        return [ShiftedRun(self.start + 1, self.peak_at + 2, self.shift)] if enough else []


class _Fit:
    """How well a source and a target belong together, as log-odds.

    Source: Hotelling 1936 for the directions in which both sides agree (canonical correlation).
    """

    def __init__(self, blocks: list[Block]) -> None:
        sides = list(zip(*blocks, strict=True))
        self.columns = [_choose_columns(side) for side in sides]
        src, tgt = (
            np.concatenate([_table(part, columns)[:, :_TRACKED] for part in side])
            for side, columns in zip(sides, self.columns, strict=True)
        )
        best = _Agreement(src, tgt, 0)
        for shift in (1, -1):  # most lines may be shifted, if one is missing near the start
            other = _Agreement(src, tgt, shift)
            if other.total > 1.5 * best.total:
                best = other
        scale = np.sqrt(best.rho / (1 - best.rho**2))
        self.bases = [basis * scale for basis in best.bases]
        self.offsets = [mean @ basis for mean, basis in zip(best.means, self.bases, strict=True)]
        self.damping = best.rho / 2  # of values that are large on one side alone
        means = [np.mean(np.concatenate([part.lengths for part in side])) + 1 for side in sides]
        self.usual = np.float32(np.log(means[1] / means[0]))
        described = zip(*map(self.describe, blocks), strict=True)
        self._calibrate(list(map(np.concatenate, described)), best.shift)

    def describe(self, block: Block) -> list[Floats]:
        """For each side (n, R + 63 + 2) directions, rare words, size of the directions, length."""
        described = []
        for units, columns, basis, offset in zip(
            block, self.columns, self.bases, self.offsets, strict=True
        ):
            table = _table(units, columns)
            directions = table[:, :_TRACKED] @ basis - offset
            size = (directions * directions) @ self.damping
            lengths = np.log(units.lengths.astype(np.float32) + 5)
            described.append(np.column_stack([directions, table[:, _TRACKED:-1], size, lengths]))
        return described

    def log_odds(self, described: list[Floats], shift: int) -> Floats:
        """(n,) or (n - 1,) that lines `shift` apart belong together, against their neighbours."""
        return self._features(described, shift) @ self.weights

    def _features(self, described: list[Floats], shift: int) -> Floats:
        """(n, 4) one, log-likelihood ratio of the directions, shared rare words, lengths."""
        src, tgt = _shifted(described[0], described[1], shift)
        rank = len(self.damping)
        features = np.ones((len(src), 4), dtype=np.float32)
        features[:, 1] = np.einsum("ij,ij->i", src[:, :rank], tgt[:, :rank])
        features[:, 1] -= src[:, -2] + tgt[:, -2]
        features[:, 2] = np.einsum("ij,ij->i", src[:, rank:-2], tgt[:, rank:-2])
        features[:, 3] = np.abs(tgt[:, -1] - src[:, -1] - self.usual)
        return features

    def _calibrate(self, described: list[Floats], right: int) -> None:
        """Weigh the features by telling lines that belong together from their neighbours."""
        features = [self._features(described, shift).astype(np.float64) for shift in (0, 1, -1)]
        truth = np.repeat([shift == right for shift in (0, 1, -1)], list(map(len, features)))
        mass = np.where(truth, 1.0, 0.5)
        weights = fit_logistic(np.concatenate(features), truth, mass, steps=8, ridge=1e-3)
        self.weights = weights.astype(np.float32)


def _shifted(src: Floats, tgt: Floats, shift: int) -> tuple[Floats, Floats]:
    """The rows of both sides that meet when the target is `shift` lines on."""
    if shift == 0:
        return src, tgt
    return (src[:-1], tgt[1:]) if shift > 0 else (src[1:], tgt[:-1])


class _Agreement:
    """The directions in which the units of both sides agree, if lines `shift` apart belong."""

    def __init__(self, src: Floats, tgt: Floats, shift: int) -> None:
        x, y = _shifted(src, tgt, shift)
        self.means = [x.mean(axis=0), y.mean(axis=0)]
        roots = [_inverse_root(part, mean) for part, mean in zip((x, y), self.means, strict=True)]
        across = x.T @ y / len(x) - np.outer(*self.means)
        u, correlation, v = np.linalg.svd(roots[0] @ across @ roots[1])
        self.rho = correlation[:_RANK].clip(1e-6, 0.99).astype(np.float32)
        self.bases = [roots[0] @ u[:, :_RANK], roots[1] @ v[:_RANK].T]
        self.total = float((self.rho**2).sum())
        self.shift = shift


def _inverse_root(rows: Floats, mean: Floats) -> Floats:
    """(D, D) that makes the covariance of the rows the identity; the fewer rows, the less so."""
    covariance = rows.T @ rows / len(rows) - np.outer(mean, mean)
    ridge = 1e-3 + 20 / len(rows)
    values, vectors = np.linalg.eigh(covariance + ridge * np.eye(len(covariance)))
    return ((vectors / np.sqrt(values)) @ vectors.T).astype(np.float32)


def _choose_columns(parts: Sequence[LineUnits]) -> Ints:
    """(N_UNITS,) for each unit its column: one of its own, one shared by hash, or the last."""
    running = sum(np.bincount(part.units, minlength=N_UNITS) for part in parts)
    frequency = 1 - np.exp(-running / sum(len(part.lengths) for part in parts))
    tracked = np.argsort(-frequency * (1 - frequency), kind="stable")[:_TRACKED]
    units = np.arange(N_UNITS)
    is_word = (units >= FIRST_WORD) & (units < FIRST_CHARACTER)
    columns = np.where(is_word, _TRACKED + (units * 40503 >> 7) % _RARE, _WIDTH - 1)
    columns[tracked] = np.arange(_TRACKED)
    return columns


def _table(lines: LineUnits, columns: Ints) -> Floats:
    """(n, _WIDTH) whether a line has a unit of each column."""
    table = np.zeros((len(lines.lengths), _WIDTH), dtype=np.float32)
    table.ravel()[lines.owners * _WIDTH + columns[lines.units]] = 1
    return table
