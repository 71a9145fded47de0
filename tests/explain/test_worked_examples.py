"""The worked examples give the true numbers; the scaling demonstration shows what it claims."""

import numpy as np
import pytest
import torch

from transformer_mt.errors import ConfigError
from transformer_mt.explain.worked_examples import (
    EXAMPLES,
    compute,
    example_text,
    jacobian_norms,
    measure_scaling,
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


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_text_shows_every_result_and_the_slips(name: str) -> None:
    text = example_text(name)
    steps = compute(EXAMPLES[name])
    lines = [line.split() for line in text.split("\n")]
    for matrix in (steps.q, steps.k, steps.v, steps.scores):
        for word, row in zip(EXAMPLES[name].words, matrix.tolist(), strict=True):
            assert [word, *(f"{value:.0f}" for value in row)] in lines
    for value in (*steps.weights.flatten(), *steps.output.flatten()):
        assert f"{value:.4f}" in text
    assert "Often misprinted" in text


def test_the_slips_are_named() -> None:
    assert "K is [[0, 2], [1, 1]], not [[1, 2], [1, 1]]" in example_text("two-words")
    assert "[0.0025, 0.9975]" in example_text("thinking-machines").replace("\n", " ")


def test_an_unknown_example_names_the_known_ones() -> None:
    known = "--example three: use two-words, thinking-machines, scaling"
    with pytest.raises(ConfigError, match=known):
        example_text("three")


def test_jacobian_norm_equals_that_of_the_derivative() -> None:
    scores = torch.tensor([0.3, -1.0, 0.7], dtype=torch.float64)
    derivative = torch.autograd.functional.jacobian(lambda x: x.softmax(0), scores)
    torch.testing.assert_close(jacobian_norms(scores.softmax(0)), derivative.norm())


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
    measured = measure_scaling()
    assert measured != measure_scaling(seed=3)
    lines = example_text("scaling").split("\n")[4 : 4 + len(measured)]
    for (d_k, (plain, scaled)), line in zip(measured.items(), lines, strict=True):
        assert line.split()[:2] == [str(d_k), f"{plain.variance:.2f}"]
        assert line.endswith(f"{scaled.gradient:.4f}")
