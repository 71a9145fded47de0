"""One YAML file per experiment → one frozen `Config`; every problem of a file in one report.

Comes in: a YAML file and `--set a.b=c` texts. Goes out: a `Config`. This file knows the names,
types and ranges of all settings and the relations between them, and nothing of their use.
"""

import difflib
import re
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.languages import canonical_code

Positive = Annotated[int, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]
VocabSize = Annotated[int, Field(ge=16, le=1_000_000)]
Share = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """Strict and frozen: no unknown keys, no silent conversions, no changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_all_defaults(cls, value: Any) -> Any:
        return {} if value is None else value


class Languages(Section):
    src: str
    tgt: str

    @field_validator("src", "tgt")
    @classmethod
    def _canonical(cls, code: str) -> str:
        try:
            return canonical_code(code)
        except TmtError as error:
            raise ValueError(str(error)) from error


class Source(Section):
    """Where aligned text comes from: exactly one of the first six keys.

    A bare text in the YAML is a `prefix`: `a/b` stands for the files `a/b.<src>` and `a/b.<tgt>`.
    Relative paths are looked up under `data.root`. All files may be gzipped (`.gz`).
    """

    prefix: str | None = None
    files: Annotated[list[str], Field(min_length=2, max_length=2)] | None = None  # [src, tgt]
    tsv: str | None = None  # source TAB target, one pair per line
    jsonl: str | None = None  # {"translation": {"zh": …, "en": …}}, one object per line
    hf: str | None = None  # a Hugging Face dataset by name or local path
    demo: Literal[True] | None = None  # the bundled zh-en corpus
    config: str | None = None  # with hf: which configuration, e.g. en-zh
    split: str | None = None  # with hf: which split; default: the role (train, validation, test)

    @model_validator(mode="before")
    @classmethod
    def _bare_text_is_a_prefix(cls, value: Any) -> Any:
        return {"prefix": value} if isinstance(value, str) else value

    @model_serializer
    def _given_keys(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if value is not None}

    @model_validator(mode="after")
    def _exactly_one_kind(self) -> "Source":
        kinds = ("prefix", "files", "tsv", "jsonl", "hf", "demo")
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"needs exactly one of {', '.join(kinds)}; found {found}")
        if self.hf is None and (self.config or self.split):
            raise ValueError("config and split go with hf only")
        return self

    def __str__(self) -> str:
        if self.demo:
            return "the bundled corpus"
        if self.files:
            return " + ".join(self.files)
        if self.hf:
            return "hf:" + "/".join(part for part in (self.hf, self.config, self.split) if part)
        return str(self.prefix or self.tsv or self.jsonl)


class DataConfig(Section):
    root: str = "data"
    train: Annotated[list[Source], Field(min_length=1)]
    dev: list[Source] = []
    test: dict[str, Source] = {}
    max_length: Positive = 200  # tokens per side; longer pairs are dropped from training, counted
    remove_duplicates: bool = True
    remove_overlap: bool = True  # drop training pairs whose source or target is in dev or test

    @field_validator("test")
    @classmethod
    def _plain_names(cls, test: dict[str, Source]) -> dict[str, Source]:
        for name in test:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
                raise ValueError(f"test set name {name!r}: use letters, digits, - and _ only")
        return test


class TokenizerConfig(Section):
    type: Literal["bpe", "unigram"] = "bpe"
    vocab_size: VocabSize | Annotated[list[VocabSize], Field(min_length=2, max_length=2)] = 32000
    joint: bool = False
    byte_fallback: bool = True
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] | Literal["auto"] = "auto"

    @model_validator(mode="after")
    def _one_size_for_one_vocabulary(self) -> "TokenizerConfig":
        if self.joint and isinstance(self.vocab_size, list):
            raise ValueError(
                f"joint is one vocabulary, but vocab_size names two: {self.vocab_size}"
            )
        return self

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """Of source and target; the same one twice if only one is given."""
        if isinstance(self.vocab_size, list):
            return self.vocab_size[0], self.vocab_size[1]
        return self.vocab_size, self.vocab_size


class ModelConfig(Section):
    d_model: Positive = 512
    heads: Positive = 8
    ffn: Positive = 2048
    encoder_layers: Positive = 6
    decoder_layers: Positive = 6
    dropout: Share = 0.1
    norm: Literal["post", "pre"] = "post"
    tie_embeddings: Literal["auto", "all", "decoder", "none"] = "auto"

    @model_validator(mode="after")
    def _heads_divide_width(self) -> "ModelConfig":
        if self.d_model % self.heads:
            near = [h for h in range(1, self.d_model + 1) if self.d_model % h == 0]
            near = sorted(sorted(near, key=lambda h: abs(h - self.heads))[:3])
            raise ValueError(
                f"d_model {self.d_model} is not divisible by heads {self.heads}; "
                f"heads could be {', '.join(map(str, near))}"
            )
        if self.d_model % 2:
            raise ValueError(
                f"d_model {self.d_model} must be even: positions are sine and cosine pairs"
            )
        return self


class TrainConfig(Section):
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    max_tokens: Positive = 4096  # of one micro-batch: sentences × longest side, padding counted
    tokens_per_update: Positive = 25000  # real target tokens of one update
    max_updates: Positive = 100000
    max_minutes: Annotated[float, Field(gt=0)] | None = None
    lr: Annotated[float, Field(gt=0)] | Literal["paper"] = "paper"  # peak; see optim.learning_rate
    warmup_updates: NonNegative = 4000
    adam_betas: Annotated[list[Share], Field(min_length=2, max_length=2)] = [0.9, 0.98]
    adam_eps: Annotated[float, Field(gt=0)] = 1e-9
    clip_norm: Annotated[float, Field(ge=0)] = 1.0  # of the whole gradient; 0 switches it off
    label_smoothing: Share = 0.1
    validate_every: Positive = 1000
    metric: Literal["bleu", "chrf", "loss"] = "bleu"  # what "best" and patience look at, on dev
    patience: Positive | None = 10  # validations without a better metric before training ends
    log_every: Positive = 100
    keep_last: Positive = 5
    average: NonNegative = 5  # the last n checkpoints; 0 switches averaging off
    tensorboard: bool = False  # needs the extra: pip install 'transformer-mt[track]'

    @model_validator(mode="after")
    def _enough_checkpoints(self) -> "TrainConfig":
        if self.average > self.keep_last:
            raise ValueError(
                f"average {self.average} checkpoints needs keep_last ≥ {self.average}, "
                f"found {self.keep_last}"
            )
        return self

    def peak_lr(self, d_model: int) -> float:
        """The highest learning rate of the schedule, reached after `warmup_updates`.

        Source: Vaswani et al. 2017, section 5.3, formula 3, at step = warmup_steps.
        """
        if self.lr == "paper":
            return d_model**-0.5 * max(1, self.warmup_updates) ** -0.5
        return self.lr


class DecodeConfig(Section):
    beam: Positive = 4
    length_penalty: Annotated[float, Field(ge=0)] = 0.6  # exponent α of ((5 + n) / 6)^α
    max_length_ratio: Annotated[float, Field(gt=0)] = 2.0  # output tokens per source token


class Config(Section):
    name: str
    seed: NonNegative = 1
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
            raise ValueError(f"{name!r}: use letters, digits, '.', '_' and '-' only")
        return name

    @model_validator(mode="after")
    def _sections_fit(self) -> "Config":
        if self.languages.src == self.languages.tgt:
            raise ValueError(f"languages: src and tgt are both {self.languages.src!r}")
        if self.model.tie_embeddings == "all" and not self.tokenizer.joint:
            raise ValueError(
                "model.tie_embeddings: all needs one vocabulary (tokenizer.joint: true); "
                "allowed here: auto, decoder, none"
            )
        return self

    def to_yaml(self) -> str:
        """The resolved configuration, every key written out; `load_config` reads it back."""
        return yaml.dump(self.model_dump(), Dumper=_Dumper, allow_unicode=True, sort_keys=False)


class _Loader(yaml.SafeLoader):
    """YAML as people mean it: YAML 1.2 core booleans and numbers, and no repeated keys.

    PyYAML's own rules read `1e-4` as text, `no` (the language code) as False, `012` as 10.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be text", key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key.value!r} appears twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(node.value.replace("_", ""))


