"""Maps of one translation → the layer, head and row that say most about each of its pronouns.

A weight is compared with plain explanations of it: the row looks everywhere alike, the key draws
every row of that head, or the head looks as far back from every row. This file does not know how
maps are drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from transformer_mt.config.data import Languages
from transformer_mt.errors import TmtError
from transformer_mt.explain.piece_text import PieceText, Word
from transformer_mt.messages.catalogue import tr
from transformer_mt.system.arrays import Floats
from transformer_mt.text.languages import is_unspaced
from transformer_mt.translation.attention_maps import AttentionMaps, Kind

CAUTION = tr(
    "Weights alone mislead: they say where a head took its values from, not what "
    "the layers above made of them."
)
_LEAST = 0.005  # a smaller difference of weights is not seen in two decimals


class HeadWeight(NamedTuple):
    """The weight that one head puts from the rows of a word on the columns of another."""

    layer: int  # from 1, as the head
    head: int
    weight: float  # summed over the columns, the mean of the rows
    elsewhere: float  # the mean of the same in other rows of the head
    excess: float  # of the weight over its plain explanations
    peaks: bool  # the largest weight of the row lies on one of the columns


@dataclass(frozen=True)
class Finding:
    """A row of one head that is worth a look."""

    kind: Kind
    layer: int
    head: int
    row: int  # from 0
    label: str  # in few words
    text: str  # in one sentence


def head_weights(
    maps: AttentionMaps, kind: Kind, rows: Sequence[int], columns: Sequence[int]
) -> list[HeadWeight]:
    """Every head, the largest weight from the rows to the columns first."""
    weights = maps.weights(kind)  # (L, H, rows, columns)
    sums = weights[..., list(columns)].sum(axis=-1)  # (L, H, rows)
    here = sums[..., list(rows)].mean(axis=-1)  # (L, H)
    elsewhere = _mean(sums, _other_rows(maps, kind, rows, columns))
    usual = elsewhere if kind == "cross" else _usual_at_distance(weights, rows[0], columns)
    n_seen = np.count_nonzero(~maps.masked(kind)[rows[0]])
    excess = here - np.maximum(elsewhere, usual).clip(min=len(columns) / n_seen)
    best = weights[..., list(rows), :].mean(axis=-2).argmax(axis=-1)  # (L, H)
    found = []
    for layer, head in np.ndindex(*here.shape):
        place = layer, head
        own = float(here[place]), float(elsewhere[place]), float(excess[place])
        found.append(HeadWeight(layer + 1, head + 1, *own, int(best[place]) in columns))
    return sorted(found, key=lambda own: -own.weight)


def _other_rows(
    maps: AttentionMaps, kind: Kind, rows: Sequence[int], columns: Sequence[int]
) -> list[int]:
    """The rows that may see the columns, without those of the two words themselves."""
    hidden = np.all(maps.masked(kind)[:, list(columns)], axis=1).tolist()
    own = {*rows} if kind == "cross" else {*rows, *columns}
    return [row for row in range(len(hidden)) if row not in own and not hidden[row]]


def _mean(values: Floats, rows: list[int]) -> Floats:
    """(L, H) the mean of (L, H, rows) over some rows; 0 without any."""
    if not rows:
        return np.zeros(values.shape[:2], np.float32)
    return np.asarray(values[..., rows].mean(axis=-1))


def _usual_at_distance(weights: Floats, row: int, columns: Sequence[int]) -> Floats:
    """(L, H) the mean weight of other rows on the columns that lie as far from them."""
    n_rows, n_columns = weights.shape[2:]
    sums = [
        weights[..., row + move, [column + move for column in columns]].sum(axis=-1)
        for move in range(-row, n_rows - row)
        if move and all(0 <= column + move < n_columns for column in columns)
    ]
    return np.asarray(np.mean(sums, axis=0) if sums else np.zeros(weights.shape[:2], np.float32))


def pronoun_findings(maps: AttentionMaps, languages: Languages) -> list[Finding]:
    """A finding for each pronoun, the most telling first; without any, the sharpest head.

    A pronoun of the source asks in the encoder, one of the translation in cross-attention; both for
    a word of an earlier clause.
    """
    src, tgt = _texts(maps, languages)
    pronouns = src.pronouns()
    own = {piece for pronoun in pronouns for piece in pronoun.pieces}
    words = [word for word in src.words() if own.isdisjoint(word.pieces)]
    asked: list[tuple[Kind, Word, list[Word]]] = [
        ("encoder", pronoun, src.before(pronoun)) for pronoun in pronouns
    ]
    if words:
        asked += [("cross", word, _translated_before(maps, src, word)) for word in tgt.pronouns()]
    found = [
        _pronoun_finding(maps, src, kind, pronoun, candidates)
        for kind, pronoun, earlier in asked
        if kind in maps.kinds
        if (candidates := [word for word in earlier if word in words])
    ]
    found.sort(key=lambda item: item[0], reverse=True)
    findings = [finding for _, finding in found]
    if not findings or found[0][0] <= (False, _LEAST):
        why = tr("shown instead") if findings else tr("no pronoun to ask about")
        return [_sharpest(maps, src, why), *findings]
    return findings


def _translated_before(maps: AttentionMaps, src: PieceText, pronoun: Word) -> list[Word]:
    """Source words that steps before have written, of clauses before that of the next step."""
    upper = maps.cross[len(maps.cross) // 2 :].mean(axis=(0, 1))  # (T, S)
    written_by = upper.argmax(axis=0)  # (S,)
    step = pronoun.pieces[0]
    next_step = min(step + 1, len(upper) - 1)
    source_of_next = max(src.words(), key=lambda word: upper[next_step, word.pieces].max())
    return [word for word in src.before(source_of_next) if written_by[word.pieces].max() < step]


def _pronoun_finding(
    maps: AttentionMaps, src: PieceText, kind: Kind, pronoun: Word, earlier: list[Word]
) -> tuple[tuple[bool, float], Finding]:
    """The earlier word and the head that stand out most, and how much."""
    strength, own, word = max(
        ((own.peaks and own.excess > _LEAST, own.excess), own, word)
        for word in earlier
        for own in head_weights(maps, kind, pronoun.pieces, word.pieces)
    )
    row, name = pronoun.pieces[0], pronoun.text
    asks = tr("{} (step {})", name, row + 1) if kind == "cross" else name
    shown = f"{word.text} ({src.around(word)})" if is_unspaced(src.language) else word.text
    if strength[0]:
        text = tr("{} looks most at {}: {}", asks, shown, _where(kind, own))
    elif own.excess > _LEAST:
        text = tr("in no head does {} look most at an earlier word; nearest: {}, ", asks, shown)
        text += _where(kind, own)
    else:
        text = tr("in no head of this model does {} stand out from the other rows", asks)
    label = f"{name} → {word.text}"
    return strength, Finding(kind, own.layer, own.head, row, label, text)


def _where(kind: Kind, own: HeadWeight) -> str:
    head = tr("{} layer {}, head {}", kind, own.layer, own.head)
    return tr("{}, weight {:.2f} (its other rows: {:.2f})", head, own.weight, own.elsewhere)


def _sharpest(maps: AttentionMaps, src: PieceText, why: str) -> Finding:
    """The head of the cross-attention whose rows stand out most, and its row that does."""
    steps = slice(0, max(1, len(maps.tgt_out_pieces) - 1))  # not that of the end
    columns = sorted({piece for word in src.words() for piece in word.pieces})
    weights = maps.cross[..., steps, :]  # (L, H, T - 1, S)
    if columns:
        weights = weights[..., columns]
    stands_out = (weights - weights.mean(axis=2, keepdims=True)).max(axis=-1)  # (L, H, T - 1)
    layer, head = np.unravel_index(stands_out.mean(axis=-1).argmax(), stands_out.shape[:2])
    row = int(stands_out[layer, head].argmax())
    mean = float(weights[layer, head].max(axis=-1).mean())
    text = tr(
        "{}: cross layer {}, head {}, whose steps peak most sharply, with {:.2f} "
        "on one piece on average",
        why,
        layer + 1,
        head + 1,
        mean,
    )
    return Finding("cross", int(layer) + 1, int(head) + 1, row, tr("sharpest head"), text)


def word_findings(
    maps: AttentionMaps, languages: Languages, first: str, second: str
) -> list[Finding]:
    """The heads in which one word looks most at another, or the nearest one if none does.

    Raises:
        TmtError: a word is not there, or the first cannot see the second in this model.
    """
    kind, askers, columns = _places(maps, languages, first, second)
    if kind not in maps.kinds:
        raise TmtError(tr("this model has no attention of the kind {}", kind))
    found = [
        (own, asker) for asker in askers for own in head_weights(maps, kind, asker.pieces, columns)
    ]
    peaks = sorted((item for item in found if item[0].peaks), key=lambda item: -item[0].weight)
    nearest = max(found, key=lambda item: item[0].weight - item[0].elsewhere)
    findings = []
    for own, asker in peaks or [nearest]:
        asks = tr("{} (row {})", first, asker.pieces[0] + 1) if len(askers) > 1 else first
        if own.peaks:
            text = tr("{} looks most at {}: {}", asks, second, _where(kind, own))
        elif own.weight > own.elsewhere + _LEAST:
            text = tr(
                "in no head does {} look most at {}; nearest: {}", asks, second, _where(kind, own)
            )
        else:
            text = tr(
                "no head of this model looks from {} to {} above its average of {:.2f}",
                asks,
                second,
                own.elsewhere,
            )
        row, label = asker.pieces[0], f"{first} → {second}"
        findings.append(Finding(kind, own.layer, own.head, row, label, text))
    return findings


def _places(
    maps: AttentionMaps, languages: Languages, first: str, second: str
) -> tuple[Kind, list[Word], list[int]]:
    """The kind of attention that goes from one word to the other; its rows, and its columns."""
    src, tgt = _texts(maps, languages)
    option = f"--find {first} {second}"
    for word in (first, second):
        if not (src.find(word) or tgt.find(word)):
            raise TmtError(
                tr(
                    "{}: {!r} is neither in the text, {}, nor in the translation, {}",
                    option,
                    word,
                    src.text.strip(),
                    tgt.text.strip(),
                )
            )
    if src.find(second):
        kind: Kind = "encoder" if src.find(first) else "cross"
        askers = src.find(first) or tgt.find(first)
        columns = [piece for word in src.find(second) for piece in word.pieces]
    elif askers := tgt.find(first):
        kind = "decoder"
        # A step reads the piece that the step before it wrote.
        columns = [piece + 1 for word in tgt.find(second) for piece in word.pieces]
        askers = [asker for asker in askers if asker.pieces[0] >= min(columns)]
        if not askers:
            raise TmtError(tr("{}: the step that writes {} cannot see a later word", option, first))
    else:
        raise TmtError(
            tr(
                "{}: the encoder does not see the translation; --find {} {} asks where "
                "the step that writes {} looks",
                option,
                second,
                first,
                second,
            )
        )
    if kind == "encoder":
        columns = [c for c in columns if all(c not in asker.pieces for asker in askers)]
    if not columns:
        raise TmtError(tr("{}: give two different words", option))
    return kind, askers, columns


def _texts(maps: AttentionMaps, languages: Languages) -> tuple[PieceText, PieceText]:
    """The source as it is read, and the translation as it is written."""
    return (
        PieceText(maps.src_pieces, languages.src),
        PieceText(maps.tgt_out_pieces, languages.tgt),
    )
