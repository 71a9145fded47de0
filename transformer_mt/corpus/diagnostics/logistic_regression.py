"""Logistic regression with weighted rows, by Newton's method."""

import numpy as np
from numpy.typing import NDArray

from transformer_mt.system.arrays import Doubles


def fit_logistic(
    features: Doubles, truth: NDArray[np.bool_], mass: Doubles, *, steps: int, ridge: float
) -> Doubles:
    """(D,) coefficients of the log-odds that a row is true.

    Args:
        features: (n, D), with a column of ones for a constant term.
        mass: (n,) how often each row counts.
        ridge: penalty on squared coefficients.
    """
    weights = np.zeros(features.shape[1])
    for _ in range(steps):
        p = 1 / (1 + np.exp(-(features @ weights).clip(-30, 30)))
        slope = features.T @ (mass * (truth - p)) - ridge * weights
        curvature = (features * (mass * p * (1 - p))[:, None]).T @ features
        weights += np.linalg.solve(curvature + ridge * np.eye(len(weights)), slope)
    return weights
