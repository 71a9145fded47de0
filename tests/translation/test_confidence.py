"""The curve from log-probabilities to expected chrF: rising, right on average, readable again."""

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_mt.errors import ModelDirError
from transformer_mt.translation.confidence import FEWEST, ConfidenceCurve
from transformer_mt.translation.translator import Translator

NUMBERS = st.tuples(st.floats(-10, 0), st.floats(0, 1))


def curve_of(pairs: list[tuple[float, float]]) -> ConfidenceCurve:
    curve = ConfidenceCurve.fit([x for x, _ in pairs], [y for _, y in pairs])
    assert curve is not None
    return curve


@given(st.lists(NUMBERS, min_size=FEWEST, max_size=300))
def test_a_surer_translation_is_never_expected_to_be_worse(
    pairs: list[tuple[float, float]],
) -> None:
    curve = curve_of(pairs)
    found = [curve.expected_chrf(x / 10) for x in range(-110, 10)]
    assert found == sorted(found)
    assert (
        min(y for _, y in pairs) - 0.001
        <= found[0]
        <= found[-1]
        <= max(y for _, y in pairs) + 0.001
    )


def test_expectations_are_right_on_average() -> None:
    draw = random.Random(3)

    def pair() -> tuple[float, float]:
        x = -draw.expovariate(2)
        return x, min(1.0, max(0.0, math.exp(x) + draw.gauss(0, 0.15)))

    curve = curve_of([pair() for _ in range(1000)])
    others = sorted(pair() for _ in range(5000))
    for part in (others[i : i + 500] for i in range(0, 5000, 500)):
        expected = sum(curve.expected_chrf(x) for x, _ in part) / len(part)
        assert expected == pytest.approx(sum(y for _, y in part) / len(part), abs=0.05)


def test_few_sentences_make_no_curve() -> None:
    n = FEWEST - 1
    assert ConfidenceCurve.fit([-1.0] * n, [0.5] * n) is None


def test_it_is_the_same_read_again() -> None:
    curve = curve_of([(-i / 100, 1 - i / 100) for i in range(100)])
    assert ConfidenceCurve.from_json(json.loads(json.dumps(curve.to_json()))) == curve
    assert ConfidenceCurve.from_json(None) is None


@pytest.mark.parametrize(
    "found", [{}, [], {"log_probs": [], "chrf": []}, {"log_probs": [1], "chrf": ["x"]}], ids=str
)
def test_other_values_are_refused(found: object) -> None:
    with pytest.raises(ModelDirError, match="confidence"):
        ConfidenceCurve.from_json(found)


def test_a_translation_has_the_mean_that_scoring_finds(
    translator: Translator, texts: list[str]
) -> None:
    curve = ConfidenceCurve([-3.0, 0.0], [0.2, 0.9])
    sure = Translator(
        translator.model,
        (translator.src_tokenizer, translator.tgt_tokenizer),
        translator.cfg,
        confidence=curve,
    )
    found = sure.translate(texts[:5], beam=1)
    scored = sure.score_pairs(texts[:5], [one.text for one in found])
    for one, score in zip(found, scored, strict=True):
        assert one.confidence == curve.expected_chrf(one.log_prob)
        if one.complete and len(sure.tgt_tokenizer.encode([one.text])[0]) + 1 == score.n_tokens:
            assert one.log_prob == pytest.approx(score.log_prob / score.n_tokens, abs=2e-4)
    assert translator.translate(texts[:1])[0].confidence is None
    assert sure.translate([""])[0].confidence is None
