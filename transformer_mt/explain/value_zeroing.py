"""Which source word decided each word of a translation: value zeroing, beside the raw attention.

The values of a source word are set to zero in the cross-attention of every layer; what counts is
how far the log-probability of the word that is written moves. Queries and keys stay, and so do the
words that are written already. This file does not know how shares are drawn.
Source: Mohebbi et al. 2023, "Quantifying Context Mixing in Transformers", section 3; there the
distance of hidden states, here that of log-probabilities, is what moves.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transformer_mt.config.data import Languages
from transformer_mt.encoding.tokenizer import BOS_ID, EOS_ID
from transformer_mt.explain.piece_text import PieceText, Word
from transformer_mt.model.encoder_decoder import EncoderDecoder
from transformer_mt.system.arrays import Floats
from transformer_mt.translation.attention_maps import AttentionMaps
from transformer_mt.translation.translator import Translator

_registering = threading.Lock()  # torch counts hooks without one


@dataclass(frozen=True)
class Deciding:
    """A word of a translation, and what decided it."""

    word: str
    by_zeroing: str  # a source word
    zeroing: float  # its share of all movement
    by_attention: str  # a source word
    attention: float  # its share of the weights, mean of all heads


@torch.inference_mode()
def movements(
    model: EncoderDecoder,
    src: Tensor,
    tgt_ids: Sequence[int],
    groups: Sequence[Sequence[int]],
    *,
    encoder: bool = False,
) -> Tensor:
    """How far the log-probability of each written token moves without some values, in nats.

    Args:
        model: in eval mode.
        src: (1, S) int64, with EOS.
        tgt_ids: without BOS and EOS.
        groups: G sets of source positions, whose values are zeroed together.
        encoder: zero the values of the encoder's self-attention, too.
    Returns:
        (T, G) ≥ 0, T tokens with EOS.
    """
    tgt_in = torch.tensor([[BOS_ID, *tgt_ids]], device=src.device)
    tgt_out = torch.tensor([*tgt_ids, EOS_ID], device=src.device)
    kept = torch.ones(1 + len(groups), src.size(1), 1, device=src.device)
    for row, positions in enumerate(groups, start=1):
        kept[row, list(positions)] = 0
    with _values_times(model, kept, encoder=encoder):
        hidden = model(src.expand(len(kept), -1), tgt_in.expand(len(kept), -1))
    places = torch.arange(len(tgt_out)), tgt_out
    written = torch.stack(  # (1 + G, T); the logits (T, V) of all rows at once may take gigabytes
        [model.project(row).float().log_softmax(dim=-1)[places] for row in hidden]
    )
    return (written[1:] - written[0]).abs().T.cpu()


@contextmanager
def _values_times(model: EncoderDecoder, factors: Tensor, *, encoder: bool) -> Iterator[None]:
    """Multiply the values that are taken from source positions, (B, S, D), by (B, S, 1).

    Other threads may use the model meanwhile, as those of a server do.
    """
    width, thread = model.cfg.d_model, threading.get_ident()

    def multiplied(_module: Any, _inputs: Any, output: Tensor) -> Tensor:
        if threading.get_ident() != thread:
            return output
        others, values = output.split([output.size(-1) - width, width], dim=-1)  # V stands last
        return torch.cat([others, values * factors.to(values.dtype)], dim=-1)

    projections = model.value_projections(encoder=encoder)
    with _registering:
        handles = [projection.register_forward_hook(multiplied) for projection in projections]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def word_shares(
    translator: Translator,
    maps: AttentionMaps,
    ids: tuple[list[int], list[int]],
    languages: Languages,
) -> tuple[list[Word], list[Word], Floats, Floats]:
    """Words of the translation and of the source; shares by zeroing and by attention, (T', S').

    The shares of a word of the translation are those of its first piece, and sum to 1: of the
    movements, and of the weights of cross-attention on words, mean of all layers and heads.

    Args:
        ids: of source and translation, see `Translator.forced_ids`.
    """
    src = PieceText(maps.src_pieces, languages.src).words()
    tgt = PieceText(maps.tgt_out_pieces, languages.tgt).words()
    src_ids, tgt_ids = ids
    groups = [word.pieces for word in src]
    moved = movements(translator.model, translator.pad([src_ids]), tgt_ids, groups).numpy()
    weights = maps.pick("cross", "mean", "mean")  # (T, S)
    attended = torch.tensor([[weights[t, g].sum() for g in groups] for t in range(len(weights))])
    rows = [word.pieces[0] for word in tgt]
    return tgt, src, _shares(moved[rows]), _shares(attended.numpy()[rows])


def _shares(values: Floats) -> Floats:
    """Each row divided by its sum."""
    found: Floats = values / values.sum(axis=1, keepdims=True).clip(min=1e-12)
    return found


def deciding_words(
    tgt: Sequence[Word], src: Sequence[Word], zeroed: Floats, attended: Floats
) -> list[Deciding]:
    """For each word of the translation the source word that decided it; see `word_shares`."""
    if not src:
        return []

    def best(shares: Floats, row: int) -> tuple[str, float]:
        column = int(shares[row].argmax())
        return src[column].text, float(shares[row, column])

    return [
        Deciding(word.text, *best(zeroed, row), *best(attended, row))
        for row, word in enumerate(tgt)
    ]
