"""Text in, text out: segments, search, retries; and the attention and scores of a forced pass."""

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Unpack

import numpy as np
import torch
from torch import Tensor

from transformer_mt.config.data import Languages
from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, Tokenizer
from transformer_mt.errors import ConfigError, TmtError
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.encoder_decoder import AttentionWeights, EncoderDecoder
from transformer_mt.model.int8 import use_int8
from transformer_mt.model_dir import LoadedModel, load_model_dir
from transformer_mt.search.engine import (
    Engine,
    SearchEngine,
    padded,
)
from transformer_mt.search.options import SearchChanges, SearchOptions
from transformer_mt.system.device import choose_device, search_precision
from transformer_mt.text.known_units import KnownUnits
from transformer_mt.text.normalise import well_formed
from transformer_mt.text.word_translations import WordTranslations
from transformer_mt.translation.attention_maps import AttentionMaps
from transformer_mt.translation.confidence import ConfidenceCurve
from transformer_mt.translation.direction import direction_of
from transformer_mt.translation.lexical_constraints import (
    NO_CONSTRAINTS,
    ConstraintEncoder,
    LexicalConstraints,
)
from transformer_mt.translation.pair_scores import PairScore, PairScorer
from transformer_mt.translation.result import Translation, joined_translation
from transformer_mt.translation.segment_search import (
    SegmentSearch,
    has_channel,
    translate_with_retry,
)
from transformer_mt.translation.segment_translation import SegmentTranslation, joined_text
from transformer_mt.translation.segments import Segmenter


