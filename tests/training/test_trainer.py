"""The training loop: it learns, it stops, and resuming equals never having stopped."""

import math
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from training_session import (
    CORPUS,
    VOCAB,
    Session,
    assert_equal,
    assert_same,
    copy_corpus,
    first_block,
    make_config,
)

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.errors import TrainingError
from transformer_mt.model.transformer import Transformer
from transformer_mt.training import trainer as trainer_module
from transformer_mt.training.batches import UpdatePlan, deal, experiment_plan
from transformer_mt.training.optimizer import learning_rate
from transformer_mt.training.padding import collate, collated
from transformer_mt.training.trainer import Outcome, PlannedUpdate


def plan_of(cfg: Config, corpus: EncodedCorpus, epoch: int) -> UpdatePlan:
    return experiment_plan(cfg, first_block(cfg, corpus, epoch))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Twenty updates without a stop."""
    session = Session(tmp_path_factory.mktemp("whole"), make_config())
    session.run()
    assert [r["update"] for r in session.records() if r["event"] == "train"] == [*range(1, 21)]
    assert session.trainer.progress.epoch > 0, "an epoch must have ended on the way"
    return session


FIFTY = make_config(dropout=0.0, max_updates=50, validate_every=50, cooldown_updates=15)


def plain_losses(directory: Path, cfg: Config) -> list[float]:
    """Mean unsmoothed loss of each update, in nats per token, in plain PyTorch and fp32.

    Whole logits, `F.cross_entropy`, `clip_grad_norm_`, `torch.optim.Adam`, autograd alone.
    """
    session = Session(directory, cfg)
    torch.manual_seed(1)
    model = Transformer(session.model.cfg, VOCAB, VOCAB, pad_id=PAD_ID).train()
    train = cfg.train
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=train.adam_eps)
    losses = []
    for step, planned in enumerate(islice(session.trainer._updates(), 50), start=1):
        loss, nll, n_tokens = torch.zeros(()), 0.0, 0
        for rows in planned.batches:
            batch = collate(CORPUS, rows)
            logits = model.project(model(batch.src, batch.tgt_in)).transpose(1, 2)  # (B, V, T)
            sum_of = partial(F.cross_entropy, logits, batch.tgt_out, ignore_index=PAD_ID,
                             reduction="sum")  # fmt: skip
            loss = loss + sum_of(label_smoothing=train.label_smoothing)
            nll += sum_of().item()
            n_tokens += int((batch.tgt_out != PAD_ID).sum())
        adam.zero_grad()
        (loss / n_tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), train.clip_norm)
        adam.param_groups[0]["lr"] = learning_rate(
            step, train.peak_lr(32), train.warmup_updates, cooldown_left=(51 - step) / 15
        )
        adam.step()
        losses.append(nll / n_tokens)
    return losses


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    return plain_losses(tmp_path_factory.mktemp("plain"), FIFTY)


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), ("bf16", 0.02)])
def test_fifty_updates_equal_plain_fp32(
    tmp_path: Path, expected: list[float], precision: str, tolerance: float
) -> None:
    """Nothing that makes training fast changes it beyond rounding."""
    train = FIFTY.train.model_copy(update={"precision": precision})
    session = Session(tmp_path / "tmt", FIFTY.model_copy(update={"train": train}))
    session.run()
    found = [record["loss"] for record in session.records() if record["event"] == "train"]
    assert len(found) == 50
    assert expected[-1] < 0.7 * expected[0], "fifty updates must have learned something"
    assert found == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_twenty_updates_equal_ten_and_ten_more(tmp_path: Path, precision: str) -> None:
    """Bit for bit: weights, moments and metrics; in the middle of an epoch, with dropout."""
    whole = Session(tmp_path / "whole", make_config(precision=precision))
    whole.run()
    first = Session(tmp_path / "parts", make_config(max_updates=10, precision=precision))
    done = first.run().progress
    assert 0 < done.next_in_block < len(plan_of(first.trainer.cfg, CORPUS, done.epoch))
    second = Session(tmp_path / "parts", make_config(precision=precision), seed=99)
    assert second.trainer.progress == done
    second.run()
    assert_same(second, whole)


MIXED = replace(CORPUS, sources=(np.arange(400) >= 300).astype(np.uint16))


@pytest.mark.parametrize("tokens_per_update", [100, 500])
def test_updates_of_another_size_go_on_at_the_same_share_of_an_epoch(
    tmp_path: Path, tokens_per_update: int
) -> None:
    first = Session(tmp_path, make_config(max_updates=4))
    first.run()
    *_, stopped = islice(Session(tmp_path / "again", first.trainer.cfg).trainer._updates(), 4)
    assert 0.4 < stopped.epochs < 0.9
    second = Session(tmp_path, make_config(tokens_per_update=tokens_per_update))
    planned = next(second.trainer._updates())
    assert planned.n_in_block != stopped.n_in_block
    begins = planned.epochs - 1 / planned.n_in_block
    assert stopped.epochs - 1 / planned.n_in_block < begins <= stopped.epochs


def test_a_stop_request_loses_nothing(tmp_path: Path) -> None:
    """The update is finished, a checkpoint is written; resuming leads to the same end.

    After any update, also at the edges of epochs, with weights and a corpus of each epoch's own.
    """
    cfg = make_config(weights=(0.4, 2.5), max_updates=16)
    asked: list[int] = []

    def corpus_of(epoch: int) -> EncodedCorpus:
        asked.append(epoch)
        return replace(copy_corpus(400, seed=epoch), sources=MIXED.sources)

    n_first = len(plan_of(cfg, corpus_of(0), 0))
    asked.clear()
    whole = Session(tmp_path / "whole", cfg, corpus_of=corpus_of)
    n_epochs = whole.run().progress.epoch + 1
    assert asked == list(range(n_epochs)) and n_epochs > 2
    for update in (1, n_first - 1, n_first, n_first + 1, 10):
        directory = tmp_path / str(update)
        first = Session(directory, cfg, corpus_of=corpus_of).stop_at(update)
        outcome = first.run()
        assert (outcome.stopped_by, outcome.progress.update) == ("signal", update)
        assert first.validated_at == [u for u in (5, 10, 15) if u <= update]
        resumed = Session(directory, cfg, seed=99, corpus_of=corpus_of)
        assert resumed.trainer.progress.update == update
        resumed.run()
        assert_same(resumed, whole)


def test_an_epoch_holds_the_rows_that_weights_say() -> None:
    cfg = make_config(weights=(0.5, 3))
    counts = np.zeros(400, dtype=int)
    for epoch in (0, 1):
        for batch in plan_of(cfg, MIXED, epoch).batches():
            np.add.at(counts, batch, 1)
    assert MIXED.sources is not None
    assert set(counts[MIXED.sources == 0]) == {1}, "one half, then the other"
    assert set(counts[MIXED.sources == 1]) == {6}


def test_an_epoch_without_a_row_is_passed_over(tmp_path: Path) -> None:
    lonely = replace(copy_corpus(3), sources=np.zeros(3, dtype=np.uint16))
    cfg = make_config(weights=(0.1,), max_updates=2)
    progress = Session(tmp_path, cfg, corpus_of=lambda epoch: lonely).run().progress
    assert progress.update == 2
    assert progress.epoch == 6, "0.3 rows an epoch: the first in epoch 3, the second in epoch 6"


def test_a_stop_before_the_first_update_saves_nothing(tmp_path: Path) -> None:
    session = Session(tmp_path, make_config())
    session.stop.signal_name = "SIGTERM"
    outcome = session.run()
    assert (outcome.stopped_by, outcome.progress.update) == ("signal", 0)
    assert not (tmp_path / "checkpoints").exists()


def test_a_finished_run_does_nothing_more_and_a_larger_number_goes_on(tmp_path: Path) -> None:
    first = Session(tmp_path, make_config(max_updates=7))
    first.run()
    second = Session(tmp_path, make_config(max_updates=7), seed=99)
    assert second.run() == Outcome(first.trainer.progress, "max_updates")
    assert second.validated_at == []
    assert_same(second, first)
    third = Session(tmp_path, make_config(max_updates=12))
    assert third.run().progress.update == 12
    assert third.validated_at == [10, 12], "every five updates, and the last"


def test_values_of_two_metrics_are_not_compared(tmp_path: Path) -> None:
    """After a start with another metric its first value is the best so far."""
    first = make_config(metric="bleu", max_updates=10)
    Session(tmp_path, first, scores=lambda _: {"bleu": 30.0, "loss": 3.0}).run()
    second = make_config(metric="loss", max_updates=30, patience=2)
    falling = Session(
        tmp_path, second, scores=lambda update: {"bleu": 1.0, "loss": 3 - update / 20}
    )
    outcome = falling.run()
    assert (outcome.stopped_by, outcome.progress.best_update) == ("max_updates", 30)


def test_a_training_that_is_over_is_judged_by_another_metric(tmp_path: Path) -> None:
    first = make_config(metric="bleu", patience=1, max_updates=30)
    bad = Session(tmp_path, first, scores=lambda update: {"bleu": -update, "loss": 3.0})
    assert bad.run().progress.update == 10, "no patience left"
    second = make_config(metric="loss", patience=1, max_updates=30)
    again = Session(tmp_path, second, scores=lambda update: {"bleu": 1.0, "loss": 3 - update / 20})
    assert (again.run().progress.update, again.validated_at[0]) == (30, 15)
    third = Session(
        tmp_path, make_config(metric="bleu", max_updates=30), scores=lambda _: {"bleu": 1.0}
    )
    outcome = third.run()
    assert third.validated_at == [30] and outcome.progress.best_update == 30


def test_a_stop_keeps_the_best_of_another_metric(tmp_path: Path) -> None:
    first = make_config(metric="bleu", max_updates=100, patience=9)
    session = Session(tmp_path, first, scores=lambda update: {"bleu": -update, "loss": 3.0})
    session.stop_at(12)
    assert session.run().progress.best_update == 5
    second = Session(tmp_path, make_config(metric="loss", max_updates=100))
    second.stop_at(13)
    assert second.run().progress.best_update == 5
    again = Session(tmp_path, first, scores=lambda update: {"bleu": -update, "loss": 3.0})
    again.stop_at(16)
    progress = again.run().progress
    assert (progress.best_update, progress.validations_without_gain) == (5, 2)


def test_a_crash_and_a_damaged_checkpoint_cost_the_updates_since_the_one_before(
    tmp_path: Path, whole: Session
) -> None:
    crashed = Session(tmp_path, make_config())

    def crash() -> None:
        raise RuntimeError("power cut")

    crashed.log.actions[13] = crash
    with pytest.raises(RuntimeError, match="power cut"):
        crashed.run()
    assert Session(tmp_path, make_config()).trainer.progress.update == 10
    (tmp_path / "checkpoints" / "00000010" / "weights.safetensors").write_bytes(b"cut")
    resumed = Session(tmp_path, make_config(), seed=99)
    assert resumed.trainer.progress.update == 5
    assert "00000010 is damaged" in resumed.reports[0]
    resumed.run()
    assert_same(resumed, whole)


def test_one_gradient_that_is_not_finite_is_left_out_counted_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(tmp_path, make_config(max_updates=10))
    session.poison({7}, monkeypatch)
    before, after = session.weights_at(6), session.weights_at(7)
    outcome = session.run()
    assert_equal(after, before)
    assert not any(session.weights()[name].equal(weight) for name, weight in before.items())
    assert (outcome.progress.update, outcome.progress.skipped) == (10, 1)
    told = [line for line in session.output.getvalue().splitlines() if "not finite" in line]
    pairs = np.concatenate(plan_of(session.trainer.cfg, CORPUS, 0).update(6))
    named = ", ".join(map(str, pairs[:5]))
    assert told == [
        f"update 7: the gradient is not finite; left out ({len(pairs)} pairs of the encoded "
        f"corpus: {named}, …)"
    ]


def test_the_loss_of_an_update_that_is_left_out_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(tmp_path, make_config(max_updates=6, log_every=2))
    update, losses = session.trainer._update, dict[int, float]()

    def poisoned(number: int, planned: PlannedUpdate, lr: float) -> tuple[float, float]:
        nll, norm = update(number, planned, lr)
        losses[number] = nll / planned.n_tokens
        return (math.nan, math.nan) if number in (2, 5, 6) else (nll, norm)

    monkeypatch.setattr(session.trainer, "_update", poisoned)
    session.run()
    told = [record["loss"] for record in session.log.records if record["event"] == "train"]
    assert told[0] == pytest.approx(losses[1])
    assert told[2] is None, "there is no other one"


def test_skipped_updates_can_be_saved_and_add_up_only_in_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the very first ones; many in a row end training with advice."""
    monkeypatch.setattr(trainer_module, "MAX_SKIPPED_IN_A_ROW", 4)
    poisoned = {1, 2, 4, 6, 8, *range(12, 100)}
    first = Session(tmp_path, make_config()).stop_at(2)
    first.poison(poisoned, monkeypatch)
    assert first.run().progress.skipped == 2
    second = Session(tmp_path, make_config(max_updates=100), seed=99)
    assert second.trainer.progress.update == 2
    second.poison(poisoned, monkeypatch)
    good = second.weights_at(11)
    with pytest.raises(TrainingError, match=r"^update 15: .* 4 updates in a row\. .* train\.lr"):
        second.run()
    assert second.trainer.progress.skipped == 9
    assert_equal(second.weights(), good)
    assert Session(tmp_path, make_config()).trainer.progress.update == 10, "it is kept"


