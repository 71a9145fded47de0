"""A sample of a corpus → log-odds that the two sides of a pair belong together.

Comes in: normalised pairs, most of them good. Goes out: a `LexicalModel`. Nothing is known
beforehand: word translations, copied words, the usual lengths and the weight of each feature are
learned on the corpus itself, against sources and targets of it that were paired anew. This file
does not know the place of a pair in the corpus (`misaligned_runs.py`), nor its fate.

Two tables are learned, on two halves of the sample that a bit of the pair's key tells apart. Each
pair is judged by the table that has not seen it: its own rare words would vouch for it.
"""

import zipfile
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from transformer_mt.corpus.cleaning.lexical_units import N_SLOTS, Units, text_units
from transformer_mt.corpus.cleaning.score_store import Hashes
from transformer_mt.corpus.cleaning.translation_table import Table
from transformer_mt.corpus.diagnostics.logistic_regression import fit_logistic
from transformer_mt.corpus.diagnostics.swapped_sides import look_swapped, side_odds
from transformer_mt.errors import DataError
from transformer_mt.system.arrays import Doubles, Floats, Ints
from transformer_mt.system.output import writing

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


@dataclass(frozen=True)
class LexicalModel:
    """Two tables, and the weights of their features.

    Attributes:
        tables: learned on the pairs whose key has the bit 0, and 1; each judges the others.
        usual_length: (2,) median and deviation of the log ratio of target to source characters.
        center, scale: (n_features,) mean and deviation of the features, to make them comparable.
        weights: (n_features + 1,) of log-odds; the last one is the constant term.
        side_odds: (N_SLOTS,) that a unit is of the source.
    """

    tables: tuple[Table, Table]
    usual_length: Doubles
    center: Doubles
    scale: Doubles
    weights: Doubles
    side_odds: Floats

    @classmethod
    def learn(
        cls,
        srcs: list[str],
        tgts: list[str],
        keys: Hashes,
        *,
        seed: int,
    ) -> "LexicalModel | None":
        """Learn from up to `SAMPLE_PAIRS` normalised pairs, in the order of the corpus.

        The order matters a little: texts that stand near each other resemble each other, and the
        model learns to tell them apart. So a sample is best made of whole stretches.

        Args:
            keys: (n,) hashes of the pairs; equal pairs must have equal ones.
            seed: chooses the pairs that the weights are fitted to.
        Returns:
            None when there are too few different pairs to tell anything.
        """
        halves = [np.flatnonzero(_half(keys) == half) for half in (0, 1)]
        if min(len(rows) for rows in halves) < MIN_PAIRS // 2:
            return None
        pairs = [_Pairs.at(srcs, tgts, rows, rows) for rows in halves]
        first, second = (Table.learn(half.src, half.tgt, len(half.srcs)) for half in pairs)
        src_counts, tgt_counts = (
            np.bincount(np.concatenate(slots), minlength=N_SLOTS)
            for slots in ([half.src.slots for half in pairs], [half.tgt.slots for half in pairs])
        )
        usual_length = _usual_length(srcs, tgts)
        rng = np.random.default_rng(seed)
        true: list[Doubles] = []
        false: list[Doubles] = []
        for rows, table in zip(halves, (second, first), strict=True):
            chosen = np.sort(rng.permutation(len(rows))[: _N_FIT // 2])
            strangers = _strangers(rows, chosen, srcs, tgts, rng)
            for features, (left, right) in ((true, (rows[chosen],) * 2), (false, strangers)):
                texts = _Pairs.at(srcs, tgts, left, right)
                features.append(_features(table, usual_length, texts))
        if not all(map(len, false)):
            return None
        return cls(
            (first, second),
            usual_length,
            *_fit(np.concatenate(true), np.concatenate(false)),
            side_odds(src_counts, tgt_counts),
        )

    def evidence(self, srcs: list[str], tgts: list[str], keys: Hashes) -> Floats:
        """(n,) log-odds that the two sides belong together, were it as likely as not beforehand.

        Against sides of the same corpus that do not: neighbours, and texts of like length.

        Args:
            keys: (n,) as in `learn`.
        Returns:
            Natural logarithms; 0 where no word is known; `SWAPPED` where each side looks like the
            other one's language, whatever its words mean.
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
        log_odds = _with_constant((features - self.center) / self.scale) @ self.weights
        # Proverbs share no word with their translations, but no long text consists of proverbs.
        freest = -(_FREEST + _FREEST_PER_UNIT * np.expm1(features[:, _SIZE]))
        known = (features[:, _SIZE] > 0) | (features[:, _COPIES].sum(1) > _TELLING)
        return np.where(known, np.maximum(log_odds, freest), 0.0)

    def save(self, path: Path) -> None:
        """Write the model as one `.npz` file: arrays only, the same bytes for the same model."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        for half, table in enumerate(self.tables):
            arrays |= {f"{field.name}.{half}": getattr(table, field.name) for field in _OF_TABLE}
        with writing(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: Path) -> "LexicalModel":
        """Read what `save` wrote.

        Raises:
            DataError: the file is missing, damaged, or something else.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                tables = [
                    Table(**{field.name: file[f"{field.name}.{half}"] for field in _OF_TABLE})
                    for half in (0, 1)
                ]
                return cls((tables[0], tables[1]), **{name: file[name] for name in _ARRAYS})
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(
                f"{path}: cannot be read as a lexical model: {error}; delete it, so that it is "
                "learned again"
            ) from error


_ARRAYS = ("usual_length", "center", "scale", "weights", "side_odds")
_OF_TABLE = fields(Table)


def _half(keys: Hashes) -> Ints:
    return ((keys >> _HALF_BIT) & np.uint64(1)).astype(np.int64)


@dataclass(frozen=True)
class _Pairs:
    """Texts that are compared, and the units of their starts."""

    srcs: list[str]
    tgts: list[str]
    src: Units
    tgt: Units

    @classmethod
    def at(cls, srcs: list[str], tgts: list[str], src_rows: Ints, tgt_rows: Ints) -> "_Pairs":
        srcs, tgts = [srcs[row] for row in src_rows], [tgts[row] for row in tgt_rows]
        return cls(srcs, tgts, *map(text_units, _shortened(srcs, tgts)))


def _shortened(srcs: list[str], tgts: list[str]) -> tuple[list[str], list[str]]:
    """The starts of long texts, the same share of both sides."""
    srcs, tgts = list(srcs), list(tgts)
    for row, (src, tgt) in enumerate(zip(srcs, tgts, strict=True)):
        longest = max(len(src), len(tgt))
        if longest > _MAX_CHARACTERS:
            srcs[row] = src[: 1 + len(src) * _MAX_CHARACTERS // longest]
            tgts[row] = tgt[: 1 + len(tgt) * _MAX_CHARACTERS // longest]
    return srcs, tgts


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
    lengths = [np.array([len(text) for text in side], dtype=np.float64) for side in (srcs, tgts)]
    return np.log((lengths[1] + _LENGTH_SMOOTHING) / (lengths[0] + _LENGTH_SMOOTHING))


def _usual_length(srcs: list[str], tgts: list[str]) -> Doubles:
    ratios = _length_ratios(srcs, tgts)
    middle = np.median(ratios)
    deviation = 1.4826 * np.median(np.abs(ratios - middle))  # of a normal distribution
    return np.array([middle, deviation + 0.05])


def _with_constant(features: Doubles) -> Doubles:
    return np.column_stack([features, np.ones(len(features))])


def _fit(true: Doubles, false: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Center, scale and weights that tell pairs of the corpus from strangers.

    Some pairs of the corpus are strangers as well. So each counts as far as it looks like a good
    pair, which is estimated together with the share of bad ones, in turn with the weights.
    """
    center, scale = false.mean(axis=0), false.std(axis=0) + 1e-3
    features = _with_constant((np.concatenate([true, false]) - center) / scale)
    is_true = np.arange(len(features)) < len(true)
    good = np.ones(len(true))
    for _ in range(_FIT_ROUNDS):
        mass = np.full(len(false), good.sum() / len(false))
        mass = np.concatenate([good, mass])
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
