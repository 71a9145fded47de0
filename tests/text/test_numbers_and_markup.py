"""What one side has and the other has not: tags, addresses, numbers."""

import pytest

from transformer_mt.text.numbers_and_markup import markup_apart, numbers_apart, urls_apart


@pytest.mark.parametrize(
    ("src", "tgt", "expected", "why"),
    [
        ("<b>粗</b>体", "<b>bold</b> type", 0, "the same tags"),
        ("<名称>", "<name>", 0, "names in tags may be translated"),
        ("粗体", "<b>bold</b>", 2, "tags on one side"),
        ("A &amp; B", "A & B", 1, "an entity on one side"),
        ("a < b 且 c > d", "a less than b and c greater than d", 0, "comparisons are no tags"),
        ("AT&T 公司", "AT&T Inc.", 0, "a bare & is no entity"),
    ],
)
def test_markup(src: str, tgt: str, expected: int, why: str) -> None:
    assert markup_apart(src, tgt) == expected, why
    assert markup_apart(tgt, src) == expected, why


@pytest.mark.parametrize(
    ("src", "tgt", "expected", "why"),
    [
        ("见 https://a.cn/zh。", "See https://a.org/en/x.", 0, "translated pages live elsewhere"),
        ("见官网。", "See https://a.org or www.b.org.", 2, "addresses on one side"),
        ("写信给 me@a.org", "write to us", 1, "an e-mail address on one side"),
        ("nginx@sha256:ab", "image", 0, "a digest is no e-mail address"),
        ("@user 你好", "hello @user", 0, "nor is a name"),
    ],
)
def test_urls(src: str, tgt: str, expected: int, why: str) -> None:
    assert urls_apart(src, tgt) == expected, why
    assert urls_apart(tgt, src) == expected, why


@pytest.mark.parametrize(
    ("zh", "en", "expected", "why"),
    [
        ("我三十岁。", "I'm 30 years old.", 0, "Chinese numerals"),
        ("3只猫", "three cats", 0, "English number words"),
        ("1万元", "10,000 yuan", 0, "Chinese units"),
        ("150万人", "1.5 million people", 0, "units on both sides"),
        ("92亿", "9.2 billion", 0, "other units"),
        ("一千二百三十四", "1,234", 0, "long numerals"),
        ("三千二百五十万", "32.5 million", 0, "sections of ten thousand"),
        ("第21个", "the twenty-first", 0, "ordinals of two words"),
        ("205", "two hundred and five", 0, "hundreds in words"),
        ("250000", "two hundred and fifty thousand", 0, "thousands in words"),
        ("一九九〇年", "1990", 0, "years digit by digit"),
        ("1972年10月3日", "October 3rd, 1972", 0, "months by name"),
        ("20 世纪 30 年代", "the 1930s", 0, "decades of a century"),
        ("上世纪六十年代", "the 1960s", 0, "decades of the last century"),
        ("二十世纪30年代", "the 1930s", 0, "decades in either form"),
        ("80年代", "the 1980s", 0, "decades without their century"),
        ("下午3点", "at 15:00", 0, "hours of 12 and 24"),
        ("半小时", "30 minutes", 0, "halves"),
        ("v1.24 版", "version 1.24", 0, "letters that touch"),
        ("[1,12]", "[1, 12]", 0, "lists with and without spaces"),
        ("一只猫", "1 cat", 0, "one is a, or nothing"),
        ("1988年", "1987", 2, "another year, counted on both sides"),
        ("他有 37 本书。", "He has books.", 1, "missing"),
        ("他有书。", "He has 37 of 95 books.", 2, "missing on the other side"),
        ("没有数字", "no digits", 0, "none at all"),
    ],
)
def test_numbers(zh: str, en: str, expected: int, why: str) -> None:
    assert numbers_apart(zh, en, "zh", "en") == expected, why
    assert numbers_apart(en, zh, "en", "zh") == expected, why


@pytest.mark.parametrize(
    ("en", "de", "expected", "why"),
    [
        ("2 men", "zwei Männer", 0, "small numbers are words in any language"),
        ("2.52 dollars", "2,52 Dollar", 0, "decimal commas"),
        ("66,000 people", "66.000 Leute", 0, "separators of thousands"),
        ("437 men", "Männer", 1, "large numbers are not"),
        ("in 1998, 257 people", "١٩٩٨, ٢٥٧", 0, "digits of any script"),
        ("in 1998, 257 people", "１９９８年に２５８人", 2, "one of them is another"),
    ],
)
def test_numbers_where_words_cannot_be_read(en: str, de: str, expected: int, why: str) -> None:
    assert numbers_apart(en, de, "en", "de") == expected, why


def test_numbers_of_any_length_in_words() -> None:
    assert numbers_apart("一" * 5000, "3", "zh", "en") == 1
    assert numbers_apart("一" * 5000, "1" * 5000, "zh", "en") == 0
    assert numbers_apart("九万" * 5000, "9" * 5000, "zh", "en") == 1
