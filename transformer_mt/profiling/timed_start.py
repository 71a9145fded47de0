"""A configuration and minutes → the same experiment with a size and a schedule that suit them.

Comes in: a configuration, minutes of training. Goes out: its YAML with the settings of
`config/recipes.py` for the text that this machine can train on in the time. Some updates are
carried out to know its speed; nothing is trained.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from transformer_mt.config.advice import Advice, apply_advice, changes, kept_settings
from transformer_mt.config.experiment import Config, load_experiment
from transformer_mt.config.recipes import Budget, tokens_of_tiny, training_that_ends
from transformer_mt.corpus.sources.obtain import obtain_sources
from transformer_mt.encoding.tokenizer import PAD_ID
from transformer_mt.errors import ConfigError
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.architectures import new_model
from transformer_mt.model.encoder_decoder import resolve_tying
from transformer_mt.pipeline.run_dir import Run
from transformer_mt.profiling.corpus_sample import measure_sources
from transformer_mt.profiling.timed_updates import in_new_processes
from transformer_mt.rendering.progress import ShownStages, Stages
from transformer_mt.system.device import choose_device
from transformer_mt.system.output import write_text
from transformer_mt.system.processes.distributed import Ranks
from transformer_mt.system.processes.environment import own_place
from transformer_mt.system.terminal import Say
from transformer_mt.text.languages import is_unspaced
from transformer_mt.training.checkpoint import CheckpointStore
from transformer_mt.training.memory import is_out_of_memory
from transformer_mt.training.micro_batch import Learner
from transformer_mt.training.padding import Batch

_WARM_UP, _MEASURED = 2, 7  # updates
_SIZES = (1_000, 3_000)  # target tokens of a small and of a large update
_A_SHORT_TRAINING = 2.5e6  # target tokens
_ROUNDS = 8  # by when time, tokens and tokens of an update agree to a hundredth
_GPU_ROUNDS = 3  # of timing what is chosen, and choosing by that
_GPU_WARM_UP = 5  # updates, in which micro-batches are recorded
_PART = 8_000  # target tokens of a micro-batch, for which all GPUs have memory
_LENGTH = 20  # tokens of a sentence, in the updates that are measured
# As in training: matrices that begin at 0 and hardly move give gradients of subnormal numbers,
# which a processor computes with many times as slowly.
_LR = 1e-3
_MAY_CHANGE = (
    "data.root", "data.workers", "data.cache", "data.offline", "tokenizer.sampling",
)  # fmt: skip
_START_S = 8.0  # of new processes, about
_TRAINED = 0.8  # of that speed, in a training: padding, validations; docs/lab/muon.md


def configuration_for_minutes(
    config: str,
    overrides: Sequence[str],
    minutes: float,
    *,
    processes: int,
    say: Say,
    run_dir: Path | None = None,
    reverse: bool = False,
    offline: bool = False,
    fresh: bool = False,
) -> str:
    """The configuration to train with, instead of `config`: `start.yaml` in the run directory.

    A training that has begun keeps the settings that it began with.

    Args:
        overrides: settings of the user, which are not changed.
        processes: that will train together.
    Raises:
        ConfigError: another program has started the processes, and each would choose its own.
    """
    named = load_experiment(config, overrides, offline=offline)
    cfg = named.reversed() if reverse else named
    run = Run(run_dir or Path("runs") / cfg.name)
    check_start(named, run, minutes, reverse=reverse, fresh=fresh)
    path = run.directory / "start.yaml"
    if not fresh and _has_begun(run):
        if not path.is_file():
            return config
        say(tr("settings of the first start: {}", path))
        return str(path)
    run.claim()  # before the work
    run.refuse_while_held()
    obtain_sources(cfg, say)  # downloads, which count for no speed
    kept = kept_settings(named, overrides)
    with ShownStages() as stages:
        pairs, tokens = _size_of(cfg, stages)
        budget = measure_budget(cfg, minutes, processes, pairs, tokens, stages, kept)
    device = kind_of_device()
    advice = training_that_ends(
        pairs, tokens, languages=cfg.languages, device=device, budget=budget, kept=kept
    )
    chosen = [a for a in advice if a.key not in kept]
    fitted, changed = apply_advice(named, chosen, on_defaults=False), changes(named, chosen)
    write_text(path, "".join(_text(config, minutes, changed)) + fitted.to_yaml())
    _tell(minutes, budget.tokens / tokens_of_tiny(1.0, advice), tokens, changed, say)
    return str(path)


def check_start(
    named: Config, run: Run, minutes: float, *, reverse: bool = False, fresh: bool
) -> None:
    """Tell the mistakes that need no work to be found.

    Raises:
        ConfigError: see `configuration_for_minutes`; or an architecture that has no advice, or a
            training that began with another text.
    """
    _refuse_other_launchers(minutes)
    _refuse_other_architectures(named, minutes)
    path = run.directory / "start.yaml"
    if not fresh and path.is_file() and _has_begun(run):
        _refuse_other_experiments(named, path, run, reverse=reverse)


def _has_begun(run: Run) -> bool:
    return CheckpointStore(run.checkpoints_dir, {}).has_any()


def _tell(minutes: float, read: float, tokens: int, changed: Iterable[Advice], say: Say) -> None:
    """Args: read, tokens: target tokens, in the time and in the corpus."""
    say(
        tr(
            "[minutes] {:g} minutes are about {:,.0f} target tokens here, {:.1f} times the corpus; "
            "settings for that (--set keeps yours):",
            minutes,
            read,
            read / tokens,
        )
    )
    for a in changed:
        say(f"  {a.key}: {a.value}" + (f" ({a.why})" if a.why else ""))


def _refuse_other_launchers(minutes: float) -> None:
    if own_place() is not None:
        raise ConfigError(
            tr(
                "--minutes measures this machine before processes are started; for those that "
                "another program starts: --set train.max_minutes={:g}",
                minutes,
            )
        )


def _refuse_other_experiments(named: Config, start: Path, run: Run, *, reverse: bool) -> None:
    """Raises: ConfigError: a training began with another text than the configuration names now."""
    now, then = map(_of_text, (named, load_experiment(start, ())))
    if changed := [key for key, value in now.items() if value != then[key]]:
        command = f"tmt train {start} --run-dir {run.directory}" + " --reverse" * reverse
        raise ConfigError(
            tr(
                "{}: the training began with other settings: {}. To go on with them: {}; "
                "--fresh begins anew, another --run-dir beside it",
                start,
                ", ".join(changed),
                command,
            )
        )


def _of_text(cfg: Config) -> dict[str, object]:
    """Settings that decide the text and its sub-words, which no training changes on its way."""
    found: dict[str, object] = {"seed": cfg.seed}
    for section in ("languages", "data", "tokenizer"):
        found |= {f"{section}.{key}": value for key, value in getattr(cfg, section)}
    train = [source.model_copy(update={"weight": None}) for source in cfg.data.train]
    return {key: value for key, value in found.items() if key not in _MAY_CHANGE} | {
        "data.train": train
    }


def _refuse_other_architectures(named: Config, minutes: float) -> None:
    if named.model.architecture == "rnn":
        raise ConfigError(
            tr(
                "--minutes has settings for Transformers; for another architecture: "
                "--set train.max_minutes={:g}",
                minutes,
            )
        )


def measure_budget(
    cfg: Config,
    minutes: float,
    processes: int,
    n_pairs: int,
    tgt_tokens: int,
    stages: Stages | None = None,
    kept: Mapping[str, Any] = MappingProxyType({}),
) -> Budget:
    """What Transformer-tiny reads in so many minutes, with the vocabularies of `cfg`.

    Args:
        n_pairs, tgt_tokens: of an epoch, on which the size of an update depends.
        kept: settings of `cfg` that no advice changes; a model whose size they say is timed in
            place of Transformer-tiny.
    """
    stages = stages or Stages()
    stages.begin(tr("measuring updates"), _START_S)
    device = kind_of_device()
    advise = partial(training_that_ends, languages=cfg.languages, device=device, kept=kept)

    def timed(advice: Sequence[Advice], sizes: Sequence[int]) -> list[float]:
        fitted = apply_advice(cfg, advice, on_defaults=False)
        work = partial(_update_seconds, fitted, sizes=sizes)
        return in_new_processes(work, processes, stages.advance)

    budget = Budget(minutes, _A_SHORT_TRAINING)
    if device == "cuda":
        return _budget_of_gpus(partial(advise, n_pairs, tgt_tokens), budget, timed)
    # In short trainings the model is always of the same size.
    short = advise(10_000, 150_000, budget=budget)
    seconds = timed(short, _SIZES)
    for _ in range(_ROUNDS):  # the more tokens, the larger the updates, and the faster
        size = _tokens_per_update(advise(n_pairs, tgt_tokens, budget=budget))
        # Larger updates than those that are timed are as fast for each token.
        of_one = float(np.interp(size, _SIZES, seconds)) * max(1.0, size / _SIZES[-1])
        tokens = tokens_of_tiny(60 * minutes * _TRAINED * size / of_one, short)
        budget = Budget(minutes, tokens)
    return budget


def _budget_of_gpus(
    advise: Callable[..., list[Advice]],
    budget: Budget,
    timed: Callable[[Sequence[Advice], Sequence[int]], list[float]],
) -> Budget:
    """Timed at the sizes that are chosen: a GPU does most of its work at once, small or large."""
    minutes, before = budget.minutes, None
    for _ in range(_GPU_ROUNDS):
        advice = advise(budget=budget)
        size = _tokens_per_update(advice)
        chosen = {a.key: a.value for a in advice if a.key.startswith("model.")}
        if (chosen, size) == before:
            break
        before = chosen, size
        (seconds,) = timed(advice, [size])
        tokens = tokens_of_tiny(60 * minutes * _TRAINED * size / seconds, advice)
        budget = Budget(minutes, tokens)
    return budget


def _tokens_per_update(advice: Iterable[Advice]) -> int:
    return next(int(a.value) for a in advice if a.key == "train.tokens_per_update")


def _update_seconds(cfg: Config, ranks: Ranks, sizes: Sequence[int]) -> list[float]:
    """Of updates of so many target tokens, of all processes, random ones, with random weights."""
    vocab_sizes = cfg.tokenizer.vocab_sizes
    model_cfg = resolve_tying(cfg.model, joint=cfg.tokenizer.joint)
    model = new_model(model_cfg, *vocab_sizes, pad_id=PAD_ID).to(choose_device()).train()
    learner = Learner(model, cfg.train, ranks)
    on_gpu = learner.device.type == "cuda"
    warm_up = _GPU_WARM_UP if on_gpu else _WARM_UP
    medians = []
    for size in sizes:
        rows = max(1, size // ranks.size // _LENGTH)
        src = torch.randint(4, min(vocab_sizes), (rows, _LENGTH), device=learner.device)
        part_size, times = _PART, list[float]()
        while len(times) < warm_up + _MEASURED:
            started = time.perf_counter()
            try:
                _update(learner, src.tensor_split(-(-rows * _LENGTH // part_size)))
            except RuntimeError as error:
                if not is_out_of_memory(error) or part_size <= _LENGTH:
                    raise
                part_size, times = part_size // 2, []
                continue
            learner.optimizer.step(_LR, ranks.size * rows * _LENGTH)
            if on_gpu:
                torch.cuda.synchronize(learner.device)
            times.append(time.perf_counter() - started)
        medians.append(statistics.median(times[warm_up:]))
    return medians


def _update(learner: Learner, parts: Sequence[torch.Tensor]) -> None:
    """The gradients of all parts."""
    for n, part in enumerate(parts, 1):
        if n == len(parts):
            learner.send_with_next()
        learner.add_gradients(Batch(part, part, part))


def _size_of(cfg: Config, stages: Stages) -> tuple[int, int]:
    """Pairs and target tokens of an epoch, about."""
    sizes, _ = measure_sources(cfg, stages)
    train = [size for size in sizes if size.role == "train"]
    pairs = sum(size.weight * size.pairs for size in train)
    characters = sum(size.weight * size.tgt_characters for size in train)
    tokens = pairs + characters * tokens_per_character(cfg.languages.tgt)
    copies = 2 if cfg.languages.bidirectional else 1
    return round(copies * pairs), max(1, round(copies * tokens))


def tokens_per_character(language: str) -> float:
    """Sub-words for each character of a text, about."""
    return 0.7 if is_unspaced(language) else 0.25


def kind_of_device() -> str:
    return "cpu" if choose_device().type == "cpu" else "cuda"


def _text(config: str, minutes: float, changed: Iterable[Advice]) -> Iterator[str]:
    yield "# " + tr("{} with settings for {:g} minutes:", config, minutes) + "\n"
    for a in changed:
        yield f"#   {a.key}: {a.value}  {a.why}\n"
