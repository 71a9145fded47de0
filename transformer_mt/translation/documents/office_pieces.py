"""Things in a paragraph of an office document: text with its formatting, markup, fields, ranges."""

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from transformer_mt.translation.documents.marks import Token

_RANGES = ("bookmark", "comment")  # begin and end with elements of their own
_DEEPEST = 20  # ranges within ranges that are marks
_RANGE = re.compile(
    rf"<(?:\w+:)?((?:{'|'.join(_RANGES)})\w*?)(-?[Ss]tart|-?[Ee]nd)\b[^>]*?\b(?:id|name)=(\S+?)[\s/>]"
)
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_SPELLED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Piece(NamedTuple):
    """A token; of text with its formatting, of a field with its part in it."""

    token: Token
    run: tuple[str, str] = ("", "")  # raw XML around text
    field: str = ""  # begin, separate, end; instr: what the field is

    @property
    def raw(self) -> str:
        text = self.token.kind == "text"
        return f"{self.run[0]}{encode_xml(self.token.raw)}{self.run[1]}" if text else self.token.raw


def range_token(name: str, id_: str, raw: str) -> Token | None:
    """The begin or end of a bookmark or comment, by the name of its element; else None."""
    local = name.partition(":")[2].replace("-", "").lower()
    for range_ in _RANGES:
        if local in (f"{range_}start", f"{range_}rangestart"):
            return Token("open", raw, f"{range_} {id_}")
        if local in (f"{range_}end", f"{range_}rangeend"):
            return Token("close", raw, f"{range_} {id_}")
    return None


def ranges_in_order(tokens: Sequence[Token]) -> list[Token]:
    """Ends of ranges that are kept, each on its own, with the beginning first."""
    ordered = list(tokens)
    ends: dict[tuple[str, str], int] = {}
    for i, token in enumerate(tokens):
        match = _RANGE.match(token.raw) if token.kind == "kept" else None
        if match is None:
            continue
        range_ = match[1], match[3]
        if match[2].lower().endswith("end"):
            ends[range_] = i
        elif range_ in ends:
            j = ends.pop(range_)
            ordered[i], ordered[j] = ordered[j], ordered[i]
    return ordered


def encode_xml(text: str) -> str:
    return _NOT_XML.sub("", text).translate(_SPELLED)


def with_fields(pieces: Sequence[Piece]) -> list[Piece]:
    """The fields of Word that begin and end here as one piece, links as marks.

    Parts of fields that begin or end elsewhere divide the text.
    """
    stack: list[list[Piece]] = [[]]
    for piece in pieces:
        if piece.field == "begin":
            stack.append([piece])
        elif piece.field == "end" and len(stack) > 1:
            found = _field([*stack.pop(), piece])
            stack[-1] += found
        else:
            stack[-1].append(piece)
    return [_divided(piece) for level in stack for piece in level]


def _divided(piece: Piece) -> Piece:
    return Piece(piece.token._replace(kind="break")) if piece.field else piece


def _field(pieces: list[Piece]) -> list[Piece]:
    """A whole field, from its begin to its end."""
    changes = [(p.token.kind == "open") - (p.token.kind == "close") for p in pieces]
    if sum(changes) or min(accumulate(changes)) < 0:
        return [_divided(piece) for piece in pieces]
    places = [i for i, piece in enumerate(pieces) if piece.field == "separate"]
    shown = places[0] if places else len(pieces) - 1
    what = "".join(p.token.name for p in pieces[:shown] if p.field == "instr").strip().upper()
    plain = all(p.field for p in pieces[: shown + 1])
    if what.startswith("HYPERLINK") and places and plain:
        before = "".join(piece.raw for piece in pieces[: shown + 1])
        opening = Piece(Token("open", before, "field"))
        closing = Piece(Token("close", pieces[-1].raw, "field"))
        return [opening, *pieces[shown + 1 : -1], closing]
    texts = (p.token.raw if p.token.kind == "text" else "" for p in pieces[shown:])
    raw = "".join(piece.raw for piece in pieces)
    return [Piece(Token("kept", raw, "".join(texts)))]


def with_ranges(pieces: list[Piece]) -> list[Piece]:
    """Bookmarks and comments are marks where they are nested properly with other markup.

    Elsewhere their ends are kept where they are, each on its own.
    """
    kept: set[int] = set()
    stack: list[int] = []
    n_begun_before = 0  # ranges that end here
    for i, (token, *_) in enumerate(pieces):
        is_range = token.name.startswith(_RANGES)
        if token.kind == "open" and is_range and len(stack) >= _DEEPEST:
            kept.add(i)
        elif token.kind == "open":
            stack.append(i)
        elif token.kind == "close":
            partner = next((j for j in reversed(stack) if pieces[j].token.name == token.name), None)
            if not is_range:
                while stack and stack[-1] != partner:
                    kept.add(stack.pop())
                stack.pop()
            elif partner is None:
                n_begun_before += 1
                kept |= {i} if stack or n_begun_before > _DEEPEST else set()
            elif stack[-1] == partner:
                stack.pop()
            else:
                kept |= {i, partner}
                stack.remove(partner)
    return [
        Piece(piece.token._replace(kind="kept", name="")) if i in kept else piece
        for i, piece in enumerate(pieces)
    ]
