"""The options of a search: those of the model's configuration, with a user's changes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack

from transformer_mt.config.experiment import (
    MOST_BEAM,
    MOST_LENGTH_PENALTY,
    MOST_LENGTH_RATIO,
    DecodeConfig,
)
from transformer_mt.errors import ConfigError
from transformer_mt.messages.catalogue import tr
from transformer_mt.search.sampling import SamplingOptions

MOST_ROWS = MOST_BEAM  # hypotheses of one sentence side by side; more would waste memory
_Range = tuple[str, float, float]  # name of the option in messages, smallest value, largest value
_RANGES: dict[str, _Range] = {
    "beam": (tr("beam"), 1, MOST_ROWS),
    "length_penalty": (tr("length penalty"), 0, MOST_LENGTH_PENALTY),
    "max_length_ratio": (tr("max length ratio"), 0, MOST_LENGTH_RATIO),
    "min_length": (tr("min length"), 0, 10_000),
    "max_length": (tr("max length"), 1, math.inf),
    "n_best": (tr("n best"), 1, MOST_ROWS),
    "no_repeat_ngram": (tr("no repeat ngram"), 0, math.inf),
    "repetition_penalty": (tr("repetition penalty"), 1, 100),  # below 1 it would reward repeating
    "mbr": ("mbr", 0, MOST_ROWS),
    "channel": ("channel", 0, 100),
}
_SAMPLING_RANGES: dict[str, _Range] = {
    "temperature": (tr("temperature"), 0.001, 1000),
    "top_k": ("top k", 0, math.inf),
    "top_p": ("top p", 1e-9, 1),
    "seed": (tr("seed"), -(2**63), 2**64 - 1),
}

Penalty = Literal["gnmt", "average"]


class SearchChanges(TypedDict, total=False):
    """Fields of `SearchOptions` that a user sets; left out or None: the configuration's value."""

    beam: int | None
    penalty: Penalty | None
    length_penalty: float | None
    max_length_ratio: float | None
    min_length: int | None
    max_length: int | None
    n_best: int | None
    diverse: bool | None
    no_repeat_ngram: int | None
    repetition_penalty: float | None
    sampling: SamplingOptions | None
    mbr: int | None
    channel: float | None


@dataclass(frozen=True)
class SearchOptions:
    """How to search for translations.
    Attributes:
        beam: 1 is greedy search.
        penalty, length_penalty: see `LengthPenalty`.
        max_length_ratio: the most output tokens per source token.
        min_length, max_length: tokens of each sentence of a translation; None: the ratio limits it.
        n_best: hypotheses per sentence, at most `beam`.
        diverse: the n-best begin with different tokens, and `n_best` may exceed `beam`.
        no_repeat_ngram, repetition_penalty: see `TokenRules`.
        sampling: draw tokens instead of searching for the best; `n_best` is the number of draws.
        mbr: minimum Bayes risk: of so many draws, take the one most similar to the others; 0: off.
        channel: weight of ln P(source | translation) by words, see `translation.noisy_channel`.
        banned: sequences of ids that no hypothesis contains.
        end_loops: cut hypotheses that loop, see `LoopWatch`; not with a minimum length, which may
            be reachable by loops only. The search is then no longer exact.
    """

    beam: int = 4
    penalty: Penalty = "gnmt"
    length_penalty: float = 0.6
    max_length_ratio: float = 2.0
    min_length: int = 0
    max_length: int | None = None
    n_best: int = 1
    diverse: bool = False
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    sampling: SamplingOptions | None = None
    mbr: int = 0
    channel: float = 0.0
    banned: Sequence[Sequence[int]] = ()
    end_loops: bool = False

    def __post_init__(self) -> None:
        """Raises: ConfigError: numbers out of range, or options that contradict each other."""
        problems = [*_out_of_range(self, _RANGES), *_out_of_range(self.sampling, _SAMPLING_RANGES)]
        if problems := problems or [*self._contradictions()][:1]:
            raise ConfigError("\n".join(problems))

    def _contradictions(self) -> Iterator[str]:
        beam, n_best, least, most = self.beam, self.n_best, self.min_length, self.max_length
        beam_search = not (self.sampling or self.diverse or self.mbr)
        if beam_search and n_best > beam:
            yield tr("n-best {} needs a beam of at least {}, found {}", n_best, n_best, beam)
        if most is not None and least > most:
            yield tr(
                "a translation of at least {} and at most {} tokens does not exist", least, most
            )
        if self.mbr == 1 or (self.mbr and (self.diverse or n_best > 1)):
            yield tr(
                "mbr chooses one of several draws: give at least 2, and neither n-best nor diverse"
            )
        if self.diverse and self.sampling:
            yield tr("diverse alternatives are searched for, not drawn: leave one out")
        if self.rows > MOST_ROWS:
            yield tr(
                "beam {} for each of {} diverse alternatives: their product may be {} at most",
                beam, n_best, MOST_ROWS,
            )  # fmt: skip

    @property
    def rows(self) -> int:
        """Hypotheses of one sentence that are searched side by side."""
        if self.sampling is not None:
            return self.n_best
        return self.beam * self.n_best if self.diverse else self.beam

    @classmethod
    def resolve(cls, decode: DecodeConfig, **changes: Unpack[SearchChanges]) -> "SearchOptions":
        """The options of a model's configuration, with a user's changes; None changes nothing."""
        given = {name: value for name, value in changes.items() if value is not None}
        return cls(**{**decode.model_dump(), **given})


def _out_of_range(
    options: SearchOptions | SamplingOptions | None, ranges: dict[str, _Range]
) -> Iterator[str]:
    """A message for each number outside of its range."""
    for name, (shown, least, most) in ranges.items():
        value = getattr(options, name, None)
        if value is not None and not least <= value <= most:  # nan is in no range
            if most == math.inf:
                yield tr("{} {}: expected a number at least {}", shown, value, least)
            else:
                yield tr("{} {}: expected a number from {} to {}", shown, value, least, most)
        elif value == math.inf:
            yield tr("{} {}: expected a finite number", shown, value)
