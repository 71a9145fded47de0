"""The dev scores of a run over time, as a Markdown table.

python scripts/figures/training_curve.py runs/multi30k-en-de [--every 4]
"""

import argparse
from pathlib import Path

from transformer_mt.pipeline.records import read_metrics
from transformer_mt.pipeline.run_dir import Run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--every", type=int, default=1, help="show each n-th validation")
    arguments = parser.parse_args()
    records = read_metrics(Run(arguments.run_dir).metrics_path)
    validations = [record for record in records if record["event"] == "validation"]
    print("| update | minutes | dev loss | dev BLEU | dev chrF |\n|---|---|---|---|---|")
    shown = validations[arguments.every - 1 :: arguments.every]
    for record in shown if shown[-1:] == validations[-1:] else [*shown, *validations[-1:]]:
        print(
            f"| {record['update']} | {record['minutes']:.1f} | {record['loss']:.3f} "
            f"| {record['bleu']:.2f} | {record['chrf']:.2f} |"
        )


if __name__ == "__main__":
    main()
