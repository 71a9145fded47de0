"""Segments → translations of them: ids to search for, texts, and the faults of these.

Comes in: segments. Goes out: their hypotheses as texts, in the same order. This file does not know
how texts are divided.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.search.beam_search import Hypothesis
from transformer_mt.search.engine import Request, SearchEngine
from transformer_mt.search.options import SearchOptions
from transformer_mt.search.sampling import SamplingOptions
from transformer_mt.text.normalise import Normaliser
from transformer_mt.text.sentences import join_translations
from transformer_mt.translation.lexical_constraints import ConstraintEncoder
from transformer_mt.translation.minimum_bayes_risk import most_agreed
from transformer_mt.translation.output_checks import faults
from transformer_mt.translation.segments import SourceSegment


@dataclass(frozen=True)
class SegmentTranslation:
    """The hypotheses for a segment, best first."""

    segment: SourceSegment
    texts: list[str]
    hypotheses: list[Hypothesis]
    retried: bool = False

    @cached_property
    def faults(self) -> tuple[str, ...]:
        """Faults of the best hypothesis, computed on first access."""
        return find_faults(self.segment, self.texts[0], self.hypotheses[0].complete)


def find_faults(segment: SourceSegment, text: str, complete: bool) -> tuple[str, ...]:
    """Names of `output_checks.FAULT_MEANING`, and of lexical constraints that are not met."""
    direction, constraints = segment.direction, segment.constraints
    languages = {"src": direction.src, "tgt": direction.tgt}
    found: list[str] = [*faults(segment.text, text, **languages, complete=complete)]
    if any(word not in text for word in constraints.required(segment.text)):
        found.append("term")
    if any(word.lower() in text.lower() for word in constraints.banned):
        found.append("banned")
    return tuple(found)


def joined_text(found: Sequence[SegmentTranslation], language: str) -> str:
    """The best translations of neighbouring segments as one text in that language."""
    return join_translations([translation.texts[0] for translation in found], language)


class SegmentSearch:
    """Translates segments with one engine."""

    def __init__(self, engine: SearchEngine, tokenizer: Tokenizer, cfg: Config) -> None:
        """Args: tokenizer: of the target side."""
        self._engine, self._tokenizer = engine, tokenizer
        self._limit = cfg.data.max_length
        codes = cfg.languages.src, cfg.languages.tgt
        self._one_line = {code: Normaliser(code, None) for code in codes}

    def search(
        self, segments: Sequence[SourceSegment], options: SearchOptions
    ) -> list[SegmentTranslation]:
        """One search for each segment."""
        encoders = {
            language: ConstraintEncoder(self._tokenizer, language)
            for language in {segment.direction.tgt for segment in segments}
        }
        requests = [_request(s, encoders[s.direction.tgt], self._limit) for s in segments]
        words = {word: None for segment in segments for word in segment.constraints.banned}
        banned = [ids for encoder in encoders.values() for ids in encoder.banned(words)]
        options = replace(options, banned=banned)
        if not options.mbr:
            return self._decoded(segments, self._search_distinct(requests, options))
        sampling = options.sampling or SamplingOptions()
        drawn = replace(options, mbr=0, n_best=options.mbr, sampling=sampling)
        found = self._decoded(segments, self._engine.search(requests, drawn))
        return self._decoded(segments, [[t.hypotheses[most_agreed(t.texts)]] for t in found])

    def _search_distinct(
        self, requests: Sequence[Request], options: SearchOptions
    ) -> list[list[Hypothesis]]:
        """Equal requests are searched once, unless hypotheses are drawn at random."""
        if options.sampling is not None:
            return self._engine.search(requests, options)
        distinct = list(dict.fromkeys(requests))
        found_for = dict(zip(distinct, self._engine.search(distinct, options), strict=True))
        return [found_for[request] for request in requests]

    def _decoded(
        self, segments: Sequence[SourceSegment], found: Sequence[list[Hypothesis]]
    ) -> list[SegmentTranslation]:
        decoded = iter(self._tokenizer.decode([h.ids for hypotheses in found for h in hypotheses]))
        translations = []
        for segment, hypotheses in zip(segments, found, strict=True):
            # The byte pieces of a model could also spell line ends.
            one_line = self._one_line[segment.direction.tgt]
            texts = [one_line(next(decoded)) for _ in hypotheses]
            translations.append(SegmentTranslation(segment, texts, hypotheses))
        return translations


def _request(segment: SourceSegment, encoder: ConstraintEncoder, limit: int) -> Request:
    """With as many required words as a translation of `limit` tokens holds."""
    phrases = []
    for ids in map(encoder.required, segment.constraints.required(segment.text)):
        limit -= len(ids)
        if ids and limit >= 0:
            phrases.append(tuple(ids))
    prefix = encoder.prefix(segment.constraints.prefix)
    # Tuples, so that equal ones are found.
    return Request(tuple(segment.src), tuple(prefix), tuple(phrases))
