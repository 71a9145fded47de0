"""An experiment: from raw text to a scored model directory.

What is there already is not made again: prepared data is kept (`prepare.py`), training goes on
after the newest checkpoint, a finished model is left alone. Of several processes the first one
prepares and writes; all train, translate and score their share.
"""

import math
import secrets
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch

from transformer_mt.config.experiment import Config
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.encoding.encoded_corpus import EncodedCorpus
from transformer_mt.encoding.epochs import EpochData, epoch_blocks
from transformer_mt.encoding.subword_alignment import learn_alignment
from transformer_mt.errors import CheckpointError, TrainingError, TrainingStopped
from transformer_mt.evaluation.metrics import Scorer
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.model_dir import build_model
from transformer_mt.pipeline.curves import write_curves
from transformer_mt.pipeline.finish import finish
from transformer_mt.pipeline.first_embeddings import use_cooccurrence
from transformer_mt.pipeline.log import TrainingLog, Watch, ignore_update
from transformer_mt.pipeline.max_tokens import agree_on_max_tokens
from transformer_mt.pipeline.prepare import Fingerprints, Prepared, fingerprints, prepare
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.pipeline.tracking import Tracker, import_service
from transformer_mt.pipeline.validate import dev_validation
from transformer_mt.system.device import (
    choose_device,
    choose_precision,
    keep_memory,
    precision_name,
    seed_all,
    stop_on_signals,
)
from transformer_mt.system.output import write_json, write_text
from transformer_mt.system.processes.distributed import ALONE, Ranks
from transformer_mt.system.processes.environment import torchrun_agent
from transformer_mt.system.processes.executors import count_workers
from transformer_mt.system.state import Damaged, fingerprint, read_json
from transformer_mt.system.terminal import Say
from transformer_mt.training.checkpoint import CheckpointStore
from transformer_mt.training.guided_attention import AttentionGuide
from transformer_mt.training.trainer import Outcome, SilentLog, Trainer
from transformer_mt.translation.direction import both_directions

_GUESSED_TOKENS, _PIECE = 1 << 26, 1 << 20  # 128 MiB of ids are read in a moment


def _say_nothing(_message: str) -> None:
    """The voice of every process but the first."""


def train_experiment(
    cfg: Config,
    run: Run,
    *,
    fresh: bool,
    say: Say,
    ranks: Ranks = ALONE,
    watch: Watch = ignore_update,
) -> dict[str, Any]:
    """Do everything that is missing, in order; the metadata of the model.

    Each of the processes must call it. `fresh` forgets checkpoints, metrics and model first, but
    not where torchrun starts the processes again; `watch` is called by the first process.
    """
    keep_memory()
    agents = [agent for agent in ranks.gather(torchrun_agent()) if agent]
    fresh = fresh and ranks.is_main
    if ranks.is_main:
        for name in cfg.train.track:
            import_service(name)
    else:
        say = _say_nothing
    with run.held() if ranks.is_main else nullcontext():
        prepared, store = ranks.in_turn(
            lambda: _prepare(cfg, run, ranks, say, agents if fresh else None)
        )
        if len({*ranks.gather(store.identity["corpus"])}) > 1:
            raise TrainingError(
                tr(
                    "{}: the processes have prepared different data; see that all "
                    "machines have the same sources and the same version of tmt",
                    run.directory,
                )
            )
        seed_all(cfg.seed, "initial weights")
        model = build_model(cfg, prepared.tokenizers).to(choose_device())
        if cfg.train.first_embeddings == "cooccurrence" and ranks.is_main and not store.has_any():
            say(tr("[train] embeddings begin with the sentence pairs that words share"))
            use_cooccurrence(model, cfg, prepared.train)
        cfg = _resolve_auto(cfg, run, model, prepared.train, store, ranks, say)
        trainer, outcome = _train(cfg, run, prepared, model, store, ranks, say, watch)
        if outcome.stopped_by == "signal":
            update = outcome.progress.update
            if update and ranks.is_main and not store.has_any():
                raise TrainingError(
                    tr("{}: the run directory is gone; nothing is saved", run.directory)
                )
            ranks.gather(None)  # the first process has saved
            raise TrainingStopped(tr("stopped after update {}, everything is saved", update))
        return finish(cfg, run, prepared, trainer, outcome, say)


