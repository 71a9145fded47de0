"""Attention by hand: two small examples worked out, and why scores are divided by √d_k.

The numbers are computed here, not copied: popular texts print these examples with slips.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from transformer_mt.errors import ConfigError
from transformer_mt.explain.head_numbers import HeadNumbers, attend
from transformer_mt.explain.terminal import render_matrix
from transformer_mt.messages.catalogue import tr

Rows = list[list[int]]


@dataclass(frozen=True)
class Example:
    """Inputs, one row per word, the three projections, and the slips in copies of the example."""

    title: str
    words: tuple[str, ...]
    x: Rows  # (words, d_model)
    w_q: Rows  # (d_model, d_k)
    w_k: Rows
    w_v: Rows  # (d_model, d_v)
    slips: str


EXAMPLES = {
    "two-words": Example(
        title=tr("Two words, d_model 3, d_k 2"),
        words=("x₁", "x₂"),
        x=[[1, 0, 1], [0, 1, 1]],
        w_q=[[1, 0], [0, 1], [1, 0]],
        w_k=[[0, 1], [1, 0], [0, 1]],
        w_v=[[1, 1], [0, 1], [1, 0]],
        slips=tr(
            "K is [[0, 2], [1, 1]], not [[1, 2], [1, 1]]. The scores are divided by "
            "√2, not √3: d_k, the number of columns of Q and K, is 2; 3 is d_model."
        ),
    ),
    "thinking-machines": Example(
        title='"Thinking Machines", d_model 4, d_k 4',
        words=("Thinking", "Machines"),
        x=[[1, 0, 1, 0], [0, 2, 0, 2]],
        w_q=[[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 1], [0, 1, 1, 0]],
        w_k=[[0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 1, 1], [1, 1, 0, 0]],
        w_v=[[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]],
        slips=tr(
            "q₁, k₁, q₂ and k₂, the rows of Q and K, are as above. The softmax of [2, "
            "8] is [{low:.4f}, {high:.4f}]; it has no place here, though: the scaled "
            "scores of the first word are [1.5, 5]."
        ),
    ),
}

_SCALING_HEAD = tr(
    "Why attention divides by √d_k: random queries and keys of variance 1\n"
    "\n"
    "        variance of q·k     mean top weight     mean gradient norm\n"
    " d_k    plain     / √d_k    plain     / √d_k    plain     / √d_k"
)
_SCALING_EXPLANATION = tr(
    "\n"
    "A dot product of d_k terms has variance d_k, so longer vectors give larger\n"
    "scores; the softmax then puts nearly all weight on one key, and its gradient\n"
    "p_i (δ_ij − p_j) goes to 0, so that hardly anything is learned. Divided by √d_k,\n"
    "the variance is 1 for every d_k."
)


def compute(example: Example) -> HeadNumbers:
    """The head of an example, in float64."""
    x, *projections = (
        torch.tensor(rows, dtype=torch.float64)
        for rows in (example.x, example.w_q, example.w_k, example.w_v)
    )
    return attend(*(x @ projection for projection in projections))


def example_text(name: str) -> str:
    """A worked example from the inputs to the output, or `scaling`, the measurements.

    Raises:
        ConfigError: there is no example of this name.
    """
    if name == "scaling":
        rows = [
            f"{d_k:4}  {plain.variance:7.2f} {scaled.variance:10.2f}"
            f"  {plain.top_weight:7.3f} {scaled.top_weight:10.3f}"
            f"  {plain.gradient:7.4f} {scaled.gradient:10.4f}"
            for d_k, (plain, scaled) in measure_scaling().items()
        ]
        return "\n".join([_SCALING_HEAD, *rows, _SCALING_EXPLANATION])
    if name not in EXAMPLES:
        raise ConfigError(tr("--example {}: use {}", name, ", ".join([*EXAMPLES, "scaling"])))
    example = EXAMPLES[name]
    steps = compute(example)
    words, d_k = example.words, steps.k.shape[1]
    low, high = torch.tensor([2.0, 8.0]).softmax(0).tolist()
    blocks: list[tuple[str, Tensor, Sequence[str], Sequence[str]]] = [
        (tr("X, one row per word"), torch.tensor(example.x), words, ()),
        ("W^Q", torch.tensor(example.w_q), (), ()),
        ("W^K", torch.tensor(example.w_k), (), ()),
        ("W^V", torch.tensor(example.w_v), (), ()),
        (tr("Q = X W^Q: what each word asks for"), steps.q, words, ()),
        (tr("K = X W^K: what each word answers to"), steps.k, words, ()),
        (tr("V = X W^V: what each word hands on"), steps.v, words, ()),
        (tr("Scores = Q Kᵀ: a row per query, a column per key"), steps.scores, words, words),
        (tr("Scaled scores = Q Kᵀ / √d_k, d_k = {}", d_k), steps.scaled, words, words),
        (tr("Weights = softmax of each row; each row sums to 1"), steps.weights, words, words),
        (tr("Output = weights V{}", ""), steps.output, words, ()),
    ]
    parts = [example.title, *(render_matrix(*block) for block in blocks), tr("Often misprinted")]
    slips = textwrap.fill(example.slips.format(low=low, high=high), 80)
    return "\n\n".join(parts) + "\n" + slips


class Saturation(NamedTuple):
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
    """Saturation without and with the division by √d_k, of `n` queries with own `n_keys` keys each.

    Source: Vaswani et al. 2017, section 3.2.1, footnote 4: components have variance 1.
    """
    generator = np.random.default_rng(seed)
    measured = {}
    for d_k in d_ks:
        q = torch.from_numpy(generator.standard_normal((n, 1, d_k)))
        k = torch.from_numpy(generator.standard_normal((n, n_keys, d_k)))
        scores = (q * k).sum(dim=-1)  # (n, n_keys)
        measured[d_k] = _saturation(scores), _saturation(scores / d_k**0.5)
    return measured


def _saturation(scores: Tensor) -> Saturation:
    weights = scores.softmax(dim=-1)
    values = scores.var(correction=0), weights.amax(dim=-1).mean(), jacobian_norms(weights).mean()
    return Saturation(*(value.item() for value in values))


def jacobian_norms(weights: Tensor) -> Tensor:
    """Frobenius norm of the softmax's Jacobian, the matrix p_i (δ_ij − p_j).

    Args:
        weights: (…, keys), rows that sum to 1.
    """
    identity = torch.eye(weights.size(-1), dtype=weights.dtype)
    jacobian = weights[..., :, None] * (identity - weights[..., None, :])  # (…, keys, keys)
    return torch.linalg.matrix_norm(jacobian)  # (…)
