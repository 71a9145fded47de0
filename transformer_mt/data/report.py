"""What happened to a corpus, as numbers and samples: for a file, and for people.

Comes in: the counts of every part. Goes out: JSON and back, or aligned lines. This file does not
know how pairs are judged.
"""

import json
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Sample:
    """One dropped pair and where it came from (source and line)."""

    where: str
    src: str
    tgt: str


@dataclass(frozen=True)
class PartReport:
    """Counts of one part; `read` = `kept` + everything dropped (+ held out, for train)."""

    read: int
    kept: int
    dropped: dict[str, int] = field(default_factory=dict)  # by rule
    samples: dict[str, list[Sample]] = field(default_factory=dict)  # by rule, the first few


@dataclass(frozen=True)
class CorpusReport:
    """What happened to a corpus, by part: `train`, `dev`, `test.NAME`."""

    parts: dict[str, PartReport]
    held_out: dict[str, int] = field(default_factory=dict)  # pairs taken from train, by role
    problems: list[str] = field(default_factory=list)  # to be looked at by a person
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "CorpusReport":
        tree = json.loads(text)
        for part in tree["parts"].values():
            for rule, samples in part["samples"].items():
                part["samples"][rule] = [Sample(**sample) for sample in samples]
        tree["parts"] = {name: PartReport(**part) for name, part in tree["parts"].items()}
        return cls(**tree)

    def summary(self) -> list[str]:
        """Aligned lines for people: parts, rules with one sample each, notes, problems."""
        lines = []
        for name, part in self.parts.items():
            lines.append(f"{name:<16} {part.read:>10,} read {part.kept:>10,} kept")
            for rule, count in part.dropped.items():
                sample = part.samples[rule][0]
                example = f"{sample.where}  {sample.src[:40]} | {sample.tgt[:60]}"
                lines.append(f"  {rule:<14} {count:>10,} dropped, e.g. {example}")
        if self.held_out:
            parts = ", ".join(f"{count:,} for {role}" for role, count in self.held_out.items())
            lines.append(f"held out of train: {parts}")
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"problem: {problem}" for problem in self.problems]
        return lines
