"""Language codes and names: every spelling goes in, one canonical code comes out.

Canonical codes are ISO 639-1 where one exists, else ISO 639-3; Chinese is `zh` (simplified script)
or `zh-Hant`.
"""

import difflib
import re
import unicodedata
from functools import lru_cache
from typing import NoReturn

from transformer_mt.errors import ConfigError
from transformer_mt.messages.catalogue import LANGUAGE, tr

# Known without langcodes, which takes 40 ms to load.
_TWO_LETTER = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy "
    "da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu "
    "hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb "
    "lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om "
    "or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw "
    "ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
).split()
# Other two-letter spellings in use, and Tagalog, which langcodes takes for Filipino. Old codes that
# are regions, such as mo in zh-MO-en, are not among them.
_ALIASES = {"cn": "zh", "zt": "zh-Hant", "jp": "ja", "iw": "he", "in": "id", "tgl": "tl"}
_HANT = {"hant", "tw", "hk", "mo"}
# Undetermined, several, none, not coded, local use; and endings of files and names of columns that
# are codes of small languages.
_NO_LANGUAGE = re.compile(
    "und|mul|zxx|mis|q[a-t][a-z]|src|tgt|txt|tsv|csv|xml|sgm|srt|doc|log|raw|tmp|bpe|map|tgz"
)

_SPACED_NOT_LATIN = frozenset(
    "ar be bg bn el fa gu he hi hy ka ko mk ml mr my ne pa ru si ta te uk ur".split()
)
_UNSPACED = {"zh", "zh-Hant", "yue", "wuu", "lzh", "ja", "th", "lo", "km", "my", "bo", "dz"}
_NAMES = {
    "zh": "Chinese", "zh-Hant": "Traditional Chinese", "en": "English", "de": "German",
    "fr": "French", "es": "Spanish", "ja": "Japanese", "ko": "Korean", "ru": "Russian",
    "it": "Italian", "pt": "Portuguese", "ar": "Arabic", "cs": "Czech", "vi": "Vietnamese",
    "yue": "Cantonese", "ceb": "Cebuano",
}  # fmt: skip
_MORE_NAMES = {  # in use, and not those of the Unicode CLDR
    "mandarin": "zh", "中文": "zh", "汉语": "zh", "漢語": "zh", "普通话": "zh", "普通話": "zh",
    "国语": "zh", "國語": "zh-Hant", "华语": "zh", "英文": "en", "日文": "ja", "德文": "de",
    "法文": "fr", "俄文": "ru", "韩文": "ko", "韓文": "ko", "西文": "es", "西班牙文": "es",
    "意大利文": "it", "葡萄牙文": "pt", "阿拉伯文": "ar", "越南文": "vi", "泰文": "th",
    "粤语": "yue", "广东话": "yue", "farsi": "fa", "castellano": "es", "flemish": "nl",
}  # fmt: skip


_TRADITIONAL = re.compile("traditional|繁[体體]|正[体體]")
# Words beside the name of a language, in names such as Chinese (Simplified) and 中文（简体）.
_QUALIFIERS = re.compile(
    r"\([^()]*\)|（[^（）]*）|\b(simplified|traditional|mandarin|language)\b|[简簡繁正][体體]字?"
)
_NOT_IN_NAMES = re.compile(r"[\W\d_]+")


def canonical_code(language: str) -> str:
    """Return the one spelling under which tmt stores a language.

    Args:
        language: a code in any common spelling (`zh`, `zh-CN`, `zh_Hans`, `cmn`, `zho`, `EN`,
            `eng`, `yue` …), or a name in English, Chinese or the language itself.
    Raises:
        ConfigError: no such language; the message names near codes or names.
    """
    plain = unicodedata.normalize("NFKC", language).strip()
    base, *tags = plain.replace("_", "-").lower().split("-")
    base = _ALIASES.get(base, base)
    if base == "zh" and tags and len(tags[0]) == 3 and tags[0] in _UNSPACED:
        base = tags[0]  # zh-yue is the older spelling of yue; zh-MY is Chinese in Malaysia
    if base not in _TWO_LETTER and base != "zh-Hant":
        named = _standard_code(base) or code_of_name(plain)
        base = named or _unknown(language, base)
    if base == "zh" and "hans" not in tags and not _HANT.isdisjoint(tags):
        return "zh-Hant"  # the script wins over the region
    return base