_Loader.yaml_implicit_resolvers = {}  # without PyYAML's own
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9][0-9_]*$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.inf$"),
    list("-+0123456789."),
)
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


class _Dumper(yaml.SafeDumper):
    """Quotes a text which either PyYAML or tmt would read as something else: `no`, `08`, `1e5`."""


_Dumper.yaml_implicit_resolvers = {
    first: [
        *yaml.SafeDumper.yaml_implicit_resolvers.get(first, []),
        *_Loader.yaml_implicit_resolvers.get(first, []),
    ]
    for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *_Loader.yaml_implicit_resolvers}
}


def parse_yaml(text: str, where: str) -> Any:
    """Parse YAML text with tmt's reading of scalars.

    Raises:
        ConfigError: not valid YAML; the message gives line and column.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{where}:{place} not valid YAML: {problem}") from error


def load_config(path: Path, overrides: Iterable[str] = ()) -> Config:
    """Read an experiment.

    Args:
        path: a YAML file.
        overrides: `a.b=c` texts; `c` is read as YAML, so `data.dev=[x]` gives a list.
    Raises:
        ConfigError: everything that is wrong with the file and the overrides, one line each.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; tmt comes with {_bundled_configs()}") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: not UTF-8 text (byte {error.start + 1}); save it as UTF-8"
        ) from error
    tree = parse_yaml(text, str(path))
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: expected keys and values, found {_kind(tree)}")
    for override in overrides:
        _apply_override(tree, override)
    return build_config(tree, str(path))


