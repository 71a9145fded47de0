"""Some updates, a checkpoint and a validation of an experiment, measured on this machine.

Comes in: a configuration and a run directory whose corpus is prepared. Goes out: the content of an
epoch, and speed, memory and seconds of a validation. This file does not know how the corpus was
prepared, nor the conclusions that are drawn from the numbers.
"""

import tempfile
import time
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import Indices, open_corpus
from transformer_mt.evaluation.test_sets import read_dev_sets
from transformer_mt.model_dir import build_model, load_tokenizers
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.pipeline.validate import dev_loss
from transformer_mt.profiling.timed_updates import TimedTraining
from transformer_mt.search.engine import LENGTH_MARGIN
from transformer_mt.system.device import choose_device
from transformer_mt.system.processes.distributed import Ranks
from transformer_mt.training.batches import EpochPlan, experiment_plan, padding_share
from transformer_mt.training.checkpoint import CheckpointStore, Progress
from transformer_mt.training.memory import agree_on_max_tokens
from transformer_mt.translation.translator import Translator

_WARM_UP = 2  # updates that are not counted
MIN_UPDATES = 3
N_DECODED = 400  # pairs of dev: about as many as the decoder takes side by side


@dataclass(frozen=True)
class DryRunTask:
    """An experiment with a prepared corpus."""

    cfg: Config
    run_dir: Path  # with tokenizers, clean dev and encoded text
    corpus_dir: Path  # the corpus of the first epoch
    copies: int = 1  # plan as if it were so many times as large
    budget_s: float = 10.0  # of counted updates


@dataclass(frozen=True)
class DryRun:
    """The content of an epoch, all copies counted, and the cost of training."""

    parameters: int
    device: str
    precision: str
    processes: int
    max_tokens: int
    pairs: int
    src_tokens: int
    tgt_tokens: int
    updates: int
    micro_batches: int
    src_padding: float  # share of positions
    tgt_padding: float
    tgt_tokens_per_s: float
    dev_pairs: int
    validation_s: float  # of all of dev
    checkpoint_s: float
    peak_memory_mib: float  # of all processes


def dry_run(task: DryRunTask, ranks: Ranks) -> DryRun:
    """Plan an epoch, then the worst micro-batches, some updates, a checkpoint and a validation."""
    run = Run(task.run_dir)
    cfg = _with_max_tokens(task.cfg, run, ranks)
    sources = open_corpus(run.encoded_dir / "train").sources
    corpus = replace(open_corpus(task.corpus_dir), sources=sources)
    src_lengths, tgt_lengths = corpus.src.lengths, corpus.tgt.lengths
    plan = experiment_plan(cfg, corpus, epoch=0, copies=task.copies)
    tgt_tokens = int(tgt_lengths[plan.rows].sum())
    timed = TimedTraining(cfg, run, corpus, ranks)
    for index in worst_batches(plan, src_lengths, tgt_lengths):
        timed.update([plan.batch(index)] * ranks.size)
    speed = _measure_speed(timed, plan, tgt_tokens / len(plan), task.budget_s, ranks)
    checkpoint_s = _save(timed, ranks)
    validation_s = _validate(timed, cfg, run, ranks)
    return DryRun(
        parameters=timed.n_parameters,
        device=str(timed.device),
        precision=timed.precision,
        processes=ranks.size,
        max_tokens=cfg.train.batch_tokens,
        pairs=len(plan.rows),
        src_tokens=int(src_lengths[plan.rows].sum()),
        tgt_tokens=tgt_tokens,
        updates=len(plan),
        micro_batches=len(plan.batch_starts) - 1,
        src_padding=padding_share(plan, src_lengths),
        tgt_padding=padding_share(plan, tgt_lengths),
        tgt_tokens_per_s=speed,
        dev_pairs=len(open_corpus(run.encoded_dir / "dev")),
        validation_s=validation_s,
        checkpoint_s=checkpoint_s,
        peak_memory_mib=timed.peak_memory_mib(),
    )


