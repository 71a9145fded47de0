"""Text of one language → its one form; whatever comes in, normalising twice changes nothing."""

import pickle
import random
import sys
import unicodedata
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from transformer_mt.corpus.cleaning.rules import comparison_key
from transformer_mt.errors import ConfigError
from transformer_mt.text.normalise import Normaliser, sort_marks, well_formed

CORPORA = ROOT.parent / "shared/data"
# Where the trouble is: controls, combining marks, spaces and invisible characters, CJK punctuation,
# characters that NFC replaces, full-width forms, halves of surrogate pairs, and everything else.
BLOCKS = [
    (0x00, 0xFF), (0x300, 0x36F), (0x2000, 0x206F), (0x3000, 0x30FF), (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF), (0xFE00, 0xFFFF), (0xD800, 0xDFFF), (0x20, 0x20), (0, 0x10FFFF),
]  # fmt: skip


ENTITIES = ["&", ";", "amp", "&quot;", "&amp;", "&#65306;", "&#xfeff;", "&#769;", "&nbsp;", "#3"]


def random_texts(n: int) -> list[str]:
    generator = random.Random(7)

    def piece() -> str:
        if generator.random() < 0.2:
            return generator.choice(ENTITIES)
        return chr(generator.randint(*generator.choice(BLOCKS)))

    return ["".join(piece() for _ in range(generator.randrange(30))) for _ in range(n)]


def corpus_lines() -> list[str]:
    paths = sorted(CORPORA.glob("*/dev.*")) + sorted(CORPORA.glob("*/test.*"))
    if not paths:
        pytest.skip(f"no corpora in {CORPORA}")
    return [line for path in paths for line in path.read_text(encoding="utf-8").split("\n")]


@pytest.mark.parametrize(
    ("language", "text", "expected", "why"),
    [
        ("de", "  zwei\t Wörter\u3000\u2028da \r", "zwei Wörter da", "any white space is a space"),
        ("de", "cafe\u0301", "café", "NFC"),
        ("fr", "\ufeffa\u200bb\u00adc\u202ed\x00", "abcd", "invisible characters go"),
        ("fa", "می\u200cخواهم", "می\u200cخواهم", "the joiners are spelling"),
        ("de", "„Ja“, sagt’s", "„Ja“, sagt’s", "German quotes are spelling"),
        ("en", "“Don’t”, ‘she’ said", "\"Don't\", 'she' said", "English quotes are straight"),
        ("en", "ＡＢ，１", "ＡＢ，１", "width is a matter of Chinese"),
        ("zh", "ＡＰＩ的第１２版，ｏｋ！", "API的第12版，ok！", "no full-width letters"),
        ("zh", "Ａ\u0301", "Á", "what becomes narrow still is NFC"),
        ("zh", "你好 ， 世 界 。", "你好，世界。", "no spaces between Chinese characters"),
        ("zh", "用 Python 写 3 行", "用 Python 写 3 行", "spaces around Latin words stay"),
        ("zh", "他说 “好” —— 真的", "他说 “好” —— 真的", "spaces at quotes and dashes stay"),
        ("zh-Hant", "軟體 開發", "軟體開發", "both scripts are Chinese"),
        ("ja", "これは 本", "これは 本", "Japanese keeps its spaces"),
        ("zh", "包含 &quot;cpu&quot; 和&nbsp;&#39;a&#39;", "包含 \"cpu\" 和 'a'", "entities"),
        ("en", "&ldquo;a&rdquo;&mdash;&lt;b&gt;&#8203;", '"a"—<b>', "their characters, normalised"),
        ("en", "Q&amp;A, &amp;amp;lt;", "Q&A, <", "entities that were escaped again"),
        ("zh", "&ｌｔ; &am\u200bp; &gt\u037e", "< & >", "entities that come out of other steps"),
        ("en", "int *p = &map; AT&T; &name; &#0;", "int *p = &map; AT&T; &name; &#0;", "code"),
        ("zh", " \u200b\u3000", "", "nothing visible"),
    ],
)
def test_one_form(language: str, text: str, expected: str, why: str) -> None:
    assert Normaliser(language, None)(text) == expected, why


@pytest.mark.parametrize("language", ["en", "de", "zh", "zh-Hant", "ja"])
def test_any_text_becomes_one_stable_visible_line(language: str) -> None:
    normalise = Normaliser(language, None)
    for text in random_texts(3000):
        once = normalise(text)
        assert normalise(once) == once, ascii(text)
        assert unicodedata.is_normalized("NFC", once), ascii(text)
        assert once == " ".join(once.split()), ascii(text)
        assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in once), ascii(text)


@pytest.mark.parametrize("script", ["simplified", "traditional"])
def test_conversion_is_stable(script: Any) -> None:
    pytest.importorskip("opencc")
    normalise = Normaliser("zh", script)
    for text in [*random_texts(2000), *corpus_lines(), "薴", "了解十六进制", "叶韵", "范县"]:
        once = normalise(text)
        assert normalise(once) == once, ascii(text)


def test_conversion_follows_the_configured_script() -> None:
    pytest.importorskip("opencc")
    hans, hant = "这是一本关于汉语的书", "這是一本關於漢語的書"
    for text in (hans, hant):
        assert Normaliser("zh", "simplified")(text) == hans
        assert Normaliser("zh-Hant", "traditional")(text) == hant
        assert Normaliser("en", "simplified")(text) == text, "only Chinese text is converted"
    # 后 and 後 are both Traditional: what is Traditional already must not be guessed again.
    traditional = Normaliser("zh-Hant", "traditional")
    for text in ("皇后與公里", "我姓范，我們都是學生", "他只買了一隻鍾錶，范女士買了台灣后冠"):
        assert traditional(text) == text


def test_travels_to_other_processes() -> None:
    normalise = Normaliser("zh", "simplified" if find_spec("opencc") else None)
    assert pickle.loads(pickle.dumps(normalise))("“書” １") == normalise("“書” １")


def test_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opencc", None)  # importing it fails, as if not installed
    Normaliser("zh", None)
    Normaliser("en", "simplified")
    with pytest.raises(ConfigError, match=r"simplified .* pip install opencc"):
        Normaliser("zh", "simplified")


MARKS = st.sampled_from("\u0301\u0323\u0308\u0f71\u0f73\u3099\u0345\u05b0\u0344")


@given(st.text(st.one_of(MARKS, st.sampled_from("aệéカが가ᄀ"), st.characters())))
def test_sorting_marks_changes_no_normal_form(text: str) -> None:
    for form in ("NFC", "NFD", "NFKC"):
        assert unicodedata.normalize(form, sort_marks(text)) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("mark", ["\u0301\u0323", "\u0f71\u0f73", "&amp;#173;", "&#38;amp;"])
def test_a_long_text_of_one_kind_is_brought_to_one_form(mark: str) -> None:
    for language in ("zh", "en"):
        normalise = Normaliser(language, None)
        text = normalise("a&" + mark * 3000)
        assert normalise(text) == text
        assert comparison_key(text)


@pytest.mark.parametrize(
    ("depth", "expected"), [(1, "<"), (2, "<"), (16, "<"), (20, "& " + 3 * "amp;" + "lt;")]
)
def test_entities_are_unescaped_up_to_a_depth(depth: int, expected: str) -> None:
    assert Normaliser("en", None)("&" + "amp;" * (depth - 1) + "lt;") == expected


def test_halves_of_surrogate_pairs_become_replacement_characters() -> None:
    assert (well_formed("好"), well_formed("a\udcff好\ud83d")) == ("好", "a\ufffd好\ufffd")