class Translator:
    """One or several models in eval mode with their tokenizers."""

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizers: tuple[Tokenizer, Tokenizer],
        cfg: Config,
        *,
        others: Sequence[EncoderDecoder] = (),
        engine: SearchEngine | None = None,
        known: KnownUnits | None = None,
        words: WordTranslations | None = None,
        confidence: ConfidenceCurve | None = None,
    ) -> None:
        """
        Args:
            others: models with the same vocabularies, whose probabilities count as much.
            engine: searches for hypotheses; None: tmt's own.
            known: words that training has seen, for notes on texts of others.
            words: what ranks a beam by the source; None: nothing does.
            confidence: what a log-probability of this one model is worth.
        """
        self.model, self.known, self.words = model, known, words
        self.confidence = None if others else confidence
        self.src_tokenizer, self.tgt_tokenizer = tokenizers
        self.engine = engine or Engine([model, *others], self.tgt_tokenizer.silent_ids)
        self.cfg = cfg
        self._segmenter = Segmenter(self.src_tokenizer, cfg, known)
        self._scorer = PairScorer(model, self._segmenter, self.tgt_tokenizer, cfg.languages)
        self._search = SegmentSearch(self.engine, self.tgt_tokenizer, cfg, words)

    @classmethod
    def load(cls, model_dir: Path, *others: Path, precision: str = "auto") -> "Translator":
        """Read one model directory, or several for an ensemble, onto the best device.

        Raises:
            ModelDirError: see `load_model_dir`.
            ConfigError: see `search_precision`.
            TmtError: models of an ensemble with different languages or vocabularies.
        """
        first, *rest = [load_model_dir(path) for path in (model_dir, *others)]
        for path, loaded in zip(others, rest, strict=True):
            if not _same_vocabularies(first, loaded):
                text = tr(
                    "{} has other languages or vocabularies than {}: models can translate "
                    "together only if they were trained on the same encoded data",
                    path,
                    model_dir,
                )
                raise TmtError(text)
        device = choose_device()
        dtype, is_int8 = search_precision(precision, device)
        if is_int8:
            for loaded in (first, *rest):
                use_int8(loaded.model)
        model, *more = [loaded.model.to(device, dtype) for loaded in (first, *rest)]
        return cls(
            model,
            first.tokenizers,
            first.config,
            others=more,
            known=first.known,
            words=first.words,
            confidence=ConfidenceCurve.from_json(first.metadata.get("confidence")),
        )

    def with_engine(self, engine: SearchEngine) -> "Translator":
        """The same texts and rules, searched by another engine."""
        other = copy(self)
        other.engine = engine
        other._search = SegmentSearch(engine, self.tgt_tokenizer, self.cfg, self.words)
        return other

    @property
    def device(self) -> torch.device:
        return self.model.output.weight.device

    def translate(
        self,
        texts: Sequence[str],
        *,
        to: str | None = None,
        constraints: LexicalConstraints = NO_CONSTRAINTS,
        retry: bool = False,
        **changes: Unpack[SearchChanges],
    ) -> list[Translation]:
        """Translate each text; empty texts come back empty, too long ones are split and rejoined.

        Args:
            to: the language to translate into; None: the model's, or with both directions the one
                that each text is not in.
            constraints: words that translations begin with, contain or lack.
            retry: search again, more carefully, where a translation has faults; the better one is
                kept.
            changes: options of the search; None: the value of the model's configuration.
        Raises:
            ConfigError: options that do not go together.
            TmtError: see `direction_of`; or constraints that no translation has room for.
        """
        options = SearchOptions.resolve(self.cfg.decode, **changes)
        if changes.get("channel"):
            self._check_channel(options)
        directions = [direction_of(text, self.cfg.languages, to) for text in texts]
        found = self._segments(texts, directions, constraints, options, retry=retry)
        sources = [[translation.segment for translation in segments] for segments in found]
        checks = self._segmenter.check(texts, directions, sources)
        return [
            joined_translation(text, direction.tgt, segments, check, self.confidence)
            for text, direction, segments, check in zip(
                texts, directions, found, checks, strict=True
            )
        ]

    def _check_channel(self, options: SearchOptions) -> None:
        if self.words is None:
            advice = tr("this model is older and has no words; tmt average makes one that has")
            raise ConfigError(f"channel: {advice}")
        if not has_channel(options):
            advice = tr("it ranks a beam of 2 or more; leave out sampling, mbr and diverse")
            raise ConfigError(f"channel: {advice}")

    def translate_texts(
        self, texts: Sequence[str], *, to: str | None = None, **changes: Unpack[SearchChanges]
    ) -> list[str]:
        """Only the texts of `translate`; neither they nor the sources are looked at for faults."""
        options = SearchOptions.resolve(self.cfg.decode, **changes)
        directions = [direction_of(text, self.cfg.languages, to) for text in texts]
        found = self._segments(texts, directions, NO_CONSTRAINTS, options, retry=False)
        return [
            joined_text(segments, direction.tgt)
            for segments, direction in zip(found, directions, strict=True)
        ]

    def _segments(
        self,
        texts: Sequence[str],
        directions: Sequence[Languages],
        constraints: LexicalConstraints,
        options: SearchOptions,
        *,
        retry: bool,
    ) -> list[list[SegmentTranslation]]:
        """The translated segments of each text."""
        for language in {direction.tgt for direction in directions}:
            encoder = ConstraintEncoder(self.tgt_tokenizer, language)
            encoder.check_lengths(constraints, self.cfg.data.max_length)
        segments_of = [
            self._segmenter.segments(text, direction, constraints)
            for text, direction in zip(texts, directions, strict=True)
        ]
        flat = [segment for segments in segments_of for segment in segments]
        if retry:
            translated = translate_with_retry(
                flat, options, search=self._search, segmenter=self._segmenter
            )
        else:
            translated = self._search.search(flat, options)
        found = iter(translated)
        return [[next(found) for _ in segments] for segments in segments_of]

    def score_pairs(
        self, srcs: Sequence[str], tgts: Sequence[str], *, to: str | None = None
    ) -> list[PairScore]:
        """See `PairScorer.score`."""
        return self._scorer.score(srcs, tgts, to=to)

    @torch.inference_mode()
    def attention(
        self, text: str, target: str | None = None, *, to: str | None = None, top_k: int = 5
    ) -> AttentionMaps:
        """Attention of every layer and head in one teacher-forced pass.

        Args:
            target: what the decoder reads; None: the model's own translation.
            to: as for `translate`.
            top_k: how many of the next pieces to keep at every step.
        Raises:
            TmtError: the text is empty, or too long for one piece.
        """
        src_ids, tgt_ids = self.forced_ids(text, target, to=to)
        weights = AttentionWeights()
        hidden = self.model(self.pad([src_ids]), self.pad([[BOS_ID, *tgt_ids]]), weights)
        probs, ids = self.model.project(hidden[0]).float().softmax(dim=-1).topk(top_k, dim=-1)
        top_words = [
            list(zip(self.tgt_tokenizer.pieces(row_ids), row_probs, strict=True))
            for row_ids, row_probs in zip(ids.tolist(), probs.tolist(), strict=True)
        ]
        encoder, decoder, cross = (
            np.array([layer[0].float().cpu().numpy() for layer in layers], np.float32)
            for layers in (weights.encoder, weights.decoder, weights.cross)
        )
        return AttentionMaps(
            source=well_formed(text),
            translation=self.tgt_tokenizer.decode([tgt_ids])[0],
            src_pieces=self.src_tokenizer.pieces(src_ids),
            tgt_in_pieces=self.tgt_tokenizer.pieces([BOS_ID, *tgt_ids]),
            tgt_out_pieces=self.tgt_tokenizer.pieces([*tgt_ids, EOS_ID]),
            encoder=encoder,
            decoder=decoder,
            cross=cross,
            top_words=top_words,
        )

    def forced_ids(
        self, text: str, target: str | None, *, to: str | None = None
    ) -> tuple[list[int], list[int]]:
        """Source ids, with tags and EOS, and target ids, without BOS and EOS, as `attention`."""
        direction = direction_of(text, self.cfg.languages, to)
        segments = self._segmenter.segments(text, direction, NO_CONSTRAINTS)
        if not segments:
            raise TmtError(tr("the text is empty; give one sentence"))
        if len(segments) > 1:
            raise TmtError(tr("the text is too long to explain in one picture; give one sentence"))
        (segment,) = segments
        if target is None:
            options = SearchOptions.resolve(self.cfg.decode)
            (translation,) = self._search.search([segment], options)
            tgt_ids = translation.hypotheses[0].ids
        else:
            target = self._segmenter.normalise(target, direction.tgt)
            (tgt_ids,) = self.tgt_tokenizer.encode([target])
            if len(tgt_ids) > 2 * self.cfg.data.max_length:
                raise TmtError(tr("the target is too long to explain in one picture"))
        return [*segment.src, EOS_ID], tgt_ids

    def encode_pair(self, src: str, tgt: str, to: str | None = None) -> tuple[list[int], list[int]]:
        """See `PairScorer.encode`."""
        return self._scorer.encode(src, tgt, to)

    def pad(self, rows: list[list[int]]) -> Tensor:
        """(B, longest) int64 on the model's device, PAD_ID to the right."""
        return padded(rows, self.device)


def _same_vocabularies(one: LoadedModel, other: LoadedModel) -> bool:
    pairs = zip(one.tokenizers, other.tokenizers, strict=True)
    same = all(mine.serialised == theirs.serialised for mine, theirs in pairs)
    return same and one.config.languages == other.config.languages
