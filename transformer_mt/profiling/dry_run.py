"""Some updates, a checkpoint and a validation of an experiment, measured on this machine.

Comes in: a configuration and a run directory whose corpus is prepared. Goes out: the content of an
epoch, and speed, memory and seconds of a validation. This file draws no conclusions from them.
"""

import tempfile
import time
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from transformer_mt.config.experiment import Config
from transformer_mt.encoding.encoded_corpus import open_corpus
from transformer_mt.evaluation.test_sets import read_dev_sets
from transformer_mt.model_dir import build_model, load_tokenizers
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.pipeline.validate import dev_loss
from transformer_mt.profiling.timed_updates import TimedTraining, TrainingSetup
from transformer_mt.search.engine import LENGTH_MARGIN
from transformer_mt.system.device import choose_device
from transformer_mt.system.processes.distributed import Ranks
from transformer_mt.training.checkpoint import CheckpointStore, Progress
from transformer_mt.training.memory import agree_on_max_tokens
from transformer_mt.translation.translator import Translator

_WARM_UP = 2  # updates that are not counted
MIN_UPDATES = 3
N_DECODED = 400  # pairs of dev: about as many as the decoder takes side by side


@dataclass(frozen=True)
class DryRun:
    """The content of an epoch, all copies counted, and the cost of training."""

    setup: TrainingSetup
    pairs: int
    src_tokens: int
    tgt_tokens: int
    updates: int
    micro_batches: int
    tgt_tokens_per_s: float
    dev_pairs: int
    validation_s: float  # of all of dev
    checkpoint_s: float


def dry_run(
    cfg: Config, run_dir: Path, corpus_dir: Path, copies: int, budget_s: float, ranks: Ranks
) -> DryRun:
    """Plan an epoch, then the worst micro-batches, some updates, a checkpoint and a validation.

    Args:
        run_dir: with tokenizers, clean dev and encoded text.
        corpus_dir: the corpus of the first epoch.
        copies: plan as if it were so many times as large.
        budget_s: of counted updates.
    """
    run = Run(run_dir)
    cfg = _with_max_tokens(cfg, run, ranks)
    sources = open_corpus(run.encoded_dir / "train").sources
    corpus = replace(open_corpus(corpus_dir), sources=sources)
    timed = TimedTraining(cfg, run, corpus, ranks, copies=copies)
    timed.update_with_worst()
    plan = timed.plan
    tgt_tokens = int(timed.tgt_lengths[plan.rows].sum())
    speed = _measure_speed(timed, tgt_tokens / len(plan), budget_s, ranks)
    checkpoint_s = _save(timed, ranks)
    validation_s = _validate(timed, cfg, run, ranks)
    return DryRun(
        setup=timed.setup(),
        pairs=len(plan.rows),
        src_tokens=int(timed.src_lengths[plan.rows].sum()),
        tgt_tokens=tgt_tokens,
        updates=len(plan),
        micro_batches=len(plan.batch_starts) - 1,
        tgt_tokens_per_s=speed,
        dev_pairs=len(open_corpus(run.encoded_dir / "dev")),
        validation_s=validation_s,
        checkpoint_s=checkpoint_s,
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


def _measure_speed(
    timed: TimedTraining, tokens_per_update: float, budget_s: float, ranks: Ranks
) -> float:
    """Real target tokens per second over some updates; of large updates a part is carried out."""
    n_kept = ranks.size  # micro-batches of an update
    n_done = 0
    tokens = compute_s = step_s = 0.0
    for number in count():
        start = timed.now()
        cost = timed.update(timed.plan.update(number % len(timed.plan))[:n_kept])
        seconds = timed.now() - start
        if number == _WARM_UP - 1:
            affordable = budget_s / (MIN_UPDATES + 1) / seconds
            n_kept = ranks.told_by_main(ranks.size * max(1, int(affordable)))
        elif number >= _WARM_UP:
            n_done += 1
            tokens += sum(ranks.gather(cost["tgt_tokens"]))
            compute_s += seconds - cost["optimizer"]
            step_s += cost["optimizer"]
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