def _with_max_tokens(cfg: Config, run: Run, ranks: Ranks) -> Config:
    """The configuration with the number that training would put in place of `max_tokens: auto`."""
    if cfg.train.max_tokens != "auto":
        return cfg
    tokenizers = load_tokenizers(run.tokenizer_dir, joint=cfg.tokenizer.joint)
    model = build_model(cfg, tokenizers).to(choose_device())
    chosen = agree_on_max_tokens(model, cfg.train, open_corpus(run.encoded_dir / "train"), ranks)
    train = cfg.train.model_copy(update={"max_tokens": chosen})
    return cfg.model_copy(update={"train": train})


def worst_batches(plan: EpochPlan, src_lengths: Indices, tgt_lengths: Indices) -> list[int]:
    """The micro-batches that may take most memory: those with the longest sentence, with the most
    positions, and with the most target tokens."""
    src, tgt = src_lengths[plan.rows], tgt_lengths[plan.rows]
    starts = plan.batch_starts[:-1]
    longest_src, longest_tgt = np.maximum.reduceat(src, starts), np.maximum.reduceat(tgt, starts)
    longest = np.maximum(longest_src, longest_tgt)
    positions = np.diff(plan.batch_starts) * (longest_src + longest_tgt)
    tgt_tokens = np.add.reduceat(tgt, starts)
    return sorted({int(size.argmax()) for size in (longest, positions, tgt_tokens)})


def _measure_speed(
    timed: TimedTraining, plan: EpochPlan, tokens_per_update: float, budget_s: float, ranks: Ranks
) -> float:
    """Real target tokens per second over some updates; of large updates a part is carried out."""
    n_kept = ranks.size  # micro-batches of an update
    n_done = tokens = 0
    compute_s = step_s = 0.0
    for number in count():
        start = timed.now()
        cost = timed.update(plan.update(number % len(plan))[:n_kept])
        seconds = timed.now() - start
        if number == _WARM_UP - 1:
            affordable = budget_s / (MIN_UPDATES + 1) / seconds
            n_kept = ranks.told_by_main(ranks.size * max(1, int(affordable)))
        elif number >= _WARM_UP:
            n_done += 1
            tokens += sum(ranks.gather(cost.tgt_tokens))
            compute_s += seconds - cost.seconds["optimizer"]
            step_s += cost.seconds["optimizer"]
            enough = n_done >= MIN_UPDATES and compute_s + step_s > budget_s
            if ranks.told_by_main(enough):
                break
    # The optimizer works once per update, however little of the update was carried out.
    return tokens_per_update / (tokens_per_update * compute_s / tokens + step_s / n_done)


def _save(timed: TimedTraining, ranks: Ranks) -> float:
    """Seconds of writing a checkpoint."""
    start = time.perf_counter()
    optimizer = timed.learner.optimizer
    weights, state = optimizer.weights(), optimizer.state()
    if ranks.is_main:
        with tempfile.TemporaryDirectory() as folder:
            CheckpointStore(Path(folder), {}).save(Progress(), weights, state, keep_last=1)
    return time.perf_counter() - start


def _validate(timed: TimedTraining, cfg: Config, run: Run, ranks: Ranks) -> float:
    """Seconds of a validation, measured on a part of dev.

    The weights are random, but translations are made as long as the references are on average.
    """
    timed.model.eval()
    dev = open_corpus(run.encoded_dir / "dev")
    start = timed.now()
    dev_loss(timed.model, dev, ranks)
    total_s = timed.now() - start
    src_length, tgt_length = dev.src.lengths.mean(), dev.tgt.lengths.mean()
    ratio = max(0.0, float((tgt_length - LENGTH_MARGIN) / src_length))
    translator = Translator(timed.model, timed.tokenizers, cfg)
    for dev_set in read_dev_sets(run.clean_dir, cfg.languages):
        step = max(1, len(dev_set.srcs) // N_DECODED)
        srcs = ranks.share(dev_set.srcs[::step])
        start = timed.now()
        translator.translate(srcs, to=dev_set.tgt, beam=1, max_length_ratio=ratio)
        total_s += step * max(ranks.gather(timed.now() - start))
    return total_s