def build_config(tree: dict[str, Any], where: str) -> Config:
    """Validate a tree of plain values; see `load_config` for the errors."""
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        by_key: dict[tuple[Any, ...], list[Any]] = {}  # several: the branches of a union
        for problem in error.errors():
            key = tuple(part for part in problem["loc"] if not _is_no_key(part))
            by_key.setdefault(key, []).append(problem)
        lines = [_describe(where, list(key), problems) for key, problems in by_key.items()]
        raise ConfigError("\n".join(lines)) from error


def _bundled_configs() -> str:
    configs = sorted(Path("configs").glob("*.yaml"))
    return ", ".join(map(str, configs)) if configs else "configs/tiny.yaml, configs/base.yaml, …"


def _apply_override(tree: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not re.fullmatch(r"[\w-]+(\.[\w-]+)*", key):
        raise ConfigError(
            f"--set {override}: expected section.key=value, e.g. train.max_updates=500"
        )
    *parents, leaf = key.split(".")
    for parent in parents:
        if tree.get(parent) is None:
            tree[parent] = {}
        tree = tree[parent]
        if not isinstance(tree, dict):
            raise ConfigError(f"--set {override}: {parent} is {_kind(tree)}, not a section")
    tree[leaf] = parse_yaml(value, f"--set {override}")


def _kind(value: Any) -> str:
    names = {str: "text", bool: "true/false", int: "a number", float: "a number", list: "a list",
             dict: "a section", type(None): "nothing"}  # fmt: skip
    return names.get(type(value), type(value).__name__)


_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "invalid_key": "text",
    "list_type": "a list",
    "dict_type": "a section",
    "model_type": "a section",
    "model_attributes_type": "a section",
}


def _describe(where: str, location: list[Any], problems: list[Any]) -> str:
    """pydantic's problems with one key → one line: file: key: what was found, what is allowed."""
    key = ".".join(map(str, location))
    prefix = f"{where}: {key}: " if key else f"{where}: "
    kind, value = problems[0]["type"], problems[0]["input"]
    if kind == "extra_forbidden":
        return prefix + "unknown key" + _nearest_key(location)
    if kind == "missing":
        return prefix + "missing, and there is no default"
    if kind == "value_error":
        return prefix + str(problems[0]["ctx"]["error"])
    if isinstance(value, dict) or value is None:
        found = _kind(value)
    else:
        found = f"{value!r} ({_kind(value)})"
    expected = " or ".join(map(_expected, problems))
    quotes = "; put it in quotes" if kind == "string_type" and _kind(value) == "a number" else ""
    return f"{prefix}expected {expected}, found {found}{quotes}"


def _expected(problem: Any) -> str:
    kind, limits = problem["type"], problem.get("ctx", {})
    if kind in ("too_short", "too_long"):
        n_items = limits.get("min_length", limits.get("max_length"))
        bound = "at least" if kind == "too_short" else "at most"
        return f"{bound} {n_items} item{'s' * (n_items != 1)}"
    message = problem["msg"].removeprefix("Input should be ")
    number = "a number " if kind.startswith(("greater", "less")) else ""
    return _EXPECTED.get(kind, number + message[0].lower() + message[1:])


def _is_no_key(part: Any) -> bool:
    """pydantic adds the tried branch of a union, and a mark at wrong keys; a user knows neither."""
    return isinstance(part, str) and (
        part in ("[key]", "int", "float", "str", "constrained-int", "constrained-float")
        or part.startswith(("literal[", "list[", "constrained"))
    )


def _nearest_key(location: list[Any]) -> str:
    fields = _fields_at(Config, location[:-1])
    unknown = str(location[-1])
    near = difflib.get_close_matches(unknown, fields, n=1, cutoff=0.4) or [
        field for field in fields if field.startswith(unknown) or unknown.startswith(field)
    ]
    if near:
        return f" (did you mean {'.'.join([*map(str, location[:-1]), near[0]])}?)"
    return f"; allowed here: {', '.join(fields)}"


def _fields_at(section: type[BaseModel], location: list[Any]) -> list[str]:
    for part in location:
        field = section.model_fields.get(str(part))
        if field is not None:
            nested = field.annotation
            section = nested if isinstance(nested, type) and issubclass(nested, Section) else Source
    return list(section.model_fields)
