"""A loaded model as Python programs use it: translate, score, attention, from any thread.

This file adds the lock and the end of the worker processes to `Translator`, and nothing else.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Unpack

import torch

from transformer_mt.errors import TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.search.options import SearchChanges
from transformer_mt.translation.attention_maps import AttentionMaps
from transformer_mt.translation.glossary import Glossary
from transformer_mt.translation.lexical_constraints import LexicalConstraints
from transformer_mt.translation.pair_scores import PairScore
from transformer_mt.translation.result import Translation
from transformer_mt.translation.translator import Translator


class TranslationModel(AbstractContextManager["TranslationModel"]):
    """One model, or several that vote, until `close`, the end of a `with` block or of the object.

    Threads may share it: their calls take turns, since one call uses all cores. Many texts in one
    call are much faster than one call for each.
    """

    def __init__(self, *model_dirs: Path, precision: str = "auto") -> None:
        """Args: model_dirs: see `Translator.load`. precision: auto, fp32, bf16, fp16 or int8."""
        self._translator: Translator | None = Translator.load(*model_dirs, precision=precision)
        self.config = self._translator.cfg
        self._lock = threading.Lock()
        self._n_threads = torch.get_num_threads()

    def translate(
        self,
        texts: Sequence[str],
        *,
        to: str | None = None,
        prefix: str = "",
        banned: Sequence[str] = (),
        glossary: Glossary | None = None,
        retry: bool = True,
        **changes: Unpack[SearchChanges],
    ) -> list[Translation]:
        """Translate each text; long ones are split, and joined again.

        Args:
            to: the language to translate into, for a model of both directions.
            prefix: how the translations begin.
            banned: words that they do not contain.
            glossary: terms and their translations.
            retry: search again, more carefully, where a translation has faults.
            changes: beam, length_penalty, min_length, max_length, n_best, diverse and the like;
                None: what the model's configuration says.
        Raises:
            ConfigError: options that do not go together.
            TmtError: the direction is not known, or the model is closed.
        """
        if isinstance(texts, str):
            raise TypeError("texts is a list: translate([text])")
        constraints = LexicalConstraints(prefix, banned, glossary)
        with self._turn() as translator:
            return translator.translate(
                texts, to=to, constraints=constraints, retry=retry, **changes
            )

    def score(self, pairs: Iterable[tuple[str, str]], *, to: str | None = None) -> list[PairScore]:
        """The log-probability of the target of each (source, target), in nats, and its tokens."""
        found = list(pairs)
        with self._turn() as translator:
            return translator.score_pairs([s for s, _ in found], [t for _, t in found], to=to)

    def attention(
        self, text: str, target: str | None = None, *, to: str | None = None
    ) -> AttentionMaps:
        """The attention weights of one sentence: see `Translator.attention`."""
        with self._turn() as translator:
            return translator.attention(text, target, to=to)

    def close(self) -> None:
        """Free the model and end its worker processes; again: nothing happens."""
        with self._lock:
            self._translator = None

    @contextmanager
    def _turn(self) -> Iterator[Translator]:
        """The translator, for one thread at a time."""
        with self._lock:
            if self._translator is None:
                raise TmtError(tr("this model is closed; load it again"))
            # A new thread takes the count of the last one that set it, which may be 1.
            torch.set_num_threads(self._n_threads)
            yield self._translator

    def __exit__(self, *_: object) -> None:
        self.close()
