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
from transformer_mt.data.rules import normalise
from transformer_mt.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from transformer_mt.errors import TmtError
from transformer_mt.inference.attention_maps import AttentionMaps
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

    def __init__(self, model: Transformer, src: Tensor) -> None:
        self._model = model
        self._state: DecoderState = model.start(*model.encode(src))

    def step(self, tokens: Tensor) -> Tensor:
        hidden = self._model.decode(tokens[:, None], self._state, incremental=True)
        log_probs = self._model.project(hidden[:, 0]).float().log_softmax(dim=-1)  # (N, V)
        log_probs[:, [PAD_ID, BOS_ID]] = -math.inf  # never written, but part of the sum of 1
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
        beam: int | None = None,
        length_penalty: float | None = None,
        max_length_ratio: float | None = None,
        n_best: int = 1,
    ) -> list[Translation]:
        """Translate each text; empty texts come back empty, too long ones are split and rejoined.

        Args:
            beam: 1 is greedy search; None takes `decode.beam` of the configuration, and so on.
            n_best: how many alternatives to return, at most `beam`.
        Raises:
            TmtError: `n_best` exceeds `beam`.
        """
        decode = self.cfg.decode
        beam = decode.beam if beam is None else beam
        if n_best > beam:
            raise TmtError(f"n-best {n_best} needs a beam of at least {n_best}, found {beam}")
        alpha = decode.length_penalty if length_penalty is None else length_penalty
        ratio = decode.max_length_ratio if max_length_ratio is None else max_length_ratio
        pieces_of = [self._split(normalise(text)) for text in texts]
        flat = [ids for pieces in pieces_of for ids in pieces]
        hypotheses = iter(self._search(flat, beam, alpha, ratio, n_best))
        return [
            self._join(text, [next(hypotheses) for _ in pieces])
            for text, pieces in zip(texts, pieces_of, strict=True)
        ]

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

    def _join(self, source: str, pieces: list[list[Hypothesis]]) -> Translation:
        if not pieces:
            return Translation(source, "", 0.0, True, 1, [])
        best = [n_best[0] for n_best in pieces]
        texts = self._decode(best)
        alternatives = []
        if len(pieces) == 1:
            alternatives = [
                Alternative(text, hypothesis.score)
                for text, hypothesis in zip(self._decode(pieces[0]), pieces[0], strict=True)
            ]
        return Translation(
            source,
            join_translations(texts, self.cfg.languages.tgt),
            sum(hypothesis.score for hypothesis in best),
            all(hypothesis.complete for hypothesis in best),
            len(pieces),
            alternatives,
        )

    def _decode(self, hypotheses: list[Hypothesis]) -> list[str]:
        """One line each: the byte pieces of a model could also spell line ends."""
        return list(map(normalise, self.tgt_tokenizer.decode([h.ids for h in hypotheses])))

    @torch.inference_mode()
    def _search(
        self, sentences: list[list[int]], beam: int, alpha: float, ratio: float, n_best: int
    ) -> list[list[Hypothesis]]:
        """Search in batches of like lengths; results in the order of `sentences`."""
        results: list[list[Hypothesis]] = [[]] * len(sentences)
        for indices in _batches_by_length([len(ids) for ids in sentences], BATCH_TOKENS // beam):
            src = self.pad([[*sentences[i], EOS_ID] for i in indices])
            limits = [math.ceil(ratio * len(sentences[i])) + LENGTH_MARGIN for i in indices]
            stepper = _Stepper(self.model, src)
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
    def score_pairs(self, srcs: Sequence[str], tgts: Sequence[str]) -> list[PairScore]:
        """Log-probability of each target given its source."""
        src_ids = [[*ids, EOS_ID] for ids in self.src_tokenizer.encode(list(map(normalise, srcs)))]
        tgt_ids = [[*ids, EOS_ID] for ids in self.tgt_tokenizer.encode(list(map(normalise, tgts)))]
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
    def attention(self, text: str, target: str | None = None, *, top_k: int = 5) -> AttentionMaps:
        """Attention of every layer and head in one teacher-forced pass.

        Args:
            target: what the decoder reads; None: the model's own translation.
            top_k: how many of the next pieces to keep at every step.
        Raises:
            TmtError: the text is empty, or too long for one piece.
        """
        src_ids, tgt_ids = self.forced_ids(text, target)
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

    def forced_ids(self, text: str, target: str | None) -> tuple[list[int], list[int]]:
        """Ids of one sentence and of what the decoder is to read.

        Args:
            target: None: the model's own translation.
        Returns:
            Source ids with EOS; target ids without BOS and EOS.
        Raises:
            TmtError: the text is empty, or too long for one piece.
        """
        pieces = self._split(normalise(text))
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
            tgt_ids = self.tgt_tokenizer.encode([normalise(target)])[0]
        return [*pieces[0], EOS_ID], tgt_ids

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
