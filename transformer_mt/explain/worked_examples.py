"""Attention by hand: two small examples worked out, and why scores are divided by √d_k.

Comes in: the name of an example. Goes out: text with every intermediate result. The numbers are
computed here, not copied: popular texts print these examples with slips. This file knows no model.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from transformer_mt.errors import ConfigError
from transformer_mt.explain.terminal import render_matrix

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    """Inputs, one row per word, the three projections, and the slips in copies of the example."""

    title: str
    words: tuple[str, ...]
    x: ArrayLike  # (words, d_model)
    w_q: ArrayLike  # (d_model, d_k)
    w_k: ArrayLike
    w_v: ArrayLike  # (d_model, d_v)
    slips: str


@dataclass(frozen=True, eq=False)
class Steps:
    """All intermediate results of one attention head."""

    q: Matrix  # (words, d_k)
    k: Matrix
    v: Matrix  # (words, d_v)
    scores: Matrix  # (words, words): Q Kᵀ
    scaled: Matrix  # scores / √d_k
    weights: Matrix  # softmax of each row
    output: Matrix  # (words, d_v)


EXAMPLES = {
    "two-words": Example(
        title="Two words, d_model 3, d_k 2",
        words=("x₁", "x₂"),
        x=[[1, 0, 1], [0, 1, 1]],
        w_q=[[1, 0], [0, 1], [1, 0]],
        w_k=[[0, 1], [1, 0], [0, 1]],
        w_v=[[1, 1], [0, 1], [1, 0]],
        slips="K is [[0, 2], [1, 1]], not [[1, 2], [1, 1]]. The scores are divided by √2, not √3: "
        "d_k, the number of columns of Q and K, is 2; 3 is d_model.",
    ),
    "thinking-machines": Example(
        title='"Thinking Machines", d_model 4, d_k 4',
        words=("Thinking", "Machines"),
        x=[[1, 0, 1, 0], [0, 2, 0, 2]],
        w_q=[[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 1], [0, 1, 1, 0]],
        w_k=[[0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 1, 1], [1, 1, 0, 0]],
        w_v=[[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]],
        slips="q₁, k₁, q₂ and k₂, the rows of Q and K, are as above. The softmax of [2, 8] is "
        "[{low:.4f}, {high:.4f}]; it has no place here, though: the scaled scores of the first "
        "word are [1.5, 5].",
    ),
}

_SCALING_HEAD = """\
Why attention divides by √d_k: random queries and keys, components of variance 1

        variance of q·k     mean top weight     mean gradient norm
 d_k    plain     / √d_k    plain     / √d_k    plain     / √d_k"""
_SCALING_EXPLANATION = """
A dot product of d_k terms has variance d_k, so longer vectors give larger scores; the
softmax then puts nearly all weight on one key, and its gradient p_i (δ_ij − p_j) goes to
0, so that hardly anything is learned. Divided by √d_k, the variance is 1 for every d_k."""


def softmax_rows(scores: Matrix) -> Matrix:
    """Softmax along the last axis; subtracting the largest score first changes nothing but the
    size of the numbers."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def compute(example: Example) -> Steps:
    """softmax_rows(Q Kᵀ / √d_k) V, step by step. Source: Vaswani et al. 2017, section 3.2.1."""
    x, w_q, w_k, w_v = (
        np.asarray(matrix, dtype=np.float64)
        for matrix in (example.x, example.w_q, example.w_k, example.w_v)
    )
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    scores = q @ k.T  # (words, words)
    scaled = scores / np.sqrt(k.shape[1])
    weights = softmax_rows(scaled)
    return Steps(q, k, v, scores, scaled, weights, weights @ v)


