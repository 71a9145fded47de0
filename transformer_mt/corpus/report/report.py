"""The report of a corpus: numbers and samples, for programs and for people.

This file makes JSON, or aligned lines; `page.py` makes a page. It does not know how pairs are
judged. Programs read `report.json`: the names of the fields stay as they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter
from rich.cells import cell_len, set_cell_size

from transformer_mt.config.data import Languages
from transformer_mt.corpus.report.profile import ProfileReport, VocabularyReport
from transformer_mt.messages.catalogue import tr
from transformer_mt.rendering.cells import clip

_MAX_LINES = 8  # of notes, and of problems, in the summary
_WIDTH = 140  # columns of the terminal that an explanation takes


@dataclass(frozen=True)
class Sample:
    """One pair, its source and line, and its score by a rule."""

    where: str
    src: str
    tgt: str
    score: float | None = None


@dataclass(frozen=True)
class RuleReport:
    """The effect of one rule: pairs whose score is above the threshold were dropped."""

    threshold: int | float | str | None  # None: the rule has none
    meaning: str  # of the score, in words
    dropped: int
    nearest_dropped: list[Sample] = field(default_factory=list)  # nearest the threshold first
    nearest_kept: list[Sample] = field(default_factory=list)


@dataclass(frozen=True)
class SourceReport:
    """One source of the training text, and its origins."""

    name: str
    read: int
    kept: int
    weight: float = 1.0  # times seen in an epoch
    tag: str | None = None
    origins: list[dict[str, Any]] = field(default_factory=list)  # name, url, sha256, size, licence


@dataclass(frozen=True)
class ShiftedLine:
    """A line near an end of a run, with two targets: its own, and the one a line apart."""

    number: int  # from 1
    src: str
    tgt: str
    shifted_tgt: str
    fits: Literal["own", "shifted", "none"]  # the target that belongs to the source


@dataclass(frozen=True)
class ShiftedLines:
    """A run of lines in which each source fits the target `shift` lines on, and both its ends."""

    source: str
    first: int  # from 1, as `last`
    last: int
    shift: int  # 1 or -1
    begin: list[ShiftedLine]
    end: list[ShiftedLine]


@dataclass(frozen=True)
class PartReport:
    """Counts of one part; `read` = `kept` + everything dropped (+ held out, for train)."""

    read: int
    kept: int
    rules: dict[str, RuleReport] = field(default_factory=dict)  # in the order they were applied

    @property
    def dropped(self) -> dict[str, int]:
        """Pairs by rule, of the rules that dropped any."""
        return {name: rule.dropped for name, rule in self.rules.items() if rule.dropped}


@dataclass(frozen=True)
class CorpusReport:
    """Counts, samples and problems of a corpus, by part: `train`, `dev`, `test.NAME`."""

    parts: dict[str, PartReport]
    held_out: dict[str, int] = field(default_factory=dict)  # pairs taken from train, by role
    problems: list[str] = field(default_factory=list)  # to be looked at by a person
    notes: list[str] = field(default_factory=list)
    fingerprint: str = ""  # of the clean text
    languages: Languages | None = None
    sources: list[SourceReport] = field(default_factory=list)
    profile: ProfileReport | None = None  # of what was kept for training
    vocabulary: dict[str, VocabularyReport] = field(default_factory=dict)  # by side, once learned
    shifted: list[ShiftedLines] = field(default_factory=list)  # the first runs of all sources
    random_kept: list[Sample] = field(default_factory=list)
    worst_kept: list[Sample] = field(default_factory=list)  # nearest to being dropped, worst first
    seconds: dict[str, float] = field(default_factory=dict)  # by stage

    def to_json(self) -> str:
        return _ADAPTER.dump_json(self, indent=1).decode()

    @classmethod
    def from_json(cls, text: str) -> "CorpusReport":
        return _ADAPTER.validate_json(text)

    def summary(self) -> list[str]:
        """Aligned lines for people: problems, parts, rules with one sample each, notes."""
        lines = _at_most(tr("problem"), self.problems)
        for name, part in self.parts.items():
            lines.append(tr("{:<16} {:>10,} read {:>10,} kept", name, part.read, part.kept))
            for rule, count in part.dropped.items():
                lines.append(
                    tr("  {:<14} {:>10,} dropped", rule, count) + _example(part.rules[rule])
                )
        if self.held_out:
            parts = ", ".join(
                tr("{:,} for {}", count, role) for role, count in self.held_out.items()
            )
            lines.append(tr("held out of train: {}", parts))
        if len(self.sources) > 1:
            width = max(cell_len(source.name) for source in self.sources)
            for source in self.sources:
                name = set_cell_size(source.name, width)
                lines.append(
                    tr("from {} {:>10,} read {:>10,} kept", name, source.read, source.kept)
                )
        if self.fingerprint:
            lines.append(tr("fingerprint: {}", self.fingerprint))
        return [*lines, *_at_most(tr("note"), self.notes)]

    def explain(self) -> list[str]:
        """For each rule its meaning, threshold and count, and the pairs on both sides of it."""
        lines: list[str] = []
        for name, part in self.parts.items():
            for rule_name, rule in part.rules.items():
                lines += [""] * bool(lines) + [f"{name} · {rule_name}: {rule.meaning}"]
                threshold = (
                    "" if rule.threshold is None else tr("threshold {}; ", short(rule.threshold))
                )
                lines.append(
                    tr("  {}{:,} of {:,} pairs dropped", threshold, rule.dropped, part.read)
                )
                lines += _explained(tr("dropped"), rule.nearest_dropped)
                lines += _explained(tr("kept"), rule.nearest_kept)
        return lines


_ADAPTER = TypeAdapter(CorpusReport)


def _example(rule: RuleReport) -> str:
    if not rule.nearest_dropped:
        return ""
    sample = rule.nearest_dropped[0]
    return tr(", e.g. {}  {} | {}", sample.where, clip(sample.src, 40), clip(sample.tgt, 60))


def _explained(fate: str, samples: list[Sample]) -> Iterator[str]:
    """Samples as columns: score, place, source, target."""
    if not samples:
        return
    yield tr("  {}, nearest the threshold first:", fate)
    where = [clip(sample.where, _WIDTH // 4) for sample in samples]
    where_width = max(map(cell_len, where))
    room = _WIDTH - 4 - 9 - 2 - where_width - 2 - 3  # for both texts
    src_width = min(max(cell_len(clip(sample.src, room // 2)) for sample in samples), room // 2)
    for sample, place in zip(samples, where, strict=True):
        src = set_cell_size(clip(sample.src, src_width), src_width)
        score = "" if sample.score is None else short(sample.score)
        columns = f"{score:>9}  {set_cell_size(place, where_width)}  {src} | "
        yield "    " + columns + clip(sample.tgt, room - src_width)


def short(value: float | str) -> str:
    """A score or a threshold in few characters."""
    if isinstance(value, str):
        return value
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _at_most(word: str, texts: list[str]) -> list[str]:
    more = len(texts) - _MAX_LINES
    if more > 0:
        texts = [*texts[: _MAX_LINES - 1], tr("… and {} more", more + 1)]
    return [f"{word}: {text}" for text in texts]
