"""How like a human one a translation will be, told from its probability.

A model is surer of good translations: the mean log-probability of their tokens is higher. What a
mean is worth differs from model to model, so each model has a curve of its own, fitted on dev:
rising, from means to the chrF that translations of that mean reach against their references.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from transformer_mt.errors import ModelDirError
from transformer_mt.messages.catalogue import tr

FEWEST = 50  # sentences for a curve
_OF_A_STEP = 25  # sentences at least, whose mean is one point of the curve


@dataclass(frozen=True)
class ConfidenceCurve:
    """Points of the curve; between two of them it is straight, beyond the ends level.

    Attributes:
        log_probs: means over the tokens of a translation, EOS included, in nats; rising.
        chrf: the expected chrF there, from 0 to 1; not falling.
    """

    log_probs: list[float]
    chrf: list[float]

    @classmethod
    def fit(cls, log_probs: Sequence[float], chrf: Sequence[float]) -> "ConfidenceCurve | None":
        """The curve of translations with known references; None: they are too few.

        Sentences are put into steps by their log-probability; neighbours of which the surer one is
        the worse are joined until none is left (isotonic regression by pooling adjacent violators:
        Barlow et al. 1972).
        """
        if len(log_probs) < FEWEST:
            return None
        order = np.argsort(log_probs, kind="stable")
        steps: list[tuple[float, float, int]] = []  # means of both, and the number of sentences
        for rows in np.array_split(order, len(order) // _OF_A_STEP):
            step = (float(np.take(log_probs, rows).mean()), float(np.take(chrf, rows).mean()))
            steps.append((*step, len(rows)))
            while len(steps) > 1 and steps[-2][1] >= steps[-1][1]:
                *steps, one, other = steps
                steps.append(_joined(one, other))
        return cls([round(x, 4) for x, _, _ in steps], [round(y, 4) for _, y, _ in steps])

    @classmethod
    def from_json(cls, found: Any) -> "ConfidenceCurve | None":
        """What `to_json` made; None of None.

        Raises:
            ModelDirError: anything else.
        """
        match found:
            case None:
                return None
            case {"log_probs": [*xs], "chrf": [*ys]} if len(xs) == len(ys) > 0:
                if all(isinstance(number, int | float) for number in (*xs, *ys)):
                    return cls(xs, ys)
        raise ModelDirError(tr("the curve of confidence has other fields or values"))

    def to_json(self) -> dict[str, list[float]]:
        return asdict(self)

    def expected_chrf(self, log_prob: float) -> float:
        """The chrF to expect, from 0 to 1, for a mean log-probability of the tokens."""
        return round(float(np.interp(log_prob, self.log_probs, self.chrf)), 3)


def _joined(
    one: tuple[float, float, int], other: tuple[float, float, int]
) -> tuple[float, float, int]:
    n = one[2] + other[2]
    x, y = ((one[i] * one[2] + other[i] * other[2]) / n for i in (0, 1))
    return x, y, n
