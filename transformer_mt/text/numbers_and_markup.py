"""Tags, addresses and numbers, which translations carry over → how many of them differ.

This file does not know thresholds; of languages it knows the number words of two.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from transformer_mt.text.languages import is_chinese

# An opening or closing tag, or an entity. `a < b and c > d` is none.
_MARKUP = re.compile(r"</?[^\W\d_][^<>]{0,200}>|&(?:[a-zA-Z]{2,8}|#x?[0-9a-fA-F]{1,6});")
_URL = re.compile(
    r"(?:https?://|ftp://|www\.)[!-~]*[\w/]"
    r"|[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}",  # 64: RFC 5321; keeps the time linear
    re.ASCII,
)

_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_NO_DIGIT = bytes(code for code in range(256) if code not in b"0123456789")
_LARGEST_SPELT = 31  # numbers up to here are expected in words, too, where words cannot be read

# Number words as parts of a sum. Negative parts are units, which multiply the sum before them.
_ZH_PARTS = {
    character: value
    for value, characters in enumerate("〇零 一壹 二两兩 三叁 四 五 六 七 八 九".split())
    for character in characters
}  # fmt: skip
_ZH_UNITS = {
    "十": -10, "百": -100, "千": -1000,
    "万": -(10**4), "萬": -(10**4), "亿": -(10**8), "億": -(10**8),
}  # fmt: skip
_ZH_PARTS |= _ZH_UNITS
_EN_PARTS = {
    word: value
    for value, words in {
        1: "one first once january", 2: "two second twice february double both pair couple",
        3: "three third thrice march triple", 4: "four fourth april", 5: "five fifth may",
        6: "six sixth june", 7: "seven seventh july", 8: "eight eighth august",
        9: "nine ninth september", 10: "ten tenth october", 11: "eleven eleventh november",
        12: "twelve twelfth december noon midnight dozen", 13: "thirteen thirteenth",
        14: "fourteen fourteenth fortnight", 15: "fifteen fifteenth", 16: "sixteen sixteenth",
        17: "seventeen seventeenth", 18: "eighteen eighteenth", 19: "nineteen nineteenth",
        20: "twenty twentieth twenties", 30: "thirty thirtieth thirties",
        40: "forty fortieth forties", 50: "fifty fiftieth fifties", 60: "sixty sixtieth sixties",
        70: "seventy seventieth seventies", 80: "eighty eightieth eighties",
        90: "ninety ninetieth nineties", -100: "hundred hundreds", -1000: "thousand thousands",
        -(10**6): "million millions", -(10**9): "billion billions",
    }.items()
    for word in words.split()
}  # fmt: skip
_CENTURIES = re.compile(r"([0-9]{1,2}|[一二十]{1,3}|上) ?世[纪紀] ?([0-9]0|[一二三四五六七八九]十)")
_ZH_RUN = re.compile(f"[{''.join(_ZH_PARTS)}]+")
_EN_WORD = re.compile("[a-z]+")
# Digits of halves and quarters: 0.5 or 50 %, 30 minutes, 6 months …
_FRACTIONS = {"半": "5 3 6", "刻": "15 45", "half": "5 3 6", "quarter": "15 45 25"}


def markup_apart(src: str, tgt: str) -> int:
    """Tags and entities that one side has more of than the other; their names may be translated."""
    if "<" not in src and "<" not in tgt and "&" not in src and "&" not in tgt:
        return 0
    return abs(len(_MARKUP.findall(src)) - len(_MARKUP.findall(tgt)))


def urls_apart(src: str, tgt: str) -> int:
    """Web and e-mail addresses that one side has more of, whichever: pages have their own."""
    both = f"{src} {tgt}"
    if "://" not in both and "www." not in both and "@" not in both:
        return 0
    return abs(len(_URL.findall(src)) - len(_URL.findall(tgt)))


def numbers_apart(src: str, tgt: str, src_language: str, tgt_language: str) -> int:
    """Numbers in digits, of both sides, for which the other side has no equivalent.

    Compared are digits without separators and zeros around them, so that 1.5 million, 1,500,000
    and 150万 are the same. Chinese and English number words count as equivalents; for other
    languages, small numbers are excused.
    """
    if _digits(src) == _digits(tgt):
        return 0
    src, tgt = _in_ascii_digits(src), _in_ascii_digits(tgt)
    if is_chinese(src_language):
        src = _with_years(src)
    if is_chinese(tgt_language):
        tgt = _with_years(tgt)
    src_keys, tgt_keys = (Counter(map(_key, _NUMBER.findall(text))) for text in (src, tgt))
    only_src, only_tgt = src_keys - tgt_keys, tgt_keys - src_keys
    return _unexplained(only_src, tgt_keys, tgt, tgt_language) + _unexplained(
        only_tgt, src_keys, src, src_language
    )


def _with_years(text: str) -> str:
    """20 世纪 30 年代 → 1930 年代."""

    def year(match: re.Match[str]) -> str:
        century = 20 if match[1] == "上" else _zh_value(match[1])
        return str((century - 1) * 100 + _zh_value(match[2]))

    return _CENTURIES.sub(year, text) if "世" in text else text


def _in_ascii_digits(text: str) -> str:
    """１９９８ and ١٩٩٨ → 1998."""
    return _OTHER_DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text)


def _digits(text: str) -> bytes:
    return text.encode("ascii", "ignore").translate(None, _NO_DIGIT)


def _key(number: str) -> str:
    return number.replace(",", "").replace(".", "").strip("0")


def _unexplained(keys: Counter[str], others: Iterable[str], text: str, language: str) -> int:
    """How many of the keys neither the other side's numbers nor its words can mean."""
    if not keys:
        return 0
    equivalents = {"", "1", *others}
    for key in others:
        if len(key) > 2:
            equivalents.add(key[2:])  # 1998 and '98, 1990s and 90 年代
        elif key:
            equivalents |= {"19" + key, "20" + key, str(int(key) + 12), str(int(key) - 12)}
    reader = _zh_keys if is_chinese(language) else _en_keys if language == "en" else None
    if reader is None:
        equivalents.update(_key(str(number)) for number in range(_LARGEST_SPELT + 1))
    else:
        equivalents |= reader(text)
    return sum(n for key, n in keys.items() if key not in equivalents)


