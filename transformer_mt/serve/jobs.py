"""What the server asks of its workers, and what they answer: plain data, which can be pickled."""

import json
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import Any

Terms = tuple[tuple[str, str], ...]  # of a glossary: source, target; "": as it stands in the text


@dataclass(frozen=True)
class ModelInfo:
    """A loaded model.

    Attributes:
        directions: (source, target), canonical codes, that of the configuration first.
        max_tokens: of a source sentence; longer ones are divided.
    """

    name: str
    directions: tuple[tuple[str, str], ...]
    max_tokens: int


@dataclass(frozen=True)
class Call:
    """What is to be done with a text; texts with equal calls are batched.

    Attributes:
        does: the method of `Answerer`: translate, align or explain.
        model: index of the model.
        to: canonical code of the language to translate into.
        n_best: translations of each text, the best one included.
        words: tell how probable each word is.
        against: for all but translate: the translation.
    """

    does: str
    model: int
    to: str
    n_best: int = 1
    terms: Terms = ()
    words: bool = False
    against: str = ""


@dataclass(frozen=True)
class Word:
    text: str
    space: bool  # before it
    probability: float  # of all its tokens, given the source and what stands before


@dataclass(frozen=True)
class Translated:
    """A translation as `translation.result.Translation` has it, and its words."""

    text: str
    alternatives: tuple[str, ...] = ()  # other than `text`
    confidence: float | None = None
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what is strange about the source
    words: tuple[Word, ...] = ()


@dataclass(eq=False)
class Waiting:
    """A text in the queue.

    Attributes:
        since: when it came, `time.monotonic`.
        deaths: of workers that had it.
        dropped: nobody waits for the answer any more, even if a worker has the text.
    """

    call: Call
    text: str
    since: float
    answer: "Future[Any]" = field(default_factory=Future)
    deaths: int = 0
    dropped: bool = False

    @property
    def size(self) -> int:
        return len(self.text) + len(self.call.against)

    def is_wanted(self) -> bool:
        """Whether the answer has not been cancelled; it cannot be any more."""
        taken = self.answer.running() or self.answer.set_running_or_notify_cancel()
        return taken and not self.dropped


@dataclass(frozen=True)
class WorkerSettings:
    """What the server tells the first process, as JSON on its standard input.

    Attributes:
        address, key: where to connect, and the key in hexadecimal.
        models: model directories.
        engine: native or ctranslate2.
        precision: as for `Translator.load`.
        n_workers: how many batches are translated at a time.
    """

    address: str
    key: str
    models: list[str]
    engine: str
    precision: str
    n_workers: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "WorkerSettings":
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Started:
    """The first message of a worker.

    Attributes:
        parent: the process that has loaded the models; `pid` itself, where it has no copies.
    """

    pid: int
    parent: int
    models: tuple[ModelInfo, ...]


@dataclass(frozen=True)
class Failed:
    """The answer to a batch that cannot be translated.

    Attributes:
        message: for the user; empty: a fault of tmt, which the worker has logged.
    """

    message: str


Batch = tuple[Call, Sequence[str]]
