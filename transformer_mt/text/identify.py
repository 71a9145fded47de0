"""Texts → the language that most of them are in, by their script and by py3langid.

Comes in: lines of one side. Goes out: a canonical code. This file does not know pairs.
"""

import copy
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from transformer_mt.text.languages import canonical_code, is_chinese
from transformer_mt.text.scripts import script_of, traditional_share

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_MOST_CHARACTERS = 20_000  # looked at; the library normalises marks in quadratic time
_FEWEST_LETTERS = 10
_POSSIBLE = 1e-3  # probability; in another script it is next to nothing
_ASIAN = 0.25  # of the letters, at least; Chinese text is full of Latin names
_KANA = 0.2  # of Han and kana together, at least; Chinese text quotes some
_LEAST = 0.3  # probability; text of no language has about 0.2
_NO_LANGUAGE = "zxx"
_TRADITIONAL = 0.6  # of the characters that one Chinese script alone has


def identify(texts: Sequence[str], *, least: float = _LEAST) -> str | None:
    """The language of most texts; None: too few letters, or no language, as names and code.

    Han with kana is Japanese, without is Chinese, Hangul is Korean; in other scripts py3langid
    decides, on all texts together.

    Args:
        least: probability of the language.
    """
    code, probability = identified(texts)
    return code if probability >= least else None


def identified(texts: Sequence[str]) -> tuple[str | None, float]:
    """The likeliest language of texts, with its probability: 1 where the script tells.

    None, 0: too few letters, or no language.
    """
    text = "\n".join(texts)[:_MOST_CHARACTERS]
    letters = script_of(text)
    total, asian = sum(letters), letters.han + letters.kana
    if asian > _ASIAN * total:
        if letters.kana > _KANA * asian:
            return "ja", 1.0
        return ("zh-Hant" if (traditional_share(text) or 0) > _TRADITIONAL else "zh"), 1.0
    if letters.hangul > _ASIAN * total:
        return "ko", 1.0
    if total < _FEWEST_LETTERS:
        return None, 0.0
    label, probability = _all_languages().classify(text)
    return (None, 0.0) if label == _NO_LANGUAGE else (canonical_code(label), float(probability))


def likeliest(texts: Sequence[str], codes: Iterable[str]) -> tuple[str | None, float]:
    """The likeliest of some languages, for texts that `identified` says little of.

    The probability is that among all languages; None, 0: it is none of these.
    """
    text = "\n".join(texts)[:_MOST_CHARACTERS]
    if not any(map(str.isalpha, text)):
        return None, 0.0
    found = dict(_all_languages().rank(text))
    others = [code for code in codes if not is_chinese(code)]  # which its script tells
    probable = {code: float(found[code]) for code in others if found.get(code, 0.0) >= _POSSIBLE}
    code = max(probable, key=lambda one: probable[one], default=None)
    return code, probable.get(code or "", 0.0)


def is_identified(code: str) -> bool:
    """Whether `identify` may tell a language."""
    return is_chinese(code) or code in _all_languages().labels


def language_identifier(languages: Iterable[str] | None = None) -> "LanguageIdentifier":
    """py3langid's model, which tells some of its `labels` apart, or all.

    Raises:
        ValueError: the model does not know a language.
    """
    identifier = copy.copy(_all_languages())
    identifier.set_languages(languages)
    return identifier


@lru_cache(maxsize=1)
def _all_languages() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
