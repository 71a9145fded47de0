"""One pair of texts → one score per rule: how bad it is for training, by itself.

Comes in: the two texts, normalised. Goes out: a score for each rule, larger is worse. This file
does not know thresholds (they are settings, `data.clean`) nor other pairs. For the rules that need
other pairs, `length_ratio`, `duplicate`, `overlap` and `mismatch`, see `decide.py`.
"""

import re
import unicodedata

from transformer_mt.config.experiment import Languages
from transformer_mt.corpus.cleaning.language_id import MIN_LETTERS, ForeignLanguage
from transformer_mt.corpus.cleaning.repetition import identical, repeated
from transformer_mt.text.foreign_script import SideScripts, swapped, weigh
from transformer_mt.text.normalise import ChineseScript, sort_marks
from transformer_mt.text.numbers_and_markup import markup_apart, numbers_apart, urls_apart
from transformer_mt.text.scripts import Letters, script_of

_WORD = re.compile(r"[^\W_]")

# The rules in their order: the first one whose threshold is exceeded names the drop.
RULE_MEANING = {
    "empty": "sides without text",
    "too_long": "characters of the longer side",
    "no_words": "characters of the longer side, if only one of them has letters or digits",
    "non_letters": "share of a side that is neither letter nor space",
    "identical": "characters of lower-case words, if both sides are nearly the same",
    "repeated": "characters that say one thing over and over, on one side only",
    "swapped": "share of each side that is in the script of the other one's language",
    "script": "share of a side that is in scripts of other languages",
    "variant": "share of the telling Chinese characters that are of the other Chinese script",
    "markup": "tags and entities that one side has more than the other",
    "urls": "web and e-mail addresses that one side has more than the other",
    "numbers": "numbers in digits that have no equivalent on the other side",
    "language": "probability that a side is in another language",
}
SCORED_RULES = tuple(RULE_MEANING)

_NO_LETTERS = Letters(0, 0, 0, 0, 0)
_SMOOTHING = 10  # characters of text, since a share of few characters says little


class PairScorer:
    """(src, tgt), both normalised → one score for each of `SCORED_RULES`, larger is worse.

    Args:
        chinese_script: the script that Chinese text was converted to, if it was.
        identify: whether to compute `language`, which takes longer than all others together.
    Raises:
        ConfigError: `identify` without py3langid, or for a language that it does not know.
    """

    def __init__(
        self,
        languages: Languages,
        *,
        chinese_script: ChineseScript | None = None,
        identify: bool = False,
    ) -> None:
        self._codes = languages.src, languages.tgt
        self._src_scripts = SideScripts(languages.src, chinese_script)
        self._tgt_scripts = SideScripts(languages.tgt, chinese_script)
        self._foreign = tuple(map(ForeignLanguage, self._codes)) if identify else ()

    def scores(self, src: str, tgt: str) -> tuple[float, ...]:
        """One score for each of `SCORED_RULES`, in that order."""
        longer = max(len(src), len(tgt))
        if not src or not tgt:
            return ((not src) + (not tgt), longer, *[0] * (len(SCORED_RULES) - 2))
        letters = src_letters, tgt_letters = script_of(src), script_of(tgt)
        return (
            0,
            longer,
            longer if _has_words(src, src_letters) != _has_words(tgt, tgt_letters) else 0,
            max(_non_letters(src, src_letters), _non_letters(tgt, tgt_letters)),
            identical(src, tgt),
            repeated(src, tgt),
            swapped(self._src_scripts, self._tgt_scripts, src_letters, tgt_letters),
            max(
                self._src_scripts.wrong_script(src_letters, src, tgt),
                self._tgt_scripts.wrong_script(tgt_letters, tgt, src),
            ),
            max(self._src_scripts.wrong_variant(src), self._tgt_scripts.wrong_variant(tgt)),
            markup_apart(src, tgt),
            urls_apart(src, tgt),
            numbers_apart(src, tgt, *self._codes),
            max(map(_foreign_share, self._foreign, (src, tgt), letters), default=0),
        )


def _has_words(text: str, letters: Letters) -> bool:
    return letters != _NO_LETTERS or bool(_WORD.search(text))


def _non_letters(text: str, letters: Letters) -> float:
    n_visible = len(text) - text.count(" ")
    return (n_visible - sum(letters)) / (n_visible + _SMOOTHING)


def _foreign_share(judge: ForeignLanguage, text: str, letters: Letters) -> float:
    return judge(text) if weigh(letters) >= MIN_LETTERS else 0


class _KeyCharacters(dict[int, str]):
    """A table for str.translate: folds case and width; deletes punctuation, spaces and controls."""

    def __missing__(self, code: int) -> str:
        folded = unicodedata.normalize("NFKC", chr(code)).casefold()
        self[code] = "".join(c for c in folded if unicodedata.category(c)[0] not in "PZC")
        return self[code]


_KEY_CHARACTERS = _KeyCharacters()
_ASCII_NO_KEY = bytes(code for code in range(128) if not _KEY_CHARACTERS[code])


def comparison_key(text: str) -> str:
    """Equal for texts that differ only in case, width, punctuation and spaces."""
    if text.isascii():
        return text.encode().lower().translate(None, _ASCII_NO_KEY).decode() or text
    # Character by character first, since normalising a long text takes time.
    key = text.translate(_KEY_CHARACTERS)
    if len(key) >= 1000:
        key = sort_marks(key)
    return unicodedata.normalize("NFKC", key) or text
