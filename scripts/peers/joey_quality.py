"""JoeyNMT trained by the clock, then tested: what it reaches in the time that tmt takes.

    python joey_quality.py RUN --minutes 14.5 --test test_2016_flickr --out FOLDER

RUN is a run directory of tmt, whose cleaned text and vocabulary are used. Runs in an environment
that holds joeynmt (train_speed.py makes it). The model is the small one of
configs/multi30k-en-de.yaml in the paper's architecture with pre-norm; the learning rate is warmed
up for few updates, since there will be few. The minutes count from the start of training to its
last update, without validation, which is left out. Prints BLEU and chrF of beam 5.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from joey_driver import configuration
from joeynmt.__main__ import main as joeynmt
from joeynmt.training import TrainManager
from sacrebleu.metrics import BLEU, CHRF

SIZE = {"d_model": 128, "heads": 4, "ffn": 256, "layers": 4, "dropout": 0.3}


def settings(run_dir: Path, test: str, out_dir: Path) -> dict[str, Any]:
    clean_dir = run_dir / "data" / "clean"
    task = {
        "work_dir": str(out_dir),
        "tokenizer": str(run_dir / "data" / "tokenizer" / "tokenizer.model"),
        "src": str(clean_dir / "train.src"), "tgt": str(clean_dir / "train.tgt"),
        "dev_src": str(clean_dir / "dev.src"), "dev_tgt": str(clean_dir / "dev.tgt"),
        "max_length": 100, "max_tokens": 6144, "accumulate": 1, "model": SIZE,
    }  # fmt: skip
    cfg = configuration(task)
    cfg["data"]["test"] = str(clean_dir / f"test.{test}")
    for stack in ("encoder", "decoder"):
        cfg["model"][stack]["layer_norm"] = "pre"
    cfg["training"] |= {"learning_rate": 3e-3, "learning_rate_warmup": 150}
    cfg["testing"] |= {
        "beam_size": 5, "beam_alpha": 1.0, "batch_size": 64, "batch_type": "sentence",
        "max_output_length": 60, "eval_metrics": ["bleu"],
    }  # fmt: skip
    return cfg


def stop_after(minutes: float) -> None:
    """Have training save and end by the clock."""
    step, started = TrainManager._train_step, time.monotonic()

    def timed(self: Any, batch: Any) -> Any:
        if time.monotonic() - started > 60 * minutes:
            self.stats.best_ckpt_iter = self.stats.steps
            self._save_checkpoint(True, 0.0)
            print(json.dumps({"updates": self.stats.steps}), file=sys.stderr)
            raise KeyboardInterrupt
        return step(self, batch)

    TrainManager._train_step = timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True)
    config_path = arguments.out / "config.yaml"
    cfg = settings(arguments.run_dir, arguments.test, arguments.out)
    config_path.write_text(yaml.safe_dump(cfg), encoding="utf-8")
    stop_after(arguments.minutes)
    sys.argv = ["joeynmt", "train", str(config_path), "--skip-test"]
    joeynmt()
    sys.argv = ["joeynmt", "test", str(config_path), "--output-path", str(arguments.out / "hyps")]
    joeynmt()
    hyps, refs = (
        path.read_text(encoding="utf-8").rstrip("\n").split("\n")
        for path in (
            arguments.out / "hyps.test",
            arguments.run_dir / "data" / "clean" / f"test.{arguments.test}.tgt",
        )
    )
    print(BLEU().corpus_score(hyps, [refs]), CHRF().corpus_score(hyps, [refs]), sep="\n")


if __name__ == "__main__":
    main()
