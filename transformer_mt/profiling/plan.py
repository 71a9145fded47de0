"""`tmt plan`: the work of `tmt train`, and its cost on this machine.

The run's prepared corpus is used if there is one, else a part of the sources is prepared; some
updates of the real plan are carried out. All of it in a temporary folder: nothing is left behind.
"""

import math
import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformer_mt.config.experiment import Config, TrainConfig
from transformer_mt.config.recipes import Advice, compare, recommend
from transformer_mt.encoding.encoded_corpus import open_corpus
from transformer_mt.encoding.epochs import SubwordSampling, sample_corpus
from transformer_mt.model_dir import load_tokenizers
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling.corpus_sample import (
    PlanningCorpus,
    SourceSize,
    measure_sources,
    planning_corpus,
)
from transformer_mt.profiling.dry_run import DryRun, dry_run
from transformer_mt.profiling.timed_updates import TrainingSetup, in_new_processes
from transformer_mt.system.processes.launch import count_processes
from transformer_mt.system.processes.parallel import count_workers

# A corpus is planned as a whole up to so many rows; more of them would change no average.
MAX_PLANNED_ROWS = 500_000


@dataclass(frozen=True)
class Plan(TrainingSetup):
    name: str
    sources: list[SourceSize]
    corpus: str  # in which the tokens are counted
    pairs_per_epoch: int
    src_tokens_per_epoch: int
    tgt_tokens_per_epoch: int
    updates_per_epoch: int
    micro_batches_per_update: float
    peak_lr: float
    tgt_tokens_per_s: float  # measured, as training will log it
    preparation_minutes: float  # still to come; 0 if it is done
    validation_seconds: float  # of each, with its checkpoint
    updates: int  # until max_updates, or the clock of max_minutes
    training_hours: float  # of the updates alone
    hours: float  # of the updates and the validations
    epochs: float  # seen by then
    advice: list[Advice]  # where settings differ from what suits a corpus of this size

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def render(self) -> str:
        where = self.device if self.processes == 1 else f"{self.processes} × {self.device}"
        lines = [f"{self.name}: {self.parameters / 1e6:.1f} M parameters, {self.precision} on "
                 f"{where}"]  # fmt: skip
        for size in self.sources:
            weight = f", weight {size.weight:g}" if size.weight != 1 else ""
            lines.append(f"  {size.role:<14} {size.pairs:>10,} pairs  {size.source}{weight}")
        lines += [
            f"  one epoch      about {self.pairs_per_epoch:,} pairs, {self.src_tokens_per_epoch:,} "
            f"source and {self.tgt_tokens_per_epoch:,} target tokens, {self.updates_per_epoch:,} "
            f"updates ({self.corpus})",
            f"  one update     {self.micro_batches_per_update:.1f} micro-batches of at most "
            f"{self.max_tokens} tokens, padding "
            f"{self.src_padding:.1%} of source and {self.tgt_padding:.1%} of target; peak lr "
            f"{self.peak_lr:.2e}",
            f"  measured here  {self.tgt_tokens_per_s:,.0f} target tokens/s, "
            f"{self.peak_memory_mib:,.0f} MiB, {self.validation_seconds:.1f} s a validation",
            f"  preparation    {_duration(self.preparation_minutes / 60)}",
            f"  training       at most {self.updates:,} updates, {self.epochs:.1f} epochs: "
            f"{_duration(self.training_hours)}, with validations {_duration(self.hours)}",
        ]
        if self.advice:
            lines.append("  worth a try for a corpus of this size; the score on dev decides:")
            lines += [f"    {piece.key}={piece.value}: {piece.why}" for piece in self.advice]
        return "\n".join(lines)


def _duration(hours: float) -> str:
    if hours == 0:
        return "done"
    return f"about {60 * hours:.1f} minutes" if hours < 1 else f"about {hours:.1f} hours"


def make_plan(
    cfg: Config,
    run: Run | None = None,
    processes: int | None = None,
    *,
    budget_s: float = 10.0,
) -> Plan:
    """Count the sources, prepare or find a corpus, measure some updates, extrapolate.

    Nothing is downloaded.

    Args:
        run: whose corpus to use if it is up to date; None: where `tmt train` would put it.
        processes: None: as many as `tmt train` would start.
        budget_s: of updates that are measured, after some to warm up.
    Raises:
        ConfigError: every source that cannot be read or is not in the cache, one line each.
        TmtError: `tmt train` would stop with it before the first update.
    """
    cfg = cfg.model_copy(update={"data": cfg.data.model_copy(update={"offline": True})})
    sizes, sample = measure_sources(cfg)
    run = run or Run(Path("runs") / cfg.name)
    with tempfile.TemporaryDirectory() as folder:
        corpus = planning_corpus(cfg, run, sizes, sample, Path(folder))
        corpus_dir = _first_epoch(corpus, Path(folder) / "epoch")
        affordable = max(1, MAX_PLANNED_ROWS // len(open_corpus(corpus_dir)))
        copies = min(affordable, round(corpus.scale))
        work = partial(dry_run, corpus.cfg, corpus.run.directory, corpus_dir, copies, budget_s)
        found = in_new_processes(work, processes or count_processes())
    return _conclude(cfg, sizes, corpus, found, corpus.scale / copies)


def _first_epoch(corpus: PlanningCorpus, out_dir: Path) -> Path:
    """Where the corpus of the first epoch lies; it is drawn if sub-words are."""
    cfg, run = corpus.cfg, corpus.run
    corpus_dir = run.encoded_dir / "train"
    if not cfg.tokenizer.sampling:
        return corpus_dir
    tokenizers = load_tokenizers(run.tokenizer_dir, joint=cfg.tokenizer.joint)
    sampling = SubwordSampling.of(cfg, corpus_dir, tokenizers)
    sample_corpus(sampling, 0, out_dir, workers=count_workers(cfg.data.workers))
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
    advice = recommend(n_pairs, n_tokens, languages=cfg.languages, device=device)
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
        advice=compare(cfg, advice),
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
        return "prepared"
    if corpus.scale == 1:
        return "prepared for this plan"
    return f"estimated from {1 / corpus.scale:.2%} of the pairs"
