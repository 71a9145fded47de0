"""Short training runs on a toy corpus, which tests start, watch, stop and compare."""

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoded import encoded_side
from rich.console import Console
from torch import Tensor

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus
from transformer_mt.encoding.epochs import BlockOf
from transformer_mt.encoding.mixing import EpochBlock, Place, epoch_block, source_weights
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.model.transformer import Transformer
from transformer_mt.pipeline.log import TrainingLog
from transformer_mt.pipeline.validate import dev_loss
from transformer_mt.system.device import StopRequest
from transformer_mt.training.checkpoint import CheckpointStore
from transformer_mt.training.trainer import Outcome, Trainer

VOCAB = 20
# What may differ between equal runs.
CLOCK = ("minutes", "eta_minutes", "tgt_tokens_per_s", "validation_s")


def copy_corpus(n: int, seed: int = 0) -> EncodedCorpus:
    """The target is the source."""
    random = np.random.default_rng(seed)
    rows = [random.integers(4, VOCAB, length).tolist() for length in random.integers(2, 7, n)]
    return EncodedCorpus(encoded_side(rows), encoded_side(rows))


CORPUS, DEV = copy_corpus(400), copy_corpus(60)


def make_config(
    *, dropout: float = 0.1, weights: tuple[float, ...] = (1.0,), **train: Any
) -> Config:
    settings = {
        "max_tokens": 100, "tokens_per_update": 300, "max_updates": 20, "warmup_updates": 5,
        "lr": 3e-3, "validate_every": 5, "log_every": 1, "patience": None, "metric": "loss",
        "precision": "fp32", **train,
    }  # fmt: skip
    return build_config(
        {
            "name": "copy",
            "languages": {"src": "zh", "tgt": "en"},
            "data": {"train": [{"demo": True, "weight": weight} for weight in weights]},
            "model": {
                "d_model": 32, "heads": 4, "ffn": 64, "encoder_layers": 1, "decoder_layers": 1,
                "dropout": dropout,
            },
            "train": settings,
        },
        "copy",
    )  # fmt: skip


def first_block(cfg: Config, corpus: EncodedCorpus, epoch: int) -> EpochBlock:
    return blocks_of(cfg, lambda _: corpus)(Place.start_of(epoch))


def blocks_of(cfg: Config, corpus_of: Callable[[int], EncodedCorpus]) -> BlockOf:
    """Args: corpus_of: epoch → its corpus, with the same rows in each."""
    weights = source_weights(cfg.data)
    return lambda place: epoch_block(corpus_of(place.epoch), weights, seed=cfg.seed, place=place)


class WatchedLog(TrainingLog):
    """Does something once an update is done."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.actions: dict[int, Callable[[], None]] = {}

    def advance(self, update: int) -> None:
        super().advance(update)
        self.actions.get(update, lambda: None)()


class Session:
    """One start of a training run in `directory`: model, trainer, log, stop request."""

    def __init__(
        self,
        directory: Path,
        cfg: Config,
        *,
        seed: int = 1,
        scores: Callable[[int], dict[str, float]] | None = None,
        corpus_of: Callable[[int], EncodedCorpus] = lambda epoch: CORPUS,
    ) -> None:
        torch.manual_seed(seed)
        model_cfg = cfg.model.model_copy(update={"tie_embeddings": "all"})
        self.model = Transformer(model_cfg, VOCAB, VOCAB, pad_id=PAD_ID)
        self.stop = StopRequest()
        self.output = io.StringIO()
        self.reports: list[str] = []
        self.validated_at: list[int] = []
        self._scores = scores
        self.trainer = Trainer(
            cfg,
            self.model,
            blocks_of(cfg, corpus_of),
            CheckpointStore(directory / "checkpoints", {}),
            validate=self._validate,
        )
        self.trainer.resume(self.reports.append)
        self.log = WatchedLog(
            directory / "metrics.jsonl",
            resume_update=self.trainer.progress.update,
            train=cfg.train,
            console=Console(file=self.output, soft_wrap=True),
        )

    def _validate(self) -> dict[str, float]:
        update = self.trainer.progress.update
        self.validated_at.append(update)
        assert not self.model.training
        return self._scores(update) if self._scores else {"loss": dev_loss(self.model, DEV)}

    def run(self) -> Outcome:
        with self.log:
            return self.trainer.run(self.log, self.stop)

    def weights(self) -> dict[str, Tensor]:
        return {name: w.clone() for name, w in self.trainer.learner.optimizer.weights().items()}

    def weights_at(self, update: int) -> dict[str, Tensor]:
        """Filled once an update is done."""
        found: dict[str, Tensor] = {}
        self.log.actions[update] = lambda: found.update(self.weights())
        return found

    def records(self) -> list[dict[str, Any]]:
        return [{k: v for k, v in r.items() if k not in CLOCK} for r in self.log.records]

    def stop_at(self, update: int) -> "Session":
        self.log.actions[update] = lambda: setattr(self.stop, "signal_name", "SIGTERM")
        return self

    def poison(self, updates: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the gradients of these updates infinite."""
        gradient = self.trainer.learner.optimizer.gradient
        add = gradient.add

        def poisoned() -> None:
            add()
            if self.trainer.progress.update + 1 in updates:
                gradient.total[7] = math.inf

        monkeypatch.setattr(gradient, "add", poisoned)


def assert_equal(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert theirs and ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert ours[name].equal(tensor), name


def assert_same(found: Session, expected: Session) -> None:
    """Weights, moments and records, bit for bit."""
    assert_equal(found.weights(), expected.weights())
    ours, theirs = (session.trainer.learner.optimizer for session in (found, expected))
    assert_equal(ours.state(), theirs.state())
    assert found.records() == expected.records()
