"""Units of both sides of a corpus → a table of partners → features of a pair of texts.

This file does not know the weights of the features, nor any text.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transformer_mt.system.arrays import Doubles, Floats, Ints
from transformer_mt.text.units import N_SLOTS, NUMBER, Units

_N_FEATURES = 9  # columns of `Table.features`

_MAX_UNITS, _MIN_COUNT = 8192, 3  # of a side that a table knows: the most frequent; occurrences
_BLOCK_CELLS = 1 << 17  # of a padded block of pairs, so that it stays in the cache
_EM_ROUNDS = 2  # more sharpen the table, and pairs are told apart less well
_NULL = 1.0  # lift of the partner that each unit has besides the units of the other side
_RARE = 1.0  # occurrences without partner added to each unit: a single occurrence proves little
_STEP, _LOWEST = 0.045, -3.0  # of log lifts from one level of the table to the next; level 1
_LIFT_OF_LEVEL = np.exp(_LOWEST + _STEP * np.arange(-1, 255)).astype(np.float32)
_LIFT_OF_LEVEL[0] = 0
_FROM_NOWHERE = 0.05  # share of a unit's probability that owes nothing to the other side
_STRONG = 1.5  # nats by which a unit that has its partner on the other side is more likely
_COPY_BOUNDS, _COPY_SUM_BOUNDS = (-3, 5), (-8, 12)  # nats, of one unit and of a text


class Table(NamedTuple):
    """Partners and copies of the units of one corpus, or of half of it."""

    src_slots: Ints  # (Vs,) units of the source side in the table
    tgt_slots: Ints  # (Vt,) those of the target side
    # (Vt + 1, Vs + 1) how much more often two units are partners than chance has it; 0 is never,
    # others on a logarithmic scale; the last row and column are padding.
    levels: NDArray[np.uint8]
    # (2, Vs + 2) log-odds that a source belongs to a target which does not, or does, hold the same
    # word or number; the last two are for other words and other numbers.
    src_copies: Floats
    tgt_copies: Floats  # (2, Vt + 2) likewise for units of the target

    @classmethod
    def learn(cls, src: Units, tgt: Units, n_pairs: int) -> "Table":
        """Count a corpus in which the texts of the two sides with the same index are pairs."""
        src_slots, tgt_slots = _frequent(src), _frequent(tgt)
        sides = _Side.of(src, src_slots, n_pairs), _Side.of(tgt, tgt_slots, n_pairs)
        levels = _levels(_lifts(*sides, shape=(len(tgt_slots) + 1, len(src_slots) + 1)))
        stranger = tgt._replace(texts=(tgt.texts + n_pairs // 3) % n_pairs)  # of a text far away
        return cls(
            src_slots,
            tgt_slots,
            levels,
            _copy_odds(src_slots, (src, tgt), (src, stranger)),
            _copy_odds(tgt_slots, (tgt, src), (stranger, src)),
        )

    def features(self, src: Units, tgt: Units, n_pairs: int) -> Floats:
        """(n_pairs, 9) nats and shares, larger for translations; 0 where nothing is known.

        Columns: of the target's units, the mean of the log-likelihood ratios given the source, the
        sum by the square root of their number, the share that is far likelier; the same of the
        source's; copies from the source, and to the target; the logarithm of the number of units.
        """
        one, other = _Side.of(src, self.src_slots, n_pairs), _Side.of(tgt, self.tgt_slots, n_pairs)
        features = np.zeros((n_pairs, _N_FEATURES), dtype=np.float32)
        flat = self.levels.ravel()
        for rows, cells in _blocks(one, other, self.levels.shape):
            lifts = _LIFT_OF_LEVEL.take(flat.take(cells))  # (n, T, S)
            n_src, n_tgt = one.lengths[rows], other.lengths[rows]
            features[rows, 0:3] = _explained(lifts.sum(2), n_tgt, n_src)
            features[rows, 3:6] = _explained(lifts.sum(1), n_src, n_tgt)
        features[:, 6] = _Copies.of(src, tgt, self.src_slots).sums(self.src_copies, n_pairs)
        features[:, 7] = _Copies.of(tgt, src, self.tgt_slots).sums(self.tgt_copies, n_pairs)
        features[:, 8] = np.log1p(np.minimum(one.lengths, other.lengths))
        return features


class _Side(NamedTuple):
    """The units of one side of some pairs that a table knows, as its rows or columns."""

    ids: Ints  # (n_units,)
    starts: Ints  # (n_pairs,)
    lengths: Ints  # (n_pairs,)

    @classmethod
    def of(cls, units: Units, slots: Ints, n_pairs: int) -> "_Side":
        ids = _ids_of_slots(slots)[units.slots]
        known = ids >= 0
        lengths = np.bincount(units.texts[known], minlength=n_pairs)
        return cls(ids[known].astype(np.int64), np.cumsum(lengths) - lengths, lengths)

    def padded(self, rows: Ints, pad: int) -> Ints:
        """(len(rows), longest) ids of these texts, filled up with `pad`."""
        lengths = self.lengths[rows][:, None]
        columns = np.arange(lengths.max())
        inside = columns < lengths
        places = np.where(inside, self.starts[rows][:, None] + columns, 0)
        return np.where(inside, self.ids[places], pad)


def _frequent(units: Units) -> Ints:
    counts = np.bincount(units.slots, minlength=N_SLOTS)
    slots = np.argsort(-counts, kind="stable")[:_MAX_UNITS]
    return slots[counts[slots] >= _MIN_COUNT]


def _ids_of_slots(slots: Ints) -> NDArray[np.int32]:
    ids = np.full(N_SLOTS, -1, dtype=np.int32)
    ids[slots] = np.arange(len(slots))
    return ids


def _blocks(src: _Side, tgt: _Side, shape: tuple[int, int]) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of like size: their indices, and (n, T, S) the cells of a table that they touch."""
    order = np.argsort(src.lengths + tgt.lengths, kind="stable")
    pending = [order[(src.lengths[order] > 0) & (tgt.lengths[order] > 0)]]
    while pending:
        rows = pending.pop()
        if not len(rows):
            continue
        n_cells = len(rows) * src.lengths[rows].max() * tgt.lengths[rows].max()
        if n_cells > _BLOCK_CELLS and len(rows) > 1:
            pending += [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
            continue
        across = tgt.padded(rows, shape[0] - 1) * shape[1]
        yield rows, across[:, :, None] + src.padded(rows, shape[1] - 1)[:, None, :]


def _lifts(src: _Side, tgt: _Side, *, shape: tuple[int, int]) -> Floats:
    """(Vt + 1, Vs + 1) how many times more often two units are partners than chance has it.

    Each unit chooses one partner of the other side, or none; two are partners as far as both
    choose each other.

    Source: Brown et al. 1993, Model 1; Liang et al. 2006, section 3.1, for the agreement.
    """
    lifts = np.ones(shape, dtype=np.float32)
    lifts[-1] = lifts[:, -1] = 0  # padding is nobody's partner
    for _ in range(_EM_ROUNDS):
        counts = np.zeros(shape, dtype=np.float32)
        for _, cells in _blocks(src, tgt, shape):
            found = lifts.take(cells)  # (n, T, S)
            partners = found * found
            partners /= (_NULL + found.sum(2))[:, :, None]
            partners /= (_NULL + found.sum(1))[:, None, :]
            np.add.at(counts.ravel(), cells.ravel(), partners.ravel())
        of_src, of_tgt = counts.sum(0), counts.sum(1)
        counts *= (of_src.sum() / (of_tgt + _RARE))[:, None]
        counts /= of_src + _RARE
        lifts = counts
    return lifts


def _levels(lifts: Floats) -> NDArray[np.uint8]:
    levels = np.zeros(lifts.shape, dtype=np.uint8)
    for row, level in zip(lifts, levels, strict=True):
        some = row > np.exp(_LOWEST)
        level[some] = np.minimum(np.rint((np.log(row[some]) - _LOWEST) / _STEP) + 1, 255)
    return levels


def _explained(lifts: Floats, n_units: Ints, n_others: Ints) -> Floats:
    """(n, 3) mean, scaled sum and share of strong ones of the units' log-likelihood ratios.

    Args:
        lifts: (n, longest) sum over the units of the other side; behind `n_units` padding.
    """
    lengths = n_units[:, None].astype(np.float32)
    ratios = np.log(_FROM_NOWHERE + (1 - _FROM_NOWHERE) * lifts / n_others[:, None])
    ratios = np.where(np.arange(lifts.shape[1]) < lengths, ratios, 0).astype(np.float32)
    total = ratios.sum(1, keepdims=True)
    strong = (ratios > _STRONG).sum(1, keepdims=True)
    return np.concatenate([total / lengths, total / np.sqrt(lengths), strong / lengths], axis=1)


def _among(keys: Ints, others: Ints) -> NDArray[np.bool_]:
    """(n,) whether each key, 0 or more, is among the others; `np.isin` takes 7 times as long."""
    ordered = np.append(np.sort(others), -1)
    return ordered[np.searchsorted(ordered[:-1], keys)] == keys


class _Copies(NamedTuple):
    """Words and numbers of one side, and which of them the pair's other side has as well."""

    texts: Ints
    kinds: Ints
    ids: Ints  # columns of `Table.src_copies` or `tgt_copies`
    copied: NDArray[np.bool_]

    @classmethod
    def of(cls, units: Units, others: Units, slots: Ints) -> "_Copies":
        plain, plain_others = units.kinds <= NUMBER, others.kinds <= NUMBER
        texts, kinds = units.texts[plain], units.kinds[plain].astype(np.int64)
        keys_of_others = others.texts[plain_others] * N_SLOTS + others.slots[plain_others]
        copied = _among(texts * N_SLOTS + units.slots[plain], keys_of_others)
        ids = _ids_of_slots(slots)[units.slots[plain]]
        return cls(texts, kinds, np.where(ids >= 0, ids, len(slots) + kinds), copied)

    def shares(self, n_slots: int) -> Doubles:
        """(V + 2,) how often the other side has the unit; a rare one is taken for its kind."""
        totals = np.bincount(self.kinds, minlength=NUMBER + 1)
        n_copied = np.bincount(self.kinds, weights=self.copied, minlength=NUMBER + 1)
        usual = (n_copied + 0.5) / (totals + 1)
        size = n_slots + NUMBER + 1
        kind_of = np.zeros(size, dtype=np.int64)
        kind_of[self.ids] = self.kinds
        kind_of[n_slots:] = np.arange(NUMBER + 1)
        n_seen = np.bincount(self.ids, minlength=size)
        n_copied = np.bincount(self.ids, weights=self.copied, minlength=size)
        return ((n_copied + 4 * usual[kind_of]) / (n_seen + 4)).clip(1e-4, 1 - 1e-4)

    def sums(self, odds: Floats, n_pairs: int) -> Floats:
        """(n_pairs,) log-odds that all words and numbers of a text tell by being copied or not."""
        each = odds[self.copied.astype(np.int64), self.ids]
        sums = np.bincount(self.texts, weights=each, minlength=n_pairs)
        return sums.clip(*_COPY_SUM_BOUNDS).astype(np.float32)


def _copy_odds(slots: Ints, pairs: tuple[Units, Units], strangers: tuple[Units, Units]) -> Floats:
    """(2, V + 2) from how often a unit is on both sides of a pair, and of texts that are none."""
    true, false = (_Copies.of(*texts, slots).shares(len(slots)) for texts in (pairs, strangers))
    odds = np.stack([np.log((1 - true) / (1 - false)), np.log(true / false)])
    return odds.clip(*_COPY_BOUNDS).astype(np.float32)
