"""The processes that translate for the server: models loaded once, shared by copies of the process.

`run_workers` loads the models and makes the copies, by `fork`; each connects to the server, takes
batches and answers them, until the connection ends. A copy that dies is replaced within
milliseconds, since the models are there. CTranslate2 and GPUs cannot be copied so: threads of one
process take their place.
"""

import logging
import math
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from multiprocessing import get_context
from multiprocessing.connection import Client, wait
from pathlib import Path
from typing import Any

import torch

from transformer_mt.encoding.tokenizer import BOS_ID
from transformer_mt.errors import OUTSIDE, TmtError, describe
from transformer_mt.explain.value_zeroing import movements
from transformer_mt.messages.catalogue import tr
from transformer_mt.serve.jobs import (
    Call,
    Failed,
    ModelInfo,
    Started,
    Terms,
    Translated,
    Word,
    WorkerSettings,
)
from transformer_mt.text.languages import is_unspaced
from transformer_mt.translation.alignment import AttentionAligner
from transformer_mt.translation.direction import both_directions, direction_of
from transformer_mt.translation.glossary import Glossary, Term
from transformer_mt.translation.lexical_constraints import LexicalConstraints
from transformer_mt.translation.result import Translation
from transformer_mt.translation.translator import Translator

_MOST_WEIGHTS = 2_000_000  # of attention, in an answer
_log = logging.getLogger(__name__)


class Answerer:
    """The models, and what can be asked of them."""

    def __init__(self, models: Sequence[Path], engine: str, precision: str) -> None:
        self._translators = [_loaded(path, engine, precision) for path in models]
        self._penalty = "average" if engine == "ctranslate2" else None  # it has no other
        self.infos = tuple(map(_info, self._translators, models))

    @property
    def may_be_copied(self) -> bool:
        return all(translator.device.type == "cpu" for translator in self._translators)

    def warm_up(self) -> None:
        """Translate once with each model, or the first text would have to wait."""
        for model, info in enumerate(self.infos):
            self.answer(Call("translate", model, info.directions[0][1]), ["1"])

    def answer(self, call: Call, texts: Sequence[str]) -> list[Any]:
        """One answer for each text.

        Raises:
            TmtError: see `Translator.translate`.
        """
        if call.does == "translate":
            return self._translate(call, texts)
        found = getattr(self, f"_{call.does}")
        return [found(self._translators[call.model], call, text) for text in texts]

    def _translate(self, call: Call, texts: Sequence[str]) -> list[Translated]:
        translator = self._translators[call.model]
        beam = max(translator.cfg.decode.beam, call.n_best)
        changes: Any = {"n_best": call.n_best, "beam": beam, "penalty": self._penalty}
        found = translator.translate(
            texts, to=call.to, constraints=_constraints(call.terms), retry=True, **changes
        )
        return [self._translated(translator, call, one) for one in found]

    def _translated(self, translator: Translator, call: Call, found: Translation) -> Translated:
        others = dict.fromkeys(one.text for one in found.alternatives)
        shown = tuple(text for text in others if text and text != found.text)
        one_part = found.pieces == 1 and bool(found.text)
        return Translated(
            found.text,
            shown,
            found.confidence,
            found.faults,
            tuple(found.input.notes),
            self._words(translator, call, found) if call.words and one_part else (),
        )

    @torch.inference_mode()
    def _words(self, translator: Translator, call: Call, found: Translation) -> tuple[Word, ...]:
        """The words of a translation with their probabilities, by one forced pass."""
        src, tgt = translator.encode_pair(found.source, found.text, call.to)
        hidden = translator.model(translator.pad([src]), translator.pad([[BOS_ID, *tgt]]))
        log_probs = translator.model.project(hidden[0]).float().log_softmax(dim=-1)  # (T, V)
        of_tokens = log_probs[torch.arange(len(tgt)), torch.tensor(tgt)].tolist()
        words = []
        for group in _words_of(translator.tgt_tokenizer.pieces(tgt), is_unspaced(call.to)):
            (spelled,) = translator.tgt_tokenizer.decode([[tgt[i] for i in group]])
            probability = math.exp(sum(of_tokens[i] for i in group))
            words.append(Word(spelled.strip(), not is_unspaced(call.to), round(probability, 4)))
        shown = "".join(" " * word.space + word.text for word in words).strip()
        return tuple(words) if shown == found.text else ()

    def _align(self, translator: Translator, call: Call, text: str) -> list[int] | None:
        return AttentionAligner(translator, to=call.to)(text, call.against)

    def _explain(self, translator: Translator, call: Call, text: str) -> dict[str, Any]:
        """Attention of each layer and head; shares of source words and EOS, by value zeroing."""
        src, tgt = translator.forced_ids(text, call.against, to=call.to)
        cfg, s, t = translator.cfg.model, len(src) + 1, len(tgt) + 1
        size = cfg.encoder_layers * s * s + cfg.decoder_layers * t * (s + t)
        if size * cfg.heads > _MOST_WEIGHTS:
            raise TmtError(tr("too long for a picture of the attention"))
        maps = translator.attention(text, call.against, to=call.to)
        unspaced = is_unspaced(direction_of(text, translator.cfg.languages, call.to).src)
        words = [*_words_of(maps.src_pieces[:-1], unspaced), [len(src) - 1]]
        moved = movements(translator.model, translator.pad([src]), tgt, words)  # (T, words)
        shares = moved / moved.sum(dim=1, keepdim=True).clamp(min=1e-12)
        return {
            "sourcePieces": maps.src_pieces,
            "inputPieces": maps.tgt_in_pieces,
            "outputPieces": maps.tgt_out_pieces,
            "cross": _rounded(maps.cross),
            "encoder": _rounded(maps.encoder),
            "decoder": _rounded(maps.decoder),
            "zeroing": _rounded(shares.numpy()),
        }


