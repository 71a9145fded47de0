"""`tmt plan`: the work of `tmt train`, and its cost on this machine.

The run's prepared corpus is used if there is one, else a part of the sources is prepared; some
updates of the real plan, a checkpoint and a validation are carried out. All of it in a temporary
folder: nothing is left behind.
"""

import math
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from transformer_mt.config.experiment import Config, TrainConfig
from transformer_mt.encoding.encoded_corpus import open_corpus
from transformer_mt.encoding.epochs import EpochData, draw_rows, drawn_block
from transformer_mt.evaluation.test_sets import read_dev_sets
from transformer_mt.messages.catalogue import tr
from transformer_mt.model_dir import build_model, load_tokenizers
from transformer_mt.pipeline.max_tokens import agree_on_max_tokens
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.pipeline.validate import dev_loss
from transformer_mt.profiling.corpus_sample import (
    PlanningCorpus,
    SourceSize,
    measure_sources,
    planning_corpus,
)
from transformer_mt.profiling.plan_summary import Plan
from transformer_mt.profiling.timed_updates import (
    GPU_WARM_UP,
    TimedTraining,
    TrainingSetup,
    first_block,
    in_new_processes,
)
from transformer_mt.profiling.workable_advice import workable_advice
from transformer_mt.rendering.progress import Stages
from transformer_mt.search.engine import LENGTH_MARGIN
from transformer_mt.system.device import choose_device
from transformer_mt.system.processes.distributed import Ranks
from transformer_mt.system.processes.executors import count_workers
from transformer_mt.system.processes.launch import count_processes
from transformer_mt.training.checkpoint import CheckpointStore, Progress
from transformer_mt.translation.translator import Translator

# A corpus is planned as a whole up to so many rows; more of them would change no average.
MAX_PLANNED_ROWS = 500_000
_WARM_UP = 2  # updates that are not counted
MIN_UPDATES = 3
N_DECODED = 400  # pairs of dev: about as many as the decoder takes side by side
_START_S = 10.0  # of new processes, and of the validation and the checkpoint, about


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