def _standard_code(code: str) -> str | None:
    """The canonical code for one of ISO 639-2 or 639-3, or None; arb is ar, but arz stays."""
    if not re.fullmatch("[a-z]{3}", code) or _NO_LANGUAGE.fullmatch(code):
        return None
    import langcodes

    tag = langcodes.standardize_tag(code, macro=True)
    return tag.partition("-")[0] if langcodes.tag_is_valid(tag) else None


def code_of_name(name: str) -> str | None:
    """The canonical code of a language by its name: `Chinese`, `简体中文`, `Deutsch`; else None."""
    plain = unicodedata.normalize("NFKC", name).strip().casefold()
    if not 2 <= len(plain) <= 60 or (plain.isascii() and len(plain) < 4):
        return None
    names = _codes_by_name()
    code = names.get(_name_key(plain)) or names.get(_name_key(_QUALIFIERS.sub(" ", plain)))
    return "zh-Hant" if code == "zh" and _TRADITIONAL.search(plain) else code


def _name_key(name: str) -> str:
    """A name without case, accents, spaces and punctuation."""
    letters = unicodedata.normalize("NFKD", name.casefold()).replace("語", "语")
    plain = "".join(char for char in letters if not unicodedata.combining(char))
    return _NOT_IN_NAMES.sub("", plain)


@lru_cache(maxsize=1)
def _codes_by_name() -> dict[str, str]:
    """Names in English, in both Chinese scripts, and in the language itself; English ones win."""
    from langcodes import Language

    names = {_name_key(name): code for name, code in _MORE_NAMES.items()}
    for code in (*_NAMES, *_TWO_LETTER):
        language = Language.get(code)
        for shown_in in ("en", "zh", "zh-Hant", code):
            name = _name_key(language.display_name(shown_in))
            if name and name != code:
                names.setdefault(name, code)
    return names


def _unknown(given: str, base: str) -> NoReturn:
    import langcodes

    if len(base) > 4:  # no code is so long
        base = base.capitalize()
        codes = dict.fromkeys([*_NAMES, *_TWO_LETTER])
        known = [langcodes.Language.get(code).display_name() for code in codes]
    else:
        alpha3 = [langcodes.Language.get(code).to_alpha3() for code in _TWO_LETTER]
        known = [*alpha3, *_TWO_LETTER]
    near = difflib.get_close_matches(base, known, n=3, cutoff=0.7 if len(base) > 4 else 0.5)
    hint = tr(" (did you mean {}?)", tr(" or ").join(near)) if near else ""
    raise ConfigError(
        tr(
            "unknown language code {!r}{}; use an ISO 639 code such as zh, zh-Hant, "
            "en, de, or a name such as Chinese, 中文, Deutsch",
            given[:60],
            hint,
        )
    )


def is_unspaced(code: str) -> bool:
    """Whether words of the language are written without spaces between them."""
    return code in _UNSPACED


def script_of(code: str) -> str:
    """A name for what a language is written in, fine enough to tell whether two share words."""
    if code in ("zh", "zh-Hant", "ja"):
        return "han"
    if code in ("be", "bg", "mk", "ru", "uk"):
        return "cyrillic"
    return code if is_unspaced(code) or code in _SPACED_NOT_LATIN else "latin"


def is_chinese(code: str) -> bool:
    return code in ("zh", "zh-Hant")


def language_name(code: str) -> str:
    """Name of a canonical code in the user's language, or the code itself."""
    if LANGUAGE == "en":
        return _NAMES.get(code, code)
    from langcodes import Language

    return Language.get(code).display_name(LANGUAGE)
