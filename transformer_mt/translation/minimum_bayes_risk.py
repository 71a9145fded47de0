"""Minimum Bayes risk: of several translations the one that is most like all the others.

Comes in: texts, as drawn from a model. Goes out: the index of one. This file knows no model.
"""

from collections.abc import Sequence


def most_agreed(drawn: Sequence[str]) -> int:
    """The text with the highest mean chrF against the others, equal ones included.

    Source: Eikema and Aziz 2020, section 5, with chrF as the utility.
    Args:
        drawn: at least one.
    """
    from sacrebleu.metrics import CHRF

    chrf = CHRF()
    different = list(dict.fromkeys(drawn))
    counts = [drawn.count(text) for text in different]

    def agreement(hyp: str) -> float:
        return sum(
            n * (100.0 if hyp == ref else chrf.sentence_score(hyp, [ref]).score)
            for ref, n in zip(different, counts, strict=True)
        )

    return drawn.index(max(different, key=agreement))
