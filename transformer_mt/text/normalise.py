"""Text of one language → one line of visible text, in the one form that models are trained on.

Normalising twice changes nothing.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from html import unescape
from typing import Literal

from transformer_mt.errors import ConfigError
from transformer_mt.messages.catalogue import tr
from transformer_mt.text.languages import is_chinese
from transformer_mt.text.scripts import HAN, traditional_share

ChineseScript = Literal["simplified", "traditional"]

_MOST_ROUNDS = 16  # of entities that were escaped as text of entities; so time stays linear
_LONG = 1000  # characters; in shorter texts, marks in any order cost little to sort

# Invisible characters that carry no text: controls, soft hyphen, zero-width space, directional
# marks, byte order marks, halves of surrogate pairs. The zero-width joiners (U+200C, U+200D) stay:
# they are spelling in Persian, in Indic scripts and in emoji.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

_HALF_PAIR = re.compile("[\ud800-\udfff]")

# Remains of web pages. Other names stay: `&map;` and `&sub;` are entities, and code as well.
_ENTITY = re.compile(
    "&(?:amp|lt|gt|quot|apos|nbsp|[mn]dash|hellip|[lr][sd]quo|#[0-9]{2,6}|#[xX][0-9a-fA-F]{2,5});"
)

_WIDE = re.compile("[０-９Ａ-Ｚａ-ｚ]+")  # a fixed distance from their ASCII forms

# Han, and the punctuation that only Chinese and Japanese write. Dashes, ellipses and curly quotes
# are not in it: typesetters put spaces around them on purpose.
CJK = f"[{HAN}\u3001-\u3029\u3030-\u303f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]"
_CJK_SPACE = re.compile(f" (?<={CJK} )(?={CJK})")  # the space is searched first

# English that people type, and nearly all test sets, have straight quotes, while books and web
# pages have curly ones: one form for both. Other languages keep theirs; German „…“, French «…» and
# Chinese “…” are spelling there, and a half-straightened pair such as „…" would be neither.
_STRAIGHT = {"’": "'", "‘": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"'}
_CURLY = re.compile(f"[{''.join(_STRAIGHT)}]")


class Normaliser:
    """text → text for one language: NFC, no invisible characters, single spaces, none at the ends.

    Common HTML entities become the characters that they stand for. English: curly quotes become
    straight. Chinese: full-width letters and digits become ASCII, while punctuation stays
    full-width; spaces between Chinese characters go; the characters are converted to
    `chinese_script`, if one is given.

    Raises:
        ConfigError: `chinese_script` is given, and the package that converts is not installed.
    """

    def __init__(self, language: str, chinese_script: ChineseScript | None) -> None:
        self.language, self.chinese_script = language, chinese_script
        self._chinese = is_chinese(language)
        self._convert: Callable[[str], str] | None = None
        if self._chinese and chinese_script:
            self._convert = _converter(chinese_script)

    def __reduce__(self) -> tuple[type["Normaliser"], tuple[str, ChineseScript | None]]:
        return Normaliser, (self.language, self.chinese_script)  # a converter cannot be pickled

    def __call__(self, text: str) -> str:
        text = self._one_form(text)
        rounds = 0
        while "&" in text and _ENTITY.search(text):  # again, since &amp;quot; was escaped twice
            rounds += 1
            replace = _unescaped if rounds <= _MOST_ROUNDS else _defused
            text = self._one_form(_ENTITY.sub(replace, text))
        return text

    def _one_form(self, text: str) -> str:
        if text.isascii():
            # split() knows every white space and line end of Unicode: U+3000, U+2028, tabs …
            return " ".join((text if text.isprintable() else _INVISIBLE.sub("", text)).split())
        text = _INVISIBLE.sub("", text)
        if self._chinese:
            text = _with_narrow(text)
        elif self.language == "en":
            text = _with_straight(text)
        text = " ".join(compose(text).split())
        if self._chinese and " " in text:
            text = _CJK_SPACE.sub("", text)
        return text if self._convert is None else self._convert(text)


def _unescaped(entity: re.Match[str]) -> str:
    return unescape(entity[0])


def _defused(entity: re.Match[str]) -> str:
    """An entity as text that is none, and that completes no other."""
    return "& " + entity[0][1:]


def well_formed(text: str) -> str:
    """The text with U+FFFD for halves of surrogate pairs, which UTF-8 cannot hold."""
    return text if text.isascii() else _HALF_PAIR.sub("\N{REPLACEMENT CHARACTER}", text)


def compose(text: str) -> str:
    """NFC, in linear time."""
    return unicodedata.normalize("NFC", text if len(text) < _LONG else sort_marks(text))


def sort_marks(text: str) -> str:
    """Combining marks in canonical order; `unicodedata` takes up to the square of their number."""
    return _mark_runs().sub(_sorted_marks, text)


def _sorted_marks(run: re.Match[str]) -> str:
    marks = "".join(unicodedata.normalize("NFD", mark) for mark in run[0])
    return "".join(sorted(marks, key=unicodedata.combining))


@lru_cache(maxsize=1)
def _mark_runs() -> re.Pattern[str]:
    """Runs of characters that are combining marks, or become some by decomposition."""
    marks = [
        char
        for char in map(chr, range(0x300, 0x1F000))
        if unicodedata.combining(unicodedata.normalize("NFD", char)[0])
    ]
    return re.compile(f"[{''.join(marks)}]{{2,}}")


def _with_narrow(text: str) -> str:
    return _WIDE.sub(lambda run: "".join(chr(ord(wide) - 0xFEE0) for wide in run[0]), text)


def _with_straight(text: str) -> str:
    return _CURLY.sub(lambda quote: _STRAIGHT[quote[0]], text)


def plain_characters(text: str) -> str:
    """The characters one by one, quotes straight, and letters and digits in half width.

    Two texts are equal then if a `Normaliser` of any language makes them equal by these.
    """
    return text if text.isascii() else _with_straight(_with_narrow(text))


def _converter(script: ChineseScript) -> Callable[[str], str]:
    try:
        from opencc import OpenCC
    except ImportError as error:
        raise ConfigError(
            tr(
                "data.clean.chinese_script: {} needs the package opencc, which is not "
                "installed; run pip install opencc, or set it to null",
                script,
            )
        ) from error
    to_simplified: Callable[[str], str] = OpenCC("t2s").convert

    def simplified(text: str) -> str:
        converted = to_simplified(text)
        # Twice, since a few rare characters take two steps: 薴 → 苧 → 苎.
        return text if converted == text else to_simplified(converted)

    if script == "simplified":
        return simplified
    to_traditional: Callable[[str], str] = OpenCC("s2t").convert

    def traditional(text: str) -> str:
        # Conversion to Traditional guesses, so text that is Traditional already is left alone.
        share = traditional_share(text)
        is_simplified = to_simplified(text) == text if share is None else share < 0.5
        return to_traditional(text) if is_simplified else text

    return traditional