def example_text(name: str) -> str:
    """A worked example from the inputs to the output, or `scaling`, the measurements.

    Raises:
        ConfigError: there is no example of this name.
    """
    if name == "scaling":
        return render_scaling(measure_scaling())
    if name not in EXAMPLES:
        raise ConfigError(f"--example {name}: use {', '.join([*EXAMPLES, 'scaling'])}")
    example = EXAMPLES[name]
    steps = compute(example)
    words, d_k = example.words, steps.k.shape[1]
    low, high = softmax_rows(np.array([2.0, 8.0]))
    parts = [
        example.title,
        _block("X, one row per word", example.x, words),
        _block("W^Q", example.w_q),
        _block("W^K", example.w_k),
        _block("W^V", example.w_v),
        _block("Q = X W^Q: what each word asks for", steps.q, words),
        _block("K = X W^K: what each word answers to", steps.k, words),
        _block("V = X W^V: what each word hands on", steps.v, words),
        _block("Scores = Q Kᵀ: a row per query, a column per key", steps.scores, words, words),
        _block(f"Scaled scores = Q Kᵀ / √d_k, d_k = {d_k}", steps.scaled, words, words),
        _block("Weights = softmax of each row; each row sums to 1", steps.weights, words, words),
        _block("Output = weights V", steps.output, words),
        "Often misprinted",
    ]
    slips = textwrap.fill(example.slips.format(low=low, high=high), 90)
    return "\n\n".join(parts) + "\n" + slips


def _block(
    title: str, values: ArrayLike, rows: Sequence[str] = (), columns: Sequence[str] = ()
) -> str:
    return f"{title}\n{render_matrix(np.asarray(values), rows=rows, columns=columns)}"


@dataclass(frozen=True)
class Saturation:
    """Numbers that say how close a softmax is to picking one key alone."""

    variance: float  # of the scores
    top_weight: float  # mean of the largest weight
    gradient: float  # mean norm of p_i (δ_ij − p_j), the softmax by its own inputs


def measure_scaling(
    d_ks: Sequence[int] = (4, 8, 16, 32, 64, 128, 256, 512),
    *,
    n: int = 1000,
    n_keys: int = 16,
    seed: int = 1,
) -> dict[int, tuple[Saturation, Saturation]]:
    """Saturation without and with the division by √d_k, on vectors of independent components.

    Source: Vaswani et al. 2017, section 3.2.1, footnote 4.
    Args:
        d_ks: lengths of the vectors, whose components have variance 1.
        n: queries per d_k, each with `n_keys` keys of its own.
    """
    generator = np.random.default_rng(seed)
    measured = {}
    for d_k in d_ks:
        q = generator.standard_normal((n, 1, d_k))
        k = generator.standard_normal((n, n_keys, d_k))
        scores = (q * k).sum(axis=-1)  # (n, n_keys)
        measured[d_k] = _saturation(scores), _saturation(scores / np.sqrt(d_k))
    return measured


def _saturation(scores: Matrix) -> Saturation:
    weights = softmax_rows(scores)
    top_weight, gradient = weights.max(axis=-1).mean(), jacobian_norms(weights).mean()
    return Saturation(float(scores.var()), float(top_weight), float(gradient))


def jacobian_norms(weights: Matrix) -> Matrix:
    """Frobenius norm of the softmax's Jacobian.

    Args:
        weights: (…, keys), rows that sum to 1.
    Returns:
        (…): the norm of the matrix p_i (δ_ij − p_j).
    """
    identity = np.eye(weights.shape[-1])
    jacobian = weights[..., :, None] * (identity - weights[..., None, :])  # (…, keys, keys)
    return np.asarray(np.sqrt((jacobian**2).sum(axis=(-2, -1))))


def render_scaling(measured: Mapping[int, tuple[Saturation, Saturation]]) -> str:
    """The measurements as a table with an explanation."""
    rows = [
        f"{d_k:4}  {plain.variance:7.2f} {scaled.variance:10.2f}"
        f"  {plain.top_weight:7.3f} {scaled.top_weight:10.3f}"
        f"  {plain.gradient:7.4f} {scaled.gradient:10.4f}"
        for d_k, (plain, scaled) in measured.items()
    ]
    return "\n".join([_SCALING_HEAD, *rows, _SCALING_EXPLANATION])
