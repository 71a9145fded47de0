"""JoeyNMT's own training command, with a line per update written beside it.

    python joey_driver.py TASK.json

Runs in an environment that holds joeynmt; see `tools.py` for the task. Nothing of what it computes
is changed. Its dictionary must start with <unk>, <pad>, so ids differ from the other tools; the
pieces are the same.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml
from joeynmt.__main__ import main as joeynmt
from joeynmt.training import TrainManager
from sentencepiece import SentencePieceProcessor
from update_log import UpdateLog, count_real

SPECIAL = {
    "unk_token": "<unk>", "unk_id": 0, "pad_token": "<pad>", "pad_id": 1,
    "bos_token": "<s>", "bos_id": 2, "eos_token": "</s>", "eos_id": 3,
}  # fmt: skip


def model_settings(size: dict[str, Any]) -> dict[str, Any]:
    """The paper's model, post-norm, with all embeddings tied. Args: size: `tools.Size`."""
    stack = {
        "type": "transformer",
        "num_layers": size["layers"],
        "num_heads": size["heads"],
        "embeddings": {"embedding_dim": size["d_model"], "scale": True},
        "hidden_size": size["d_model"],
        "ff_size": size["ffn"],
        "dropout": size["dropout"],
        "layer_norm": "post",  # without it, layers are pre and the end is post
    }
    return {
        "initializer": "xavier_uniform",
        "embed_initializer": "xavier_uniform",
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": stack,
        "decoder": dict(stack),
    }


def configuration(task: dict[str, Any]) -> dict[str, Any]:
    work_dir, size = Path(task["work_dir"]), task["model"]
    pieces = SentencePieceProcessor(model_file=task["tokenizer"])
    vocabulary = work_dir / "vocabulary.txt"
    names = [pieces.id_to_piece(id_) for id_ in range(pieces.get_piece_size())]
    vocabulary.write_text("\n".join(names) + "\n", encoding="utf-8")

    def side(name: str) -> dict[str, Any]:
        return {
            "lang": Path(task[name]).suffix[1:],
            "max_length": task["max_length"],
            "level": "bpe",
            "voc_file": str(vocabulary),
            "tokenizer_type": "sentencepiece",
            "tokenizer_cfg": {"model_file": task["tokenizer"], "pretokenizer": "none"},
        }

    return {
        "name": "bench",
        "joeynmt_version": "2.3.0",
        "model_dir": str(work_dir / "model"),
        "use_cuda": False,
        "random_seed": 1,
        "data": {
            "train": str(Path(task["src"]).with_suffix("")),
            "dev": str(Path(task["dev_src"]).with_suffix("")),
            "dataset_type": "plain",
            "src": side("src"),
            "trg": side("tgt"),
            "special_symbols": SPECIAL,
        },
        "testing": {"beam_size": 1, "batch_size": 64},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "learning_rate": 5e-4,
            "learning_rate_min": 1e-9,
            "learning_rate_warmup": 400,
            "scheduling": "warmupinversesquareroot",
            "clip_grad_norm": 1.0,
            "label_smoothing": 0.1,
            "normalization": "tokens",
            "batch_size": task["max_tokens"],  # padding counted
            "batch_type": "token",
            "batch_multiplier": task["accumulate"],
            "epochs": 1000,
            "validation_freq": 1_000_000,
            "logging_freq": 10,
            "overwrite": True,
        },
        "model": model_settings(size),
    }  # fmt: skip


def log_updates(path: str) -> None:
    """Have every training of this process write its updates to `path`."""
    log = UpdateLog(path)
    compute, train = TrainManager._train_step, TrainManager.train_and_validate

    def counted(self: Any, batch: Any) -> Any:
        log.count(count_real(batch.src, self.model.pad_index), int(batch.ntokens))
        return compute(self, batch)

    def logged(self: Any, **data: Any) -> None:
        self.optimizer.register_step_post_hook(lambda *_: log.end_update())
        train(self, **data)

    TrainManager._train_step, TrainManager.train_and_validate = counted, logged


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    config_path = Path(task["work_dir"]) / "config.yaml"
    config_path.write_text(yaml.safe_dump(configuration(task)), encoding="utf-8")
    log_updates(task["log"])
    sys.argv = ["joeynmt", "train", str(config_path), "--skip-test"]
    joeynmt()


if __name__ == "__main__":
    main()