def training_identity(cfg: Config, prints: Fingerprints) -> dict[str, Any]:
    """Of the checkpoints of a run: one model, one corpus and one seed."""
    return {
        "model": cfg.model.model_dump(),
        "tokenizer": cfg.tokenizer.model_dump(exclude={"sampling", "path"}),
        "corpus": prints.encoded,
        "seed": cfg.seed,
    }


def refuse_for_a_training(cfg: Config, run: Run, prints: Fingerprints) -> None:
    """Raises: CheckpointError: what was trained there has the data that would be replaced."""
    try:
        CheckpointStore(run.checkpoints_dir, training_identity(cfg, prints)).check_identity()
    except CheckpointError as error:
        text = tr("{} (--fresh is an option of tmt train)", error)
        raise CheckpointError(text) from error


def _prepare(
    cfg: Config, run: Run, ranks: Ranks, say: Say, fresh_for: Sequence[str] | None
) -> tuple[Prepared, CheckpointStore]:
    """Args: fresh_for: forget the training, but not of one of these torchruns; None: never."""
    local = obtain_sources(cfg, say)
    prints = fingerprints(local)
    store = CheckpointStore(run.checkpoints_dir, training_identity(cfg, prints))
    if fresh_for is not None:
        if not run.was_cleared_for(fresh_for):
            store.clear()
            run.forget_training()
        run.remember_clearing(fresh_for)
    store.check_identity()  # before any stage replaces the data of the old run
    # Of the processes of a machine the first looks through what is there, for all of them.
    prepared = prepare(local, prints, run, say, check=ranks.local_rank == 0)
    if ranks.is_main:
        write_text(run.config_path, cfg.to_yaml())
    return prepared, store


def _resolve_auto(
    cfg: Config,
    run: Run,
    model: EncoderDecoder,
    corpus: EncodedCorpus,
    store: CheckpointStore,
    ranks: Ranks,
    say: Say,
) -> Config:
    """The configuration with values in place of `precision: auto` and `max_tokens: auto`.

    `max_tokens` decides which sentences make an update: a run keeps the number it began with.
    """
    precisions = ranks.gather(
        precision_name(choose_precision(cfg.train.precision, choose_device()))
    )
    precision = precisions[0] if len({*precisions}) == 1 else "fp32"  # which all of them have
    train = cfg.train.model_copy(update={"precision": precision})
    if train.max_tokens == "auto":
        chosen = ranks.told_by_main(_read_max_tokens(run, store) if ranks.is_main else None)
        if chosen is None:
            chosen = agree_on_max_tokens(model, train, corpus, ranks)
            if ranks.is_main:
                content = {"max_tokens": chosen, "of": fingerprint(store.identity)}
                write_json(run.max_tokens_path, content)
        say(tr("[train] max_tokens: auto is {} here", chosen))
        train = train.model_copy(update={"max_tokens": chosen})
    return cfg.model_copy(update={"train": train})


def _read_max_tokens(run: Run, store: CheckpointStore) -> int | None:
    """The number that this training began with, if it has begun."""
    try:
        content = read_json(run.max_tokens_path) or {}
    except Damaged as error:
        if not store.has_any():
            return None
        raise TrainingError(
            tr(
                "{}. The training that began here used a number that is not known any "
                "more: set train.max_tokens to what the training has told, or start "
                "over with --fresh",
                error,
            )
        ) from error
    known = content.get("max_tokens")
    same = content.get("of") == fingerprint(store.identity)
    return known if same and isinstance(known, int) and known > 0 else None


