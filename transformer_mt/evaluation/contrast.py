"""Contrast sets: does the model prefer the right translation to one that is wrong in one word?

Comes in: (source, right, wrong) triples and a translator. Goes out: the share of sources where the
right translation wins, and the failures.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.errors import DataError
from transformer_mt.evaluation.metrics import Score, share_score
from transformer_mt.messages.catalogue import tr
from transformer_mt.translation.translator import Translator


class ContrastItem(NamedTuple):
    """A source may have several wrong translations, each in an item of its own."""

    source: str
    right: str
    wrong: str


@dataclass(frozen=True)
class ContrastFailure:
    """A wrong translation that scores at least as high as the right one."""

    item: ContrastItem
    log_prob_right: float
    log_prob_wrong: float


@dataclass(frozen=True)
class ContrastResult:
    score: Score
    n: int  # sources, each with one right and at least one wrong translation
    failures: list[ContrastFailure]


def read_contrast(path: Path) -> list[ContrastItem]:
    """Read a tab-separated file: source, right, wrong.

    Raises:
        DataError: lines without three different fields; the file is empty, or cannot be read.
    """
    items, problems = [], []
    for number, line in enumerate(split_lines(path), start=1):
        fields = [field.strip() for field in line.split("\t")]
        if problem := line.strip() and _problem(fields):
            problems.append(tr("{}: line {}: {}", path, number, problem))
        elif line.strip():
            items.append(ContrastItem(*fields))
    if problems:
        more = tr("\n… and {} more such lines", len(problems) - 5) if len(problems) > 5 else ""
        raise DataError("\n".join(problems[:5]) + more)
    if not items:
        raise DataError(tr("{}: empty; expected lines of source TAB right TAB wrong", path))
    return items


def _problem(fields: Sequence[str]) -> str:
    if len(fields) != 3:
        return tr("found {} fields, expected 3: source TAB right TAB wrong", len(fields))
    for name, field in zip(ContrastItem._fields, fields, strict=True):
        if not field:
            return tr("the {} field is empty", name)
    return tr("right and wrong are the same: {!r}", fields[1]) if fields[1] == fields[2] else ""


def evaluate_contrast(
    translator: Translator, items: Iterable[ContrastItem], *, to: str | None = None
) -> ContrastResult:
    """Score every translation once and compare; equal scores count as wrong.

    Items of the same source and right translation are one group; there is at least one.
    """
    groups: dict[tuple[str, str], list[ContrastItem]] = {}
    for item in items:
        groups.setdefault(item[:2], []).append(item)
    ordered = [item for group in groups.values() for item in group]
    pairs = dict.fromkeys(pair for own in ordered for pair in (own[:2], (own.source, own.wrong)))
    srcs, tgts = zip(*pairs, strict=True)
    found = translator.score_pairs(srcs, tgts, to=to)
    log_probs = {pair: own.log_prob for pair, own in zip(pairs, found, strict=True)}
    compared = [
        ContrastFailure(item, log_probs[item[:2]], log_probs[item.source, item.wrong])
        for item in ordered
    ]
    # A text that is too long to be scored has no number, which is larger than no other.
    failures = [pair for pair in compared if not pair.log_prob_right > pair.log_prob_wrong]
    n_right = len(groups) - len({failure.item[:2] for failure in failures})
    return ContrastResult(share_score("accuracy", n_right, len(groups)), len(groups), failures)
