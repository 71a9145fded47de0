"""Texts that break translators, made from a seed: what people paste, and what nobody should.

Comes in: a number and a seed. Goes out: texts with the kind that each is of. This file does not
know what becomes of them.
"""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

LONGEST = 100_000  # characters


class Hostile(NamedTuple):
    kind: str
    text: str


PHRASES = (
    "今天天气很好。", "这份报告还没有写完，请再等一下。", "The weather is fine today.",
    "Please wait, the report is not finished yet.", "Das Wetter ist heute schön.",
    "Le rapport n'est pas encore prêt.", "El tren sale a las ocho.", "Il treno parte alle otto.",
    "O relatório ainda não está pronto.", "Поезд отходит в восемь часов.",
    "今日はいい天気ですね。", "기차는 여덟 시에 떠납니다.", "القطار يغادر في الثامنة.",
    "הרכבת יוצאת בשמונה.", "रेलगाड़ी आठ बजे छूटती है।", "รถไฟออกเวลาแปดโมง",
    "Το τρένο φεύγει στις οκτώ.", "Tren saat sekizde kalkıyor.", "Tàu khởi hành lúc tám giờ.",
    "Вагон ще не прибув.", "ট্রেন আটটায় ছাড়ে।", "მატარებელი რვაზე გადის.",
)  # fmt: skip
FRAGMENTS = (
    "<p>", "</p>", "<br/>", '<a href="https://example.org/?q=1&r=2">', "<!--", "-->", "&nbsp;",
    "&#x4f60;", "<script>alert('x')</script>", '{"key": [1, 2, {"a": null}]}', "{{name}}", "%s",
    "${HOME}", "```python", "# 标题", "**粗体**", "| a | b |", "\\u4f60", "\\n", "]]>", "<![CDATA[",
    "SELECT * FROM t; --", "../../etc", "C:\\Windows\\", "<unk>", "</s>", "<2en>", "▁", "<0x0A>",
    "00:00:01,000 --> 00:00:02,000", "someone@example.org", "http://", "$x^2$", "\\frac{1}{2}",
)  # fmt: skip
EMOJI = ("😀", "👍🏿", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇨🇳", "🇩🇪", "❤️", "1️⃣", "🤷🏽‍♀️", "🫠", "☺", "©️")
BIDI = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c"
ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\ufe0f\U000e0001\U000e0020"
SEPARATORS = "\u2028\u2029\x85\x0b\x0c\r\x1c\x1d\x1e\x00"
PUNCTUATION = "。，、？！：；“”‘’（）《》…—.,?!:;\"'()[]{}<>/\\|@#$%^&*-_=+~`·•※°"
DIGITS = "0123456789０１２３４５６７８９٠١٢٣४५६一二三①②Ⅳ½²"
WORDS = ("好", "哈", "的", "我爱你", "no", "very", "la", "a", "ha", "你好吗", "blah", "и", "ん")


def any_unicode(rng: random.Random) -> str:
    return "".join(_any_character(rng) for _ in range(rng.randint(1, 120)))


def _any_character(rng: random.Random) -> str:
    """From any plane, half of them from the first; never a surrogate."""
    while True:
        code = rng.randrange(rng.choice((0x10000, 0x110000)))
        if not 0xD800 <= code <= 0xDFFF:
            return chr(code)


def emoji(rng: random.Random) -> str:
    return "".join(rng.choice((*EMOJI, rng.choice(PHRASES))) for _ in range(rng.randint(1, 30)))


def right_to_left(rng: random.Random) -> str:
    """Hebrew and Arabic among others, with controls that are never closed."""
    words = " ".join(rng.choices(PHRASES, k=rng.randint(1, 4))) + "שלום مرحبا"
    return _sprinkle(words, BIDI, rng)


def controls(rng: random.Random) -> str:
    return _sprinkle(rng.choice(PHRASES), "".join(map(chr, (*range(32), *range(127, 160)))), rng)


def markup(rng: random.Random) -> str:
    parts = rng.choices((*FRAGMENTS, *PHRASES), k=rng.randint(1, 15))
    return rng.choice(("", " ")).join(parts)


def repeated_words(rng: random.Random) -> str:
    word = rng.choice((*WORDS, *PHRASES))
    return rng.choice(("", " ", ", ", "，", "\t")).join([word] * rng.randint(2, 120))


def repeated_characters(rng: random.Random) -> str:
    character = rng.choice((_any_character(rng), rng.choice("啊aX哈1.。-=😀 \u0301")))
    return rng.choice(("", rng.choice(PHRASES))) + character * rng.randint(2, 600)


def other_language(rng: random.Random) -> str:
    return " ".join(rng.choices(PHRASES, k=rng.randint(1, 5)))


def blank(rng: random.Random) -> str:
    return "".join(rng.choices(" \t\u3000\xa0\u2003\u200b\r\n", k=rng.randint(0, 40)))


def punctuation(rng: random.Random) -> str:
    return "".join(rng.choices(PUNCTUATION, k=rng.randint(1, 80)))


def digits(rng: random.Random) -> str:
    return "".join(rng.choices(DIGITS + " .,-", k=rng.randint(1, 150)))


def zero_width(rng: random.Random) -> str:
    return _sprinkle(rng.choice((*PHRASES, "")), ZERO_WIDTH, rng)


def piled_marks(rng: random.Random) -> str:
    """Letters under towers of combining characters."""
    return "".join(
        character + "".join(chr(rng.randint(0x300, 0x36F)) for _ in range(rng.randint(0, 40)))
        for character in rng.choice(PHRASES)
    )


def separators(rng: random.Random) -> str:
    return _sprinkle(" ".join(rng.choices(PHRASES, k=3)), SEPARATORS + "\n", rng)


def long(rng: random.Random) -> str:
    """Up to `LONGEST` characters, with and without places where one could split."""
    size = rng.choice((2000, 5000, 20_000, LONGEST))
    unit = rng.choice(
        (
            lambda: rng.choice(PHRASES), lambda: rng.choice("abcdefghij"),
            lambda: rng.choice("的一是不了人我在有他"), lambda: _any_character(rng), lambda: "哈",
        )
    )()  # fmt: skip
    if rng.random() < 0.5:
        return (unit * size)[:size]
    parts = []
    n = 0
    while n < size:
        parts.append(
            rng.choice((unit, rng.choice(WORDS), rng.choice(PHRASES), _any_character(rng)))
        )
        n += len(parts[-1])
    return "".join(parts)[:size]


def _sprinkle(text: str, characters: str, rng: random.Random) -> str:
    """Characters of a set at random places of a text."""
    units = list(text)
    for _ in range(rng.randint(1, 20)):
        units.insert(rng.randint(0, len(units)), rng.choice(characters))
    return "".join(units)


KINDS: dict[str, Callable[[random.Random], str]] = {
    maker.__name__.replace("_", " "): maker
    for maker in (
        any_unicode, emoji, right_to_left, controls, markup, repeated_words, repeated_characters,
        other_language, blank, punctuation, digits, zero_width, piled_marks, separators,
    )
}  # fmt: skip
LONG_EVERY = 200  # of so many texts one is long


def hostile_texts(n: int, seed: int) -> Iterator[Hostile]:
    """So many texts of all kinds in turn; the first of them are the same for every n."""
    rng = random.Random(seed)
    kinds = list(KINDS)
    for index in range(n):
        if index % LONG_EVERY == LONG_EVERY - 1:
            yield Hostile("long", long(rng))
        else:
            kind = kinds[index % len(kinds)]
            yield Hostile(kind, KINDS[kind](rng))
