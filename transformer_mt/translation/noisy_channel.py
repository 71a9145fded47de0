"""Hypotheses of a beam, ranked again by how well the source follows from each of them.

A model of both directions knows both probabilities. This file does not know how they are found.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from transformer_mt.translation.pair_scores import PairScore
from transformer_mt.translation.segment_translation import SegmentTranslation

ScorePairs = Callable[..., Sequence[PairScore]]  # see `PairScorer.score`


def rank_by_channel(
    found: Sequence[SegmentTranslation], weight: float, score_pairs: ScorePairs
) -> list[SegmentTranslation]:
    """Order the hypotheses y of each source x by score(y) + weight · ln P(x | y) / |x|.

    Source: Yee, Dauphin and Auli 2019, "Simple and Effective Noisy Channel Modeling for Neural
    Machine Translation", without their language model.
    """
    ranked = list(found)
    for language in dict.fromkeys(one.segment.direction.src for one in found):
        places = [i for i, one in enumerate(found) if one.segment.direction.src == language]
        pairs = [(text, found[i].segment.text) for i in places for text in found[i].texts]
        scores = iter(score_pairs(*zip(*pairs, strict=True), to=language))
        for i in places:
            channel = [next(scores) for _ in found[i].texts]
            ranked[i] = _ranked(found[i], [weight * s.log_prob / s.n_tokens for s in channel])
    return ranked


def _ranked(found: SegmentTranslation, gains: Sequence[float]) -> SegmentTranslation:
    hypotheses = [
        replace(hypothesis, score=hypothesis.score + gain)
        for hypothesis, gain in zip(found.hypotheses, gains, strict=True)
    ]
    order = sorted(range(len(gains)), key=lambda i: -hypotheses[i].score)
    return replace(
        found, texts=[found.texts[i] for i in order], hypotheses=[hypotheses[i] for i in order]
    )
