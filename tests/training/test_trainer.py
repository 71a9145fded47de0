"""The training loop: it learns, it stops, and resuming equals never having stopped."""

import io
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor

from transformer_mt.config.experiment import Config, build_config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, EncodedSide
from transformer_mt.encoding.epochs import CorpusOf
from transformer_mt.encoding.tokenizer import EOS_ID, PAD_ID
from transformer_mt.errors import TrainingError
from transformer_mt.model.transformer import Transformer
from transformer_mt.pipeline.log import TrainingLog
from transformer_mt.system.device import StopRequest
from transformer_mt.training.batches import collate, experiment_plan
from transformer_mt.training.checkpoint import CheckpointStore
from transformer_mt.training.loss import OutputLoss
from transformer_mt.training.trainer import (
    MAX_SKIPPED_IN_A_ROW,
    Outcome,
    PlannedUpdate,
    Trainer,
)

VOCAB = 20
# What may differ between equal runs.
CLOCK = ("minutes", "eta_minutes", "tgt_tokens_per_s", "validation_s")


def encoded_side(rows: list[list[int]]) -> EncodedSide:
    ids = np.array([token for row in rows for token in (*row, EOS_ID)], dtype=np.uint16)
    return EncodedSide(ids, np.cumsum([0, *(len(row) + 1 for row in rows)]))


def copy_corpus(n: int, seed: int = 0) -> EncodedCorpus:
    """The target is the source."""
    random = np.random.default_rng(seed)
    rows = [random.integers(4, VOCAB, length).tolist() for length in random.integers(2, 7, n)]
    return EncodedCorpus(encoded_side(rows), encoded_side(rows))


