"""One YAML file per experiment → one frozen `Config`; every problem of a file in one report.

This file knows the names, types and ranges of all settings and the relations between them; nothing
of their use, of YAML's spelling, or of pydantic's error format.
"""

import logging
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from transformer_mt.config.data import (
    DataConfig,
    Languages,
    NonNegative,
    Positive,
    Section,
    Share,
)
from transformer_mt.config.model import ModelConfig, TokenizerConfig
from transformer_mt.config.presets import find_config, preset_paths
from transformer_mt.config.problems import describe_problems, kind_of
from transformer_mt.config.typing_mistakes import find_mistakes, is_guess, mended
from transformer_mt.config.yaml_errors import tell_mistakes
from transformer_mt.config.yaml_text import apply_setting, dump_yaml, parse_yaml, read_config_text
from transformer_mt.errors import ConfigError
from transformer_mt.messages.catalogue import tr

_log = logging.getLogger(__name__)

_SCHEDULE = ("train.warmup_updates", "train.cooldown_updates")  # what max_updates may shrink


class TrainConfig(Section):
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    # Size of a micro-batch: sentences × longest side, padding counted; auto: as much as is useful
    # and fits into memory, chosen when training begins.
    max_tokens: Positive | Literal["auto"] = "auto"
    tokens_per_update: Positive = 25000  # real target tokens of one update
    max_updates: Positive = 100000
    max_minutes: Annotated[float, Field(gt=0, le=10**8)] | None = None
    # The peak; see optimizer.learning_rate.
    lr: Annotated[float, Field(gt=0, le=1000)] | Literal["paper"] = "paper"
    warmup_updates: NonNegative = 4000
    # muon: for the matrices of the layers, see training/muon.py; Adam for the rest.
    optimizer: Literal["adam", "muon"] = "adam"
    # Updates in which Muon's momentum grows from 0.8 to 0.95; 0: it is 0.95 from the start.
    momentum_warmup: NonNegative = 0
    # Of the matrices of the layers: each update takes away this share of them, times lr.
    weight_decay: Annotated[float, Field(ge=0, le=1000)] = 0.0
    # cooccurrence: embeddings begin with words of the same sentence pairs near each other, see
    # encoding/cooccurrence.py.
    first_embeddings: Literal["random", "cooccurrence"] = "random"
    # Weight of the loss that leads a head of cross-attention to the words that translate each
    # other, see encoding/subword_alignment.py; it falls with the cool-down.
    guided_attention: Annotated[float, Field(ge=0, le=1000)] = 0.0
    # The last updates, in which lr falls to 0; auto: the last two thirds, also of max_minutes.
    cooldown_updates: NonNegative | Literal["auto"] = 0
    adam_betas: Annotated[list[Share], Field(min_length=2, max_length=2)] = Field(
        default=[0.9, 0.98]
    )
    adam_eps: Annotated[float, Field(gt=0, le=1)] = 1e-9
    # Largest norm of the whole gradient; 0 switches clipping off.
    clip_norm: Annotated[float, Field(ge=0, le=10**9)] = 1.0
    label_smoothing: Share = 0.1
    validate_every: Positive = 1000
    metric: Literal["bleu", "chrf", "loss"] = "bleu"  # what "best" and patience look at, on dev
    patience: Positive | None = 10  # validations without a better metric before training ends
    log_every: Positive = 100
    keep_last: Positive = 5
    average: NonNegative = 5  # the last n checkpoints; 0 switches averaging off
    reduce_dtype: Literal["fp32", "bf16"] = "fp32"  # of the gradients that processes send
    # Services that are told the metrics; need the extra: pip install 'transformer-mt[track]'.
    track: list[Literal["tensorboard", "mlflow", "wandb"]] = Field(default=[])

    @model_validator(mode="before")
    @classmethod
    def _keys_of_0_1(cls, values: Any) -> Any:
        """Keys in the configuration of runs and models made by tmt 0.1."""
        if not isinstance(values, dict):
            return values
        if isinstance(is_on := values.get("tensorboard"), bool):
            values = {key: value for key, value in values.items() if key != "tensorboard"}
            if is_on:
                values.setdefault("track", ["tensorboard"])
                _log.warning(tr("train.tensorboard is called train.track: [tensorboard]"))
        if values.get("shard_optimizer", False) is not False:
            _log.warning(
                tr(
                    "train.shard_optimizer is not used: each process keeps all of "
                    "Adam's state. Remove the key; if memory is short, lower "
                    "train.max_tokens or make the model smaller"
                )
            )
        return {key: value for key, value in values.items() if key != "shard_optimizer"}

    @model_validator(mode="after")
    def _enough_checkpoints(self) -> Self:
        if self.average > self.keep_last:
            raise ValueError(
                tr(
                    "average {} checkpoints needs keep_last ≥ {}, found {}",
                    self.average,
                    self.average,
                    self.keep_last,
                )
            )
        if self.cooldown_updates != "auto" and self.cooldown_updates > self.max_updates:
            raise ValueError(
                tr(
                    "cooldown_updates {} are the last of max_updates, which are {}",
                    self.cooldown_updates,
                    self.max_updates,
                )
            )
        return self

    @property
    def batch_tokens(self) -> int:
        """`max_tokens` as a number; the pipeline resolves `auto` before training."""
        assert self.max_tokens != "auto", "not resolved"
        return self.max_tokens

    def peak_lr(self, d_model: int) -> float:
        """The highest learning rate of the schedule, reached after `warmup_updates`.

        Source: Vaswani et al. 2017, section 5.3, formula 3, at step = warmup_steps.
        """
        if self.lr == "paper":
            return d_model**-0.5 * max(1, self.warmup_updates) ** -0.5
        return self.lr


