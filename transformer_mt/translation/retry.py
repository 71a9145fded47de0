"""Translations with faults are searched again, more carefully; the better one is kept.

Comes in: segments. Goes out: their translations, in the same order.
"""

from collections.abc import Sequence
from dataclasses import replace

from transformer_mt.search.beam_search import Hypothesis
from transformer_mt.search.options import SearchOptions
from transformer_mt.translation.segment_search import (
    SegmentSearch,
    SegmentTranslation,
    find_faults,
    joined_text,
)
from transformer_mt.translation.segments import Segmenter, SourceSegment

CAREFUL_BEAM = 8


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
        found[i] = _better(found[i], second, options.n_best)
    sentences = {i: segmenter.sentences(segments[i]) for i in flagged if found[i].faults}
    parts = iter(search.search([s for own in sentences.values() for s in own], careful(options)))
    for i, own in sentences.items():
        if own:
            joined = _joined(segments[i], [next(parts) for _ in own])
            found[i] = _better(found[i], joined, options.n_best)
    return found


def careful(options: SearchOptions) -> SearchOptions:
    """A wide beam that must not repeat itself."""
    beam = max(CAREFUL_BEAM, options.beam, options.n_best)  # more may have been drawn
    return replace(options, beam=beam, no_repeat_ngram=3, sampling=None, mbr=0, diverse=False)


def _better(
    first: SegmentTranslation, second: SegmentTranslation, n_best: int
) -> SegmentTranslation:
    """The first, or of the second's hypotheses one with fewer faults, before the rest."""
    texts, hypotheses = second.texts, second.hypotheses
    n_faults = [
        len(find_faults(second.segment, text, hypothesis.complete))
        for text, hypothesis in zip(texts, hypotheses, strict=True)
    ]
    best = n_faults.index(min(n_faults))
    if n_faults[best] >= len(first.faults):
        return first
    order = [best, *(i for i in range(len(texts)) if i != best)][:n_best]
    return SegmentTranslation(
        second.segment, [texts[i] for i in order], [hypotheses[i] for i in order], True
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
    return SegmentTranslation(segment, [joined_text(parts, segment.direction.tgt)], [hypothesis])