CORPUS = copy_corpus(400)


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
        corpus_of: CorpusOf | None = None,
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
            corpus_of or (lambda epoch: CORPUS),
            CheckpointStore(directory / "checkpoints", {}),
            validate=self._validate,
        )
        self.trainer.resume(self.reports.append)
        self.log = WatchedLog(
            directory / "metrics.jsonl",
            resume_update=self.trainer.progress.update,
            max_updates=cfg.train.max_updates,
            console=Console(file=self.output, soft_wrap=True),
        )

    def _validate(self) -> dict[str, float]:
        update = self.trainer.progress.update
        self.validated_at.append(update)
        assert not self.model.training
        if self._scores is not None:
            return self._scores(update)
        return {"loss": dev_loss(self.model)}

    def run(self) -> Outcome:
        with self.log:
            return self.trainer.run(self.log, self.stop)

    def weights(self) -> dict[str, Tensor]:
        return {name: w.clone() for name, w in self.trainer.learner.optimizer.weights().items()}

    def records(self) -> list[dict[str, Any]]:
        return [{k: v for k, v in r.items() if k not in CLOCK} for r in self.log.records]

    def at(self, update: int, action: Callable[[], None]) -> None:
        """Do something once an update is done."""
        self.log.actions[update] = action

    def request_stop(self) -> None:
        self.stop.signal_name = "SIGTERM"

    def poison(self, updates: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the gradients of these updates infinite."""
        gradient = self.trainer.learner.optimizer.gradient
        add = gradient.add

        def poisoned() -> None:
            add()
            if self.trainer.progress.update + 1 in updates:
                gradient.total[7] = math.inf

        monkeypatch.setattr(gradient, "add", poisoned)


@torch.no_grad()
def dev_loss(model: Transformer) -> float:
    batch = collate(CORPUS, np.arange(100))
    sums = OutputLoss(0.0, PAD_ID)(
        model(batch.src, batch.tgt_in), model.output.weight, batch.tgt_out
    )
    return sums.nll.item() / sums.n_tokens


def assert_same_state(found: Session, expected: Session) -> None:
    for ours, theirs in (
        (found.weights(), expected.weights()),
        (found.trainer.learner.optimizer.state(), expected.trainer.learner.optimizer.state()),
    ):
        assert ours.keys() == theirs.keys()
        for name, tensor in theirs.items():
            assert ours[name].equal(tensor), name


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Twenty updates without a stop."""
    session = Session(tmp_path_factory.mktemp("whole"), make_config())
    session.run()
    return session


def test_copying_is_learned(tmp_path: Path) -> None:
    cfg = make_config(
        dropout=0.0, max_updates=160, tokens_per_update=600, max_tokens=600, lr=1e-2,
        warmup_updates=60, label_smoothing=0.0, validate_every=40, log_every=40,
    )  # fmt: skip
    session = Session(tmp_path, cfg)
    outcome = session.run()
    assert outcome.stopped_by == "max_updates"
    losses = [record["loss"] for record in session.log.records if record["event"] == "validation"]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.1
    trained = [record["loss"] for record in session.log.records if record["event"] == "train"]
    assert trained[0] > 1 and trained[-1] < 0.2


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_twenty_updates_equal_ten_and_ten_more(tmp_path: Path, precision: str) -> None:
    """Bit for bit: weights, moments and metrics; in the middle of an epoch, with dropout."""
    whole = Session(tmp_path / "whole", make_config(precision=precision))
    whole.run()
    first = Session(tmp_path / "parts", make_config(max_updates=10, precision=precision))
    first.run()
    assert (
        0
        < first.trainer.progress.next_in_epoch
        < len(experiment_plan(first.trainer.cfg, CORPUS, 1))
    )
    second = Session(tmp_path / "parts", make_config(precision=precision), seed=99)
    assert second.trainer.progress == first.trainer.progress
    second.run()
    assert_same_state(second, whole)
    assert second.records() == whole.records()
    assert [r["update"] for r in whole.records() if r["event"] == "train"] == list(range(1, 21))
    assert whole.trainer.progress.epoch > 0, "an epoch must have ended on the way"


MIXED = replace(CORPUS, sources=(np.arange(400) % 4 == 0).astype(np.uint16))


def test_resume_is_exact_with_weights_and_a_corpus_of_each_epoch_s_own(tmp_path: Path) -> None:
    """A stop after any update, also at the edges of epochs."""
    cfg = make_config(weights=(0.4, 2.5), max_updates=24)
    asked: list[int] = []

    def corpus_of(epoch: int) -> EncodedCorpus:
        asked.append(epoch)
        return replace(copy_corpus(400, seed=epoch), sources=MIXED.sources)

    whole = Session(tmp_path / "whole", cfg, corpus_of=corpus_of)
    whole.run()
    n_epochs = whole.trainer.progress.epoch + 1
    assert asked == list(range(n_epochs)) and n_epochs > 3
    for update in (1, 6, 7, 8, 9, 15):
        directory = tmp_path / str(update)
        first = Session(directory, cfg, corpus_of=corpus_of)
        first.at(update, first.request_stop)
        first.run()
        second = Session(directory, cfg, seed=99, corpus_of=corpus_of)
        assert second.trainer.progress.update == update
        second.run()
        assert_same_state(second, whole)
        assert second.records() == whole.records()


def test_an_epoch_holds_the_rows_that_weights_say() -> None:
    cfg = make_config(weights=(0.5, 3))
    counts = np.zeros(400, dtype=int)
    for epoch in (0, 1):
        for batch in experiment_plan(cfg, MIXED, epoch).batches():
            np.add.at(counts, batch, 1)
    assert MIXED.sources is not None
    assert set(counts[MIXED.sources == 0]) == {1}, "one half, then the other"
    assert set(counts[MIXED.sources == 1]) == {6}


def test_weights_of_one_change_nothing(tmp_path: Path, whole: Session) -> None:
    weighted = Session(tmp_path, make_config(weights=(1, 1)), corpus_of=lambda epoch: MIXED)
    weighted.run()
    assert_same_state(weighted, whole)
    assert weighted.records() == whole.records()


def test_an_epoch_without_a_row_is_passed_over(tmp_path: Path) -> None:
    lonely = replace(copy_corpus(3), sources=np.zeros(3, dtype=np.uint16))
    cfg = make_config(weights=(0.1,), max_updates=2)
    session = Session(tmp_path, cfg, corpus_of=lambda epoch: lonely)
    progress = session.run().progress
    assert progress.update == 2
    assert progress.epoch == 6, "0.3 rows an epoch: the first in epoch 3, the second in epoch 6"


@pytest.mark.parametrize("update", [1, 7, 10, 19])
def test_a_stop_request_loses_nothing(tmp_path: Path, whole: Session, update: int) -> None:
    """The update is finished, a checkpoint is written; resuming leads to the same end."""
    first = Session(tmp_path / "parts", make_config())
    first.at(update, first.request_stop)
    outcome = first.run()
    assert (outcome.stopped_by, outcome.progress.update) == ("signal", update)
    assert first.validated_at == [u for u in (5, 10, 15) if u <= update]
    second = Session(tmp_path / "parts", make_config(), seed=99)
    assert second.trainer.progress.update == update
    second.run()
    assert_same_state(second, whole)
    assert second.records() == whole.records()


def test_a_stop_before_the_first_update_saves_nothing(tmp_path: Path) -> None:
    session = Session(tmp_path, make_config())
    session.request_stop()
    outcome = session.run()
    assert (outcome.stopped_by, outcome.progress.update) == ("signal", 0)
    assert not (tmp_path / "checkpoints").exists()


def test_a_finished_run_does_nothing_more_and_a_larger_number_goes_on(tmp_path: Path) -> None:
    first = Session(tmp_path, make_config(max_updates=7))
    first.run()
    second = Session(tmp_path, make_config(max_updates=7), seed=99)
    outcome = second.run()
    assert outcome == Outcome(first.trainer.progress, "max_updates")
    assert second.validated_at == []
    assert_same_state(second, first)
    session = Session(tmp_path, make_config(max_updates=12))
    assert session.run().progress.update == 12
    assert session.validated_at == [10, 12], "every five updates, and the last"


def test_resuming_after_a_crash_redoes_what_was_lost(tmp_path: Path, whole: Session) -> None:
    crashed = Session(tmp_path / "parts", make_config())

    def crash() -> None:
        raise RuntimeError("power cut")

    crashed.at(13, crash)
    with pytest.raises(RuntimeError, match="power cut"):
        crashed.run()
    resumed = Session(tmp_path / "parts", make_config(), seed=99)
    assert resumed.trainer.progress.update == 10
    resumed.run()
    assert_same_state(resumed, whole)
    assert resumed.records() == whole.records()


def test_a_damaged_checkpoint_costs_the_updates_since_the_one_before(
    tmp_path: Path, whole: Session
) -> None:
    Session(tmp_path / "parts", make_config(max_updates=10)).run()
    (tmp_path / "parts" / "checkpoints" / "00000010" / "weights.safetensors").write_bytes(b"cut")
    resumed = Session(tmp_path / "parts", make_config(), seed=99)
    assert resumed.trainer.progress.update == 5
    assert "00000010 is damaged" in resumed.reports[0]
    resumed.run()
    assert_same_state(resumed, whole)
    assert resumed.records() == whole.records()


@pytest.mark.parametrize(
    ("metric", "scores", "best", "stopped_at"),
    [
        ("bleu", [1, 5, 4, 6, 6, 6], 20, 30),
        ("bleu", [0, 0, 0], 5, 15),
        ("loss", [3, 2, 2, 1, 4, 5], 20, 30),
    ],
)
def test_patience(
    tmp_path: Path, metric: str, scores: list[int], best: int, stopped_at: int
) -> None:
    """Two validations in a row without a better metric end training; a lower loss is better."""
    cfg = make_config(metric=metric, patience=2, max_updates=1000)
    session = Session(tmp_path, cfg, scores=lambda u: {metric: float(scores[u // 5 - 1])})
    outcome = session.run()
    assert outcome.stopped_by == "patience"
    assert outcome.progress.update == stopped_at
    assert outcome.progress.best_update == best
    assert abs(outcome.progress.best_metric) == scores[best // 5 - 1]


def test_patience_survives_a_stop(tmp_path: Path) -> None:
    scores = [9, 8, 8, 8, 8]
    cfg = make_config(metric="bleu", patience=3, max_updates=1000)
    first = Session(tmp_path, cfg, scores=lambda u: {"bleu": float(scores[u // 5 - 1])})
    first.at(12, first.request_stop)
    first.run()
    second = Session(tmp_path, cfg, scores=lambda u: {"bleu": float(scores[u // 5 - 1])})
    outcome = second.run()
    assert (outcome.stopped_by, outcome.progress.update) == ("patience", 20)
    assert outcome.progress.best_update == 5


def test_the_clock_ends_training_with_a_validation(tmp_path: Path) -> None:
    cfg = make_config(max_minutes=1e-6, max_updates=1000)
    session = Session(tmp_path, cfg)
    outcome = session.run()
    assert outcome.stopped_by == "max_minutes"
    assert outcome.progress.update == 1
    assert session.validated_at == [1]
    assert outcome.progress.validated


def test_the_best_checkpoint_keeps_its_weights(tmp_path: Path) -> None:
    cfg = make_config(metric="bleu", max_updates=40, keep_last=2, average=2)
    session = Session(tmp_path, cfg, scores=lambda u: {"bleu": 9.0 if u == 10 else 1.0})
    at_ten: dict[str, Tensor] = {}
    session.at(10, lambda: at_ten.update(session.weights()))
    outcome = session.run()
    assert outcome.progress.best_update == 10
    found = session.trainer.store.weights(10)
    assert all(found[name].equal(weight) for name, weight in at_ten.items())
    assert session.trainer.store.validated_updates() == [10, 35, 40]


def test_one_gradient_that_is_not_finite_is_left_out_counted_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(tmp_path, make_config())
    session.poison({7}, monkeypatch)
    before: dict[str, Tensor] = {}
    after: dict[str, Tensor] = {}
    session.at(6, lambda: before.update(session.weights()))
    session.at(7, lambda: after.update(session.weights()))
    outcome = session.run()
    assert before and all(after[name].equal(weight) for name, weight in before.items())
    assert not any(session.weights()[name].equal(weight) for name, weight in before.items())
    assert (outcome.progress.update, outcome.progress.skipped) == (20, 1)
    told = [line for line in session.output.getvalue().splitlines() if "not finite" in line]
    assert len(told) == 1
    pairs = np.concatenate(experiment_plan(session.trainer.cfg, CORPUS, 0).update(6))
    named = ", ".join(map(str, pairs[:5]))
    assert told[0] == (
        f"update 7: the gradient is not finite; left out ({len(pairs)} pairs of the encoded "
        f"corpus: {named}, …)"
    )


def test_skipped_updates_at_the_very_beginning_can_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(tmp_path, make_config())
    session.poison({1, 2}, monkeypatch)
    session.at(2, session.request_stop)
    assert session.run().progress.skipped == 2
    resumed = Session(tmp_path, make_config(), seed=99)
    assert resumed.trainer.progress.update == 2
    assert resumed.run().progress.skipped == 2


def test_many_in_a_row_end_training_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(tmp_path, make_config(max_updates=1000))
    session.poison(set(range(12, 1000)), monkeypatch)
    good: dict[str, Tensor] = {}
    session.at(11, lambda: good.update(session.weights()))
    with pytest.raises(TrainingError) as caught:
        session.run()
    last = 11 + MAX_SKIPPED_IN_A_ROW
    assert str(caught.value) == (
        f"update {last}: no finite gradient in {MAX_SKIPPED_IN_A_ROW} updates in a row. The "
        "weights are those before them; the last checkpoint is kept. Lower train.lr, or set "
        "train.precision: fp32"
    )
    assert all(session.weights()[name].equal(weight) for name, weight in good.items())
    assert Session(tmp_path, make_config()).trainer.progress.update == 10 + MAX_SKIPPED_IN_A_ROW


def test_skipped_updates_that_are_not_in_a_row_do_not_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(tmp_path, make_config(max_updates=2 * MAX_SKIPPED_IN_A_ROW + 10))
    session.poison(set(range(2, 10**6, 2)), monkeypatch)
    assert session.run().progress.skipped > MAX_SKIPPED_IN_A_ROW


def test_micro_batches_do_not_decide_the_update(tmp_path: Path) -> None:
    """The same sentences in one piece or in many: the same gradient, up to rounding."""
    norms: list[float] = []
    losses: list[float] = []
    for micro_batches in ([list(range(40))], [[i] for i in range(40)]):
        session = Session(tmp_path / str(len(norms)), make_config(dropout=0.0))
        batches = [np.array(batch) for batch in micro_batches]
        planned = PlannedUpdate(0, 0, 1, CORPUS, batches)
        nll, norm = session.trainer._update(1, planned, 1e-3)
        norms.append(norm)
        losses.append(nll / planned.n_tokens)
    assert norms[0] == pytest.approx(norms[1], rel=1e-4)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_records_tell_what_happened(tmp_path: Path) -> None:
    session = Session(tmp_path, make_config(log_every=10))
    session.run()
    train = [record for record in session.log.records if record["event"] == "train"]
    assert [record["update"] for record in train] == [10, 20]
    assert train[1]["lr"] == pytest.approx(3e-3 * math.sqrt(5 / 20))
    assert 0 < train[0]["epoch"] < train[1]["epoch"] < 10
    assert train[0]["ppl"] == pytest.approx(math.exp(train[0]["loss"]))
    assert train[0]["loss"] > train[1]["loss"]
    assert train[0]["tgt_tokens_per_s"] > 0
    assert train[1]["eta_minutes"] == 0


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), MemoryError()])
def test_a_batch_that_does_not_fit_is_done_in_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The same updates come out, whether memory ends in the forward or in the backward pass."""
    cfg = make_config(dropout=0.0, max_updates=6)
    whole = Session(tmp_path / "whole", cfg)
    whole.run()
    split = Session(tmp_path / "split", cfg)
    forward = split.model.forward

    class Full(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *_: Tensor) -> None:
            raise error

    n_calls = 0

    def limited(src: Tensor, tgt_in: Tensor) -> Tensor:
        nonlocal n_calls
        n_calls += 1
        if len(src) <= 12 or not split.model.training:
            return forward(src, tgt_in)
        if n_calls % 2:
            raise error
        hidden: Tensor = Full.apply(forward(src, tgt_in))
        return hidden

    monkeypatch.setattr(split.model, "forward", limited)
    outcome = split.run()
    assert n_calls > 12 and outcome.progress.split > 6
    assert "did not fit into memory; done in halves" in split.output.getvalue()
    for ours, theirs in zip(split.records(), whole.records(), strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)


def test_other_errors_are_not_taken_for_a_lack_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(tmp_path, make_config())

    def broken(*_: Tensor) -> Tensor:
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(session.model, "forward", broken)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        session.run()
