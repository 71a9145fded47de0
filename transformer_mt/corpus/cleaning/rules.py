"""One pair of normalised texts → one score per rule: how bad it is for training, by itself.

This file does not know thresholds (they are settings, `data.clean`) nor other pairs. For the rules
that need other pairs, `length_ratio`, `duplicate`, `overlap` and `mismatch`, see `decide.py`.
"""

import re
import unicodedata
from collections import Counter

from transformer_mt.config.experiment import Languages
from transformer_mt.errors import ConfigError
from transformer_mt.messages.catalogue import tr
from transformer_mt.text.foreign_script import SideScripts, swapped, weigh
from transformer_mt.text.identify import language_identifier
from transformer_mt.text.normalise import ChineseScript, sort_marks
from transformer_mt.text.numbers_and_markup import markup_apart, numbers_apart, urls_apart
from transformer_mt.text.scripts import Letters, script_of

# The rules in their order: the first one whose threshold is exceeded names the drop.
RULE_MEANING = {
    "empty": tr("sides without text"),
    "too_long": tr("characters of the longer side"),
    "no_words": tr("characters of the longer side, if only one of them has letters or digits"),
    "non_letters": tr("share of a side that is neither letter nor space"),
    "identical": tr("characters of lower-case words, if both sides are nearly the same"),
    "repeated": tr("characters that say one thing over and over, on one side only"),
    "swapped": tr("share of each side that is in the script of the other one's language"),
    "script": tr("share of a side that is in scripts of other languages"),
    "variant": tr("share of the telling Chinese characters that are of the other Chinese script"),
    "markup": tr("tags and entities that one side has more than the other"),
    "urls": tr("web and e-mail addresses that one side has more than the other"),
    "numbers": tr("numbers in digits that have no equivalent on the other side"),
    "language": tr("probability that a side is in another language"),
}
SCORED_RULES = tuple(RULE_MEANING)

_WORD = re.compile(r"[^\W_]")
_NO_LETTERS = Letters(0, 0, 0, 0, 0)
_SMOOTHING = 10  # characters of text, since a share of few characters says little

_NEARLY_ALL = 0.8  # of the characters of words
_EXCUSED = 30  # characters where both sides repeat: 哈哈哈哈 and hahahaha
_LONGEST_UNIT = 40
_REPEATED = re.compile(rf"(.{{1,{_LONGEST_UNIT}}}?)\1{{3,}}")

_MIN_LETTERS = 20  # for the language to be told: a word or two of names tells nothing
_MOST_CHARACTERS = 5000  # looked at by py3langid, which normalises marks in quadratic time
# Languages that pollute corpora. Among all languages of the model, names and technical terms would
# pull short English towards languages that no corpus holds.
_CANDIDATES = (
    "ar cs da de el en es fa fi fr he hi hu id it ja ko nl no pl pt ro ru sv th tr uk vi zh".split()
)


class PairScorer:
    """(src, tgt), both normalised → one score for each of `SCORED_RULES`, larger is worse.

    Args:
        chinese_script: the script that Chinese text was converted to, if it was.
        identify: whether to compute `language`, which takes longer than all others together.
    Raises:
        ConfigError: see `ForeignLanguage`.
    """

    def __init__(
        self,
        languages: Languages,
        *,
        chinese_script: ChineseScript | None = None,
        identify: bool = False,
    ) -> None:
        self._codes = languages.src, languages.tgt
        self._src_scripts, self._tgt_scripts = (
            SideScripts(code, chinese_script) for code in self._codes
        )
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


def identical(src: str, tgt: str) -> int:
    """Characters of lower-case words, if nearly all words of the two sides are the same.

    Names, titles, commands and lines of code may be the same in both languages; they have few plain
    lower-case words, while sentences mostly consist of them.
    """
    longer = max(len(src), len(tgt))
    if min(len(src), len(tgt)) < _NEARLY_ALL * longer:
        return 0
    probes = range(0, len(src), len(src) // 4 + 1)
    if not any(src[start : start + 10] in tgt for start in probes):
        return 0
    common = Counter(src.split()) & Counter(tgt.split())
    n_common = sum(len(word) * n for word, n in common.items())
    if n_common < _NEARLY_ALL * (longer - max(src.count(" "), tgt.count(" "))):
        return 0
    return sum(n * _plain_letters(word) for word, n in common.items())


def _plain_letters(word: str) -> int:
    letters = word.strip("\"'(),.;:!?").replace("'", "")
    return len(letters) if letters.isalpha() and letters == letters.lower() else 0


def repeated(src: str, tgt: str) -> int:
    """Characters in the longest repetition of one side; a repetition on the other excuses it."""
    src_run, tgt_run = _longest_run(src), _longest_run(tgt)
    return max(src_run, tgt_run) - min(src_run, tgt_run, _EXCUSED)


def _longest_run(text: str) -> int:
    """Characters of the longest stretch that repeats a phrase four times or more, or 0.

    Runs that fill less than a fifth of the text may be missed.
    """
    for start in range(0, len(text), len(text) // 5 + 1):
        # Where something is repeated, any few characters come again soon, and so does the rest.
        again = text.find(text[start : start + 4], start + 1, start + _LONGEST_UNIT + 4)
        if again > 0 and text.startswith(text[start:again], again):
            return max((len(run[0]) for run in _REPEATED.finditer(text)), default=0)
    return 0


class ForeignLanguage:
    """text → probability, 0 to 1, that it is in another language than the one given.

    Raises:
        ConfigError: py3langid does not know the language.
    """

    def __init__(self, language: str) -> None:
        self._label = language.partition("-")[0]  # zh-Hant is zh
        try:
            self._identifier = language_identifier({*_CANDIDATES, self._label})
        except ValueError as error:
            raise ConfigError(
                tr(
                    "data.clean.language: py3langid does not know the language {}; set it to false",
                    language,
                )
            ) from error

    def __call__(self, text: str) -> float:
        probabilities = dict(self._identifier.rank(text[:_MOST_CHARACTERS]))
        return 1.0 - probabilities[self._label]


def _foreign_share(judge: ForeignLanguage, text: str, letters: Letters) -> float:
    return judge(text) if weigh(letters) >= _MIN_LETTERS else 0


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
