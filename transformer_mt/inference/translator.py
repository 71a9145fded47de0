"""Text in, text out: tokenization, batching by length, search, and the attention of a pass.

Comes in: a model with its tokenizers. Goes out: translations in the order of the texts. This file
knows nothing of the command line, of metrics or of how a model was trained.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_mt.config import Config
from transformer_mt.config_data import Languages
from transformer_mt.data.cleaning.normalise import Normaliser
from transformer_mt.data.tags import language_tag
from transformer_mt.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from transformer_mt.errors import TmtError
from transformer_mt.inference.attention_maps import AttentionMaps
from transformer_mt.inference.direction import direction_of
from transformer_mt.inference.search import Hypothesis, beam_search, greedy_search
from transformer_mt.inference.segment import join_translations, split_text
from transformer_mt.model.transformer import AttentionWeights, DecoderState, Transformer
from transformer_mt.model_dir import load_model_dir
from transformer_mt.runtime import choose_device, choose_precision

BATCH_TOKENS = 8192  # source tokens × beam decoded side by side, padding counted
LENGTH_MARGIN = 10  # tokens allowed beyond max_length_ratio × source, so that short texts can grow


@dataclass(frozen=True)
class Alternative:
    text: str
    score: float  # log-probability over the length penalty, summed over the pieces of a long text


@dataclass(frozen=True)
class Translation:
    source: str
    text: str
    score: float
    complete: bool  # False: the output was cut at the length limit
    pieces: int  # how many parts the source was split into; 1 unless it was too long
    alternatives: list[Alternative]  # n-best, the translation itself first; empty for split texts

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class PairScore:
    log_prob: float  # of the target given the source, EOS included, in nats
    n_tokens: int  # of the target, EOS included


class _Stepper:
    """The Transformer as a `search.StepModel`."""

    def __init__(self, model: Transformer, src: Tensor, never_written: list[int]) -> None:
        self._model = model
        self._never_written = never_written
        self._state: DecoderState = model.start(*model.encode(src))

    def step(self, tokens: Tensor) -> Tensor:
        hidden = self._model.decode(tokens[:, None], self._state, incremental=True)
        log_probs = self._model.project(hidden[:, 0]).float().log_softmax(dim=-1)  # (N, V)
        log_probs[:, self._never_written] = -math.inf  # but they are part of the sum of 1
        return log_probs

    def select_rows(self, rows: Tensor) -> None:
        self._state.select_rows(rows)

    def select_sentences(self, sentences: Tensor) -> None:
        self._state.select_sentences(sentences)


class Translator:
    """A model in eval mode with its tokenizers."""

    def __init__(
        self, model: Transformer, tokenizers: tuple[Tokenizer, Tokenizer], cfg: Config
    ) -> None:
        self.model = model
        self.src_tokenizer, self.tgt_tokenizer = tokenizers
        self.cfg = cfg
        codes, script = (cfg.languages.src, cfg.languages.tgt), cfg.data.clean.chinese_script
        self._normalise = {code: Normaliser(code, script) for code in codes}
        self._one_line = {code: Normaliser(code, None) for code in codes}

    @classmethod
    def load(cls, model_dir: Path, *, precision: str = "auto") -> "Translator":
        """Read a model directory onto the best device.

        Raises:
            ModelDirError: see `load_model_dir`.
        """
        loaded = load_model_dir(model_dir)
        device = choose_device()
        model = loaded.model.to(device, choose_precision(precision, device))
        return cls(model, loaded.tokenizers, loaded.config)

    @property
    def device(self) -> torch.device:
        return self.model.output.weight.device

    def translate(
        self,
        texts: Sequence[str],
        *,
        to: str | None = None,
        beam: int | None = None,
        length_penalty: float | None = None,
        max_length_ratio: float | None = None,
        n_best: int = 1,
    ) -> list[Translation]:
        """Translate each text; empty texts come back empty, too long ones are split and rejoined.

        Args:
            to: the language to translate into; None: the model's, or with both directions the one
                that each text is not in.
            beam: 1 is greedy search; None takes `decode.beam` of the configuration, and so on.
            n_best: how many alternatives to return, at most `beam`.
        Raises:
            TmtError: `n_best` exceeds `beam`; see `direction_of`.
        """
        decode = self.cfg.decode
        beam = decode.beam if beam is None else beam
        if n_best > beam:
            raise TmtError(f"n-best {n_best} needs a beam of at least {n_best}, found {beam}")
        alpha = decode.length_penalty if length_penalty is None else length_penalty
        ratio = decode.max_length_ratio if max_length_ratio is None else max_length_ratio
        directions = [direction_of(text, self.cfg.languages, to) for text in texts]
        pieces_of = [self._read(*entry) for entry in zip(texts, directions, strict=True)]
        flat = [ids for pieces in pieces_of for ids in pieces]
        hypotheses = iter(self._search(flat, beam, alpha, ratio, n_best))
        return [
            self._join(text, direction.tgt, [next(hypotheses) for _ in pieces])
            for text, direction, pieces in zip(texts, directions, pieces_of, strict=True)
        ]

    def _read(self, text: str, direction: Languages) -> list[list[int]]:
        """Ids of a text as the encoder reads it, in one or more pieces, each with its tags."""
        pieces = self._split(self._normalise[direction.src](text))
        return [[*self._tags(direction), *ids] for ids in pieces]

    def _tags(self, direction: Languages) -> list[int]:
        if not direction.bidirectional:
            return []
        return [self.src_tokenizer.tags[language_tag(direction.tgt)]]

    def _split(self, text: str) -> list[list[int]]:
        """Token ids of the text, in as many pieces as the model's length limit asks for."""
        limit = self.cfg.data.max_length
        ids = self.src_tokenizer.encode([text])[0]
        if not ids:
            return []
        if len(ids) <= limit:
            return [ids]

        def fits(part: str) -> bool:
            return len(self.src_tokenizer.encode([part])[0]) <= limit

        parts = [part.strip() for part in split_text(text, fits)]
        return [ids for ids in self.src_tokenizer.encode(parts) if ids]

    def _join(self, source: str, tgt: str, pieces: list[list[Hypothesis]]) -> Translation:
        if not pieces:
            return Translation(source, "", 0.0, True, 1, [])
        best = [n_best[0] for n_best in pieces]
        texts = self._decode(best, tgt)
        alternatives = []
        if len(pieces) == 1:
            alternatives = [
                Alternative(text, hypothesis.score)
                for text, hypothesis in zip(self._decode(pieces[0], tgt), pieces[0], strict=True)
            ]
        return Translation(
            source,
            join_translations(texts, tgt),
            sum(hypothesis.score for hypothesis in best),
            all(hypothesis.complete for hypothesis in best),
            len(pieces),
            alternatives,
        )

    def _decode(self, hypotheses: list[Hypothesis], tgt: str) -> list[str]:
        """One line each: the byte pieces of a model could also spell line ends."""
        texts = self.tgt_tokenizer.decode([hypothesis.ids for hypothesis in hypotheses])
        return list(map(self._one_line[tgt], texts))

    @torch.inference_mode()
    def _search(
        self, sentences: list[list[int]], beam: int, alpha: float, ratio: float, n_best: int
    ) -> list[list[Hypothesis]]:
        """Search in batches of like lengths; results in the order of `sentences`."""
        results: list[list[Hypothesis]] = [[]] * len(sentences)
        for indices in _batches_by_length([len(ids) for ids in sentences], BATCH_TOKENS // beam):
            src = self.pad([[*sentences[i], EOS_ID] for i in indices])
            limits = [math.ceil(ratio * len(sentences[i])) + LENGTH_MARGIN for i in indices]
            stepper = _Stepper(self.model, src, self.tgt_tokenizer.silent_ids)
            if beam == 1:
                best = greedy_search(
                    stepper, limits, bos_id=BOS_ID, eos_id=EOS_ID, alpha=alpha, device=self.device
                )
                found = [[hypothesis] for hypothesis in best]
            else:
                found = beam_search(
                    stepper,
                    limits,
                    beam=beam,
                    bos_id=BOS_ID,
                    eos_id=EOS_ID,
                    alpha=alpha,
                    n_best=n_best,
                    device=self.device,
                )
            for i, hypotheses in zip(indices, found, strict=True):
                results[i] = hypotheses
        return results

    @torch.inference_mode()
    def score_pairs(
        self, srcs: Sequence[str], tgts: Sequence[str], *, to: str | None = None
    ) -> list[PairScore]:
        """Log-probability of each target given its source; `to` as for `translate`."""
        pairs = [self._encode_pair(*pair, to) for pair in zip(srcs, tgts, strict=True)]
        src_ids, tgt_ids = [src for src, _ in pairs], [[*tgt, EOS_ID] for _, tgt in pairs]
        lengths = [max(len(s), len(t)) for s, t in zip(src_ids, tgt_ids, strict=True)]
        results = [PairScore(0.0, 0)] * len(lengths)
        for indices in _batches_by_length(lengths, BATCH_TOKENS // 4):
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
            source=text,
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
            TmtError: the text is empty, or too long for one piece.
        """
        direction = direction_of(text, self.cfg.languages, to)
        pieces = self._read(text, direction)
        if len(pieces) != 1:
            problem = "is empty" if not pieces else "is too long to explain in one picture"
            raise TmtError(f"the text {problem}; give one sentence")
        if target is None:
            decode = self.cfg.decode
            ((best, *_),) = self._search(
                pieces, decode.beam, decode.length_penalty, decode.max_length_ratio, 1
            )
            tgt_ids = best.ids
        else:
            tgt_ids = self.tgt_tokenizer.encode([self._normalise[direction.tgt](target)])[0]
        return [*pieces[0], EOS_ID], tgt_ids

    def _encode_pair(self, src: str, tgt: str, to: str | None) -> tuple[list[int], list[int]]:
        """Ids as they are in training: source with tags and EOS; target without BOS and EOS."""
        direction = direction_of(src, self.cfg.languages, to)
        (src_ids,) = self.src_tokenizer.encode([self._normalise[direction.src](src)])
        (tgt_ids,) = self.tgt_tokenizer.encode([self._normalise[direction.tgt](tgt)])
        return [*self._tags(direction), *src_ids, EOS_ID], tgt_ids

    def pad(self, rows: list[list[int]]) -> Tensor:
        """(B, longest) int64 on the model's device, PAD_ID to the right."""
        padded = [torch.tensor(row) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(padded, batch_first=True, padding_value=PAD_ID).to(
            self.device
        )


def _batches_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Indices, longest first, cut so that sentences × longest stays within `max_tokens`."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        size = max(1, max_tokens // (lengths[order[start]] + 1))
        yield order[start : start + size]
        start += size
