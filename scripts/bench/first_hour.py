"""A spreadsheet of 5,000 pairs: today's `tmt train` beside the settings of an older README.

    git worktree add /tmp/before 4081519
    python scripts/bench/first_hour.py /tmp/before FOLDER --languages zh en --test test

FOLDER has train.SRC, train.TGT, and the test set. For each seed two commands run side by side, with
one process each: `tmt train lines.xlsx --minutes 10`, and in the older checkout `tmt train my.yaml
--minutes 10` with the `my.yaml` of its README. Each translates the test set itself. Prints BLEU and
chrF of each seed, and the means.
"""

import argparse
import json
import os
import random
import re
import runpy
import subprocess
import sys
from pathlib import Path
from statistics import mean

import sacrebleu

ROOT = Path(__file__).parents[2]
write_workbook = runpy.run_path(str(ROOT / "tests/support/workbook.py"))["write_workbook"]


def start(checkout: Path, folder: Path, log: str, *words: str) -> subprocess.Popen[bytes]:
    """`tmt` of a checkout, in a folder, on one core."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    with (folder / log).open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "transformer_mt", *words],
            cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip


def wait(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.wait():
            raise SystemExit("a command failed: see its log")


def write_files(folder: Path, before: Path, corpus: Path, languages: list[str], n: int) -> None:
    """lines.xlsx, the same lines as my.SRC and my.TGT, and the README's my.yaml."""
    sides = [(corpus / f"train.{code}").read_text().split("\n")[:-1] for code in languages]
    pairs = random.Random(1).sample(list(zip(*sides, strict=True)), n)
    write_workbook(folder / "lines.xlsx", {"Lines": [languages, *pairs]})
    for code, lines in zip(languages, zip(*pairs, strict=True), strict=True):
        (folder / f"my.{code}").write_text("".join(line + "\n" for line in lines))
    (block,) = re.findall(r"```yaml\n(name: my\n.*?)```", (before / "README.md").read_text(), re.S)
    src, tgt = languages
    (folder / "my.yaml").write_text(block.replace("src: zh, tgt: en", f"src: {src}, tgt: {tgt}"))


def scores(output: Path, references: list[str]) -> tuple[float, float]:
    """BLEU and chrF."""
    hypotheses = output.read_text().split("\n")[:-1]
    bleu = sacrebleu.corpus_bleu(hypotheses, [references]).score
    return bleu, sacrebleu.corpus_chrf(hypotheses, [references]).score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", type=Path, help="a checkout of the older version")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--languages", nargs=2, default=["zh", "en"])
    parser.add_argument("--test", default="test")
    parser.add_argument("--lines", type=int, default=5000)
    parser.add_argument("--minutes", default="10")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--folder", type=Path, required=True, help="for runs and translations")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    folder.mkdir(parents=True)
    corpus, before = arguments.corpus.absolute(), arguments.before.absolute()
    write_files(folder, before, corpus, arguments.languages, arguments.lines)
    src, tgt = (str(corpus / f"{arguments.test}.{code}") for code in arguments.languages)
    references = Path(tgt).read_text().split("\n")[:-1]
    versions = {"before": (before, "my.yaml"), "now": (ROOT, "lines.xlsx")}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in versions}
    for seed in arguments.seeds:
        for words in (
            ["train", "{file}", "--minutes", arguments.minutes, "--set", f"seed={seed}",
             "--processes", "1", "--run-dir", "{run}"],
            ["translate", "-m", "{run}", "-i", src, "-o", "{run}.out"],
        ):  # fmt: skip
            started = []
            for name, (checkout, file) in versions.items():
                run = f"{name}-{seed}"
                filled = [word.format(file=file, run=run) for word in words]
                started.append(start(checkout, folder, f"{run}.{words[0]}.log", *filled))
            wait(started)
        for name in versions:
            found[name].append(scores(folder / f"{name}-{seed}.out", references))
            print(
                json.dumps({"seed": seed, "version": name, "scores": found[name][-1]}), flush=True
            )
    for name, rows in found.items():
        bleu, chrf = (mean(row[i] for row in rows) for i in (0, 1))
        print(f"{name:8} BLEU {bleu:6.2f}  chrF {chrf:6.2f}")


if __name__ == "__main__":
    main()
