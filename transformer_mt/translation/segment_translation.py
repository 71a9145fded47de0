"""The hypotheses for a segment, their texts and their faults."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from transformer_mt.search.beam_search import Hypothesis
from transformer_mt.text.normalise import Normaliser
from transformer_mt.text.sentences import join_translations
from transformer_mt.translation.glossary import occurs
from transformer_mt.translation.output_checks import faults
from transformer_mt.translation.segments import SourceSegment


@dataclass(frozen=True)
class SegmentTranslation:
    """The hypotheses for a segment, best first."""

    segment: SourceSegment
    texts: list[str]
    hypotheses: list[Hypothesis]
    retried: bool = False
    n_ends: int = 1  # ends of sentences that the search has written

    @cached_property
    def faults(self) -> tuple[str, ...]:
        """Faults of the best hypothesis, computed on first access."""
        return find_faults(self.segment, self.texts[0], self.hypotheses[0].complete)

    def best(self, n: int) -> "SegmentTranslation":
        """Without all but the first n hypotheses."""
        return replace(self, texts=self.texts[:n], hypotheses=self.hypotheses[:n])


def find_faults(segment: SourceSegment, text: str, complete: bool) -> tuple[str, ...]:
    """Names of `output_checks.FAULT_MEANING`, and of lexical constraints that are not met."""
    direction, constraints = segment.direction, segment.constraints
    languages = {"src": direction.src, "tgt": direction.tgt}
    found: list[str] = [*faults(segment.text, text, **languages, complete=complete)]
    normal = one_line(direction.tgt)  # a term may have other quotes, or more spaces
    if any(normal(word) not in normal(text) for word in constraints.required(segment.text)):
        found.append("term")
    if any(occurs(word, text) for word in constraints.banned):
        found.append("banned")
    return tuple(found)


@lru_cache
def one_line(code: str) -> Normaliser:
    """What makes one line of a text, as byte pieces of a model could also spell line ends."""
    return Normaliser(code, None)


def joined_text(found: Sequence[SegmentTranslation], language: str) -> str:
    """The best translations of neighbouring segments as one text in that language."""
    return join_translations([translation.texts[0] for translation in found], language)
