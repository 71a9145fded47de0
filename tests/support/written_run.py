"""A run directory without a training."""

import json
from pathlib import Path
from typing import Any

from transformer_mt.config.experiment import Config
from transformer_mt.pipeline.run_dir import Run

REFS = [f"the {word} sees the old house by the river" for word in "cat dog bird child".split()] * 3


def write_run(
    directory: Path,
    cfg: Config,
    *,
    hyps: list[str] | None = None,
    refs: list[str] = REFS,
    model: dict[str, Any] | None = None,
) -> Path:
    """A run as `tmt train` leaves it, with two validations; finished, if it has a `model`."""
    run = Run(directory)
    run.clean_dir.mkdir(parents=True)
    run.config_path.write_text(cfg.to_yaml(), encoding="utf-8")
    for name, texts in (("src", refs), ("tgt", refs)):
        text = "".join(f"{line}\n" for line in texts)
        (run.clean_dir / f"test.toy.{name}").write_text(text, encoding="utf-8")
    run.metrics_path.write_text(
        "".join(
            json.dumps({"event": "validation", "update": update, "loss": 4.0 - update / 100,
                        "bleu": bleu, "chrf": 2 * bleu, "minutes": update / 10}) + "\n"
            for update, bleu in ((40, 12.5), (80, 11.0))
        )
    )  # fmt: skip
    if hyps is not None:
        run.translations_dir.mkdir()
        (run.translations_dir / "toy.txt").write_text("".join(f"{h}\n" for h in hyps))
    if model is not None:
        run.model_dir.mkdir()
        (run.model_dir / "metadata.json").write_text(json.dumps(model))
    return directory
