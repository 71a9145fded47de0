"""Which word of a text each word of its translation comes from, by a model's cross-attention.

Source of the idea: Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer
Models", section 3.1: the attention of the upper layers, averaged over heads, is an alignment.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import accumulate

from transformer_mt.encoding.tokenizer import EOS
from transformer_mt.errors import TmtError
from transformer_mt.text.sentences import split_sentences
from transformer_mt.translation.attention_maps import AttentionMaps
from transformer_mt.translation.direction import direction_of
from transformer_mt.translation.translator import Translator

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class AttentionAligner:
    """Aligns texts with translations by one teacher-forced pass of the first model."""

    def __init__(self, translator: Translator, *, to: str | None = None) -> None:
        """Args: to: the language of the translations, as for `Translator.translate`."""
        self._translator, self._to = translator, to

    def __call__(self, text: str, translation: str) -> list[int] | None:
        """For each character of the translation, an index in the text; -1: white space.

        A text that is too long for one pass is aligned sentence by sentence, if the translation has
        as many. None: it has not, or is too long for a pass.
        """
        with suppress(TmtError):
            return self._aligned(text, translation)
        with suppress(TmtError):
            direction = direction_of(text, self._translator.cfg.languages, self._to)
            sources = split_sentences(text, direction.src)
            targets = split_sentences(translation, direction.tgt)
            if not len(sources) == len(targets) > 1:
                return None
            starts = accumulate(map(len, sources), initial=0)
            return [
                origin + start if origin >= 0 else -1
                for source, target, start in zip(sources, targets, starts, strict=False)
                for origin in self._aligned(source, target)
            ]
        return None

    def _aligned(self, text: str, translation: str) -> list[int]:
        maps = self._translator.attention(text, translation, to=self._to, top_k=1)
        tags = self._translator.src_tokenizer.tags
        return character_alignment(maps, text, translation, tags)


def character_alignment(
    maps: AttentionMaps, text: str, translation: str, tags: Iterable[str] = ()
) -> list[int]:
    """For each character of the translation an index in the text; -1: white space.

    Args:
        maps: of one pass, in which the encoder reads the text and the decoder the translation.
        tags: pieces that stand for no text.
    """
    tags = [*tags]
    layers = maps.cross[len(maps.cross) // 2 :]  # (L / 2, H, T, S)
    weights = layers.mean(axis=(0, 1))  # (T, S)
    weights[:, [piece in (*tags, EOS) for piece in maps.src_pieces]] = -1
    best = weights.argmax(axis=1)  # (T,) pieces of the source
    first: dict[int, int] = {}  # piece of the source → its first character
    for i, piece in enumerate(_pieces_of(text, maps.src_pieces, tags)):
        first.setdefault(piece, i)
    # A piece without a character, such as the second byte of one, has that of the piece before it.
    character_of = [first.get(0, -1)]
    for piece in range(1, len(maps.src_pieces)):
        character_of.append(first.get(piece, character_of[-1]))
    return [
        character_of[best[piece]] if piece >= 0 else -1
        for piece in _pieces_of(translation, maps.tgt_out_pieces, ())
    ]


def _pieces_of(text: str, pieces: Sequence[str], tags: Sequence[str]) -> list[int]:
    """The piece of each character, -1: white space; in proportion if numbers differ."""
    counts = [0 if piece in (*tags, EOS) else _n_characters(piece) for piece in pieces]
    owners = [i for i, count in enumerate(counts) for _ in range(count)]
    n_visible = sum(not character.isspace() for character in text)
    if not owners:
        return [-1] * len(text)
    visible = iter(owners[i * len(owners) // n_visible] for i in range(n_visible))
    return [-1 if character.isspace() else next(visible) for character in text]


def _n_characters(piece: str) -> int:
    """Characters that begin in a piece, without white space."""
    if byte := _BYTE.fullmatch(piece):
        value = int(byte[1], 16)
        return int(value > 32 and not 0x80 <= value < 0xC0)
    return sum(not character.isspace() for character in piece.replace("▁", ""))
