"""Segments → translations of them: ids to search for, texts, faults, and searches once more."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import Tokenizer
from transformer_mt.search.beam_search import Hypothesis
from transformer_mt.search.engine import Request, SearchEngine
from transformer_mt.search.options import SearchOptions
from transformer_mt.search.sampling import SamplingOptions
from transformer_mt.text.word_translations import WordTranslations
from transformer_mt.translation.lexical_constraints import ConstraintEncoder
from transformer_mt.translation.noisy_channel import rank_by_channel
from transformer_mt.translation.segment_translation import (
    SegmentTranslation,
    find_faults,
    joined_text,
    one_line,
)
from transformer_mt.translation.segments import Segmenter, SourceSegment

CAREFUL_BEAM = 8


class SegmentSearch:
    """Translates segments with one engine."""

    def __init__(
        self,
        engine: SearchEngine,
        tokenizer: Tokenizer,
        cfg: Config,
        words: WordTranslations | None,
    ) -> None:
        """Args: tokenizer: of the target side. words: see `rank_by_channel`; None: no ranking."""
        self._engine, self._tokenizer, self._words = engine, tokenizer, words
        self._limit = cfg.data.max_length

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
        if self._words is not None and has_channel(options):
            all_ = replace(options, n_best=options.beam)
            found = self._decoded(segments, self._search_distinct(requests, all_))
            ranked = rank_by_channel(found, options.channel, self._words)
            return [one.best(options.n_best) for one in ranked]
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
            normal = one_line(segment.direction.tgt)
            texts = [normal(next(decoded)) for _ in hypotheses]
            translations.append(SegmentTranslation(segment, texts, hypotheses))
        return translations


def has_channel(options: SearchOptions) -> bool:
    """Whether there is a beam, and it is to be ranked."""
    is_beam_search = not (options.sampling or options.diverse or options.mbr)
    return options.channel > 0 and options.beam > 1 and is_beam_search


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


def translate_with_retry(
    segments: Sequence[SourceSegment],
    options: SearchOptions,
    *,
    search: SegmentSearch,
    segmenter: Segmenter,
) -> list[SegmentTranslation]:
    """Translate segments, ending loops when they are seen.

    A segment whose translation has faults is searched again with `careful` options, then sentence
    by sentence, and the translation with the fewest faults is kept. A segment in characters that
    are not in the vocabulary is not searched again: that would be of no use.
    """
    found = search.search(segments, replace(options, end_loops=True))
    flagged = [i for i, t in enumerate(found) if t.faults and segmenter.is_readable(segments[i])]
    if not flagged:
        return found
    seconds = search.search([segments[i] for i in flagged], careful(options))
    for i, second in zip(flagged, seconds, strict=True):
        found[i] = _better(found[i], second, options)
    sentences = {i: segmenter.sentences(segments[i]) for i in flagged if found[i].faults}
    parts = iter(search.search([s for own in sentences.values() for s in own], careful(options)))
    for i, own in sentences.items():
        if own:
            joined = _joined(segments[i], [next(parts) for _ in own])
            found[i] = _better(found[i], joined, options)
    return found


def careful(options: SearchOptions) -> SearchOptions:
    """A wide beam that must not repeat itself."""
    beam = max(CAREFUL_BEAM, options.beam, options.n_best)  # more may have been drawn
    ngram = min(options.no_repeat_ngram or 3, 3)
    return replace(options, beam=beam, no_repeat_ngram=ngram, sampling=None, mbr=0, diverse=False)


def _better(
    first: SegmentTranslation, second: SegmentTranslation, options: SearchOptions
) -> SegmentTranslation:
    """The first, or of the second's hypotheses one with fewer faults, before the rest.

    Diverse alternatives are those of the first that begin with another token.
    """
    texts, hypotheses = second.texts, second.hypotheses
    n_faults = [
        len(find_faults(second.segment, text, hypothesis.complete))
        for text, hypothesis in zip(texts, hypotheses, strict=True)
    ]
    best = n_faults.index(min(n_faults))
    if n_faults[best] >= len(first.faults):
        return first
    chosen = texts[best], hypotheses[best]
    rest = [(texts[i], hypotheses[i]) for i in range(len(texts)) if i != best]
    if options.diverse:
        begun = chosen[1].ids[:1]
        alternatives = zip(first.texts, first.hypotheses, strict=True)
        rest = [(text, other) for text, other in alternatives if other.ids[:1] != begun]
    kept = [chosen, *rest][: options.n_best]
    kept_texts, kept_hypotheses = map(list, zip(*kept, strict=True))
    return SegmentTranslation(
        second.segment, kept_texts, kept_hypotheses, retried=True, n_ends=second.n_ends
    )


def _joined(segment: SourceSegment, parts: list[SegmentTranslation]) -> SegmentTranslation:
    """Translations of the sentences of a segment as one."""
    best = [part.hypotheses[0] for part in parts]
    hypothesis = Hypothesis(
        [id_ for hypothesis in best for id_ in hypothesis.ids],
        sum(hypothesis.log_prob for hypothesis in best),
        sum(hypothesis.score for hypothesis in best),
        all(hypothesis.complete for hypothesis in best),
    )
    text = joined_text(parts, segment.direction.tgt)
    return SegmentTranslation(segment, [text], [hypothesis], n_ends=len(parts))


def most_agreed(drawn: Sequence[str]) -> int:
    """Minimum Bayes risk: the text with the highest mean chrF against the others, equal ones too.

    Source: Eikema and Aziz 2020, section 5, with chrF as the utility.
    """
    from sacrebleu.metrics import CHRF

    chrf = CHRF()
    counts = Counter(drawn)

    def agreement(hyp: str) -> float:
        return sum(
            n * (100.0 if hyp == ref else chrf.sentence_score(hyp, [ref]).score)
            for ref, n in counts.items()
        )

    return drawn.index(max(counts, key=agreement))
