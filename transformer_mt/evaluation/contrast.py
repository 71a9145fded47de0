"""Contrast sets: does the model prefer the right translation to one that is wrong in one word?

Comes in: (source, right, wrong) triples and something that scores pairs. Goes out: the share of
sources where the right one wins, and the others by name. This file knows no model and no tokenizer.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transformer_mt.errors import DataError
from transformer_mt.translation.attention_maps import AttentionMaps, Kind

Contrast = tuple[str, str, str]  # source, right, wrong


@dataclass(frozen=True)
class ContrastFailure:
    """A wrong translation that scores at least as high as the right one."""

    source: str
    right: str
    wrong: str
    log_prob_right: float
    log_prob_wrong: float


@dataclass(frozen=True)
class ContrastResult:
    accuracy: float  # share of sources where the right one beats every wrong one
    n: int  # sources, each with one right and at least one wrong translation
    failures: list[ContrastFailure]


def read_contrast(path: Path) -> list[Contrast]:
    """Read a tab-separated file: source, right, wrong. A source may have several wrong ones.

    Raises:
        DataError: the file is missing or empty, or lines do not have three different fields; the
            message names the first of them.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; convert it first") from error
    items: list[Contrast] = []
    problems = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split("\t")]
        problem = _problem(fields)
        if problem:
            problems.append(f"{path}: line {number}: {problem}")
        else:
            items.append((fields[0], fields[1], fields[2]))
    if problems:
        more = f"\n… and {len(problems) - 5} more such lines" if len(problems) > 5 else ""
        raise DataError("\n".join(problems[:5]) + more)
    if not items:
        raise DataError(f"{path}: empty; expected lines of source TAB right TAB wrong")
    return items


def _problem(fields: Sequence[str]) -> str | None:
    if len(fields) != 3:
        return f"found {len(fields)} fields, expected 3: source TAB right TAB wrong"
    for name, field in zip(("source", "right", "wrong"), fields, strict=True):
        if not field:
            return f"the {name} field is empty"
    if fields[1] == fields[2]:
        return f"right and wrong are the same: {fields[1]!r}"
    return None


def contrast_accuracy(
    log_probs_right: Sequence[float], log_probs_wrong: Sequence[Sequence[float]]
) -> float:
    """Share of sources whose right translation scores higher than all of its wrong ones.

    Args:
        log_probs_right: one per source.
        log_probs_wrong: one or more per source. Equal scores count as wrong.
    Raises:
        ValueError: there is no source, or a source has no wrong translation.
    """
    pairs = list(zip(log_probs_right, log_probs_wrong, strict=True))
    if not pairs or not all(len(wrong) > 0 for _, wrong in pairs):
        raise ValueError("needs at least one source and one wrong translation for each")
    return sum(right > max(wrong) for right, wrong in pairs) / len(pairs)


def evaluate_contrast(
    score_pairs: Callable[[list[str], list[str]], list[float]], items: Iterable[Contrast]
) -> ContrastResult:
    """Score every translation once and compare.

    Args:
        score_pairs: (sources, targets) → log-probability of each target, in nats, summed over it.
        items: those with the same source and right translation belong together.
    Raises:
        DataError: there are no items.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for source, right, wrong in items:
        groups.setdefault((source, right), []).append(wrong)
    if not groups:
        raise DataError("the contrast set is empty; expected source, right and wrong texts")
    pairs = dict.fromkeys(
        (source, target)
        for (source, right), wrongs in groups.items()
        for target in (right, *wrongs)
    )
    found = score_pairs([source for source, _ in pairs], [target for _, target in pairs])
    scores = dict(zip(pairs, found, strict=True))
    failures = [
        ContrastFailure(source, right, wrong, scores[source, right], scores[source, wrong])
        for (source, right), wrongs in groups.items()
        for wrong in wrongs
        if scores[source, right] <= scores[source, wrong]
    ]
    accuracy = contrast_accuracy(
        [scores[group] for group in groups],
        [[scores[source, wrong] for wrong in wrongs] for (source, _), wrongs in groups.items()],
    )
    return ContrastResult(accuracy, len(groups), failures)


def peak_heads(
    maps: AttentionMaps, row: int, columns: Sequence[int], *, kind: Kind = "encoder"
) -> list[tuple[int, int, float]]:
    """The heads in which a row looks most at one word: does the pronoun find its noun?

    Args:
        row: index of the query, for example of the pronoun.
        columns: indices of the pieces of the word, for example of the noun.
    Returns:
        (layer, head, weight) of each head whose largest weight in this row lies on one of the
        columns; layer and head from 1, weight summed over the columns, largest first.
    """
    rows = maps.weights(kind)[:, :, row]  # (L, H, columns)
    weights = rows[:, :, list(columns)].sum(axis=-1)  # (L, H)
    hits = np.argwhere(np.isin(rows.argmax(axis=-1), list(columns)))
    found = [(int(i) + 1, int(j) + 1, float(weights[i, j])) for i, j in hits]
    return sorted(found, key=lambda entry: -entry[2])