def _zh_keys(text: str) -> set[str]:
    keys = {key for mark in "半刻" if mark in text for key in _FRACTIONS[mark].split()}
    for run in _ZH_RUN.findall(text):
        if any(unit in run for unit in _ZH_UNITS):
            keys.add(_key(str(_zh_value(run))))
        else:  # digits, which may be more than an int is converted from and to
            digits = [str(_ZH_PARTS[character]) for character in run]
            keys.add(_key("".join(digits)))
            keys.update(digits)  # 三四: three or four
    return keys


def _zh_value(numeral: str) -> int:
    """Value of 二十三, of 一九九〇, or of 23."""
    if numeral.isdecimal():
        return int(numeral)
    parts = [_ZH_PARTS[character] for character in numeral]
    return _sum_of(parts) if min(parts) < 0 else int("".join(map(str, parts)))


def _en_keys(text: str) -> set[str]:
    keys: set[str] = set()
    run: list[int] = []
    for word in (*_EN_WORD.findall(text.lower()), ""):
        if word in _FRACTIONS:
            keys.update(_FRACTIONS[word].split())
        elif word in _EN_PARTS:
            run.append(_EN_PARTS[word])
            keys.add(_key(str(abs(run[-1]))))
        elif word != "and" and run:
            keys.add(_key(str(_sum_of(run))))
            run = []
    return keys


def _sum_of(parts: list[int]) -> int:
    """Value of 三千二百万 or three hundred and five thousand, given as parts."""
    total = section = digit = 0
    for part in parts:
        if part >= 0:
            digit += part
        elif part <= -(10**4):
            total += max(section + digit, 1) * -part
            section = digit = 0
        elif section < -part:  # two hundred and fifty | thousand, 二 | 百
            section, digit = max(section + digit, 1) * -part, 0
        else:  # 三千二 | 百
            section, digit = section + max(digit, 1) * -part, 0
    return total + section + digit
