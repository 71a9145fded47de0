"""The training loop.

Comes in: a model, the blocks of each epoch, and a function that validates. Goes out:
checkpoints and metrics. Several processes run the loop side by side: all have the same plan of
updates, each computes its share of every update, and they agree on when to stop. This file knows
ids and updates; it knows no text, tokenizer or score.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.profiler import record_function

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import EncodedCorpus, Indices
from transformer_mt.encoding.epochs import BlockOf
from transformer_mt.encoding.mixing import EpochBlock, Place
from transformer_mt.errors import TrainingError
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.system.device import StopRequest, release_memory, seed_all
from transformer_mt.system.processes.distributed import ALONE, Ranks
from transformer_mt.training.batches import Dealt, deal, planned_blocks
from transformer_mt.training.checkpoint import CheckpointStore, Progress
from transformer_mt.training.memory import halves, is_out_of_memory
from transformer_mt.training.meter import Meter
from transformer_mt.training.micro_batch import Learner
from transformer_mt.training.optimizer import learning_rate
from transformer_mt.training.padding import Batch, collated

MAX_SKIPPED_IN_A_ROW = 20
SAVE_EVERY_SECONDS = 600.0  # between checkpoints, at most, so that a crash costs minutes
COOLDOWN = 2 / 3  # share of a training, for `cooldown_updates: auto`; docs/lab/muon.md

StopReason = Literal["max_updates", "max_minutes", "patience", "signal"]
Validate = Callable[[], dict[str, float]]  # current weights → loss, bleu, chrf on dev


@dataclass(frozen=True)
class Outcome:
    progress: Progress
    stopped_by: StopReason


@dataclass(frozen=True)
class PlannedUpdate:
    """One update of the plan of a block."""

    block: EpochBlock
    index: int  # in the plan
    n_in_block: int
    batches: list[Indices]  # rows of the block's corpus
    dealt: list[Dealt]  # of these, the share of this process
    own: Iterator[Batch]  # its micro-batches

    @cached_property
    def n_tokens(self) -> int:
        """Target tokens, on all processes."""
        tgt = self.block.corpus.tgt
        return sum(int(tgt.lengths_of(rows).sum()) for rows in self.batches)

    @property
    def epochs(self) -> float:
        """Epochs completed at its end, a fraction; blocks are about equally large."""
        place, of_block = self.block.place, (self.index + 1) / self.n_in_block
        return place.epoch + (place.block + of_block) / self.block.n_blocks


class SilentLog:
    """The interface of a log, and the log of every process but the first: it does nothing."""

    def say(self, message: str) -> None:
        """One line for the user."""

    def advance(self, update: int) -> None:
        """An update is done."""

    def record(self, event: str, update: int, values: Mapping[str, float]) -> None:
        """Keep one record, and show it as one aligned line."""


class Trainer:
    """Trains one model; `run` is the loop.

    Args:
        cfg: with a number as `train.max_tokens`, not auto.
        block_of: place → block of an epoch.
        validate: scores the current weights.
    """

    def __init__(
        self,
        cfg: Config,
        model: EncoderDecoder,
        block_of: BlockOf,
        store: CheckpointStore,
        *,
        validate: Validate,
        ranks: Ranks = ALONE,
    ) -> None:
        self.cfg, self.model, self.ranks = cfg, model, ranks
        self.block_of, self.store, self.validate = block_of, store, validate
        self.learner = Learner(model, cfg.train, ranks)
        self.progress = Progress(**Place.start_of(0)._asdict())
        self._n_split = 0  # micro-batches done in halves by this process, since the last `_agree`
        self._peak_lr = cfg.train.peak_lr(cfg.model.d_model)

    def resume(self, report: Callable[[str], None]) -> None:
        """Continue from the newest intact checkpoint, if there is one."""
        found = self.store.load_newest(report) if self.ranks.is_main else None
        if progress := self.ranks.told_by_main(asdict(found.progress) if found else None):
            weights, state = (found.weights, found.optimizer) if found else ({}, {})
            self.learner.optimizer.load(weights, state)
            self.progress = Progress(**progress)

    def run(self, log: SilentLog, stop: StopRequest) -> Outcome:
        """Train until a limit of the configuration is reached, or a signal comes."""
        train = self.cfg.train
        started = time.monotonic() - self.progress.seconds
        last_save = self.progress.seconds
        meter = Meter(self.ranks)
        skipped_in_a_row = 0
        reason: StopReason | None = None
        # Each with the one after it: on a GPU that is already padded when this one ends.
        for planned, _ in pairwise(self._updates()):
            stop_asked, seconds = self._agree(stop, log)
            if reason := self._reason_to_stop(stop_asked, seconds):
                break
            update = self.progress.update + 1
            left = self._cooldown_left(update, seconds)
            lr = learning_rate(update, self._peak_lr, train.warmup_updates, cooldown_left=left)
            if self.learner.guide:
                self.learner.guide.set_weight(train.guided_attention * min(1.0, max(0.0, left)))
            nll, norm = self._update(update, planned, lr)

            finite = math.isfinite(norm)
            skipped_in_a_row = 0 if finite else skipped_in_a_row + 1
            self.progress = replace(
                self.progress,
                update=update,
                **planned.block.place._asdict(),
                next_in_block=planned.index + 1,
                block_updates=planned.n_in_block,
                seconds=time.monotonic() - started,
                cooldown_left=left,
                skipped=self.progress.skipped + (not finite),
                validated=False,
            )
            if not finite:
                self._report_skipped(log, planned, skipped_in_a_row)
            else:  # the loss of a skipped update is not finite either
                meter.add(nll, planned.n_tokens)
            log.advance(update)
            if update % train.log_every == 0:
                status = {"lr": lr, "grad_norm": norm, "epoch": planned.epochs}
                status["minutes"] = self.progress.seconds / 60
                log.record("train", update, {**meter.take(), **status})
            if update % train.validate_every == 0 or update == train.max_updates:
                self._validate(log)
                meter.restart_clock()
                last_save = seconds
            elif seconds - last_save > SAVE_EVERY_SECONDS:
                self._save()
                last_save = seconds
        unknown = not self.progress.validated or not self._is_comparable
        if unknown and self.progress.update:
            if reason != "signal":
                self._validate(log)
            elif not self.progress.validated:
                self._save()
        assert reason is not None  # the plan of updates has no end
        return Outcome(self.progress, reason)

    def _cooldown_left(self, update: int, seconds: float) -> float:
        """See `learning_rate`. With `auto` the nearer limit counts, updates or minutes; the minutes
        are those of the first process."""
        train = self.cfg.train
        updates_left = train.max_updates + 1 - update
        if train.cooldown_updates != "auto":
            return updates_left / train.cooldown_updates if train.cooldown_updates else 1.0
        shares_left = [updates_left / train.max_updates]
        if train.max_minutes is not None:
            shares_left.append(1 - seconds / (60 * train.max_minutes))
        return min(shares_left) / COOLDOWN

    def _updates(self) -> Iterator[PlannedUpdate]:
        """All updates after the current progress, block after block, without end."""
        progress, device = self.progress, self.learner.device
        thread = ThreadPoolExecutor(1) if device.type == "cuda" else None
        place = Place(progress.epoch, progress.block, progress.block_entries)
        first = progress.next_in_block
        for block, plan in planned_blocks(self.cfg, self.block_of, place):
            if first and progress.block_updates:  # with another batch size the plan has others
                first = first * len(plan) // progress.block_updates
            for index in range(first, len(plan)):
                batches = plan.update(index)
                dealt = deal(batches, self.ranks.rank, self.ranks.size, even=device.type == "cpu")
                own = collated(block.corpus, [part.rows for part in dealt], device, thread)
                yield PlannedUpdate(block, index, len(plan), batches, dealt, own)
            first = 0

    def _update(self, update: int, planned: PlannedUpdate, lr: float) -> tuple[float, float]:
        """Carry out one update; returns the nll of this process, in nats, and the gradient norm."""
        self.model.train()
        optimizer = self.learner.optimizer
        nll = torch.zeros((), dtype=torch.float64, device=self.learner.device)
        for place, part, rows in planned.dealt:
            # Dropout depends only on the update and the batch: resuming is exact, and a whole
            # batch gets the same dropout on any process.
            seed_all(self.cfg.seed, update, place, part)
            if place == planned.dealt[-1].batch:
                self.learner.send_with_next()
            with record_function("data"):
                batch = next(planned.own)
            nll += self._add_gradients(planned.block.corpus, rows, batch)
        with record_function("optimizer"):
            norm = optimizer.step(lr, planned.n_tokens)
        return nll.item(), norm

    def _add_gradients(self, corpus: EncodedCorpus, rows: Indices, batch: Batch) -> Tensor:
        """Add the gradients of one micro-batch; in halves, if it does not fit into memory."""
        try:
            return self.learner.add_gradients(batch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Outside of the handler: its traceback would keep tensors of the failed call alive.
        parts = halves(rows, corpus)
        self.learner.optimizer.gradient.discard()
        release_memory()
        self._n_split += 1
        again = zip(parts, collated(corpus, parts, self.learner.device, None), strict=True)
        one, other = (self._add_gradients(corpus, half, batch) for half, batch in again)
        return one.double() + other

    def _agree(self, stop: StopRequest, log: SilentLog) -> tuple[bool, float]:
        """Exchange the state of all processes between two updates.

        Returns:
            Whether any process was asked to stop; seconds of training, by the first one's clock.
        """
        seconds = self.progress.seconds if self.ranks.is_main else 0.0
        told = torch.tensor([bool(stop), seconds, self._n_split], dtype=torch.float64)
        self._n_split = 0
        stopping, seconds, n_split = self.ranks.sum(told).tolist()
        if n_split:
            self.progress = replace(self.progress, split=self.progress.split + int(n_split))
            text = tr(
                "update {}: {:.0f} micro-batches did not fit into memory; done in halves. A "
                "smaller train.max_tokens is faster than that", self.progress.update, n_split,
            )  # fmt: skip
            log.say(text)
        return stopping > 0, seconds

    def _validate(self, log: SilentLog) -> None:
        """Score the weights on dev, remember the best, save a checkpoint."""
        train = self.cfg.train
        started = time.monotonic()
        self.model.eval()
        with record_function("validation"):
            scores = self.validate()
        value = -scores["loss"] if train.metric == "loss" else scores[train.metric]
        so_far = replace(self.progress, validated=True, metric=train.metric)
        if not (so_far.best_update and self._is_comparable) or value > so_far.best_metric:
            best = replace(so_far, best_update=so_far.update, best_metric=value)
            self.progress = replace(best, validations_without_gain=0)
        else:
            without_gain = so_far.validations_without_gain + 1
            self.progress = replace(so_far, validations_without_gain=without_gain)
        clock = {"minutes": so_far.seconds / 60, "validation_s": time.monotonic() - started}
        # Before the checkpoint: resuming drops the records after the newest checkpoint, but never
        # writes a missing one.
        log.record("validation", self.progress.update, {**scores, **clock})
        self._save()
        release_memory()

    def _save(self) -> None:
        if self.ranks.is_main:
            weights, state = self.learner.optimizer.weights(), self.learner.optimizer.state()
            self.store.save(self.progress, weights, state, keep_last=self.cfg.train.keep_last)

    @property
    def is_over(self) -> bool:
        """Whether no update is left."""
        return self._reason_to_stop(stop_asked=False, seconds=self.progress.seconds) is not None

    def _reason_to_stop(self, stop_asked: bool, seconds: float) -> StopReason | None:
        train, progress = self.cfg.train, self.progress
        if stop_asked:
            return "signal"
        if progress.update >= train.max_updates:
            return "max_updates"
        if train.max_minutes is not None and seconds >= 60 * train.max_minutes:
            return "max_minutes"
        patient = train.patience is None or progress.validations_without_gain < train.patience
        return None if patient or not self._is_comparable else "patience"

    @property
    def _is_comparable(self) -> bool:
        """Whether the best value so far is of the metric of the configuration."""
        return self.progress.metric in (None, self.cfg.train.metric)

    def _report_skipped(self, log: SilentLog, planned: PlannedUpdate, in_a_row: int) -> None:
        rows = planned.block.in_encoded_corpus(np.concatenate(planned.batches))
        update = self.progress.update
        if self.learner.optimizer.loss_scale.factor == 1.0 or in_a_row >= MAX_SKIPPED_IN_A_ROW:
            text = tr(
                "update {}: the gradient is not finite; left out ({} pairs of the encoded corpus: "
                "{}, …)", update, len(rows), ", ".join(map(str, rows[:5])),
            )  # fmt: skip
            log.say(text)
        if in_a_row >= MAX_SKIPPED_IN_A_ROW:
            text = tr(
                "update {}: no finite gradient in {} updates in a row. The weights are those "
                "before them; the last checkpoint is kept. Lower train.lr, or set "
                "train.precision: fp32", update, in_a_row,
            )  # fmt: skip
            raise TrainingError(text)
