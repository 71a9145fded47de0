"""The end of a training: which weights are kept, how good they are, and the model directory.

Several processes read, translate and score together, and the first one writes.
"""

from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from transformer_mt.config.experiment import Config, TrainConfig, load_config
from transformer_mt.corpus.readers.lines import split_lines
from transformer_mt.errors import CheckpointError, ModelDirError, TmtError
from transformer_mt.evaluation.test_sets import read_dev_sets, read_test_sets
from transformer_mt.messages.catalogue import tr
from transformer_mt.model_dir import METADATA, load_weights, read_metadata, save_model_dir
from transformer_mt.pipeline.prepare import Prepared
from transformer_mt.pipeline.records import read_metrics
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.pipeline.validate import confidence_curve, score_test
from transformer_mt.pipeline.verdict import judge_training
from transformer_mt.system.device import peak_memory_on
from transformer_mt.system.output import refuse_foreign
from transformer_mt.system.state import fingerprint
from transformer_mt.system.terminal import Always, Say
from transformer_mt.text.known_units import KnownUnits
from transformer_mt.text.word_translations import MOST_PAIRS, WordTranslations
from transformer_mt.training.checkpoint import CheckpointStore
from transformer_mt.training.trainer import Outcome, Trainer
from transformer_mt.translation.direction import both_directions
from transformer_mt.translation.translator import Translator

T = TypeVar("T")
_ANNEALED = 0.1  # of the cool-down is left at most, where the learning rate has fallen to 0
MOST_LINES = 2_000_000  # of the training text, that are looked at for its words
Weights = dict[str, torch.Tensor]  # fp32, by parameter name


def finish(
    cfg: Config, run: Run, prepared: Prepared, trainer: Trainer, outcome: Outcome, say: Say
) -> dict[str, Any]:
    """Choose the weights, score them on every test set, write the model directory."""
    progress, ranks = outcome.progress, trainer.ranks
    finished = fingerprint(
        trainer.store.identity, progress.update, cfg.decode.to_fingerprint(), cfg.train.average
    )
    metadata = ranks.told_by_main(_read_metadata(run) if ranks.is_main else {})
    if metadata.get("finished") == finished:
        if ranks.is_main and (changed := _changed_since(cfg, run)):  # which has the model
            text = tr("[done] trained before; without effect now: {}", ", ".join(changed))
            say(tr("{} (train anew: --fresh, or another --run-dir)", text))
        return metadata
    at_zero = _ends_at_zero(cfg.train, outcome)
    records = read_metrics(run.metrics_path)
    verdict = judge_training(cfg, records, outcome.stopped_by, annealed=at_zero)
    annealed = ranks.told_by_main(at_zero and verdict.kind != "overfitting")
    weights, chosen = _choose_weights(cfg, trainer, say, annealed=annealed)
    load_weights(trainer.model, weights)
    known = known_units(cfg, run)
    words = word_translations(cfg, run)
    translator = Translator(
        trainer.model.eval(), prepared.tokenizers, cfg, known=known, words=words
    )
    scores = {
        test.name: score_test(translator, run, test, ranks)
        for test in read_test_sets(run.clean_dir, cfg.languages)
    }
    curve = confidence_curve(translator, read_dev_sets(run.clean_dir, cfg.languages), ranks)
    say(tr("[verdict] {}", verdict))
    metadata = {
        "name": cfg.name,
        "finished": finished,
        "trained": {**_about(outcome, trainer), "weights": chosen},
        "data": {
            "fingerprint": prepared.fingerprint,
            "train": [str(source) for source in cfg.data.train],
            "train_pairs": len(prepared.train) // len(both_directions(cfg.languages)),
        },
        "decode": cfg.decode.model_dump(),
        "confidence": curve and curve.to_json(),
        "scores": {
            name: {metric: score.to_json() for metric, score in by_metric.items()}
            for name, by_metric in scores.items()
        },
    }
    if ranks.is_main:
        save_model_dir(
            run.model_dir, cfg, weights, run.tokenizer_dir, metadata,
            known=known, words=words, ours=True,
        )  # fmt: skip
        metadata = read_metadata(run.model_dir)
    return metadata


def _about(outcome: Outcome, trainer: Trainer) -> dict[str, Any]:
    progress = outcome.progress
    return {
        "updates": progress.update,
        "epochs": progress.epoch,
        "minutes": round(progress.seconds / 60, 2),
        "stopped_by": outcome.stopped_by,
        "skipped_updates": progress.skipped,
        "split_batches": progress.split,
        "processes": trainer.ranks.size,
        "peak_memory_mib": round(peak_memory_on(trainer.learner.device)),
    }


def known_units(cfg: Config, run: Run) -> KnownUnits | None:
    """The words of the source side of the training text; None: the run does not keep its text."""
    sides = ("src", "tgt") if cfg.languages.bidirectional else ("src",)
    paths = [run.clean_dir / f"train.{side}" for side in sides]
    if not all(path.is_file() for path in paths):
        return None
    lines = chain.from_iterable(islice(split_lines(path), MOST_LINES) for path in paths)
    batches = iter(lambda: list(islice(lines, 10_000)), [])
    dev = chain.from_iterable(split_lines(run.clean_dir / f"dev.{side}") for side in sides)
    return KnownUnits.of(batches, list(dev))


