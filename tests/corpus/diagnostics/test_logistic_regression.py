"""Logistic regression: the slope at the solution is zero, and mass counts as repetition."""

import numpy as np

from transformer_mt.corpus.diagnostics.logistic_regression import fit_logistic

RNG = np.random.default_rng(5)
FEATURES = np.column_stack([RNG.normal(size=(400, 3)), np.ones(400)])
TRUTH = RNG.random(400) < 1 / (1 + np.exp(-(FEATURES @ [1.5, -2.0, 0.0, 0.5])))


def test_the_slope_at_the_solution_is_zero() -> None:
    mass, ridge = RNG.random(400), 0.1
    weights = fit_logistic(FEATURES, TRUTH, mass, steps=20, ridge=ridge)
    p = 1 / (1 + np.exp(-(FEATURES @ weights)))
    np.testing.assert_allclose(FEATURES.T @ (mass * (TRUTH - p)), ridge * weights, atol=1e-9)
    assert weights[0] > 0.5 and weights[1] < -0.5 and abs(weights[2]) < 0.5
