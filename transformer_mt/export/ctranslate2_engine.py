"""CTranslate2 as the engine of a `Translator`, in the place of `search.engine.Engine`.

What CTranslate2 cannot do, or does differently, is an error; where only the scores are others, it
has to be asked for by name.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path

import torch

from transformer_mt.encoding.tokenizer import EOS, Tokenizer
from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.export.formats import exported_path, require
from transformer_mt.export.proof import MANIFEST, ExportOrigin
from transformer_mt.messages.catalogue import tr
from transformer_mt.model_dir import weights_digest
from transformer_mt.search.beam_search import Hypothesis, LengthPenalty
from transformer_mt.search.engine import Request, SearchEngine, length_limits
from transformer_mt.search.options import SearchOptions
from transformer_mt.system.state import Damaged, damages, read_manifest
from transformer_mt.translation.translator import Translator

BATCH_SENTENCES = 64
MAX_POSITIONS = 1024  # rows of the position table: tokens of a text with its end


class CTranslate2Engine:
    """An exported model, ready to search; batches share the threads of the machine."""

    def __init__(
        self, path: Path, tokenizers: tuple[Tokenizer, Tokenizer], *, threads: int
    ) -> None:
        """Load what `ctranslate2.write` wrote; `threads` batches are translated at a time.

        Raises:
            TmtError: the package is not installed, or there is no exported model.
        """
        package = require("ctranslate2", "CTranslate2")
        if not (path / "model.bin").is_file():
            raise TmtError(tr("{}: no exported model; tmt export writes one", path))
        self._src, self._tgt = tokenizers
        self._silent = [[id_] for id_ in self._tgt.silent_ids]
        self._ids = {p: i for i, p in enumerate(self._tgt.pieces(range(self._tgt.vocab_size)))}
        self._translator = package.Translator(
            str(path), inter_threads=threads, intra_threads=1, max_queued_batches=-1
        )

    def search(self, requests: Sequence[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        """See `search.engine.Engine.search`.

        Raises:
            ConfigError: every option that would be ignored or mean something else.
        """
        if problems := _differences(requests, options):
            raise ConfigError(f"--engine ctranslate2: {'; '.join(problems)}")
        order = sorted(range(len(requests)), key=lambda i: -len(requests[i].src))
        results: dict[int, list[Hypothesis]] = {}
        for start in range(0, len(order), BATCH_SENTENCES):
            part = order[start : start + BATCH_SENTENCES]
            found = self._batch([requests[i] for i in part], options)
            results.update(zip(part, found, strict=True))
        return [results[i] for i in range(len(requests))]

    def log_probs(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[float]:
        """ln p(target | source) of ids without EOS; that of EOS counts."""
        scored = self._translator.score_batch(
            [self._src.pieces(src) for src, _ in pairs],
            [self._tgt.pieces(tgt) for _, tgt in pairs],
            max_input_length=0,  # not cut
        )
        return [sum(one.log_probs) for one in scored]

    def _batch(self, batch: list[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        """With the limit of the longest; what grew beyond its own limit is searched again alone."""
        limits = length_limits(batch, options)
        found = self._within(batch, max(limits), options)
        for i, limit in enumerate(limits):
            if any(len(h.ids) + h.complete > limit for h in found[i]):
                (found[i],) = self._within([batch[i]], limit, options)
        return found

    def _within(
        self, batch: list[Request], limit: int, options: SearchOptions
    ) -> list[list[Hypothesis]]:
        results = self._translator.translate_batch(
            [self._src.pieces(request.src) for request in batch],
            target_prefix=[self._tgt.pieces(request.prefix) for request in batch],
            suppress_sequences=[self._tgt.pieces(ids) for ids in [*self._silent, *options.banned]],
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=options.min_length,
            beam_size=options.beam,
            num_hypotheses=options.n_best,
            length_penalty=options.length_penalty,
            no_repeat_ngram_size=options.no_repeat_ngram,
            return_scores=True,
            return_end_token=True,
            max_batch_size=-(-BATCH_SENTENCES // self._translator.num_translators),
        )
        return [
            [self._hypothesis(*one, options) for one in zip(r.hypotheses, r.scores, strict=True)]
            for r in results
        ]

    def _hypothesis(self, pieces: list[str], score: float, options: SearchOptions) -> Hypothesis:
        n, complete = max(1, len(pieces)), pieces[-1:] == [EOS]
        ids = [self._ids[piece] for piece in (pieces[:-1] if complete else pieces)]
        log_prob = score * n**options.length_penalty
        penalty = LengthPenalty(options.penalty, options.length_penalty)
        return Hypothesis(ids, log_prob, log_prob / penalty(n), complete)


class CTranslate2Model:
    """An exported model, from text to text; see `ExportedModel`."""

    def __init__(self, translator: Translator, path: Path) -> None:
        tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
        self._engine = CTranslate2Engine(path, tokenizers, threads=1)
        self._translator = translator.with_engine(self._engine)

    def translate(self, texts: Sequence[str]) -> list[str]:
        return self._translator.translate_texts(
            texts, to=self._translator.cfg.languages.tgt, beam=1
        )

    def log_probs(self, srcs: Sequence[str], tgts: Sequence[str]) -> list[float]:
        to = self._translator.cfg.languages.tgt
        pairs = [self._translator.encode_pair(*pair, to) for pair in zip(srcs, tgts, strict=True)]
        return self._engine.log_probs([(src[:-1], tgt) for src, tgt in pairs])


class EitherEngine:
    """CTranslate2 for the searches that it has, tmt's own engine for the others."""

    def __init__(self, own: SearchEngine, exported: Callable[[], CTranslate2Engine]) -> None:
        """
        Args:
            exported: loads the same weights; called when they are first searched with.
        """
        self._own, self._load = own, exported

    def search(self, requests: Sequence[Request], options: SearchOptions) -> list[list[Hypothesis]]:
        """See `search.engine.Engine.search`."""
        is_own = _differences(requests, options) or _has_other_scores(requests, options)
        return (self._own if is_own else self._exported).search(requests, options)

    @cached_property
    def _exported(self) -> CTranslate2Engine:
        return self._load()