def make_plan(
    cfg: Config,
    run: Run | None = None,
    processes: int | None = None,
    *,
    budget_s: float = 10.0,
    stages: Stages | None = None,
) -> Plan:
    """Count the sources, prepare or find a corpus, measure some updates, extrapolate.

    Nothing is downloaded.

    Args:
        run: whose corpus to use if it is up to date; None: where `tmt train` would put it.
        processes: None: as many as `tmt train` would start.
        budget_s: of updates that are measured, at most; no more than a tenth of those of the
            training are, after some to warm up.
        stages: told of the work as it goes on.
    Raises:
        ConfigError: every source that cannot be read or is not in the cache, one line each.
        TmtError: `tmt train` would stop with it before the first update.
    """
    offline, stages = cfg.data.offline, stages or Stages()
    changes: dict[str, Any] = {"offline": True}
    if isinstance(cfg.data.workers, str):  # a cluster has no share in this machine's sample
        changes["workers"] = "auto"
    cfg = cfg.model_copy(update={"data": cfg.data.model_copy(update=changes)})
    sizes, sample = measure_sources(cfg, stages, offline=offline)
    run = run or Run(Path("runs") / cfg.name)
    with tempfile.TemporaryDirectory() as folder:
        corpus = planning_corpus(cfg, run, sizes, sample, Path(folder), stages)
        drawn_dir = _draw_first(corpus, Path(folder) / "block")
        affordable = max(1, MAX_PLANNED_ROWS // len(open_corpus(corpus.run.encoded_dir / "train")))
        copies = min(affordable, round(corpus.scale))
        work = partial(dry_run, corpus.cfg, corpus.run.directory, drawn_dir, copies, budget_s)
        stages.begin(tr("measuring updates and a validation"), _START_S + budget_s)
        found = in_new_processes(work, processes or count_processes(), stages.advance)
        stages.begin(tr("looking for settings that suit the corpus"))
        return _conclude(cfg, sizes, corpus, found, corpus.scale / copies)


def _draw_first(corpus: PlanningCorpus, out_dir: Path) -> Path | None:
    """Where the first block of the first epoch is drawn, if sub-words are."""
    cfg, run = corpus.cfg, corpus.run
    if not cfg.tokenizer.sampling:
        return None
    tokenizers = load_tokenizers(run.tokenizer_dir, joint=cfg.tokenizer.joint)
    data = EpochData.of(cfg, run.encoded_dir / "train", tokenizers)
    rows = first_block(cfg, run).rows
    draw_rows(data, 0, rows, out_dir, workers=count_workers(cfg.data.workers))
    return out_dir


def _conclude(
    cfg: Config, sizes: list[SourceSize], corpus: PlanningCorpus, found: DryRun, scale: float
) -> Plan:
    """Args: scale: epochs of the dry run in one of the experiment."""
    updates_per_epoch = max(1, round(scale * found.updates))
    validation_s = found.validation_s * corpus.dev_pairs / found.dev_pairs + found.checkpoint_s
    update_s = found.tgt_tokens / found.updates / found.tgt_tokens_per_s
    updates, total_s = time_of_updates(cfg.train, update_s, validation_s)
    n_pairs, n_tokens = round(scale * found.pairs), round(scale * found.tgt_tokens)
    device = "cpu" if found.setup.device == "cpu" else "cuda"
    return Plan(
        **vars(found.setup),
        name=cfg.name,
        sources=sizes,
        corpus=_describe(corpus),
        pairs_per_epoch=n_pairs,
        src_tokens_per_epoch=round(scale * found.src_tokens),
        tgt_tokens_per_epoch=n_tokens,
        updates_per_epoch=updates_per_epoch,
        micro_batches_per_update=found.micro_batches / found.updates,
        peak_lr=cfg.train.peak_lr(cfg.model.d_model),
        tgt_tokens_per_s=found.tgt_tokens_per_s,
        preparation_minutes=corpus.preparation_s / 60,
        validation_seconds=validation_s,
        updates=updates,
        training_hours=updates * update_s / 3600,
        hours=total_s / 3600,
        epochs=updates / updates_per_epoch,
        advice=workable_advice(cfg, corpus.run, n_pairs, n_tokens, device),
    )


def time_of_updates(train: TrainConfig, update_s: float, validation_s: float) -> tuple[int, float]:
    """How many updates there will be, unless patience ends them, and seconds with validations."""
    n_validations = math.ceil(train.max_updates / train.validate_every)
    total_s = train.max_updates * update_s + n_validations * validation_s
    if train.max_minutes is None or total_s <= 60 * train.max_minutes:
        return train.max_updates, total_s
    share = 60 * train.max_minutes / total_s
    return max(1, round(share * train.max_updates)), 60 * train.max_minutes


def _describe(corpus: PlanningCorpus) -> str:
    if not corpus.preparation_s:
        return tr("prepared")
    if corpus.scale == 1:
        return tr("prepared for this plan")
    return tr("estimated from {:.2%} of the pairs", 1 / corpus.scale)


def dry_run(
    cfg: Config, run_dir: Path, drawn_dir: Path | None, copies: int, budget_s: float, ranks: Ranks
) -> DryRun:
    """Plan a block, then the worst micro-batches, some updates, a checkpoint and a validation.

    Args:
        run_dir: with tokenizers, clean dev and encoded text.
        drawn_dir: the first block, if its sub-words are drawn.
        copies: plan as if it were so many times as large.
        budget_s: of counted updates.
    """
    run = Run(run_dir)
    cfg = _with_max_tokens(cfg, run, ranks)
    block = first_block(cfg, run)
    block = drawn_block(block, drawn_dir) if drawn_dir else block
    block = replace(block, rows=np.tile(block.rows, copies))
    timed = TimedTraining(cfg, run, block, ranks)
    timed.update_with_worst()
    plan, n_blocks = timed.plan, block.n_blocks
    src_tokens, tgt_tokens = (
        int(side.lengths_of(plan.rows).sum()) for side in (block.corpus.src, block.corpus.tgt)
    )
    most = max(MIN_UPDATES, cfg.train.max_updates // 10)
    speed = _measure_speed(timed, tgt_tokens / len(plan), budget_s, most, ranks)
    checkpoint_s = _save(timed, ranks)
    validation_s = _validate(timed, cfg, run, ranks)
    return DryRun(
        setup=timed.setup(),
        pairs=n_blocks * len(plan.rows),
        src_tokens=n_blocks * src_tokens,
        tgt_tokens=n_blocks * tgt_tokens,
        updates=n_blocks * len(plan),
        micro_batches=n_blocks * (len(plan.batch_starts) - 1),
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
    timed: TimedTraining, tokens_per_update: float, budget_s: float, most: int, ranks: Ranks
) -> float:
    """Real target tokens per second over some updates; of large updates a part is carried out."""
    n_kept, n_done = ranks.size, 0  # micro-batches of an update that are carried out; updates
    tokens = compute_s = step_s = 0.0
    warm_up = _WARM_UP if timed.device.type == "cpu" else GPU_WARM_UP
    for number in count():
        start = timed.now()
        cost = timed.update(timed.plan.update(number % len(timed.plan))[:n_kept])
        seconds = timed.now() - start
        if number == warm_up - 1:
            affordable = budget_s / (MIN_UPDATES + 1) / seconds
            n_kept = ranks.told_by_main(ranks.size * max(1, int(affordable)))
        elif number >= warm_up:
            n_done += 1
            tokens += sum(ranks.gather(cost["tgt_tokens"]))
            compute_s += seconds - cost["optimizer"]
            step_s += cost["optimizer"]
            enough = n_done >= MIN_UPDATES and (compute_s + step_s > budget_s or n_done >= most)
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