def _loaded(path: Path, engine: str, precision: str) -> Translator:
    from transformer_mt.export.ctranslate2_engine import EitherEngine, exported_engine

    translator = Translator.load(path, precision=precision)
    if engine == "native":
        return translator
    exported = exported_engine(translator, path)
    return translator.with_engine(EitherEngine(translator.engine, lambda: exported))


def _info(translator: Translator, path: Path) -> ModelInfo:
    directions = both_directions(translator.cfg.languages)
    pairs = tuple((direction.src, direction.tgt) for direction in directions)
    return ModelInfo(translator.cfg.name, pairs, translator.cfg.data.max_length)


@lru_cache(maxsize=64)
def _constraints(terms: Terms) -> LexicalConstraints:
    entries = [Term(src, tgt or None, line) for line, (src, tgt) in enumerate(terms, start=1)]
    return LexicalConstraints(glossary=Glossary(entries) if entries else None)


def _words_of(pieces: Sequence[str], unspaced: bool) -> list[list[int]]:
    """Positions of the pieces of each word; of a language without spaces, each piece is one.

    There a space that is a piece of its own belongs to the next, as in `wordPlaces` of the pages.
    """
    groups: list[list[int]] = []
    for i, piece in enumerate(pieces):
        last = pieces[i - 1] if i else ""
        in_character = piece.startswith("<0x") and last.startswith("<0x")
        joins = in_character or (unspaced and last == "▁")
        if not groups or ((unspaced or piece.startswith("▁")) and not joins):
            groups.append([])
        groups[-1].append(i)
    return groups


def _rounded(values: Any) -> Any:
    return values.astype(float).round(4).tolist()


def run_workers(settings: WorkerSettings) -> None:
    """Until standard input ends: keep as many workers as there should be.

    Raises:
        TmtError: a model cannot be loaded, or not with that engine.
    """
    in_threads = settings.engine == "ctranslate2"
    # Threads do not survive a copy; of CTranslate2 as many translate at a time.
    torch.set_num_threads(settings.n_workers if in_threads else 1)
    answerer = Answerer([*map(Path, settings.models)], settings.engine, settings.precision)
    answerer.warm_up()
    if not in_threads and answerer.may_be_copied and sys.platform == "linux":
        _keep_copies(answerer, settings)
        return
    for _ in range(settings.n_workers if in_threads else 1):
        threading.Thread(
            target=_connect, args=(answerer, settings, os.getpid()), daemon=True
        ).start()
    sys.stdin.buffer.read()


def _keep_copies(answerer: Answerer, settings: WorkerSettings) -> None:
    context, copies = get_context("fork"), list[Any]()
    arguments = (answerer, settings, os.getpid())
    while True:
        copies = [copy for copy in copies if copy.is_alive()]
        while len(copies) < settings.n_workers:
            copies.append(context.Process(target=_connect, args=arguments, daemon=True))
            copies[-1].start()
        if sys.stdin.fileno() in wait([sys.stdin.fileno(), *(copy.sentinel for copy in copies)]):
            return  # the copies see the end of their connections, and daemons end with this one


def _connect(answerer: Answerer, settings: WorkerSettings, parent: int) -> None:
    """Answer batches until the server ends the connection. `parent`: see `Started`."""
    key = bytes.fromhex(settings.key)
    with (
        suppress(EOFError, ConnectionError),
        Client(settings.address, "AF_UNIX", key) as connection,
    ):
        connection.send(Started(os.getpid(), parent, answerer.infos))
        while (batch := connection.recv()) is not None:
            connection.send(_answers(answerer, *batch))


def _answers(answerer: Answerer, call: Call, texts: Sequence[str]) -> list[Any] | Failed:
    try:
        return answerer.answer(call, texts)
    except TmtError as error:
        return Failed(describe(error))
    except OUTSIDE as error:  # memory, as a rule
        _log.error("%s", describe(error))
        return Failed("")
    except Exception:
        _log.exception("a batch of %d texts", len(texts))
        return Failed("")
