"""An experiment: from raw text to a scored model directory.

Comes in: a configuration and a run directory. Goes out: the model directory and its scores. What is
there already is not made again: prepared data is kept (`preparation.py`), training goes on after
the newest checkpoint, a finished model is left alone.

Several processes do all of this side by side. Whoever comes first prepares, all train, translate
and score their share, and the first one writes.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from transformer_mt.config import Config, load_config
from transformer_mt.data.batching import collate, plan_epoch
from transformer_mt.data.dataset import EncodedCorpus
from transformer_mt.data.epochs import Sampling, epoch_corpora
from transformer_mt.data.shards import count_workers
from transformer_mt.data.sources.local import obtain_sources
from transformer_mt.data.tokenizer import PAD_ID
from transformer_mt.distributed import ALONE, Ranks
from transformer_mt.errors import TmtError, TrainingError
from transformer_mt.files import fingerprint, locked, remove, write_text
from transformer_mt.inference.direction import both_directions
from transformer_mt.inference.evaluation import EvaluationSet, read_dev_sets, read_test_sets
from transformer_mt.inference.metrics import Score, Scorer
from transformer_mt.inference.translator import Translator
from transformer_mt.model.transformer import Transformer
from transformer_mt.model_dir import build_model, load_weights, read_metadata, save_model_dir
from transformer_mt.plots import write_curves
from transformer_mt.preparation import Fingerprints, Prepared, Say, fingerprints, prepare
from transformer_mt.run_dir import Run
from transformer_mt.runtime import (
    choose_device,
    choose_precision,
    keep_memory,
    peak_memory_mib,
    seed_all,
    stop_on_signals,
)
from transformer_mt.training.checkpoint import CheckpointStore
from transformer_mt.training.log import SilentLog, TrainingLog
from transformer_mt.training.loss import OutputLoss
from transformer_mt.training.trainer import Outcome, Trainer

T = TypeVar("T")


@dataclass(frozen=True)
class Result:
    """What `train_experiment` leaves behind; `metadata` is None if a signal stopped it."""

    run: Run
    outcome: Outcome
    metadata: dict[str, Any] | None


def train_experiment(
    cfg: Config, run: Run, *, fresh: bool, say: Say, ranks: Ranks = ALONE
) -> Result:
    """Do everything that is missing, in order; see the module's docstring.

    Args:
        fresh: forget checkpoints, metrics and model first; prepared data stays.
        ranks: the processes that do this together; each must call it.
    Raises:
        TmtError: what a user can mend; nothing that was finished before is lost.
    """
    keep_memory()
    if not ranks.is_main:
        say = _keep_quiet
    run.directory.mkdir(parents=True, exist_ok=True)
    with _only_training_in(run.directory, ranks):
        if ranks.is_main:
            for leftover in list(run.directory.rglob(".*.tmp")):  # of a process that was killed
                remove(leftover)
        if fresh and ranks.is_main:
            for path in (run.checkpoints_dir, run.metrics_path, run.model_dir):
                remove(path)
        prepared, store = ranks.in_turn(lambda: _prepare(cfg, run, ranks, say))
        if len({*ranks.gather(store.identity["corpus"])}) > 1:
            raise TrainingError(
                f"{run.directory}: the processes have prepared different data; see that all "
                "machines have the same sources and the same version of tmt"
            )
        trainer, outcome = _train(cfg, run, prepared, store, ranks, say)
        if outcome.stopped_by == "signal":
            return Result(run, outcome, None)
        return Result(run, outcome, _finish(cfg, run, prepared, trainer, outcome, say))


def _prepare(cfg: Config, run: Run, ranks: Ranks, say: Say) -> tuple[Prepared, CheckpointStore]:
    local = obtain_sources(cfg, say)
    prints = fingerprints(local)
    store = _store(cfg, prints, run)
    store.check_identity()  # before any stage replaces what the old run was made of
    prepared = prepare(local, prints, run, say)
    if ranks.is_main:
        write_text(run.config_path, cfg.to_yaml())
    return prepared, store


def _keep_quiet(message: str) -> None:
    pass


def _store(cfg: Config, prints: Fingerprints, run: Run) -> CheckpointStore:
    """The checkpoints of the run, which belong to one model, one corpus and one seed."""
    identity = {
        "model": cfg.model.model_dump(),
        "tokenizer": cfg.tokenizer.model_dump(exclude={"sampling"}),
        "corpus": prints.encoded,
        "seed": cfg.seed,
    }
    return CheckpointStore(run.checkpoints_dir, identity)


def _train(
    cfg: Config, run: Run, prepared: Prepared, store: CheckpointStore, ranks: Ranks, say: Say
) -> tuple[Trainer, Outcome]:
    device = choose_device()
    dtype = choose_precision(cfg.train.precision, device)
    seed_all(cfg.seed, "initial weights")
    model = build_model(cfg, prepared.tokenizers).to(device)
    sampling = Sampling(
        run.encoded_dir / "train",
        prepared.tokenizers,
        cfg.tokenizer.type,
        cfg.tokenizer.sampling,
        cfg.seed,
        cfg.data.max_length,
    )
    epochs_dir = run.encoded_dir / "epochs"
    workers = count_workers(cfg.data.workers)
    with epoch_corpora(
        prepared.train,
        sampling,
        epochs_dir,
        workers=workers,
        say=say,
        draws=ranks.local_rank == 0,
        meet=lambda: ranks.gather(None),
    ) as corpus_of:
        validate = _validation(cfg, run, prepared, model, ranks)
        trainer = Trainer(cfg, model, corpus_of, store, dtype=dtype, validate=validate, ranks=ranks)
        trainer.resume(say)
        _announce(cfg, prepared, model, device, dtype, trainer, say)
        outcome = _run_logged(cfg, run, trainer)
    return trainer, outcome


def _run_logged(cfg: Config, run: Run, trainer: Trainer) -> Outcome:
    with stop_on_signals() as stop:
        if not trainer.ranks.is_main:
            return trainer.run(SilentLog(), stop)
        tensorboard_dir = run.directory / "tensorboard" if cfg.train.tensorboard else None
        log = TrainingLog(
            run.metrics_path,
            resume_update=trainer.progress.update,
            max_updates=cfg.train.max_updates,
            tensorboard_dir=tensorboard_dir,
        )
        with log:
            outcome = trainer.run(log, stop)
    if log.records:
        write_curves(log.records, run.curves_path)
    return outcome


def _announce(
    cfg: Config,
    prepared: Prepared,
    model: Transformer,
    device: torch.device,
    dtype: torch.dtype,
    trainer: Trainer,
    say: Say,
) -> None:
    n_parameters = sum(p.numel() for p in model.parameters())
    precision = str(dtype).removeprefix("torch.")
    together = f" · {trainer.ranks.size} processes" if trainer.ranks.size > 1 else ""
    say(f"[train] {n_parameters / 1e6:.1f} M parameters · {device} · {precision}{together}")
    uniform, unigram = baseline_losses(prepared.train, prepared.tokenizers[1].vocab_size)
    say(f"  loss of a uniform guess {uniform:.2f}, of word frequencies alone {unigram:.2f}")
    say(
        f"  peak lr {cfg.train.peak_lr(cfg.model.d_model):.2e} after {cfg.train.warmup_updates} "
        f"updates of about {cfg.train.tokens_per_update} target tokens"
    )
    for direction in both_directions(cfg.languages):
        if note := Scorer(direction.tgt).note:
            say(f"  {note}")
    if trainer.progress.update:
        say(f"  going on after update {trainer.progress.update}")


def baseline_losses(corpus: EncodedCorpus, vocab_size: int) -> tuple[float, float]:
    """Nats per target token of a uniform guess and of the unigram distribution of `corpus`."""
    counts = torch.zeros(vocab_size, dtype=torch.float64)
    for start in range(0, len(corpus.tgt.ids), 1 << 24):
        ids = torch.from_numpy(corpus.tgt.ids[start : start + (1 << 24)].astype("int64"))
        counts += torch.bincount(ids, minlength=vocab_size)
    probs = counts[counts > 0] / counts.sum()
    uniform = torch.tensor(float(vocab_size)).log().item()
    return uniform, -(probs * probs.log()).sum().item()


def _validation(
    cfg: Config, run: Run, prepared: Prepared, model: Transformer, ranks: Ranks
) -> Callable[[], dict[str, float]]:
    """A function that scores the current weights on dev: loss, BLEU and chrF, greedily.

    With both directions the scores are the means of the two, which are told too: `bleu.zh-en`.
    """
    translator = Translator(model, prepared.tokenizers, cfg)
    dev_sets = read_dev_sets(run.clean_dir, cfg.languages)

    def validate() -> dict[str, float]:
        values = {"loss": dev_loss(model, prepared.dev, cfg.train.max_tokens, ranks)}
        scores = [_score(translator, dev, ranks, beam=1)[0] for dev in dev_sets]
        for metric in ("bleu", "chrf"):
            values[metric] = sum(score[metric].score for score in scores) / len(scores)
        if len(dev_sets) > 1:
            for dev, score in zip(dev_sets, scores, strict=True):
                direction = dev.name.removeprefix("dev.")
                values |= {f"{metric}.{direction}": s.score for metric, s in score.items()}
        return values

    return validate


@torch.no_grad()
def dev_loss(
    model: Transformer, dev: EncodedCorpus, max_tokens: int, ranks: Ranks = ALONE
) -> float:
    """Cross-entropy without smoothing, in nats per target token."""
    model.eval()
    plan = plan_epoch(
        dev.src.lengths,
        dev.tgt.lengths,
        max_tokens=max_tokens,
        tokens_per_update=max_tokens,
        seed=0,
        epoch=0,
    )
    output_loss = OutputLoss(0.0, PAD_ID)
    nll, n_tokens = 0.0, 0
    for indices in ranks.share(list(plan.batches())):
        batch = collate(dev, indices).to(model.output.weight.device)
        sums = output_loss(model(batch.src, batch.tgt_in), model.output.weight, batch.tgt_out)
        nll += sums.nll.item()
        n_tokens += sums.n_tokens
    nll, n = ranks.sum(torch.tensor([nll, n_tokens], dtype=torch.float64)).tolist()
    return nll / n


def _finish(
    cfg: Config, run: Run, prepared: Prepared, trainer: Trainer, outcome: Outcome, say: Say
) -> dict[str, Any]:
    """Choose the weights, score them on every test set, write the model directory."""
    progress, ranks = outcome.progress, trainer.ranks
    finished = fingerprint(
        trainer.store.identity, progress.update, cfg.decode.model_dump(), cfg.train.average
    )
    metadata = _metadata_if(finished, run) if ranks.is_main else None
    if (metadata := ranks.told_by_main(metadata)) is not None:
        return metadata
    weights, chosen = _choose_weights(cfg, trainer, say)
    load_weights(trainer.model, weights)
    translator = Translator(trainer.model.eval(), prepared.tokenizers, cfg)
    scores = {
        test.name: score_test(translator, run, test, ranks)
        for test in read_test_sets(run.clean_dir, cfg.languages)
    }
    metadata = {
        "name": cfg.name,
        "finished": finished,
        "trained": {
            "updates": progress.update,
            "epochs": progress.epoch,
            "minutes": round(progress.seconds / 60, 2),
            "stopped_by": outcome.stopped_by,
            "skipped_updates": progress.skipped,
            "split_batches": progress.split,
            "processes": ranks.size,
            "peak_memory_mib": round(peak_memory_mib()),
            "weights": chosen,
        },
        "data": {
            "fingerprint": prepared.fingerprint,
            "train": [str(source) for source in cfg.data.train],
            "train_pairs": len(prepared.train) // len(both_directions(cfg.languages)),
        },
        "decode": cfg.decode.model_dump(),
        "scores": {
            name: {metric: score.to_json() for metric, score in by_metric.items()}
            for name, by_metric in scores.items()
        },
    }
    if ranks.is_main:
        save_model_dir(run.model_dir, cfg, weights, run.tokenizer_dir, metadata)
        metadata = read_metadata(run.model_dir)
    return metadata


def _metadata_if(finished: str, run: Run) -> dict[str, Any] | None:
    """What the model directory says, if it was made by this very training."""
    if (run.model_dir / "metadata.json").is_file():
        metadata = read_metadata(run.model_dir)
        if metadata["finished"] == finished:
            return metadata
    return None


def _choose_weights(cfg: Config, trainer: Trainer, say: Say) -> tuple[dict[str, torch.Tensor], str]:
    """Of the best checkpoint and the mean of the last ones, what is better on dev."""
    progress, store, metric = trainer.progress, trainer.store, cfg.train.metric
    ranks = trainer.ranks
    best = f"best on dev, update {progress.best_update}"
    shown = abs(progress.best_metric)
    if cfg.train.average < 2 or ranks.told_by_main(len(store.validated_updates())) < 2:
        say(f"[choose] dev {metric} {shown:.2f}: {best}")
        return _of_main(ranks, lambda: store.weights(progress.best_update)), best
    weights, updates = _of_main(ranks, lambda: store.average(cfg.train.average))
    load_weights(trainer.model, weights)
    trainer.model.eval()
    averaged = trainer.validate()[metric]
    average = f"mean of the {len(updates)} checkpoints {updates[0]} … {updates[-1]}"
    value = -averaged if metric == "loss" else averaged
    better = value >= progress.best_metric
    say(
        f"[choose] dev {metric}: {averaged:.2f} {average}; {shown:.2f} {best}. "
        f"Taking the {'mean' if better else 'best'}"
    )
    if better:
        return weights, average
    return _of_main(ranks, lambda: store.weights(progress.best_update)), best


def _of_main(ranks: Ranks, read: Callable[[], T]) -> T:
    """What rank 0 reads from its disk, for all. Whole weights go once through the wire."""
    return ranks.told_by_main(read() if ranks.is_main else cast(T, None))


def score_test(
    translator: Translator, run: Run, test: EvaluationSet, ranks: Ranks = ALONE
) -> dict[str, Score]:
    """Translate a test set of the run with the configured beam, keep the output, score it."""
    scores, hyps = _score(translator, test, ranks)
    if ranks.is_main:
        write_text(run.translations_dir / f"{test.name}.txt", "".join(f"{hyp}\n" for hyp in hyps))
    return scores


def _score(
    translator: Translator, test: EvaluationSet, ranks: Ranks, *, beam: int | None = None
) -> tuple[dict[str, Score], list[str]]:
    """BLEU and chrF of a set, and its translations; each process translates its share."""
    share = ranks.share(test.srcs)
    own = [found.text for found in translator.translate(share, to=test.tgt, beam=beam)]
    hyps = ranks.join_shares(own)
    return Scorer(test.tgt).score(hyps, test.refs, ("bleu", "chrf")), hyps


def average_run(run: Run, out_dir: Path, n_last: int) -> list[int]:
    """Write a model directory with the mean of a run's last validated checkpoints.

    Returns:
        The updates of the checkpoints that were averaged.
    Raises:
        TmtError: the run has none, or `out_dir` exists.
    """
    if out_dir.exists():
        raise TmtError(f"{out_dir} exists; name a new directory")
    cfg = load_config(run.config_path)
    store = CheckpointStore(run.checkpoints_dir, {})
    if not store.validated_updates():
        raise TmtError(f"{run.directory}: no validated checkpoint to average")
    weights, updates = store.average(n_last)
    chosen = f"mean of the {len(updates)} checkpoints {updates[0]} … {updates[-1]}"
    metadata = {
        "name": cfg.name,
        "finished": "",
        "trained": {"updates": updates[-1], "weights": chosen},
        "data": {"train": [str(source) for source in cfg.data.train]},
        "decode": cfg.decode.model_dump(),
        "scores": {},
    }
    save_model_dir(out_dir, cfg, weights, run.tokenizer_dir, metadata)
    return updates


def _only_training_in(directory: Path, ranks: Ranks) -> AbstractContextManager[None]:
    """Hold the lock of a run directory, or raise a TmtError if another training has it."""
    if not ranks.is_main:
        return nullcontext()

    def refuse() -> None:
        raise TmtError(
            f"{directory}: another tmt train is at work here; wait for it, or use another --run-dir"
        )

    return locked(directory / ".lock", refuse)
