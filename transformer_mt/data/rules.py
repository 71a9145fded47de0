"""One pair of texts → its clean form, a key to compare it by, or the rule that it breaks.

Comes in: text as it was read. Goes out: one line of visible text, and the reason why a pair is no
good for training. This file does not know other pairs: what depends on them is in `candidates.py`.
"""

import re
import unicodedata

from transformer_mt.data.corpus import Pair

MAX_CHARACTERS = 2000  # on either side
MIN_IDENTICAL = 40  # characters; shorter identical sides are names and commands, and good pairs
MIN_WORDLESS = 20  # characters of a side whose partner has no letter and no digit

PAIR_RULES = ("empty", "too_long", "no_words", "identical")
LETTER = re.compile(r"[^\W\d_]")

_WORD = re.compile(r"[^\W_]")
# Invisible characters that carry no text: controls, soft hyphen, zero-width space, directional
# marks, byte order marks, halves of surrogate pairs. The zero-width joiners (U+200C, U+200D) stay:
# they are spelling in Persian, in Indic scripts and in emoji.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def normalise(text: str) -> str:
    """One line of visible text: NFC, no invisible characters, single spaces, none at the ends.

    Full-width punctuation and letters stay as they are.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", _INVISIBLE.sub("", text))
    elif not text.isprintable():
        text = _INVISIBLE.sub("", text)
    # split() knows every white space and line end of Unicode: U+3000, U+2028, U+0085, tabs …
    return " ".join(text.split())


def normalise_pair(pair: Pair) -> Pair:
    """Both sides normalised; either may be empty then."""
    return normalise(pair[0]), normalise(pair[1])


class _KeyCharacters(dict[int, int | None]):
    """A table for str.translate that deletes punctuation, white space and control characters."""

    def __missing__(self, code: int) -> int | None:
        kept = unicodedata.category(chr(code))[0] not in "PZC"
        self[code] = code if kept else None
        return self[code]


_KEY_CHARACTERS = _KeyCharacters()


def comparison_key(text: str) -> str:
    """Equal for texts that differ only in case, width, punctuation and spaces."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return folded.translate(_KEY_CHARACTERS) or text


def reason_to_drop(src: str, tgt: str) -> str | None:
    """The first rule that a normalised training pair breaks on its own, or None."""
    if not src or not tgt:
        return "empty"
    if max(len(src), len(tgt)) > MAX_CHARACTERS:
        return "too_long"
    one_has_words = bool(_WORD.search(src)) != bool(_WORD.search(tgt))
    if one_has_words and max(len(src), len(tgt)) > MIN_WORDLESS:
        return "no_words"
    if src == tgt and len(src) > MIN_IDENTICAL and LETTER.search(src):
        return "identical"
    return None
