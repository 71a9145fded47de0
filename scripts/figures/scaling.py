"""A calculation from one GPU's measured speed: training on 1 to 64 GPUs, and what 10⁹ pairs cost.

    python scripts/figures/scaling.py [--pairs 1e9] [--figure docs/images/scaling.png]

Prints the tables of docs/scaling.md. What is counted and what is assumed: `scaling_model.py`.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path

from scaling_data import checkpoint_bytes, data_rows
from scaling_model import (
    NETWORKS,
    PCIE,
    SIZES,
    STATE_BYTES,
    Assumptions,
    Computation,
    Cost,
    Lengths,
    Update,
    combine,
    compute,
    make_lengths,
)

from transformer_mt.profiling.flops import training_flops
from transformer_mt.training.batches import UpdatePlan, plan_updates

COUNTS = (1, 2, 4, 8, 16, 32, 64)
SMALL, LARGE = 25_000, 400_000  # target tokens of an update: Vaswani et al. 2017; Ott et al. 2018
N_PAIRS = 400_000  # drawn at random: the rest of a corpus would change no average
PARTS = {
    "products_s": "work of the GPU",
    "overhead_s": "small micro-batches, host",
    "waiting_s": "waiting for the slowest",
    "sending_s": "gradients",
    "optimizer_s": "optimizer",
}


class Study:
    """Updates by model, number of GPUs and assumptions; plans are made once."""

    def __init__(self, lengths: Lengths) -> None:
        self.lengths = lengths
        self.costs = {name: Cost(*size) for name, size in SIZES.items()}
        self._plans: dict[tuple[int, int], UpdatePlan] = {}
        self._computed: dict[tuple[object, ...], list[Computation]] = {}

    def update(
        self, cost: Cost, n: int, a: Assumptions, *, tokens: int = SMALL, max_tokens: int = 4096
    ) -> Update:
        key = cost, n, a.of_computing, tokens, max_tokens
        if key not in self._computed:
            plan = self._plan(max_tokens, tokens)
            self._computed[key] = compute(cost, self.lengths, plan, n, a)
        return combine(cost, self._computed[key], n, a)

    def _plan(self, max_tokens: int, tokens: int) -> UpdatePlan:
        key = max_tokens, tokens
        if key not in self._plans:
            self._plans[key] = plan_updates(
                *self.lengths, max_tokens=max_tokens, tokens_per_update=tokens, seed=1, epoch=0
            )
        return self._plans[key]

    def efficiency(self, cost: Cost, n: int, a: Assumptions, tokens: int = SMALL) -> float:
        alone = self.update(cost, 1, a, tokens=tokens).tokens_per_s
        return self.update(cost, n, a, tokens=tokens).tokens_per_s / (n * alone)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: bool = True) -> str:
    """Markdown; numbers stand to the right."""
    rules = ["---", *(["---:" if numbers else "---"] * (len(header) - 1))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rules, *rows))


def models_table(study: Study) -> str:
    rows = []
    for name, cost in study.costs.items():
        flops = training_flops(cost.model, *study.lengths) / study.lengths.tgt.sum()
        rows.append((
            name, f"{cost.parameters / 1e6:.1f} M", f"{flops / 1e6:,.0f} MFLOP",
            f"{4 * cost.parameters / 1e6:,.0f} MB",
            f"{STATE_BYTES * cost.parameters / 1e9:.2f} GB",
            f"{checkpoint_bytes(cost.parameters, 5) / 1e9:.1f} GB",
        ))  # fmt: skip
    header = (
        "model", "parameters", "per target token", "gradients, fp32",
        "weights and Adam", "checkpoints on disk",
    )  # fmt: skip
    return table(header, rows)


def speed_table(study: Study, a: Assumptions) -> str:
    rows = []
    for n in COUNTS:
        row = [str(n)]
        for cost in study.costs.values():
            for tokens in (SMALL, LARGE):
                speed = study.update(cost, n, a, tokens=tokens).tokens_per_s
                row.append(f"{speed / 1e6:.2f} M, {study.efficiency(cost, n, a, tokens):.0%}")
        rows.append(row)
    return table(
        ["GPUs", *(f"{m}, {t // 1000}k" for m in study.costs for t in (SMALL, LARGE))], rows
    )


def parts_table(study: Study, a: Assumptions, tokens: int) -> str:
    rows = []
    for n in COUNTS:
        update = study.update(study.costs["base"], n, a, tokens=tokens)
        shares = [f"{update.parts()[key] / update.total_s:.0%}" for key in PARTS]
        rows.append((str(n), f"{1000 * update.total_s:.1f}", *shares))
    return table(("GPUs", "ms", *PARTS.values()), rows)


def links(a: Assumptions) -> Iterator[tuple[str, Assumptions]]:
    for name, between in NETWORKS.items():
        yield name, replace(a, between=between)
    yield (
        "100 Gb/s InfiniBand, PCIe inside",
        replace(a, within=PCIE, between=NETWORKS["100 Gb/s InfiniBand"]),
    )


def network_table(study: Study, a: Assumptions, tokens: int) -> str:
    rows = []
    for name, linked in links(a):
        row = [name]
        for n in (8, 16, 64):
            for model in ("base", "big"):
                sent = [replace(linked, gradient_bytes=width) for width in (4, 2)]
                shares = [study.efficiency(study.costs[model], n, s, tokens) for s in sent]
                row.append(" / ".join(f"{share:.0%}" for share in shares))
        rows.append(row)
    heads = [f"{model}, {n} GPUs" for n in (8, 16, 64) for model in ("base", "big")]
    return table(["between machines", *heads], rows)


def draw(study: Study, a: Assumptions, path: Path) -> None:
    """Efficiency of base over the number of GPUs, by network, for both sizes of update."""
    from transformer_mt.rendering.figures import GRID, MUTED, figure_style, new_figure, save_figure

    colors = ("#08488e", "#4f86c6", "#5b7f4d", "#dba782", "#b3541e")
    with figure_style():
        figure = new_figure(9, 3.8)
        panels = figure.subplots(1, 2, sharey=True)
        for panel, tokens in zip(panels, (SMALL, LARGE), strict=True):
            for color, (name, linked) in zip(colors, links(a), strict=False):
                shares = [
                    100 * study.efficiency(study.costs["base"], n, linked, tokens) for n in COUNTS
                ]
                panel.plot(COUNTS, shares, color=color, marker="o", markersize=3.5, label=name)
            panel.set_xscale("log", base=2)
            panel.set_xticks(COUNTS, [str(n) for n in COUNTS])
            panel.set_ylim(0, 105)
            panel.grid(axis="y", color=GRID, linewidth=0.8)
            panel.tick_params(length=0)
            panel.set_title(f"{tokens:,} target tokens per update", fontsize=9, loc="left")
            panel.set_xlabel("GPUs, 8 in a machine")
        panels[0].set_ylabel("share of n times one GPU, %")
        panels[0].legend(frameon=False, fontsize=8, labelcolor=MUTED, title="between machines")
        figure.tight_layout()
        save_figure(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=float, default=1e9)
    parser.add_argument("--figure", type=Path)
    args = parser.parse_args()
    a = Assumptions()
    study = Study(make_lengths(N_PAIRS))
    print("assumed:", ", ".join(f"{f.name}={getattr(a, f.name)}" for f in fields(a)))
    speed = study.update(study.costs["base"], 8, a, tokens=LARGE).tokens_per_s
    for title, text in (
        ("models", models_table(study)),
        ("speed", speed_table(study, a)),
        ("parts of an update of base, 25k", parts_table(study, a, SMALL)),
        ("parts of an update of base, 400k", parts_table(study, a, LARGE)),
        ("networks, 25k", network_table(study, a, SMALL)),
        ("networks, 400k", network_table(study, a, LARGE)),
        (f"{args.pairs:.0e} pairs", table(
            ("what", "how much", "how it is reckoned"),
            data_rows(args.pairs, study.lengths, speed), numbers=False)),
    ):  # fmt: skip
        print(f"\n{title}\n\n{text}")
    if args.figure:
        draw(study, a, args.figure)


if __name__ == "__main__":
    main()