def exported_engine(translator: Translator, model_dir: Path) -> CTranslate2Engine:
    """The export beside a model.

    Raises:
        TmtError: there is none, or it was made from other weights.
    """
    path = exported_path(model_dir)
    origin = ExportOrigin.read(path)
    if origin is None:
        raise TmtError(tr("{}: no exported model; tmt export writes one", path))
    if origin.weights != weights_digest(model_dir):
        raise TmtError(tr("{} was made from other weights; tmt export makes it anew", path))
    if problems := damages(path, read_manifest(path, MANIFEST) or {}):
        raise TmtError(tr("{}; delete {} and export again", "\n".join(problems), path))
    tokenizers = translator.src_tokenizer, translator.tgt_tokenizer
    return CTranslate2Engine(path, tokenizers, threads=torch.get_num_threads())


def faster_engine(translator: Translator, model_dir: Path) -> SearchEngine:
    """Both engines, if there is an export of the weights and the precision that the model has."""
    weight = translator.model.output.weight
    same = weight.device.type == "cpu" and weight.dtype == torch.float32
    try:
        origin = ExportOrigin.read(exported_path(model_dir))
    except Damaged:
        origin = None
    proven = ExportOrigin(weights_digest(model_dir), "float32") == origin
    if same and proven and find_spec("ctranslate2") is not None:
        return EitherEngine(translator.engine, partial(exported_engine, translator, model_dir))
    return translator.engine


def _differences(requests: Sequence[Request], options: SearchOptions) -> list[str]:
    """What CTranslate2 does not have, or does in another way."""
    problems = []
    if options.penalty != "average" and options.beam > 1:
        problems.append(tr("it divides scores by length^α: give --penalty average"))
    if options.sampling is not None or options.mbr or options.diverse:
        problems.append(tr("sampling, mbr and diverse alternatives are tmt's own engine's"))
    if options.repetition_penalty != 1.0 or any(request.required for request in requests):
        problems.append(tr("required words and the repetition penalty are tmt's own engine's"))
    longest = max([0, *(len(r.src) + 1 for r in requests), *length_limits(requests, options)])
    if longest > MAX_POSITIONS:
        problems.append(tr("texts of over {:,} tokens are tmt's own engine's", MAX_POSITIONS))
    return problems


def _has_other_scores(requests: Sequence[Request], options: SearchOptions) -> bool:
    """Whether CTranslate2 counts a prefix as certain, or divides what is not allowed by the rest.

    Without a length penalty it also ends before all of the best alternatives have been found.
    """
    ends_early = options.length_penalty == 0 and options.n_best > 1
    rules = options.banned or options.no_repeat_ngram or options.min_length
    return bool(rules or ends_early or any(request.prefix for request in requests))
