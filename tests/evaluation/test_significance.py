"""Comparisons: chance is told from difference, and nothing differs from itself."""

import json

import pytest

from transformer_mt.errors import ConfigError, DataError
from transformer_mt.evaluation.metrics import Score, Scorer
from transformer_mt.evaluation.significance import compare_systems, format_comparison

REFS = [
    "The animal did not cross the street because it was too tired.",
    "There is a small house near the old river.",
    "My teacher reads a new book every day.",
    "We will meet again tomorrow in the same place.",
    "Nobody knew the answer to her last question.",
] * 4
SCORER = Scorer("en")


def worse(n_wrong: int) -> list[str]:
    return ["x y z w v" if i < n_wrong else ref for i, ref in enumerate(REFS)]


@pytest.mark.parametrize("metric", ["bleu", "chrf", "chrf++", "ter"])
def test_a_clear_difference_is_significant(metric: str) -> None:
    outputs = {"bad": worse(15), "good": worse(2), "as bad": worse(15)}
    found = {
        name: scores[metric]
        for name, scores in compare_systems(SCORER, outputs, REFS, [metric], n=200).items()
    }
    assert list(found) == list(outputs)
    assert found["bad"].difference is None and found["bad"].p_value is None
    good = found["good"]
    assert good.p_value is not None and good.p_value < 0.05
    assert good.difference == pytest.approx(good.score - found["bad"].score)
    assert (good.difference > 0) == (metric != "ter")
    assert found["as bad"].p_value == 1 and found["as bad"].difference == 0
    assert "bs:200" in good.signature


def test_scores_are_those_of_each_system_alone() -> None:
    outputs = {"a": worse(3), "b": worse(8)}
    for name, scores in compare_systems(SCORER, outputs, REFS, n=50).items():
        alone = SCORER.score(outputs[name], REFS, confidence=50)
        for metric, score in scores.items():
            assert score.score == pytest.approx(alone[metric].score)
            assert (score.low, score.high) == pytest.approx((alone[metric].low, alone[metric].high))
            json.dumps(score.to_json())  # plain numbers


def test_a_third_system_changes_nothing_between_two() -> None:
    two = {"a": worse(3), "b": worse(5)}
    three = {**two, "c": worse(9)}
    found = compare_systems(SCORER, three, REFS, n=50)
    del found["c"]
    assert found == compare_systems(SCORER, two, REFS, n=50)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (worse(5), "the same text"),
        ([f"{hyp} " for hyp in worse(5)], "the same words: sacreBLEU itself says p < 0.05"),
    ],
)
def test_a_system_does_not_differ_from_itself(second: list[str], why: str) -> None:
    found = compare_systems(SCORER, {"a": worse(5), "b": second}, REFS, n=50)
    assert [score.p_value for score in found["b"].values()] == [1, 1], why


def test_equally_good_systems_do_not_differ() -> None:
    first = ["x y z w v" if i % 2 else ref for i, ref in enumerate(REFS)]
    second = ["x y z w v" if i % 2 == 0 else ref for i, ref in enumerate(REFS)]
    found = compare_systems(SCORER, {"a": first, "b": second}, REFS, ["chrf"], n=200)
    p_value = found["b"]["chrf"].p_value
    assert p_value is not None and 0.2 < p_value < 1


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(DataError, match="needs at least two systems, found 1"):
        compare_systems(SCORER, {"a": REFS}, REFS)
    with pytest.raises(ConfigError, match="at least 1 sample, found 0"):
        compare_systems(SCORER, {"a": REFS, "b": REFS}, REFS, n=0)
    with pytest.raises(DataError, match="19 translations but 20 references"):
        compare_systems(SCORER, {"a": REFS, "b": REFS[1:]}, REFS)


def test_the_table_has_a_row_for_each_system_and_says_each_signature_once() -> None:
    baseline = Score("BLEU", 30.0, "nrefs:1", 29.0, 31.0)
    better = Score("BLEU", 31.5, "nrefs:1", 30.0, 33.0, 1.5, 0.012)
    accuracy = Score("accuracy", 100.0, "n:4")
    results = {
        "news": {"old": {"bleu": baseline}, "new": {"bleu": better}},
        "pronouns": {"new": {"contrast": accuracy}},
    }
    assert format_comparison(results).splitlines() == [
        "test set  metric    system   score  95 % interval  difference      p",
        "news      BLEU      old      30.00  29.00 … 31.00",
        "news      BLEU      new      31.50  30.00 … 33.00       +1.50  0.012  *",
        "pronouns  accuracy  new     100.00  –",
        "",
        "BLEU: nrefs:1",
        "accuracy: n:4",
    ]
