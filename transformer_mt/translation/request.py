"""What a user asks of a translation, and what comes back."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transformer_mt.translation.glossary import Glossary


@dataclass(frozen=True)
class Wishes:
    """What a user wants to read.

    Attributes:
        prefix: how the translation begins; of a long text, its first part.
        banned: words that do not occur.
        glossary: source terms with their translations.
    """

    prefix: str = ""
    banned: Sequence[str] = ()
    glossary: Glossary | None = None

    def required(self, text: str) -> list[str]:
        """Words that the translation of a source text contains."""
        return [] if self.glossary is None else self.glossary.required(text)


@dataclass(frozen=True)
class Alternative:
    text: str
    score: float  # log-probability over the length penalty, summed over the pieces of a long text


@dataclass(frozen=True)
class Translation:
    source: str
    text: str
    score: float
    complete: bool  # False: the output was cut at the length limit
    pieces: int  # how many parts the source was split into; 1 unless it was too long
    alternatives: list[Alternative]  # n-best, the translation itself first; empty for split texts
    # Names of `output_checks.FAULT_MEANING`; term: a required word is missing, banned: a banned one
    # is there.
    faults: tuple[str, ...] = ()
    retried: bool = False  # a second search, made because of faults, was better

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
