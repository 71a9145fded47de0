"""Hypotheses of a beam, ranked again by how well the source follows from the words of each.

How a source follows from a translation is in `text/word_translations.py`.
"""

from collections.abc import Sequence
from dataclasses import replace

from transformer_mt.text.word_translations import WordTranslations
from transformer_mt.translation.segment_translation import SegmentTranslation


def rank_by_channel(
    found: Sequence[SegmentTranslation], weight: float, words: WordTranslations
) -> list[SegmentTranslation]:
    """Order the hypotheses y of each source x by score(y) + weight · mean of ln P(unit of x | y).

    Source: the weights by words of Och et al. 2004, "A Smorgasbord of Features for Statistical
    Machine Translation", in the noisy channel of Yee, Dauphin and Auli 2019.
    """
    pairs = [(one.segment.text, text) for one in found for text in one.texts]
    gains = iter(weight * words.log_probs(*zip(*pairs, strict=True)) if pairs else ())
    return [_ranked(one, [float(next(gains)) for _ in one.texts]) for one in found]


def _ranked(found: SegmentTranslation, gains: Sequence[float]) -> SegmentTranslation:
    hypotheses = [
        replace(hypothesis, score=hypothesis.score + gain)
        for hypothesis, gain in zip(found.hypotheses, gains, strict=True)
    ]
    order = sorted(range(len(gains)), key=lambda i: -hypotheses[i].score)
    return replace(
        found, texts=[found.texts[i] for i in order], hypotheses=[hypotheses[i] for i in order]
    )
