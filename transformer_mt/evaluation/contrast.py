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
from transformer_mt.translation.translator import Translator


class ContrastItem(NamedTuple):
    """A source may have several wrong translations, each in an item of its own."""

    source: str
    right: str
    wrong: str


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
    n_right: int  # sources whose right translation beats every wrong one
    n: int  # sources, each with one right and at least one wrong translation
    failures: list[ContrastFailure]

    @property
    def score(self) -> Score:
        return share_score("accuracy", self.n_right, self.n)


def read_contrast(path: Path) -> list[ContrastItem]:
    """Read a tab-separated file: source, right, wrong.

    Raises:
        DataError: lines do not have three different fields, of which the message names the first;
            the file is empty, or cannot be read, see `split_lines`.
    """
    items, problems = [], []
    for number, line in enumerate(split_lines(path), start=1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split("\t")]
        if problem := _problem(fields):
            problems.append(f"{path}: line {number}: {problem}")
        else:
            items.append(ContrastItem(*fields))
    if problems:
        more = f"\n… and {len(problems) - 5} more such lines" if len(problems) > 5 else ""
        raise DataError("\n".join(problems[:5]) + more)
    if not items:
        raise DataError(f"{path}: empty; expected lines of source TAB right TAB wrong")
    return items


def _problem(fields: Sequence[str]) -> str | None:
    if len(fields) != 3:
        return f"found {len(fields)} fields, expected 3: source TAB right TAB wrong"
    for name, field in zip(ContrastItem._fields, fields, strict=True):
        if not field:
            return f"the {name} field is empty"
    if fields[1] == fields[2]:
        return f"right and wrong are the same: {fields[1]!r}"
    return None


def evaluate_contrast(
    translator: Translator, items: Iterable[ContrastItem], *, to: str | None = None
) -> ContrastResult:
    """Score every translation once and compare; equal scores count as wrong.

    Args:
        items: at least one; same source and right translation: one group.
        to: the language to translate into, for models of both directions.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for source, right, wrong in items:
        groups.setdefault((source, right), []).append(wrong)
    pairs = dict.fromkeys(
        (source, target)
        for (source, right), wrongs in groups.items()
        for target in (right, *wrongs)
    )
    srcs, tgts = zip(*pairs, strict=True)
    found = translator.score_pairs(srcs, tgts, to=to)
    log_probs = {pair: own.log_prob for pair, own in zip(pairs, found, strict=True)}
    failures = [
        ContrastFailure(source, right, wrong, log_probs[source, right], log_probs[source, wrong])
        for (source, right), wrongs in groups.items()
        for wrong in wrongs
        if not log_probs[source, right] > log_probs[source, wrong]
    ]
    n_wrong = len({(failure.source, failure.right) for failure in failures})
    return ContrastResult(len(groups) - n_wrong, len(groups), failures)
