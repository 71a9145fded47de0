"""Text in, text out: tokenization, batching by length, search, and the attention of a pass.

Comes in: a model with its tokenizers. Goes out: translations in the order of the texts. This file
knows nothing of the command line, of metrics or of how a model was trained.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_mt.config.data import Languages
from transformer_mt.config.experiment import Config
from transformer_mt.encoding.tags import language_tag
from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from transformer_mt.errors import TmtError
from transformer_mt.model.transformer import AttentionWeights, Transformer
from transformer_mt.model_dir import LoadedModel, load_model_dir
from transformer_mt.search.engine import (
    BATCH_TOKENS,
    Engine,
    Request,
    SearchEngine,
    batches_by_length,
    pad,
)
from transformer_mt.search.options import SearchOptions
from transformer_mt.system.device import choose_device, choose_precision
from transformer_mt.text.normalise import Normaliser, well_formed
from transformer_mt.text.sentences import split_text
from transformer_mt.translation.attention_maps import AttentionMaps
from transformer_mt.translation.direction import direction_of
from transformer_mt.translation.lexical_constraints import Wording
from transformer_mt.translation.output_checks import is_loop
from transformer_mt.translation.request import Alternative, Translation, Wishes
from transformer_mt.translation.retry import Draft, Drafter, Piece, joined_text

NO_WISHES = Wishes()
MOST_SCORED = 4096  # tokens of a side, many times as many as a sentence has

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PairScore:
    log_prob: float  # of the target given the source, EOS included, in nats
    n_tokens: int  # of the target, EOS included


class Translator:
    """One or several models in eval mode with their tokenizers."""

    def __init__(
        self,
        model: Transformer,
        tokenizers: tuple[Tokenizer, Tokenizer],
        cfg: Config,
        *,
        others: Sequence[Transformer] = (),
        engine: SearchEngine | None = None,
    ) -> None:
        """
        Args:
            others: models with the same vocabularies, whose probabilities count as much.
            engine: what searches; None: tmt's own.
        """
        self.model = model
        self.src_tokenizer, self.tgt_tokenizer = tokenizers
        self.engine = engine or Engine([model, *others], self.tgt_tokenizer.silent_ids)
        self.cfg = cfg
        codes, script = (cfg.languages.src, cfg.languages.tgt), cfg.data.clean.chinese_script
        self._normalise = {code: Normaliser(code, script) for code in codes}
        self._one_line = {code: Normaliser(code, None) for code in codes}

    @classmethod
    def load(cls, model_dir: Path, *others: Path, precision: str = "auto") -> "Translator":
        """Read one model directory, or several for an ensemble, onto the best device.

        Raises:
            ModelDirError: see `load_model_dir`.
            TmtError: models of an ensemble with different languages or vocabularies.
        """
        first, *rest = [load_model_dir(path) for path in (model_dir, *others)]
        for path, loaded in zip(others, rest, strict=True):
            if not _same_vocabularies(first, loaded):
                raise TmtError(
                    f"{path} has other languages or vocabularies than {model_dir}: models can "
                    "translate together only if they were trained on the same encoded data"
                )
        device = choose_device()
        dtype = choose_precision(precision, device)
        model, *more = [loaded.model.to(device, dtype) for loaded in (first, *rest)]
        return cls(model, first.tokenizers, first.config, others=more)

    @property
    def device(self) -> torch.device:
        return self.model.output.weight.device

    def translate(
        self,
        texts: Sequence[str],
        *,
        to: str | None = None,
        wishes: Wishes = NO_WISHES,
        retry: bool = False,
        **changes: Any,
    ) -> list[Translation]:
        """Translate each text; empty texts come back empty, too long ones are split and rejoined.

        Args:
            to: the language to translate into; None: the model's, or with both directions the one
                that each text is not in.
            retry: search again, more carefully, where a translation has faults; the better one is
                kept.
            changes: fields of `SearchOptions`; None: what the model's configuration says.
        Raises:
            ConfigError: options that do not go together.
            TmtError: see `direction_of`.
        """
        directions = [direction_of(text, self.cfg.languages, to) for text in texts]
        drafts_of = self._drafts(texts, directions, wishes, retry, changes)
        return [
            _join(text, direction.tgt, drafts)
            for text, direction, drafts in zip(texts, directions, drafts_of, strict=True)
        ]

    def drafts(
        self, texts: Sequence[str], *, to: str | None = None, **changes: Any
    ) -> list[list[Draft]]:
        """What was found for each piece of each text; see `translate` for the arguments."""
        directions = [direction_of(text, self.cfg.languages, to) for text in texts]
        return self._drafts(texts, directions, NO_WISHES, False, changes)

    def _drafts(
        self,
        texts: Sequence[str],
        directions: Sequence[Languages],
        wishes: Wishes,
        retry: bool,
        changes: dict[str, Any],
    ) -> list[list[Draft]]:
        options = SearchOptions.of(self.cfg.decode, **changes)
        self._check(wishes, directions)
        pieces_of = [
            self._read(text, direction, wishes)
            for text, direction in zip(texts, directions, strict=True)
        ]
        flat = [piece for pieces in pieces_of for piece in pieces]
        tokenizers = self.src_tokenizer, self.tgt_tokenizer
        limit = self.cfg.data.max_length
        drafter = Drafter(self.engine, tokenizers, self._to_one_line, limit=limit)
        found = iter(drafter.translate(flat, options, cut=self._sentences if retry else None))
        return [[next(found) for _ in pieces] for pieces in pieces_of]

    def _check(self, wishes: Wishes, directions: Sequence[Languages]) -> None:
        """Raises: TmtError: what no translation has room for."""
        limit = self.cfg.data.max_length
        for language in {direction.tgt for direction in directions}:
            wording = Wording(self.tgt_tokenizer, language)
            wording.insist_on_length("prefix", [wishes.prefix], limit)
            if wishes.glossary is not None:
                wording.insist_on_length("glossary's term", wishes.glossary.targets, limit)

    def _read(self, text: str, direction: Languages, wishes: Wishes) -> list[Piece]:
        """A text in as many pieces as the model's length limit asks for; none if it is empty."""
        limit = self.cfg.data.max_length
        text = self._normalise[direction.src](text)
        pieces = self._pieces([text], direction, wishes)
        if all(len(piece.src) <= limit for piece in pieces):
            return pieces

        def fits(part: str) -> bool:
            return len(self.src_tokenizer.encode([part])[0]) <= limit

        return self._pieces(split_text(text, fits, direction.src), direction, wishes)

    def _sentences(self, piece: Piece, sentences: list[str]) -> list[Piece]:
        """The sentences of a piece, each as a piece."""
        return self._pieces(sentences, piece.direction, piece.wishes)

    def _pieces(self, parts: list[str], direction: Languages, wishes: Wishes) -> list[Piece]:
        """Those of the parts that are not empty; the prefix goes with the first."""
        parts = [part.strip() for part in parts]
        encoded = zip(parts, self.src_tokenizer.encode(parts), strict=True)
        found = [(part, ids) for part, ids in encoded if ids]
        later = replace(wishes, prefix="")
        return [
            Piece(part, [*self._tags(direction), *ids], direction, later if i else wishes)
            for i, (part, ids) in enumerate(found)
        ]

    def _to_one_line(self, text: str, language: str) -> str:
        return self._one_line[language](text)

    def _tags(self, direction: Languages) -> list[int]:
        if not direction.bidirectional:
            return []
        return [self.src_tokenizer.tags[language_tag(direction.tgt)]]

    @torch.inference_mode()
    def score_pairs(
        self, srcs: Sequence[str], tgts: Sequence[str], *, to: str | None = None
    ) -> list[PairScore]:
        """Log-probability of each target given its source; `to` as for `translate`.

        Of pairs with a side of more than `MOST_SCORED` tokens it is not a number, with a warning:
        the memory for attention grows with the square of the length.
        """
        pairs = [self._encode_pair(*pair, to) for pair in zip(srcs, tgts, strict=True)]
        src_ids, tgt_ids = [src for src, _ in pairs], [[*tgt, EOS_ID] for _, tgt in pairs]
        lengths = [max(len(s), len(t)) + 1 for s, t in zip(src_ids, tgt_ids, strict=True)]
        results = [PairScore(math.nan, len(tgt)) for tgt in tgt_ids]
        scored = [i for i, length in enumerate(lengths) if length <= MOST_SCORED]
        for i in sorted(set(range(len(lengths))) - set(scored)):
            message = "pair %d has %d tokens on a side, more than %d: it is not scored"
            _log.warning(message, i + 1, lengths[i], MOST_SCORED)
        for batch in batches_by_length([lengths[i] for i in scored], BATCH_TOKENS // 4):
            indices = [scored[place] for place in batch]
            tgt_out = self.pad([tgt_ids[i] for i in indices])
            tgt_in = self.pad([[BOS_ID, *tgt_ids[i][:-1]] for i in indices])
            hidden = self.model(self.pad([src_ids[i] for i in indices]), tgt_in)
            logits = self.model.project(hidden).float()  # (B, T, V)
            nll = F.cross_entropy(
                logits.transpose(1, 2), tgt_out, ignore_index=PAD_ID, reduction="none"
            )
            for i, log_prob in zip(indices, (-nll.sum(dim=1)).tolist(), strict=True):
                results[i] = PairScore(log_prob, len(tgt_ids[i]))
        return results

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
            torch.stack([layer[0] for layer in layers]).float().cpu().numpy()
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
        """Ids of one sentence and of what the decoder is to read.

        Args:
            target: None: the model's own translation.
        Returns:
            Source ids with tags and EOS; target ids without BOS and EOS.
        Raises:
            TmtError: the text is empty, or one of the texts is too long for one piece.
        """
        direction = direction_of(text, self.cfg.languages, to)
        pieces = self._read(text, direction, NO_WISHES)
        if len(pieces) != 1:
            problem = "is empty" if not pieces else "is too long to explain in one picture"
            raise TmtError(f"the text {problem}; give one sentence")
        (piece,) = pieces
        if target is None:
            ((best, *_),) = self.engine.search(
                [Request(piece.src)], SearchOptions.of(self.cfg.decode)
            )
            tgt_ids = best.ids
        else:
            tgt_ids = self.tgt_tokenizer.encode([self._normalise[direction.tgt](target)])[0]
            if len(tgt_ids) > 2 * self.cfg.data.max_length:
                raise TmtError("the target is too long to explain in one picture")
        return [*piece.src, EOS_ID], tgt_ids

    def _encode_pair(self, src: str, tgt: str, to: str | None) -> tuple[list[int], list[int]]:
        """Ids as they are in training: source with tags and EOS; target without BOS and EOS."""
        direction = direction_of(src, self.cfg.languages, to)
        (src_ids,) = self.src_tokenizer.encode([self._normalise[direction.src](src)])
        (tgt_ids,) = self.tgt_tokenizer.encode([self._normalise[direction.tgt](tgt)])
        return [*self._tags(direction), *src_ids, EOS_ID], tgt_ids

    def pad(self, rows: list[list[int]]) -> Tensor:
        """(B, longest) int64 on the model's device, PAD_ID to the right."""
        return pad(rows, self.device)


def _join(source: str, tgt: str, drafts: list[Draft]) -> Translation:
    """The translations of the pieces of a text as one."""
    source = well_formed(source)
    if not drafts:
        return Translation(source, "", 0.0, True, 1, [])
    best = [draft.hypotheses[0] for draft in drafts]
    text = joined_text(drafts, tgt)
    faults = dict.fromkeys(fault for draft in drafts for fault in draft.faults)
    if len(drafts) > 1 and is_loop(source, text):
        faults["loop"] = None
    alternatives = []
    if len(drafts) == 1:
        (only,) = drafts
        scores = [hypothesis.score for hypothesis in only.hypotheses]
        alternatives = list(map(Alternative, only.texts, scores))
    return Translation(
        source,
        text,
        sum(hypothesis.score for hypothesis in best),
        all(hypothesis.complete for hypothesis in best),
        len(drafts),
        alternatives,
        tuple(faults),
        any(draft.retried for draft in drafts),
    )


def _same_vocabularies(one: LoadedModel, other: LoadedModel) -> bool:
    pairs = zip(one.tokenizers, other.tokenizers, strict=True)
    same = all(mine.serialised == theirs.serialised for mine, theirs in pairs)
    return same and one.config.languages == other.config.languages