def _train(
    cfg: Config,
    run: Run,
    prepared: Prepared,
    model: EncoderDecoder,
    store: CheckpointStore,
    ranks: Ranks,
    say: Say,
    watch: Watch,
) -> tuple[Trainer, Outcome]:
    blocks = epoch_blocks(
        EpochData.of(cfg, run.encoded_dir / "train", prepared.tokenizers),
        run.encoded_dir / "epochs",
        workers=count_workers(cfg.data.workers),
        say=say,
        draws=_is_first_on_disk(run, ranks),
        meet=lambda: ranks.gather(None),
    )
    with blocks as block_of:
        validate = dev_validation(cfg, run, prepared, model, ranks)
        trainer = Trainer(cfg, model, block_of, store, validate=validate, ranks=ranks)
        trainer.resume(say)
        if cfg.train.guided_attention and not trainer.is_over:
            say(tr("[train] attention is led to the words that translate each other"))
            vocabularies = (tokenizer.vocab_size for tokenizer in prepared.tokenizers)
            alignment = learn_alignment(prepared.train, *vocabularies)
            trainer.learner.guide = AttentionGuide(alignment, trainer.learner.device)
        _announce(cfg, prepared, trainer, say)
        with stop_on_signals() as stop:
            if not ranks.is_main:
                return trainer, trainer.run(SilentLog(), stop)
            log = TrainingLog(
                run.metrics_path,
                resume_update=trainer.progress.update,
                resume_minutes=trainer.progress.seconds / 60,
                train=cfg.train,
                trackers=[Tracker(name, cfg, run, say) for name in cfg.train.track],
                watch=watch,
            )
            with log:
                outcome = trainer.run(log, stop)
        if log.records:
            write_curves(log.records, run.curves_path)
    return trainer, outcome


def _is_first_on_disk(run: Run, ranks: Ranks) -> bool:
    """Whether this is the first of the processes that share the disk of the run directory.

    Those of one machine do; machines may.
    """
    if ranks.size == ranks.local_size:
        return ranks.is_main
    token = ranks.told_by_main(secrets.token_hex(8))
    own = run.directory / f".{token}.{ranks.rank}"
    run.directory.mkdir(parents=True, exist_ok=True)
    own.touch()
    try:
        ranks.gather(None)  # all have their mark
        return ranks.rank == min(int(path.suffix[1:]) for path in run.directory.glob(f".{token}.*"))
    finally:
        ranks.gather(None)  # all have looked
        own.unlink(missing_ok=True)


def _announce(cfg: Config, prepared: Prepared, trainer: Trainer, say: Say) -> None:
    n_parameters = sum(p.numel() for p in trainer.model.parameters())
    precision = str(trainer.learner.dtype).removeprefix("torch.")
    together = tr(" · {} processes", trainer.ranks.size) if trainer.ranks.size > 1 else ""
    device = trainer.learner.device
    say(
        tr(
            "[train] {:.1f} M parameters · {} · {}{}",
            n_parameters / 1000000.0,
            device,
            precision,
            together,
        )
    )
    uniform, unigram = baseline_losses(prepared.train, prepared.tokenizers[1].vocab_size)
    say(tr("  loss of a uniform guess {:.2f}, of word frequencies alone {:.2f}", uniform, unigram))
    say(
        tr(
            "  peak lr {:.2e} after {} updates of about {} target tokens",
            cfg.train.peak_lr(cfg.model.d_model),
            cfg.train.warmup_updates,
            cfg.train.tokens_per_update,
        )
    )
    for direction in both_directions(cfg.languages):
        if note := Scorer(direction.tgt).note:
            say(f"  {note}")
    if trainer.progress.update:
        say(tr("  going on after update {}", trainer.progress.update))


def baseline_losses(corpus: EncodedCorpus, vocab_size: int) -> tuple[float, float]:
    """Nats per target token of a uniform guess and of the unigram distribution of `corpus`.

    Of a corpus of more than `_GUESSED_TOKENS`, as many are counted, in pieces spread over it.
    """
    counts = torch.zeros(vocab_size, dtype=torch.float64)
    step = max(1, len(corpus.tgt.ids) // _GUESSED_TOKENS) * _PIECE
    for start in range(0, len(corpus.tgt.ids), step):
        ids = torch.from_numpy(corpus.tgt.ids[start : start + _PIECE].astype("int64"))
        counts += torch.bincount(ids, minlength=vocab_size)
    probs = counts[counts > 0] / counts.sum()
    return math.log(vocab_size), -(probs * probs.log()).sum().item()