def test_micro_batches_do_not_decide_the_update(tmp_path: Path) -> None:
    """The same sentences in one piece or in many: the same gradient, up to rounding."""
    found: list[tuple[float, float]] = []
    for micro_batches in ([list(range(40))], [[i] for i in range(40)]):
        session = Session(tmp_path / str(len(found)), make_config(dropout=0.0))
        batches = [np.array(batch) for batch in micro_batches]
        block = first_block(session.trainer.cfg, CORPUS, 0)
        own = collated(block.corpus, batches, torch.device("cpu"), None)
        dealt = deal(batches, 0, 1, even=True)
        planned = PlannedUpdate(block, 0, 1, batches, dealt, own)
        found.append(session.trainer._update(1, planned, 1e-3))
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def test_records_tell_what_happened(tmp_path: Path) -> None:
    session = Session(tmp_path, make_config(log_every=10))
    session.run()
    first, second = (record for record in session.log.records if record["event"] == "train")
    assert (first["update"], second["update"]) == (10, 20)
    assert second["lr"] == pytest.approx(3e-3 * math.sqrt(5 / 20))
    assert 0 < first["epoch"] < second["epoch"] < 10
    assert first["ppl"] == pytest.approx(math.exp(first["loss"]))
    assert first["loss"] > second["loss"]
    assert first["tgt_tokens_per_s"] > 0


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

    def limited(src: Tensor, *others: Any) -> Tensor:
        nonlocal n_calls
        n_calls += 1
        if len(src) <= 12 or not split.model.training:
            return forward(src, *others)
        if n_calls % 2:
            raise error
        hidden: Tensor = Full.apply(forward(src, *others))
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
