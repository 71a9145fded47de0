"""How well the confidence of a model agrees with the chrF of its translations, by tenths.

    python scripts/bench/confidence.py -m runs/my --src test.zh --ref test.en

The sentences must not be those of dev, on which the curve was fitted. With `-o FILE` the table is
drawn, too.
"""

import argparse
from pathlib import Path

import numpy as np

from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.evaluation.metrics import Scorer
from transformer_mt.rendering.cells import align_columns
from transformer_mt.rendering.figures import GRID, INK, figure_style
from transformer_mt.translation.translator import Translator

PARTS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", type=Path, required=True)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    model_dir = options.model / "model" if (options.model / "model").is_dir() else options.model
    translator = Translator.load(model_dir)
    found = translator.translate(list(split_lines(options.src)))
    hyps, refs = [one.text for one in found], list(split_lines(options.ref))
    chrf = np.array(Scorer(translator.cfg.languages.tgt).sentence_chrf(hyps, refs)) / 100
    told = np.array([one.confidence for one in found], dtype=float)
    parts = np.array_split(np.argsort(told, kind="stable"), PARTS)
    means = [(told[rows].mean(), chrf[rows].mean(), len(rows)) for rows in parts]
    table = [("sentences", "confidence", "chrF", "difference")]
    table += [(str(n), f"{x:.3f}", f"{y:.3f}", f"{x - y:+.3f}") for x, y, n in means]
    print(align_columns(table, numbers=range(4)))
    error = sum(abs(x - y) * n for x, y, n in means) / len(told)
    print(
        f"mean difference of the parts {error:.3f}; Spearman's ρ {rank_correlation(told, chrf):.2f}"
    )

    if options.out:
        draw([(x, y) for x, y, _ in means], options.out)


def draw(points: list[tuple[float, float]], path: Path) -> None:
    """The tenths beside the line on which confidence and chrF agree."""
    from matplotlib.figure import Figure

    with figure_style():
        figure = Figure(figsize=(4, 3.4), layout="constrained")
        axes = figure.add_subplot(
            title="Confidence, in tenths of a test set",
            xlabel="confidence: the chrF to expect",
            ylabel="chrF against the reference",
        )
        axes.plot([0, 1], [0, 1], color=GRID)
        axes.plot(*zip(*points, strict=True), "o-", color=INK, markersize=4)
        figure.savefig(path, dpi=150)


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    ranks = [np.argsort(np.argsort(values, kind="stable")) for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


if __name__ == "__main__":
    main()
