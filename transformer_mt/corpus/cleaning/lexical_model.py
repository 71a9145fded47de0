"""A sample of a corpus → log-odds that the two sides of a pair belong together.

Nothing is known beforehand: word translations, copied words, the usual lengths and the weight of
each feature are learned on the corpus itself, most of whose pairs are good, against sources and
targets of it that were paired anew. This file does not know the place of a pair in the corpus
(`misaligned_runs.py`), nor its fate.

Two tables are learned, on two halves of the sample that a bit of the pair's key tells apart. Each
pair is judged by the table that has not seen it: its own rare words would vouch for it. Neither
needs the other one, so that two processes can learn them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transformer_mt.corpus.cleaning.score_store import Hashes
from transformer_mt.corpus.cleaning.translation_table import Table
from transformer_mt.corpus.diagnostics.logistic_regression import fit_logistic
from transformer_mt.corpus.diagnostics.swapped_sides import look_swapped, side_odds
from transformer_mt.system.arrays import Doubles, Floats, Ints
from transformer_mt.text.units import N_SLOTS, Units, text_units

SAMPLE_PAIRS = 200_000  # pairs to learn from; more cost time and tell little
SWAPPED = -8.0  # log-odds of a pair that stands the wrong way round
MIN_PAIRS = 1000  # with fewer, most words are seen too seldom to tell anything

_CHUNK = 8192  # pairs judged at once
_MAX_CHARACTERS = 400  # of the longer side; the rest tells little more
_N_FIT = 30_000  # pairs that the weights are fitted to
_HALF_BIT = np.uint64(32)  # of the key
_LENGTH_SMOOTHING = 5  # characters added to both sides before their ratio is taken
_MAX_DEVIATION = 6.0  # of a length ratio from the usual one, in usual deviations
_COPIES, _SIZE = (6, 7), 8  # columns of `Table.features`
_TELLING = 1.0  # nats of copies, where no word is in the table
_FREEST, _FREEST_PER_UNIT = 3.0, 0.5  # nats that a free translation loses; for each unit besides
_WITH_SIZE = (0, 3, *_COPIES)  # columns whose weight may change with the number of units
_END_MARKS = (("?", "？"), ("!", "！"))
_FIT_ROUNDS, _NEWTON_STEPS, _RIDGE = 4, 12, 1.0


class Half(NamedTuple):
    """What is learned on one half of a sample by itself."""

    table: Table
    counts: NDArray[np.int64]  # (2, N_SLOTS) of each unit on the source and on the target side

    @classmethod
    def learn(cls, srcs: list[str], tgts: list[str]) -> "Half":
        """Learn from the normalised pairs of a half."""
        rows = np.arange(len(srcs))
        pairs = _Pairs.at(srcs, tgts, rows, rows)
        sides = pairs.src, pairs.tgt
        counts = [np.bincount(side.slots, minlength=N_SLOTS) for side in sides]
        return cls(Table.learn(*sides, len(srcs)), np.stack(counts))

    def save(self, path: Path) -> None:
        """Write it as one `.npz` file: the same bytes for the same half."""
        with path.open("wb") as file:
            np.savez_compressed(file, counts=self.counts, **self.table._asdict())

    @classmethod
    def load(cls, path: Path) -> "Half":
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            return cls(Table(*(file[name] for name in Table._fields)), file["counts"])


def split_rows(keys: Hashes) -> tuple[Ints, Ints] | None:
    """Rows of the two halves of a sample with these keys; None: too few to learn from."""
    first, second = (np.flatnonzero(_half(keys) == half) for half in (0, 1))
    return (first, second) if min(len(first), len(second)) >= MIN_PAIRS // 2 else None


@dataclass(frozen=True)
class LexicalModel:
    """Two tables, and the weights of their features."""

    tables: tuple[Table, Table]  # of the pairs whose key has the bit 0, and 1; each judges others
    usual_length: Doubles  # (2,) median and deviation of log(target / source characters)
    center: Doubles  # (n_features,) mean of the features
    scale: Doubles  # (n_features,) their deviation
    weights: Doubles  # (n_features + 1,) of log-odds; the last one is the constant term
    side_odds: Floats  # (N_SLOTS,) that a unit is of the source

    @classmethod
    def learn(
        cls, srcs: list[str], tgts: list[str], keys: Hashes, *, seed: int
    ) -> "LexicalModel | None":
        """Learn from up to `SAMPLE_PAIRS` normalised pairs; None: too few different ones.

        A sample is best made of whole stretches of the corpus, in its order: texts that stand near
        each other resemble each other, and the model learns to tell them apart.

        Args:
            keys: (n,) hashes of the pairs; equal pairs must have equal ones.
            seed: chooses the pairs that the weights are fitted to.
        """
        if (rows_of_halves := split_rows(keys)) is None:
            return None
        first, second = (
            Half.learn([srcs[row] for row in rows], [tgts[row] for row in rows])
            for rows in rows_of_halves
        )
        return cls.fit(first, second, srcs, tgts, keys, seed=seed)

    @classmethod
    def fit(
        cls, first: Half, second: Half, srcs: list[str], tgts: list[str], keys: Hashes, *, seed: int
    ) -> "LexicalModel | None":
        """As `learn`, of the two halves that `split_rows` has told apart."""
        rows_of_halves = split_rows(keys)
        assert rows_of_halves is not None
        usual_length = _usual_length(srcs, tgts)
        rng = np.random.default_rng(seed)
        true: list[Doubles] = []
        false: list[Doubles] = []
        for rows, (table, _) in zip(rows_of_halves, (second, first), strict=True):
            chosen = np.sort(rng.permutation(len(rows))[: _N_FIT // 2])
            strangers = _strangers(rows, chosen, srcs, tgts, rng)
            for found, (left, right) in ((true, (rows[chosen],) * 2), (false, strangers)):
                found.append(_features(table, usual_length, _Pairs.at(srcs, tgts, left, right)))
        if not all(map(len, false)):
            return None
        return cls(
            (first.table, second.table),
            usual_length,
            *_fit(np.concatenate(true), np.concatenate(false)),
            side_odds(*(first.counts + second.counts)),
        )

    def evidence(self, srcs: list[str], tgts: list[str], keys: Hashes) -> Floats:
        """(n,) log-odds that the two sides belong together, were it as likely as not beforehand.

        Natural logarithms; 0 where no word is known; `SWAPPED` where each side looks like the other
        one's language, whatever its words mean. Keys as in `learn`.
        """
        evidence = np.zeros(len(srcs), dtype=np.float32)
        halves = _half(keys)
        for start in range(0, len(srcs), _CHUNK):
            for half, table in enumerate(reversed(self.tables)):
                rows = start + np.flatnonzero(halves[start : start + _CHUNK] == half)
                if len(rows):
                    pairs = _Pairs.at(srcs, tgts, rows, rows)
                    log_odds = self._log_odds(_features(table, self.usual_length, pairs))
                    src, tgt = (side.without_bigrams() for side in (pairs.src, pairs.tgt))
                    swapped = look_swapped(self.side_odds, src, tgt, len(rows))
                    evidence[rows] = np.where(swapped, SWAPPED, log_odds)
        return evidence

    def _log_odds(self, features: Doubles) -> Doubles:
        log_odds = _standardised(features, self.center, self.scale) @ self.weights
        # Proverbs share no word with their translations, but no long text consists of proverbs.
        freest = -(_FREEST + _FREEST_PER_UNIT * np.expm1(features[:, _SIZE]))
        known = (features[:, _SIZE] > 0) | (features[:, _COPIES].sum(1) > _TELLING)
        return np.where(known, np.maximum(log_odds, freest), 0.0)

    def save(self, path: Path) -> None:
        """Write the model as one `.npz` file: arrays only, the same bytes for the same model."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        for half, table in enumerate(self.tables):
            arrays |= {f"{name}.{half}": array for name, array in table._asdict().items()}
        with path.open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: Path) -> "LexicalModel":
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            first, second = (
                Table(*(file[f"{name}.{half}"] for name in Table._fields)) for half in (0, 1)
            )
            return cls((first, second), **{name: file[name] for name in _ARRAYS})


