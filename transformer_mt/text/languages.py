"""Language codes: every spelling that people use goes in, one canonical code comes out.

Canonical codes are ISO 639-1 where one exists; Chinese is `zh` (simplified script) or `zh-Hant`.
This file knows nothing of corpora or tokenizers; it only answers questions about a code.
"""

import difflib

from transformer_mt.errors import ConfigError

# Codes whose three-letter forms (ISO 639-2/B, /T and 639-3) people meet in corpora.
_THREE_LETTER = {
    "ar": "ara arb", "bg": "bul", "bn": "ben", "ca": "cat", "cs": "ces cze", "da": "dan",
    "de": "deu ger", "el": "ell gre", "en": "eng", "es": "spa", "et": "est", "eu": "eus baq",
    "fa": "fas per pes", "fi": "fin", "fr": "fra fre", "ga": "gle", "gu": "guj", "ha": "hau",
    "he": "heb iw", "hi": "hin", "hr": "hrv", "hu": "hun", "hy": "hye arm", "id": "ind in",
    "is": "isl ice", "it": "ita", "ja": "jpn jp", "ka": "kat geo", "kk": "kaz", "km": "khm",
    "ko": "kor kr", "lt": "lit", "lv": "lav", "mk": "mkd mac", "ml": "mal", "mn": "mon khk",
    "mr": "mar", "ms": "msa may", "my": "mya bur", "nb": "nob", "nl": "nld dut", "nn": "nno",
    "no": "nor", "pa": "pan", "pl": "pol", "ps": "pus", "pt": "por", "ro": "ron rum",
    "ru": "rus", "sk": "slk slo", "sl": "slv", "so": "som", "sq": "sqi alb", "sr": "srp",
    "sv": "swe", "sw": "swa swh", "ta": "tam", "te": "tel", "th": "tha", "tr": "tur",
    "uk": "ukr", "ur": "urd", "uz": "uzb uzn", "vi": "vie", "yo": "yor", "zu": "zul",
    "zh": "zho chi cmn cn", "zh-Hant": "zt tw",
}  # fmt: skip
_TWO_LETTER = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy "
    "da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu "
    "hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb "
    "lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om "
    "or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw "
    "ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
).split()
_ALIASES = {alias: code for code, aliases in _THREE_LETTER.items() for alias in aliases.split()}
# These alias keys are also ISO 639-1 codes of other languages; the ISO meaning wins.
_ALIASES = {alias: code for alias, code in _ALIASES.items() if alias not in _TWO_LETTER}
_HANT = {"hant", "tw", "hk", "mo"}

_UNSPACED = {"zh", "zh-Hant", "ja", "th", "lo", "km", "my", "bo", "dz"}
_NAMES = {
    "zh": "Chinese", "zh-Hant": "Traditional Chinese", "en": "English", "de": "German",
    "fr": "French", "es": "Spanish", "ja": "Japanese", "ko": "Korean", "ru": "Russian",
    "it": "Italian", "pt": "Portuguese", "ar": "Arabic", "cs": "Czech", "vi": "Vietnamese",
}  # fmt: skip


def canonical_code(code: str) -> str:
    """Return the one spelling under which tmt stores a language.

    Args:
        code: any common spelling: `zh`, `zh-CN`, `zh_Hans`, `cmn`, `zho`, `EN`, `eng`, `deu` …
    Raises:
        ConfigError: no such language; the message names near codes.
    """
    parts = code.strip().replace("_", "-").split("-")
    base = parts[0].lower()
    base = _ALIASES.get(base, base)
    tags = {part.lower() for part in parts[1:]}
    if base == "zh" and "hans" not in tags and tags & _HANT:  # the script wins over the region
        return "zh-Hant"
    if base in _TWO_LETTER or base == "zh-Hant":
        return base
    near = difflib.get_close_matches(base, [*_ALIASES, *_TWO_LETTER], n=3, cutoff=0.5)
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
