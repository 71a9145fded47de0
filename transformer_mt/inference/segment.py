"""Cut a text that is too long for the model into sentences, and join what comes back.

Knows characters only. The rules cover Chinese and European sentence ends; a text within the limit
is never touched, and nothing is ever left out.
"""

import re
from collections.abc import Callable

from transformer_mt.languages import is_unspaced

# After a sentence-final mark with its closing quotes: anywhere for full-width marks, before a space
# for the others, which also end abbreviations and numbers.
_SENTENCE_END = re.compile(
    r"(?:(?<=[。！？；…])|(?<=[。！？；…][”’」』）]))(?![。！？；…”’」』）])"
    r"|(?:(?<=[.!?;]\s)|(?<=[.!?;][\"'”’)]\s))(?=\S)"
)
_CLAUSE_END = re.compile(r"(?<=[，、：])|(?<=[,:]\s)")


def split_text(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Cut `text` into pieces that fit: at sentence ends, else at clauses, else anywhere.

    Args:
        fits: whether a piece is short enough for the model.
    Returns:
        At least one piece; joined without separator they are `text`.
    """
    if fits(text):
        return [text]
    for pattern in (_SENTENCE_END, _CLAUSE_END, re.compile(r"(?<=\s)(?=\S)")):
        parts = [part for part in pattern.split(text) if part]
        if len(parts) > 1:
            pieces = [piece for part in parts for piece in split_text(part, fits)]
            return _merge(pieces, fits)
    if len(text) == 1:
        return [text]  # one character beyond the limit: nothing smaller exists
    middle = len(text) // 2
    return split_text(text[:middle], fits) + split_text(text[middle:], fits)


def _merge(pieces: list[str], fits: Callable[[str], bool]) -> list[str]:
    """Join neighbours that fit together, so that context is kept and pieces are few."""
    merged = [pieces[0]]
    for piece in pieces[1:]:
        if fits(merged[-1] + piece):
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged


def join_translations(pieces: list[str], language: str) -> str:
    """Put translated pieces back together as the target language writes sentences."""
    return ("" if is_unspaced(language) else " ").join(piece for piece in pieces if piece)
