"""The settings of the data: languages, sources, thresholds of the cleaning."""

import re
from contextlib import suppress
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from transformer_mt.config.problems import describe_problems
from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.text.languages import canonical_code

# Upper limits are beyond all use, and where later arithmetic still holds.
Positive = Annotated[int, Field(gt=0, le=10**12)]
NonNegative = Annotated[int, Field(ge=0, le=10**12)]
VocabSize = Annotated[int, Field(ge=16, le=1_000_000)]
Share = Annotated[float, Field(ge=0, lt=1)]
# The number is tried first: 0 is a threshold, although it equals False.
Threshold = Annotated[
    Annotated[float, Field(ge=0)] | Literal[False], Field(union_mode="left_to_right")
]


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
    bidirectional: bool = False  # one model for both directions, told apart by a tag on the source

    @field_validator("src", "tgt")
    @classmethod
    def _canonical(cls, code: str) -> str:
        try:
            return canonical_code(code)
        except TmtError as error:
            raise ValueError(str(error)) from error

    @property
    def pair(self) -> str:
        return f"{self.src}-{self.tgt}"

    def reversed(self) -> "Languages":
        return self.model_copy(update={"src": self.tgt, "tgt": self.src})


class CleanConfig(Section):
    """What text is brought to one form, and the thresholds of the rules that drop training pairs.

    Every rule gives each pair a score, larger is worse; a pair whose score is above the threshold
    is dropped. `false` switches a rule off. What the scores measure: `corpus/cleaning/rules.py`.
    """

    model_config = ConfigDict(validate_default=True)  # so that 2000 is a number like any other

    chinese_script: Literal["simplified", "traditional"] | None = None
    empty: Threshold = 0  # sides without text
    too_long: Threshold = 2000  # characters of the longer side
    no_words: Threshold = 20  # characters of a side whose partner has no letter and no digit
    non_letters: Threshold = 0.8  # share of a side; sentences full of numbers reach 0.75
    identical: Threshold = 20  # characters of lower-case words, where both sides are the same
    repeated: Threshold = 20  # characters that say one thing over and over, on one side only
    swapped: Threshold = 0.5  # share of each side that is in the other language's script
    script: Threshold = 0.5  # share of a side that is in scripts of other languages
    variant: Threshold = False  # share of telling Chinese characters of the other Chinese script
    markup: Threshold = 2  # tags and entities that one side has more
    urls: Threshold = 1  # web and e-mail addresses that one side has more
    numbers: Threshold = 2  # numbers in digits without an equivalent on the other side
    language: Threshold = False  # probability of another language; try 0.95
    length_ratio: Threshold = 6.0  # times the usual ratio of characters, either way
    # What counts as a repeated pair; normalised: case, width, punctuation and spaces do not count.
    duplicate: Literal["exact", "normalised", False] = "normalised"
    overlap: bool = True  # drop what shares a side with dev or test
    mismatch: Threshold = 0.5  # probability that the sides do not belong together


