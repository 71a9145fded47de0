"""From raw measurements to what is printed: rates, medians over rounds, ratios, and the floor.

Comes in: updates of each run, the machine's measured product peak, and how many operations a token
needs. Goes out: numbers and a table. This file starts nothing and knows no toolkit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from watch import Observed

OURS = "tmt"  # names of our own runs start with it


@dataclass(frozen=True)
class Rates:
    """One run of one tool."""

    label: str  # tool and precision, e.g. "hf bf16"
    precision: str
    src_tokens_per_s: float
    tgt_tokens_per_s: float
    first_update_s: float
    peak_rss_mib: float


def rates(label: str, precision: str, observed: Observed, src_per_tgt: float) -> Rates:
    """Median tokens per second over the updates of the window.

    Args:
        src_per_tgt: source tokens of the corpus for each target token; those of a tool that does
            not tell its own.
    """
    updates = observed.updates
    src = [u.tgt * src_per_tgt if u.src is None else u.src for u in updates]
    return Rates(
        label,
        precision,
        median(n / u.seconds for n, u in zip(src, updates, strict=True)),
        median(u.tgt / u.seconds for u in updates),
        observed.first_update_s,
        observed.peak_rss_mib,
    )


def ratio(rounds: Sequence[Sequence[Rates]], ours: str, other: str) -> float:
    """Target tokens/s of one label over another's: the median over the rounds that have both.

    A machine is faster in some hours than in others; runs of one round stand close together.
    """
    speeds = [{run.label: run.tgt_tokens_per_s for run in runs} for runs in rounds]
    return median(s[ours] / s[other] for s in speeds if ours in s and other in s)


def share_of_peak(tgt_tokens_per_s: float, flops: float, peak_gflops: float) -> float:
    """Of the machine's product peak in the run's precision, in [0, 1]."""
    return tgt_tokens_per_s * flops / (peak_gflops * 1e9)


def table(rounds: Sequence[Sequence[Rates]], peaks: Mapping[str, float], flops: float) -> list[str]:
    """Lines of a Markdown table: one row per label, medians of the rounds.

    Args:
        peaks: precision → GFLOP/s of a plain product.
        flops: of matrix products for one real target token, as `training_flops` counts them.
    """
    labels = list(dict.fromkeys(run.label for runs in rounds for run in runs))
    ours = [label for label in labels if label.startswith(OURS)]
    head = ["run", "tgt tok/s", "src tok/s", "of peak", "RSS MiB", "first s"]
    head += [f"{label} ÷ it" for label in ours]
    rows = [head, ["---"] * len(head)]
    for label in labels:
        runs = [run for runs in rounds for run in runs if run.label == label]
        speed = median(run.tgt_tokens_per_s for run in runs)
        rows.append([
            label,
            f"{speed:,.0f}",
            f"{median(run.src_tokens_per_s for run in runs):,.0f}",
            f"{share_of_peak(speed, flops, peaks[runs[0].precision]):.1%}",
            f"{median(run.peak_rss_mib for run in runs):,.0f}",
            f"{median(run.first_update_s for run in runs):.1f}",
            *(f"{ratio(rounds, mine, label):.2f}" if meets(rounds, mine, label) else "–"
              for mine in ours),
        ])  # fmt: skip
    return [f"| {' | '.join(row)} |" for row in rows]


def meets(rounds: Sequence[Sequence[Rates]], one: str, other: str) -> bool:
    """Was there a round in which both were measured?"""
    return any({one, other} <= {run.label for run in runs} for runs in rounds)


def verdicts(
    rounds: Sequence[Sequence[Rates]], peaks: Mapping[str, float], flops: float
) -> list[str]:
    """Our fastest against each peer in its better precision, and the most that is possible.

    "At 100 % of peak" is a tmt that did nothing but the products of the real tokens, as fast as
    this machine multiplies in tmt's precision.
    """
    speeds: dict[str, list[float]] = {}
    for run in (run for runs in rounds for run in runs):
        speeds.setdefault(run.label, []).append(run.tgt_tokens_per_s)
    precision = {run.label: run.precision for runs in rounds for run in runs}
    best: dict[str, str] = {}  # tool → label of its fastest precision
    for label in sorted(speeds, key=lambda label: median(speeds[label])):
        tool = OURS if label.startswith(OURS) else label.split()[0]
        best[tool] = label
    if OURS not in best:
        return []
    ours = best.pop(OURS)
    peak_speed = peaks[precision[ours]] * 1e9 / flops
    return [
        f"{ours} / {label}: {ratio(rounds, ours, label):.2f}; at 100 % of the "
        f"{precision[ours]} peak it would be {peak_speed / median(speeds[label]):.1f}"
        for label in best.values()
        if meets(rounds, ours, label)
    ]
