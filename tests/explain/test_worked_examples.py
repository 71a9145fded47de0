"""The worked examples give the true numbers; the scaling demonstration shows what it claims."""

import numpy as np
import pytest

from transformer_mt.errors import ConfigError
from transformer_mt.explain.worked_examples import (
    EXAMPLES,
    compute,
    example_text,
    jacobian_norms,
    measure_scaling,
    render_scaling,
    softmax_rows,
)


def test_two_words() -> None:
    steps = compute(EXAMPLES["two-words"])
    np.testing.assert_array_equal(steps.q, [[2, 0], [1, 1]])
    np.testing.assert_array_equal(steps.k, [[0, 2], [1, 1]])
    np.testing.assert_array_equal(steps.v, [[2, 1], [1, 1]])
    np.testing.assert_array_equal(steps.scores, [[0, 2], [2, 2]])
    np.testing.assert_allclose(steps.scaled, [[0, 2**0.5], [2**0.5, 2**0.5]])
    first = 1 / (1 + np.exp(2**0.5))
    np.testing.assert_allclose(steps.weights, [[first, 1 - first], [0.5, 0.5]])
    np.testing.assert_allclose(steps.output, [[1 + first, 1], [1.5, 1]])


def test_thinking_machines() -> None:
    steps = compute(EXAMPLES["thinking-machines"])
    np.testing.assert_array_equal(steps.q, [[2, 0, 1, 1], [0, 4, 2, 2]])
    np.testing.assert_array_equal(steps.k, [[0, 1, 2, 1], [4, 2, 0, 2]])
    np.testing.assert_array_equal(steps.v, [[1, 1, 1, 1], [2, 2, 2, 2]])
    np.testing.assert_array_equal(steps.scores, [[3, 10], [10, 12]])
    np.testing.assert_array_equal(steps.scaled, [[1.5, 5], [5, 6]])
    np.testing.assert_allclose(steps.weights.sum(axis=1), 1)
    np.testing.assert_allclose(softmax_rows(np.array([2.0, 8.0])), [0.0025, 0.9975], atol=5e-5)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_text_shows_every_result_and_the_slips(name: str) -> None:
    text = example_text(name)
    steps = compute(EXAMPLES[name])
    lines = [line.split() for line in text.split("\n")]
    for matrix in (steps.q, steps.k, steps.v, steps.scores):
        for word, row in zip(EXAMPLES[name].words, matrix, strict=True):
            assert [word, *(f"{value:.0f}" for value in row)] in lines
    for value in (*steps.weights.flat, *steps.output.flat):
        assert f"{value:.4f}" in text
    assert "Often misprinted" in text


def test_the_slips_are_named() -> None:
    assert "K is [[0, 2], [1, 1]], not [[1, 2], [1, 1]]" in example_text("two-words")
    assert "[0.0025, 0.9975]" in example_text("thinking-machines").replace("\n", " ")


def test_an_unknown_example_names_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match="--example three: use two-words, thinking-machines, scaling"
    ):
        example_text("three")


def test_softmax_of_large_scores_stays_finite() -> None:
    np.testing.assert_allclose(softmax_rows(np.array([1e4, 0.0])), [1, 0])


def test_jacobian_norm_equals_finite_differences() -> None:
    scores = np.array([0.3, -1.0, 0.7])
    step = 1e-6
    numeric = [
        (softmax_rows(scores + step * row) - softmax_rows(scores - step * row)) / (2 * step)
        for row in np.eye(3)
    ]
    np.testing.assert_allclose(
        jacobian_norms(softmax_rows(scores)), np.linalg.norm(numeric), rtol=1e-6
    )


def test_without_scaling_the_softmax_saturates_and_its_gradient_vanishes() -> None:
    measured = measure_scaling((4, 64, 512), n=500, seed=3)
    for d_k, (plain, scaled) in measured.items():
        # 8 000 dot products: the sampling error of their variance is about 2 to 4 percent.
        assert plain.variance == pytest.approx(d_k, rel=0.15)
        assert scaled.variance == pytest.approx(1, rel=0.15)
    (first, first_scaled), _, (last, last_scaled) = measured.values()
    assert last.top_weight > 0.9 > first.top_weight
    assert last.gradient < first.gradient / 3
    assert last_scaled.top_weight == pytest.approx(first_scaled.top_weight, abs=0.05)
    assert last_scaled.gradient == pytest.approx(first_scaled.gradient, rel=0.1)


def test_the_measurements_are_repeatable_and_written_in_full() -> None:
    measured = measure_scaling((4, 8), n=50, seed=2)
    assert measured == measure_scaling((4, 8), n=50, seed=2)
    assert measured != measure_scaling((4, 8), n=50, seed=3)
    lines = render_scaling(measured).split("\n")
    assert [line.split()[0] for line in lines[4:6]] == ["4", "8"]
    assert f"{measured[8][0].gradient:.4f}" in lines[5]
