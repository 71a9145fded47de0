"""Language codes: every spelling that people use goes in, one canonical code comes out.

Canonical codes are ISO 639-1 where one exists, else ISO 639-3; Chinese is `zh` (simplified script)
or `zh-Hant`.
"""

import difflib
import re
from typing import NoReturn

from transformer_mt.errors import ConfigError

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

_UNSPACED = {"zh", "zh-Hant", "yue", "wuu", "lzh", "ja", "th", "lo", "km", "my", "bo", "dz"}
_NAMES = {
    "zh": "Chinese", "zh-Hant": "Traditional Chinese", "en": "English", "de": "German",
    "fr": "French", "es": "Spanish", "ja": "Japanese", "ko": "Korean", "ru": "Russian",
    "it": "Italian", "pt": "Portuguese", "ar": "Arabic", "cs": "Czech", "vi": "Vietnamese",
    "yue": "Cantonese", "ceb": "Cebuano",
}  # fmt: skip


def canonical_code(code: str) -> str:
    """Return the one spelling under which tmt stores a language.

    Args:
        code: any common spelling: `zh`, `zh-CN`, `zh_Hans`, `cmn`, `zho`, `EN`, `eng`, `yue` …
    Raises:
        ConfigError: no such language; the message names near codes.
    """
    base, *tags = code.strip().replace("_", "-").lower().split("-")
    base = _ALIASES.get(base, base)
    if base not in _TWO_LETTER and base != "zh-Hant":
        base = _standard_code(base) or _unknown(code, base)
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


def _unknown(code: str, base: str) -> NoReturn:
    import langcodes

    known = [langcodes.Language.get(known).to_alpha3() for known in _TWO_LETTER]
    near = difflib.get_close_matches(base, [*known, *_TWO_LETTER], n=3, cutoff=0.5)
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    shown = repr(code[:60])
    raise ConfigError(
        f"unknown language code {shown}{hint}; use an ISO 639 code such as zh, zh-Hant, en, de"
    )


def is_unspaced(code: str) -> bool:
    """Whether words of the language are written without spaces between them."""
    return code in _UNSPACED


def is_chinese(code: str) -> bool:
    return code in ("zh", "zh-Hant")


def language_name(code: str) -> str:
    """English name of a canonical code, or the code itself."""
    return _NAMES.get(code, code)