# Upper limits that the search options of a command have as well; see search/options.py.
MOST_BEAM, MOST_LENGTH_PENALTY, MOST_LENGTH_RATIO = 1000, 10.0, 1000.0


class DecodeConfig(Section):
    beam: Annotated[int, Field(gt=0, le=MOST_BEAM)] = 4
    penalty: Literal["gnmt", "average"] = "gnmt"  # of length n: ((5 + n) / 6)^α, or n^α
    # Its exponent α.
    length_penalty: Annotated[float, Field(ge=0, le=MOST_LENGTH_PENALTY)] = 0.6
    # Output tokens per source token.
    max_length_ratio: Annotated[float, Field(gt=0, le=MOST_LENGTH_RATIO)] = 2.0
    # Weight of the source's words, given a translation; 0: none.
    channel: Annotated[float, Field(ge=0, le=100)] = 0.0

    def to_fingerprint(self) -> dict[str, Any]:
        """All that translations depend on; a channel of 0, which older runs lack, has no share."""
        return self.model_dump(exclude=None if self.channel else {"channel"})


class Config(Section):
    name: str
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    languages: Languages
    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    @field_validator("name")
    @classmethod
    def _name_is_a_folder(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise ValueError(tr("{!r}: use letters, digits, '.', '_' and '-' only", name))
        return name

    @model_validator(mode="after")
    def _sections_fit(self) -> Self:
        if self.languages.src == self.languages.tgt:
            raise ValueError(tr("languages: src and tgt are both {!r}", self.languages.src))
        if self.languages.bidirectional and not self.tokenizer.joint:
            raise ValueError(
                tr(
                    "languages.bidirectional needs one vocabulary, since each language "
                    "is on both sides: set tokenizer.joint: true"
                )
            )
        if self.model.tie_embeddings == "all" and not self.tokenizer.joint:
            raise ValueError(
                tr(
                    "model.tie_embeddings: all needs one vocabulary (tokenizer.joint: "
                    "true); allowed here: auto, decoder, none"
                )
            )
        return self

    def reversed(self) -> "Config":
        """The same experiment in the other direction, with a name of its own.

        Sources get a `direction` where they have none, so that files without language codes are
        still read the right way round. A sacreBLEU test set becomes the one of the new direction.

        Raises:
            ConfigError: it names a folder of two tokenizers, whose sides are those of this one.
        """
        if self.tokenizer.path and not self.tokenizer.joint:
            text = tr(
                "tokenizer.path {} holds a tokenizer of the source and one of the target; for "
                "the other direction name a folder with those, or set it to null",
                self.tokenizer.path,
            )
            raise ConfigError(text)
        tree = self.model_dump()
        src, tgt = self.languages.src, self.languages.tgt
        tree["languages"] |= {"src": tgt, "tgt": src}
        tree["name"] = reversed_name(self.name, self.languages)
        if isinstance(self.tokenizer.vocab_size, list):
            tree["tokenizer"]["vocab_size"] = self.tokenizer.vocab_size[::-1]
        data = tree["data"]
        for source in (*data["train"], *data["dev"], *data["test"].values()):
            if "sacrebleu" not in source:
                source.setdefault("direction", f"{src}-{tgt}")
        return build_config(tree, self.name)

    def to_yaml(self) -> str:
        """The resolved configuration, every key written out; `load_config` reads it back."""
        return dump_yaml(self.model_dump())


def reversed_name(name: str, languages: Languages) -> str:
    """The name of an experiment in the other direction."""
    src, tgt = languages.src, languages.tgt
    swapped = name.replace(f"{src}-{tgt}", f"{tgt}-{src}")
    return swapped if swapped != name else f"{name}-reversed"


def load_experiment(
    config: str | os.PathLike[str],
    overrides: Iterable[str] = (),
    *,
    reverse: bool = False,
    offline: bool = False,
) -> Config:
    """Read the experiment that a command names: a path, or the name of a bundled configuration."""
    settings = [*overrides, *(["data.offline=true"] if offline else [])]
    cfg = load_config(find_config(config), settings)
    return cfg.reversed() if reverse else cfg


def load_config(path: Path, overrides: Iterable[str] = ()) -> Config:
    """Read a YAML file and `a.b=c` texts, whose `c` is YAML: `data.dev=[x]` gives a list.

    Raises:
        ConfigError: everything that is wrong with the file and the overrides, one line each; slips
            of the hand with the line of the file as well.
    """
    try:
        text = read_config_text(path)
    except FileNotFoundError as error:
        raise ConfigError(
            tr(
                "{}: no such file; tmt comes with configurations of these names, "
                "without an ending: {}",
                path,
                ", ".join(preset_paths()),
            )
        ) from error
    settings = list(overrides)
    found = _read_experiment(text, str(path), settings)
    if isinstance(found, Config):
        return found
    problems, is_tree = found
    if mistakes := find_mistakes(text):  # are they the cause?
        found = _read_experiment(mended(text, mistakes), str(path), settings)
        rest, mended_is_tree = ([], True) if isinstance(found, Config) else found
        if mended_is_tree and (not is_tree or len(rest) < len(problems)):
            told = tell_mistakes(text, mistakes, str(path))
            problems = told if is_guess(text) else [*told, *rest]
    raise ConfigError("\n".join(problems))


def _read_experiment(
    text: str, where: str, overrides: Sequence[str]
) -> Config | tuple[list[str], bool]:
    """The configuration; or its problems, and whether the text has keys and values at all."""
    try:
        tree = parse_yaml(text, where)
    except ConfigError as error:
        return [str(error)], False
    if not isinstance(tree, dict):
        problem = tr("{}: expected keys and values, found {}", where, kind_of(tree))
        if isinstance(tree, str):
            problem = tr(
                "{}: is text, no configuration; tmt init FILES > my.yaml writes one", where
            )
        return [problem], False
    try:
        return changed_config(tree, where, overrides)
    except ConfigError as error:
        return str(error).split("\n"), True


def changed_config(tree: dict[str, Any], where: str, overrides: Iterable[str]) -> Config:
    """`build_config` of a tree after the changes of `--set`, which are made in it."""
    written = tree.get("train")
    written = dict(written) if isinstance(written, dict) else {}
    keys = [apply_setting(tree, override) for override in overrides]
    if "train.max_updates" in keys and not {*_SCHEDULE} & {*keys}:
        _shorten_schedule(written, tree["train"])
    return build_config(tree, where, settings=keys)


def _shorten_schedule(written: dict[str, Any], train: dict[str, Any]) -> None:
    """Shrink warm-up and cool-down with `--set train.max_updates`, if the cool-down would not fit.

    Args:
        written: `train` as the file has it; `train` is changed.
    """
    total, cooldown, now = (
        tree.get(key, 0)
        for tree, key in (
            (written, "max_updates"), (written, "cooldown_updates"), (train, "max_updates")
        )
    )  # fmt: skip
    if not all(type(number) is int for number in (total, cooldown, now)):
        return  # 0: the default; anything else: a mistake, which is told
    if 0 < now < cooldown <= total:
        default = TrainConfig.model_fields["warmup_updates"].default
        if type(warmup := train.get("warmup_updates", default)) is int:
            warmup = round(now * warmup / total)
        cooldown = round(now * cooldown / total)
        train |= {"warmup_updates": warmup, "cooldown_updates": cooldown}
        _log.warning(
            tr("with train.max_updates={} warm-up and cool-down shrink alike, to {} and {} updates",
               now, warmup, cooldown)
        )  # fmt: skip


def build_config(tree: dict[str, Any], where: str, *, settings: Sequence[str] = ()) -> Config:
    """Validate a tree of plain values; see `load_config` for the errors.

    Args:
        settings: keys that `--set` has given; messages about them say so in place of `where`.
    """
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        lines = describe_problems(error, where=where, root=Config, settings=settings)
        raise ConfigError("\n".join(lines)) from error