_ARRAYS = ("usual_length", "center", "scale", "weights", "side_odds")


def _half(keys: Hashes) -> Ints:
    return ((keys >> _HALF_BIT) & np.uint64(1)).astype(np.int64)


class _Pairs(NamedTuple):
    """Texts that are compared, and the units of their starts."""

    srcs: list[str]
    tgts: list[str]
    src: Units
    tgt: Units

    @classmethod
    def at(cls, srcs: list[str], tgts: list[str], src_rows: Ints, tgt_rows: Ints) -> "_Pairs":
        srcs, tgts = [srcs[row] for row in src_rows], [tgts[row] for row in tgt_rows]
        # The starts of long texts, the same share of both sides.
        longest = [max(_MAX_CHARACTERS, *map(len, pair)) for pair in zip(srcs, tgts, strict=True)]
        starts = (
            [
                text[: 1 + len(text) * _MAX_CHARACTERS // most]
                for text, most in zip(side, longest, strict=True)
            ]
            for side in (srcs, tgts)
        )
        return cls(srcs, tgts, *map(text_units, starts))


def _strangers(
    rows: Ints, chosen: Ints, srcs: list[str], tgts: list[str], rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Sources, and targets that are not theirs: near ones of the half, and ones of like length."""
    n = len(rows)
    near = chosen + rng.choice([-2, -1, 1, 2], len(chosen))
    by_length = np.argsort([len(tgts[row]) for row in rows], kind="stable")
    rank = np.empty(n, dtype=np.int64)
    rank[by_length] = np.arange(n)
    steps = rng.choice([-1, 1], len(chosen)) * rng.integers(1, 2 + n // 100, len(chosen))
    alike = by_length[(rank[chosen] + steps) % n]
    left, right = rows[np.tile(chosen, 2)], rows[np.concatenate([near % n, alike])]
    differ = [srcs[i] != srcs[j] and tgts[i] != tgts[j] for i, j in zip(left, right, strict=True)]
    return left[differ], right[differ]


def _features(table: Table, usual_length: Doubles, pairs: _Pairs) -> Doubles:
    """(n, n_features) features of pairs: those of the table, end marks and lengths."""
    lexical = table.features(pairs.src, pairs.tgt, n_pairs=len(pairs.srcs))
    ratios = _length_ratios(pairs.srcs, pairs.tgts)
    deviation = np.abs(ratios - usual_length[0]) / usual_length[1]
    deviation = deviation.clip(max=_MAX_DEVIATION)[:, None]
    marks = []
    for mark in _END_MARKS:
        one, other = (
            np.array([text.endswith(mark) for text in side], dtype=bool)
            for side in (pairs.srcs, pairs.tgts)
        )
        marks += [one & other, one ^ other]
    by_size = lexical[:, _WITH_SIZE] * lexical[:, [_SIZE]]
    return np.column_stack([lexical, deviation, deviation**2, *marks, by_size]).astype(np.float64)


def _length_ratios(srcs: list[str], tgts: list[str]) -> Doubles:
    src, tgt = (np.array(list(map(len, side))) + _LENGTH_SMOOTHING for side in (srcs, tgts))
    return np.log(tgt / src)


def _usual_length(srcs: list[str], tgts: list[str]) -> Doubles:
    ratios = _length_ratios(srcs, tgts)
    middle = np.median(ratios)
    deviation = 1.4826 * np.median(np.abs(ratios - middle))  # of a normal distribution
    return np.array([middle, deviation + 0.05])


def _standardised(features: Doubles, center: Doubles, scale: Doubles) -> Doubles:
    return np.column_stack([(features - center) / scale, np.ones(len(features))])


def _fit(true: Doubles, false: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Center, scale and weights that tell pairs of the corpus from strangers.

    Some pairs of the corpus are strangers as well. So each counts as far as it looks like a good
    pair, which is estimated in turn with the weights.
    """
    center, scale = false.mean(axis=0), false.std(axis=0) + 1e-3
    features = _standardised(np.concatenate([true, false]), center, scale)
    is_true = np.arange(len(features)) < len(true)
    good = np.ones(len(true))
    for _ in range(_FIT_ROUNDS):
        mass = np.concatenate([good, np.full(len(false), good.sum() / len(false))])
        weights = fit_logistic(features, is_true, mass, steps=_NEWTON_STEPS, ridge=_RIDGE)
        good = _share_good(features[: len(true)] @ weights)
    return center, scale, weights


def _share_good(log_odds: Doubles) -> Doubles:
    """(n,) probability that each pair is good, given the share of bad ones that explains all."""
    odds = np.exp(-log_odds.clip(-30, 30))
    bad = 0.05
    for _ in range(30):
        good = 1 / (1 + bad / (1 - bad) * odds)
        bad = min(max(float(np.mean(1 - good)), 1e-4), 0.5)
    return good
