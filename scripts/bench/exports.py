"""Every export of some models: proof, size, and speed in the program that it is for.

    python scripts/bench/exports.py -m runs/tiny -m runs/multi30k-en-de [--texts 500] [--to onnx]

Prints one row per model and format, in its most exact precision and in int8: the share of greedy
translations of dev that are the same as tmt's, BLEU of both, size on the disk, and sentences per
second as the proof translates them. What a format refuses stands in its row. Needs the packages of
`make exports-ready`, those of Node with NODE_PATH=tests/export/node/node_modules; what is not
installed is a row, too.
"""

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.errors import TmtError
from transformer_mt.export.formats import FORMATS, load_format
from transformer_mt.export.proof import ExportedModel, ExportTask, prove
from transformer_mt.system.state import files_below
from transformer_mt.translation.translator import Translator

COLUMNS = "| model | format | precision | the same | BLEU, tmt's | MB | sentences/s |"


class Timed:
    """An exported model with a clock."""

    def __init__(self, exported: ExportedModel) -> None:
        self._exported, self.seconds = exported, 0.0

    def translate(self, texts: Sequence[str]) -> list[str]:
        started = time.perf_counter()
        found = self._exported.translate(texts)
        self.seconds += time.perf_counter() - started
        return found

    def log_probs(self, srcs: Sequence[str], tgts: Sequence[str]) -> list[float] | None:
        return self._exported.log_probs(srcs, tgts)


def rows(run_dir: Path, n_texts: int, formats: Sequence[str]) -> Iterator[str]:
    dev = run_dir / "data/clean"
    srcs, refs = (list(split_lines(dev / f"dev.{side}"))[:n_texts] for side in ("src", "tgt"))
    for name in formats:
        kinds = load_format(name).QUANTIZATIONS
        for kind in dict.fromkeys([kinds[0], *({"int8"} & {*kinds})]):
            translator = Translator.load(run_dir / "model", precision="fp32")
            found = row(name, ExportTask(translator, kind, srcs, refs))
            yield f"| {run_dir.name} | {name} | {kind} | {found} |"


def row(name: str, task: ExportTask) -> str:
    format_ = load_format(name)
    if reasons := format_.refusals(task):
        return f"refused: {'; '.join(reasons)} | | |"
    with TemporaryDirectory() as folder:
        path = Path(folder)
        try:
            format_.write(task, path)
            exported = format_.load(task, path)
        except TmtError as error:
            return f"{error} | | |"
        timed = Timed(exported)
        proof = prove(task, timed)
        size = sum(os.path.getsize(path / file) for file in files_below(path)) / 1e6
    bleu, speed = f"{proof.bleu:.2f}, {proof.own_bleu:.2f}", proof.texts / timed.seconds
    return f"{proof.identical:.1%} of {proof.texts} | {bleu} | {size:.1f} | {speed:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-m", "--model", type=Path, action="append", required=True, help="a run")
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--to", choices=FORMATS, action="append", help="a format; default: all")
    arguments = parser.parse_args()
    print(COLUMNS, "|---" * 7 + "|", sep="\n")
    for run_dir in arguments.model:
        for line in rows(run_dir, arguments.texts, arguments.to or FORMATS):
            print(line, flush=True)


if __name__ == "__main__":
    main()
