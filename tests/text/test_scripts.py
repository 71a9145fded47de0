"""Letters counted by script, and Simplified told from Traditional."""

import unicodedata

import pytest

from transformer_mt.text.scripts import (
    SIMPLIFIED,
    TRADITIONAL,
    Letters,
    script_of,
    traditional_share,
)


@pytest.mark.parametrize(
    ("text", "expected", "why"),
    [
        ("", Letters(0, 0, 0, 0, 0), "nothing"),
        ("Don't, 12 x_y!", Letters(0, 0, 0, 6, 0), "ASCII letters alone count"),
        ("用 Python 3 写代码。", Letters(4, 0, 0, 6, 0), "mixed text"),
        ("，。！“”…—（）《》", Letters(0, 0, 0, 0, 0), "punctuation is no letter"),
        ("これは本です", Letters(1, 5, 0, 0, 0), "kana"),
        ("コーヒー、ｶﾅ", Letters(0, 6, 0, 0, 0), "katakana with long vowels, half-width too"),
        ("한국어 text", Letters(0, 0, 3, 4, 0), "hangul"),
        ("Größe × naïve ÷", Letters(0, 0, 0, 10, 0), "accented Latin, but not × and ÷"),
        ("Привет, мир π", Letters(0, 0, 0, 0, 10), "everything else"),
        ("々〇𠀀", Letters(3, 0, 0, 0, 0), "rare Han"),
        ("ＡＢ１", Letters(0, 0, 0, 2, 0), "full-width letters"),
    ],
)
def test_letters_by_script(text: str, expected: Letters, why: str) -> None:
    assert script_of(text) == expected, why


def test_every_character_counts_as_the_script_that_unicode_names() -> None:
    """All letters of 16 bits but those of phoneticians (U+1D00), against the Unicode database."""
    scripts = {
        "CJK UNIFIED": "han", "CJK COMPATIBILITY IDEOGRAPH": "han", "HIRAGANA LETTER": "kana",
        "KATAKANA LETTER": "kana", "HANGUL SYLLABLE": "hangul", "LATIN SMALL LETTER": "latin",
        "LATIN CAPITAL LETTER": "latin", "CYRILLIC": "other", "GREEK": "other", "ARABIC": "other",
        "THAI": "other", "DEVANAGARI": "other", "HEBREW": "other",
    }  # fmt: skip
    wrong = []
    for character in map(chr, (*range(0x1D00), *range(0x1DC0, 0x10000))):
        name = unicodedata.name(character, "")
        field = next((f for start, f in scripts.items() if name.startswith(start)), None)
        if field and character.isalpha():
            counts = script_of(character)
            if sum(counts) != 1 or getattr(counts, field) != 1:
                wrong.append(f"{name}: {counts}")
    assert not wrong, wrong[:10]


def test_traditional_share() -> None:
    texts = "这个问题很难", "這個問題很難", "你好", "hello"
    assert [traditional_share(text) for text in texts] == [0.0, 1.0, None, None]
    assert 0 < (traditional_share("这个问題") or 0) < 1


def test_telling_characters_belong_to_one_script_only() -> None:
    opencc = pytest.importorskip("opencc")
    to_simplified, to_traditional = opencc.OpenCC("t2s").convert, opencc.OpenCC("s2t").convert
    traditional, simplified = TRADITIONAL.pattern[1:-1], SIMPLIFIED.pattern[1:-1]
    assert not set(traditional) & set(simplified)
    for table in (traditional, simplified):
        assert len(set(table)) == len(table) > 300
    for character in traditional:
        assert to_simplified(character) != character == to_traditional(character), character
    for character in simplified:
        assert to_traditional(character) != character == to_simplified(character), character