def word_translations(cfg: Config, run: Run) -> WordTranslations | None:
    """Which words translate each other in the training text; None as for `known_units`."""
    paths = [run.clean_dir / f"train.{side}" for side in ("src", "tgt")]
    if not all(path.is_file() for path in paths):
        return None
    n_pairs = sum(1 for _ in islice(split_lines(paths[0]), MOST_LINES))
    every = n_pairs // MOST_PAIRS + 1
    src, tgt = (list(islice(split_lines(path), 0, MOST_LINES, every)) for path in paths)
    both = cfg.languages.bidirectional
    return WordTranslations.of(*(([*src, *tgt], [*tgt, *src]) if both else (src, tgt)))


def _changed_since(cfg: Config, run: Run) -> list[str]:
    """Settings of training that the model of a run was not trained with."""
    trained = load_config(run.model_dir / "config.yaml").train.model_dump()
    own = cfg.train.model_dump(exclude={"precision", "track"})  # those of the machine, and the user
    return [f"train.{key}" for key, value in own.items() if trained[key] != value]


def _ends_at_zero(train: TrainConfig, outcome: Outcome) -> bool:
    """Whether the learning rate has fallen to 0."""
    if (left := outcome.progress.cooldown_left) is not None:
        return left <= _ANNEALED
    if train.cooldown_updates == "auto":  # older checkpoints do not tell
        return outcome.stopped_by != "patience"
    return train.cooldown_updates > 0 and outcome.stopped_by == "max_updates"


def _read_metadata(run: Run) -> dict[str, Any]:
    try:
        return read_metadata(run.model_dir)
    except ModelDirError:  # absent, or damaged and made anew
        return {}


def _choose_weights(
    cfg: Config, trainer: Trainer, say: Say, *, annealed: bool
) -> tuple[Weights, str]:
    """The best checkpoint or the mean of the last ones, whichever scores higher on dev.

    Without a mean, weights that a learning rate falling to 0 has `annealed` are taken as they are:
    the highest of many scores of a small dev set is chance.
    """
    progress, store, metric = trainer.progress, trainer.store, cfg.train.metric
    best = tr("best on dev, update {}", progress.best_update)
    shown = abs(progress.best_metric)
    if cfg.train.average < 2 or trainer.ranks.told_by_main(len(store.validated_updates())) < 2:
        if annealed:
            say(tr("[choose] the last weights, since the learning rate has fallen to 0"))
            last = tr("last, update {}", progress.update)
            return _of_main(trainer, lambda: _weights_of(store, progress.update, last, say))
        say(tr("[choose] dev {} {:.2f}: {}", metric, shown, best))
        return _of_main(trainer, lambda: _weights_of(store, progress.best_update, best, say))
    weights, updates = _of_main(trainer, lambda: store.average(cfg.train.average, say))
    load_weights(trainer.model, weights)
    trainer.model.eval()
    averaged = trainer.validate()[metric]
    average = tr("mean of the {} checkpoints {} … {}", len(updates), updates[0], updates[-1])
    value = -averaged if metric == "loss" else averaged
    better = value >= progress.best_metric
    say(
        tr(
            "[choose] dev {}: {:.2f} {}; {:.2f} {}. Taking the {}",
            metric,
            averaged,
            average,
            shown,
            best,
            tr("mean") if better else tr("best"),
        )
    )
    if better:
        return weights, average
    return _of_main(trainer, lambda: _weights_of(store, progress.best_update, best, say))


def _weights_of(store: CheckpointStore, update: int, name: str, say: Say) -> tuple[Weights, str]:
    """The weights of a checkpoint, or, if they are damaged, of the newest intact one; the name."""
    try:
        return store.weights(update), name
    except CheckpointError as error:
        say(Always(tr("{}; taking the newest intact checkpoint in its place", error)))
        weights, (newest,) = store.average(1, say)
        return weights, tr("newest, update {}", newest)


def _of_main(trainer: Trainer, read: Callable[[], tuple[Weights, T]]) -> tuple[Weights, T]:
    """Weights that rank 0 reads from its disk, with a plain value about them, for all processes."""
    ranks, own = trainer.ranks, trainer.learner.optimizer.weights()
    if ranks.is_main:
        weights, about = read()
    else:
        weights = {name: torch.empty(weight.shape) for name, weight in own.items()}
        about = cast(T, None)
    about = ranks.told_by_main(about)
    for name in sorted(weights):
        ranks.copy_from_main(weights[name])
    return weights, about


def average_run(run: Run, out_dir: Path, n_last: int, say: Say) -> list[int]:
    """Write a model directory with the mean of a run's last checkpoints; their updates.

    Raises:
        TmtError: no run, nothing to average, or `out_dir` holds something, were it a model.
    """
    run.insist()
    refuse_foreign(out_dir, METADATA)
    if (out_dir / METADATA).is_file():
        raise TmtError(tr("{}: is a model already; name a folder that is new or empty", out_dir))
    cfg = load_config(run.config_path)
    store = CheckpointStore(run.checkpoints_dir, {})
    if not store.validated_updates():
        raise TmtError(tr("{}: no validated checkpoint to average", run.directory))
    weights, updates = store.average(n_last, say)
    chosen = tr("mean of the {} checkpoints {} … {}", len(updates), updates[0], updates[-1])
    metadata = {
        "name": cfg.name,
        "finished": "",
        "trained": {"updates": updates[-1], "weights": chosen},
        "data": {"train": [str(source) for source in cfg.data.train]},
        "decode": cfg.decode.model_dump(),
        "scores": {},
    }
    known, words = known_units(cfg, run), word_translations(cfg, run)
    save_model_dir(out_dir, cfg, weights, run.tokenizer_dir, metadata, known=known, words=words)
    return updates