class Source(Section):
    """Where aligned text comes from: exactly one of the kinds, and how to use it.

    A bare text in the YAML is a name, such as `opus:News-Commentary/v16`, or a path: a file whose
    ending tells its format, a directory, a pattern with `*`, or a prefix (`a/b` stands for the
    files `a/b.<src>` and `a/b.<tgt>`). Relative paths start from `data.root`. All files may be
    compressed (`.gz`, `.xz`, `.bz2`, `.zst`).
    """

    # A file, a folder, a pattern with *, or a prefix: a/b stands for a/b.<src> and a/b.<tgt>.
    path: str | None = None
    files: Annotated[list[str], Field(min_length=2, max_length=2)] | None = None  # [src, tgt]
    tsv: str | None = None  # source TAB target, one pair per line
    jsonl: str | None = None  # {"translation": {"zh": …, "en": …}}, one object per line
    opus: str | None = None  # CORPUS or CORPUS/VERSION
    hf: str | None = None  # a Hugging Face dataset, NAME or OWNER/NAME, or a local folder
    url: str | None = None  # an archive or a file of any of the formats
    mtdata: str | None = None  # an identifier of the mtdata index
    sacrebleu: str | None = None  # a test set that sacreBLEU knows, e.g. wmt17
    demo: Literal[True] | None = None  # the bundled zh-en corpus

    config: str | None = None  # with hf: which configuration, e.g. en-zh
    split: str | None = None  # with hf: which split; default: the role (train, validation, test)
    sha256: str | None = None  # with url: what the file must have
    direction: str | None = None  # e.g. en-zh: which side comes first where nothing else tells
    # Times seen in an epoch; default 1.
    weight: Annotated[float, Field(gt=0, le=10_000)] | None = None
    limit: Positive | None = None  # pairs to read at most, from the start
    tag: str | None = None  # a mark before each source sentence, e.g. bt for back-translations
    clean: dict[str, Any] | None = None  # thresholds that differ for this source

    @model_validator(mode="before")
    @classmethod
    def _bare_text(cls, value: Any) -> Any:
        return source_of_text(value) if isinstance(value, str) else value

    @model_serializer
    def _given_keys(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if value is not None}

    @model_validator(mode="after")
    def _exactly_one_kind(self) -> Self:
        given = [kind for kind in SOURCE_KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            found = tr(" and ").join(given) or tr("none")
            raise ValueError(
                tr("needs exactly one of {}; found {}", ", ".join(SOURCE_KINDS), found)
            )
        if self.hf is None and (self.config or self.split):
            raise ValueError(tr("config and split go with hf only"))
        if self.url is None and self.sha256:
            raise ValueError(tr("sha256 goes with url only"))
        if self.tag is not None and not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", self.tag):
            raise ValueError(tr("tag {!r}: use letters, digits, - and _ only", self.tag))
        if self.tag in ("s", "pad", "unk"):
            raise ValueError(
                tr("tag {!r}: <{}> has a meaning already; use another", self.tag, self.tag)
            )
        return self

    @field_validator("direction")
    @classmethod
    def _canonical_direction(cls, direction: str | None) -> str | None:
        return None if direction is None else "-".join(split_direction(direction))

    @property
    def kind(self) -> str:
        return next(kind for kind in SOURCE_KINDS if getattr(self, kind) is not None)

    def __str__(self) -> str:
        if self.demo:
            return tr("the bundled corpus")
        if self.files:
            return " + ".join(self.files)
        value = str(getattr(self, self.kind))
        if self.kind == "hf":
            return "hf:" + "/".join(part for part in (value, self.config, self.split) if part)
        return f"{self.kind}:{value}" if self.kind in ("opus", "mtdata", "sacrebleu") else value


SOURCE_KINDS = (
    "path", "files", "tsv", "jsonl", "opus", "hf", "url", "mtdata", "sacrebleu", "demo",
)  # fmt: skip
_SCHEMES = ("opus", "hf", "mtdata", "sacrebleu")


def source_of_text(text: str) -> dict[str, Any]:
    """The kind that a bare text means; a ValueError for a name of no known kind."""
    scheme, colon, name = text.partition(":")
    if colon and scheme in ("http", "https", "url"):
        return {"url": text.removeprefix("url:")}
    if colon and scheme in _SCHEMES:
        # OWNER/NAME/CONFIG, or a folder.
        if scheme == "hf" and name.count("/") == 2 and name[0] not in "/.~":
            name, _, config = name.rpartition("/")
            return {"hf": name, "config": config}
        return {scheme: name}
    if colon and re.fullmatch(r"[a-z]{2,}", scheme):
        known = ", ".join(f"{known}:" for known in (*_SCHEMES, "url"))
        raise ValueError(
            tr("{}: no kind of source is called {}:; known are {}", text, scheme, known)
        )
    return {"path": text}


def split_direction(text: str) -> tuple[str, str]:
    """The two canonical codes of `zh-en`, `zh_Hans-en`, `zh-CN-en` …, if there is one reading."""
    readings = []
    for cut in (match.start() for match in re.finditer("-", text)):
        with suppress(TmtError):
            first, second = canonical_code(text[:cut]), canonical_code(text[cut + 1 :])
            if first != second:  # zh-CN-en is not zh and CN-en
                readings.append((first, second))
    if len(readings) != 1:
        raise ValueError(tr("direction {!r}: write two language codes, such as zh-en", text))
    return readings[0]


Cluster = Annotated[str, Field(pattern=r"^(mpi|dask(\+tls)?://[^\s/]+:\d+)$")]


class DataConfig(Section):
    root: str = "data"
    train: Annotated[list[Source], Field(min_length=1)]  # the corpora to train on
    dev: list[Source] = []
    test: dict[str, Source] = {}
    max_length: Positive = 200  # tokens per side; longer pairs are dropped from training, counted
    clean: CleanConfig = CleanConfig()
    # Processes that prepare data; auto: all cores; or a cluster: dask://HOST:PORT, or mpi.
    workers: Annotated[int, Field(gt=0, le=1024)] | Literal["auto"] | Cluster = "auto"
    cache: str | None = None  # of downloads, shared by all experiments; default: ~/.cache/tmt
    offline: bool = False  # use what the cache holds, and never the network

    @field_validator("test")
    @classmethod
    def _plain_names(cls, test: dict[str, Source]) -> dict[str, Source]:
        for name in test:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
                raise ValueError(tr("test set name {!r}: use letters, digits, - and _ only", name))
        return test

    @model_validator(mode="after")
    def _thresholds_of_sources(self) -> Self:
        for source in self.train:
            self.clean_of(source)
        for source in (*self.dev, *self.test.values()):
            for key in ("weight", "tag", "clean"):
                if getattr(source, key) is not None:
                    raise ValueError(tr("{}: {} goes with data.train only", source, key))
        return self

    def clean_of(self, source: Source) -> CleanConfig:
        """The thresholds of one source: the general ones, and what differs."""
        own = source.clean or {}
        if "chinese_script" in own:
            raise ValueError(tr("{}: chinese_script is one for all sources, in data.clean", source))
        try:
            return CleanConfig.model_validate({**self.clean.model_dump(), **own})
        except ValidationError as error:
            problems = describe_problems(error, where=f"{source}: clean", root=CleanConfig)
            raise ValueError("; ".join(problems)) from error
