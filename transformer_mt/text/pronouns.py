"""Pronouns of the third person, which stand for another word, and where a text has them.

Plain data: possessives and forms that are mostly articles are left out.
"""

import re
from functools import cache

from transformer_mt.text.languages import is_unspaced

_CHINESE = tuple(
    pronoun + plural for pronoun in "它牠祂他她" for plural in ("", "们", "們", "俩", "倆")
)
PRONOUNS: dict[str, tuple[str, ...]] = {
    "zh": _CHINESE,
    "zh-Hant": _CHINESE,
    "yue": ("佢", "佢哋"),
    "en": ("it", "he", "she", "they", "him", "her", "them"),
    "de": ("er", "sie", "es", "ihn", "ihm", "ihnen"),
    "fr": ("il", "elle", "ils", "elles", "lui", "eux"),
    "es": ("él", "ella", "ello", "ellos", "ellas"),
    "pt": ("ele", "ela", "eles", "elas"),
    "it": ("egli", "ella", "lui", "lei", "esso", "essa", "essi", "esse", "loro"),
    "ru": ("он", "она", "оно", "они", "его", "ему", "её", "ее", "ей", "им", "их", "него", "неё",
           "нее", "ней", "ним", "них", "ними"),
    "cs": ("on", "ona", "ono", "oni", "ony", "jemu", "něj", "něho", "němu", "ní", "nich", "nim"),
    "ja": ("彼", "彼女", "彼ら", "彼女ら", "彼女たち", "それ", "それら"),
    "ko": ("그것", "그녀", "그들", "그는", "그가", "그를", "그에게"),
    "ar": ("هو", "هي", "هم", "هن", "هما"),
    "vi": ("nó", "họ", "hắn", "anh ấy", "cô ấy", "ông ấy", "bà ấy", "chị ấy", "chúng nó"),
    "ceb": ("siya", "sila", "niya", "nila"),
}  # fmt: skip
# Longer words that hold a pronoun and are none.
_OTHER_WORDS = (
    "其他", "其它", "吉他", "他人", "他國", "他国", "他乡", "他鄉",
    "彼氏", "それから", "それぞれ", "それとも", "それで",
)  # fmt: skip
_WITH_ENDINGS = {"ko"}  # particles are written onto the word


def pronoun_spans(text: str, language: str) -> list[tuple[int, int]]:
    """Start and end of each pronoun in a text, in order; of an unknown language none."""
    if language not in PRONOUNS:
        return []
    matches = _pattern(language).finditer(text)
    return [match.span() for match in matches if match["pronoun"]]


@cache
def _pattern(language: str) -> re.Pattern[str]:
    """Pronouns as the group `pronoun`, and other words that hold one; the longest match wins."""
    others = "|".join(map(re.escape, _OTHER_WORDS))
    longest_first = sorted(PRONOUNS[language], key=len, reverse=True)
    pronouns = "|".join(map(re.escape, longest_first))
    before, after = ("", "") if is_unspaced(language) else (r"(?<!\w)", r"(?!\w)")
    after = "" if language in _WITH_ENDINGS else after
    return re.compile(f"{others}|{before}(?P<pronoun>{pronouns}){after}", re.IGNORECASE)
