"""Letters of a pair, counted by script → the share in scripts that its languages do not use.

This file does not know thresholds, and cannot tell languages of one script from each other.
"""

import re
from collections.abc import Iterable

from transformer_mt.text.languages import is_chinese
from transformer_mt.text.normalise import ChineseScript
from transformer_mt.text.scripts import SIMPLIFIED, TRADITIONAL, Letters, traditional_share

# Fields of `Letters`. Languages of several scripts, and those missing here, are not judged.
_OWN_SCRIPTS = {
    "zh": "han", "zh-Hant": "han", "ja": "han kana", "ko": "hangul",
    **dict.fromkeys(
        "af ca cs cy da de en es et eu fi fr ga gl ha hr hu id is it lb lt lv ms mt nb nl nn no "
        "pl pt ro sk sl so sq sv sw tl tr vi yo zu".split(), "latin"),
    **dict.fromkeys(
        "ar be bg bn el fa gu he hi hy ka km kn lo mk ml mr my ne pa ru si ta te th uk ur".split(),
        "other"),
}  # fmt: skip
SCRIPT_WEIGHTS = Letters(
    han=3, kana=3, hangul=3, latin=1, other=1
)  # one says as much as n Latin ones
_SMOOTHING = 10  # Latin letters of neither kind, since a share of few letters says little
_LATIN_WORD = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]{2,}")


def weigh(letters: Letters, weights: Letters = SCRIPT_WEIGHTS) -> int:
    """The amount of text, in Latin letters."""
    han, kana, hangul, latin, other = letters
    w_han, w_kana, w_hangul, w_latin, w_other = weights
    return han * w_han + kana * w_kana + hangul * w_hangul + latin * w_latin + other * w_other


class SideScripts:
    """The scripts of one side of a pair; any, if its language is not known."""

    def __init__(self, language: str, chinese_script: ChineseScript | None) -> None:
        own = _OWN_SCRIPTS.get(language, "").split()
        foreign = _only(field for field in Letters._fields if own and field not in own)
        if is_chinese(language):  # Japanese writes Han, too: only the kana tell it from Chinese
            foreign = foreign._replace(kana=2 * SCRIPT_WEIGHTS.kana)
        self.own = _only(own)
        self._foreign = foreign._replace(latin=0)
        self._latin_is_foreign = bool(foreign.latin)
        self._unexpected: re.Pattern[str] | None = None
        if is_chinese(language):
            usual = "traditional" if language == "zh-Hant" else "simplified"
            traditional = (chinese_script or usual) == "traditional"
            self._unexpected = SIMPLIFIED if traditional else TRADITIONAL

    def wrong_script(self, letters: Letters, text: str, other: str) -> float:
        """Share of a text that is in scripts of other languages.

        Latin words are at home everywhere, as names and code, unless most of the text consists of
        Latin words that the other side of the pair does not have.
        """
        wrong = weigh(letters, self._foreign)
        if self._latin_is_foreign and letters.latin > weigh(letters, self.own):
            known = set(_LATIN_WORD.findall(other.lower()))
            wrong += sum(len(w) for w in _LATIN_WORD.findall(text.lower()) if w not in known)
        return min(wrong / (weigh(letters) + _SMOOTHING), 1) if wrong else 0

    def wrong_variant(self, text: str) -> float:
        """Share of the characters that tell Simplified from Traditional and are the wrong one."""
        if self._unexpected is None or not self._unexpected.search(text):
            return 0
        share = traditional_share(text)
        assert share is not None  # the search has found a telling character
        return 1 - share if self._unexpected is SIMPLIFIED else share


def swapped(
    src: SideScripts, tgt: SideScripts, src_letters: Letters, tgt_letters: Letters
) -> float:
    """How much each side looks like the other one's language; 0 where both share a script."""
    src_like_tgt, tgt_like_src = weigh(src_letters, tgt.own), weigh(tgt_letters, src.own)
    if not src_like_tgt or not tgt_like_src or weigh(src.own, tgt.own):
        return 0
    return min(src_like_tgt / weigh(src_letters), tgt_like_src / weigh(tgt_letters))


def _only(fields: Iterable[str]) -> Letters:
    """The weights of some scripts, and 0 for all others."""
    return Letters(0, 0, 0, 0, 0)._replace(
        **{field: getattr(SCRIPT_WEIGHTS, field) for field in fields}
    )
