"""Log-probabilities of given translations, by teacher forcing."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from transformer_mt.config.data import Languages
from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from transformer_mt.messages.catalogue import tr
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.search.engine import BATCH_TOKENS, batches_by_length, padded
from transformer_mt.translation.direction import direction_of
from transformer_mt.translation.segments import Segmenter

MOST_SCORED = 4096  # tokens of a side, many times as many as a sentence has

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PairScore:
    log_prob: float  # of the target given the source, EOS included, in nats
    n_tokens: int  # of the target, EOS included


class PairScorer:
    """Encodes and scores pairs of texts with one model."""

    def __init__(
        self,
        model: EncoderDecoder,
        segmenter: Segmenter,
        tokenizer: Tokenizer,
        languages: Languages,
    ) -> None:
        """Args: tokenizer: of the target side."""
        self._model, self._segmenter = model, segmenter
        self._tokenizer, self._languages = tokenizer, languages

    def encode(self, src: str, tgt: str, to: str | None = None) -> tuple[list[int], list[int]]:
        """Ids as they are in training: source with tags and EOS; target without BOS and EOS."""
        direction = direction_of(src, self._languages, to)
        target = self._segmenter.normalise(tgt, direction.tgt)
        (tgt_ids,) = self._tokenizer.encode([target])
        return [*self._segmenter.encode(src, direction), EOS_ID], tgt_ids

    @torch.inference_mode()
    def score(
        self, srcs: Sequence[str], tgts: Sequence[str], *, to: str | None = None
    ) -> list[PairScore]:
        """Log-probability of each target given its source; `to` as for `Translator.translate`.

        Of pairs with a side of more than `MOST_SCORED` tokens it is not a number, with a warning:
        the memory for attention grows with the square of the length.
        """
        pairs = [self.encode(*pair, to) for pair in zip(srcs, tgts, strict=True)]
        src_ids, tgt_ids = [src for src, _ in pairs], [[*tgt, EOS_ID] for _, tgt in pairs]
        lengths = [max(len(s), len(t)) + 1 for s, t in zip(src_ids, tgt_ids, strict=True)]
        results = [PairScore(math.nan, len(tgt)) for tgt in tgt_ids]
        scored = [i for i, length in enumerate(lengths) if length <= MOST_SCORED]
        for i in sorted(set(range(len(lengths))) - set(scored)):
            message = tr(
                "pair {} has {} tokens on a side, more than {}: it is not scored",
                i + 1,
                lengths[i],
                MOST_SCORED,
            )
            _log.warning("%s", message)
        device = self._model.output.weight.device
        for batch in batches_by_length([lengths[i] for i in scored], BATCH_TOKENS // 4):
            indices = [scored[place] for place in batch]
            tgt_out = padded([tgt_ids[i] for i in indices], device)
            tgt_in = padded([[BOS_ID, *tgt_ids[i][:-1]] for i in indices], device)
            hidden = self._model(padded([src_ids[i] for i in indices], device), tgt_in)
            logits = self._model.project(hidden).float()  # (B, T, V)
            nll = F.cross_entropy(
                logits.transpose(1, 2), tgt_out, ignore_index=PAD_ID, reduction="none"
            )
            for i, log_prob in zip(indices, (-nll.sum(dim=1)).tolist(), strict=True):
                results[i] = PairScore(log_prob, len(tgt_ids[i]))
        return results
