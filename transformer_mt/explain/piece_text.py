"""Pieces of a tokenizer → the text that they spell, its words, and the pieces of each."""

import re
from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from transformer_mt.text.languages import is_unspaced
from transformer_mt.text.pronouns import pronoun_spans
from transformer_mt.text.words import split_pieces

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_CLAUSE_ENDS = set(",;:.!?…，；：。！？、،؛؟")
_NO_TEXT = re.compile(r"<[^<>]+>")  # <s>, </s>, tags


class Word(NamedTuple):
    """A word of a text, and the positions of the pieces that it is written with."""

    text: str
    pieces: list[int]


class PieceText:
    """The text of one side; pieces that stand for no text are a space in it."""

    def __init__(self, pieces: Sequence[str], language: str) -> None:
        self.language = language
        self._owners: list[range] = []  # of each character: its pieces
        self.text = ""
        for is_byte, group in groupby(enumerate(pieces), lambda item: _is_byte(item[1])):
            for text, owners in _of_bytes([*group]) if is_byte else map(_of_piece, group):
                self.text += text
                self._owners += [owners] * len(text)

    def words(self) -> list[Word]:
        """Words in order; of a language without spaces, the letters of each piece."""
        if is_unspaced(self.language):
            ends = accumulate(len([*group]) for _, group in groupby(self._owners))
        else:
            ends = accumulate(map(len, split_pieces(self.text, self.language)))
        spans = pairwise([0, *ends])
        return [self._word(*span) for span in spans if any(map(str.isalnum, self._text(span)))]

    def pronouns(self) -> list[Word]:
        return [self._word(*span) for span in pronoun_spans(self.text, self.language)]

    def find(self, word: str) -> list[Word]:
        """Every place of a word, whatever its capitals; never a part of a spaced word."""
        if not (word := " ".join(word.split())):
            return []
        before, after = ("", "") if is_unspaced(self.language) else (r"(?<!\w)", r"(?!\w)")
        pattern = f"{before}{re.escape(word)}{after}"
        return [self._word(*m.span()) for m in re.finditer(pattern, self.text, re.IGNORECASE)]

    def before(self, word: Word) -> list[Word]:
        """The words of earlier clauses; of the same one, if there is no other, but not the last."""
        earlier = [other for other in self.words() if other.pieces[-1] < word.pieces[0]]
        ends = [
            owners[0]
            for character, owners in zip(self.text, self._owners, strict=True)
            if character in _CLAUSE_ENDS and owners[0] < word.pieces[0]
        ]
        clauses = [other for other in earlier if ends and other.pieces[-1] < ends[-1]]
        return clauses or earlier[:-1]

    def around(self, word: Word, n_pieces: int = 3) -> str:
        """The text of a word and of some pieces on both sides."""
        near = range(word.pieces[0] - n_pieces, word.pieces[-1] + n_pieces + 1)
        inside = [i for i, owners in enumerate(self._owners) if owners and owners[0] in near]
        return " ".join(self.text[inside[0] : inside[-1] + 1].split())

    def _text(self, span: tuple[int, int]) -> str:
        return self.text[slice(*span)]

    def _word(self, start: int, end: int) -> Word:
        owned = {piece for owners in self._owners[start:end] for piece in owners}
        return Word(self.text[start:end].strip(), sorted(owned))


def _is_byte(piece: str) -> bool:
    return _BYTE.fullmatch(piece) is not None


def _of_piece(item: tuple[int, str]) -> tuple[str, range]:
    place, piece = item
    text = " " if _NO_TEXT.fullmatch(piece) else piece.replace("▁", " ")
    return text, range(place, place + 1)


def _of_bytes(items: list[tuple[int, str]]) -> list[tuple[str, range]]:
    """Characters that a run of byte pieces spells, each with its bytes."""
    decoded = bytes(int(piece[3:5], 16) for _, piece in items).decode("utf-8", "replace")
    found, place, end = [], items[0][0], items[-1][0] + 1
    for character in decoded:
        size = 1 if character == "\N{REPLACEMENT CHARACTER}" else len(character.encode())
        found.append((character, range(place, min(place + size, end))))
        place = min(place + size, end)
    return found
