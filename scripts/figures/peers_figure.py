"""The speed of training beside other tools, as a picture: one panel for each model size.

    python scripts/figures/peers_figure.py tiny.json base.json --out docs/images/peers.png

Reads what scripts/peers/train_speed.py wrote with --out. A bar is the median over the rounds of
real target tokens per second; the dashed line is the speed of a program that computed nothing but
the necessary products, at full speed, in tmt's precision.
"""

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

from transformer_mt.rendering.figures import figure_style, new_figure, save_figure

NAMES = {
    "tmt": "tmt", "joeynmt": "JoeyNMT", "hf": "Hugging Face", "naive": "nn.Transformer",
    "tmt-1p": "tmt, one process,", "tmt-2p": "tmt, two processes,",
    "hf-malloc": "Hugging Face, tmt's allocator,", "tmt-short": "tmt, short updates,",
}  # fmt: skip


def draw(axes: Any, content: dict[str, Any]) -> None:
    """Bars of one measurement."""
    speeds: dict[str, list[float]] = {}
    runs = [run for run in content["runs"] if "failed" not in run]
    for run in runs:
        speeds.setdefault(run["label"], []).append(run["tgt_tokens_per_s"])
    medians = {label: median(values) for label, values in speeds.items()}
    order = sorted(medians, key=lambda label: medians[label])
    ours = next(run for run in runs if run["tool"] == "tmt")
    peak = median(peaks[ours["precision"]] for peaks in content["peaks_gflops"])
    limit = peak * 1e9 / content["corpus"]["flops_per_tgt_token"]
    names = [f"{NAMES[label.split()[0]]} {label.split()[1]}" for label in order]
    colors = ["tab:blue" if label == ours["label"] else "tab:gray" for label in order]
    bars = axes.barh(names, [medians[label] for label in order], color=colors)
    axes.bar_label(bars, [f"{medians[label]:,.0f}" for label in order], padding=3)
    axes.axvline(limit, color="black", linestyle="--", linewidth=1)
    axes.set_xlim(0, 1.1 * limit)
    axes.set_title(f"{content['size']}: nothing but products would make {limit:,.0f}")
    axes.set_xlabel("real target tokens per second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("measured", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    contents = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.measured]
    with figure_style():
        figure = new_figure(9, 3 * len(contents))
        for i, content in enumerate(contents):
            draw(figure.add_subplot(len(contents), 1, i + 1), content)
        figure.subplots_adjust(left=0.28, right=0.97, top=0.93, bottom=0.09, hspace=0.55)
        save_figure(figure, arguments.out)


if __name__ == "__main__":
    main()
