"""Language codes: every spelling people use gives one code; mistakes name near codes."""

import pytest

from transformer_mt.config.data import split_direction
from transformer_mt.errors import ConfigError
from transformer_mt.text.languages import (
    canonical_code,
    code_of_name,
    is_chinese,
    is_unspaced,
    language_name,
)

# Beside those of ISO 639: with a region or a script, in any case, with spaces or underscores, as
# multilingual models and packages write them. kr is Kanuri and tw is Twi, though countries have
# these codes as well; arz is Arabic of Egypt, fil is not Tagalog.
SPELLINGS = (
    "zh ZH zh-CN zh_cn zh-Hans zh_Hans_CN cmn_Hans zho_Hans zh-SG zh-MY zh-TH, "
    "zh-Hant zh-hant zh-TW zh_HK zh-MO zho_Hant cmn-Hant-TW zt, en EN en-US eng_Latn, no, nb, kr, "
    "tw, pt pt_BR, yue yue_Hant zh-yue, ceb ceb-PH, arz, tl tgl, fil, "
)
THREE_LETTERS = (  # of ISO 639-2/B, 639-2/T and 639-3, as corpora have them
    "ar ara arb, bg bul, bn ben, ca cat, cs ces cze, da dan, de deu ger, el ell gre, en eng, "
    "es spa, et est, eu eus baq, fa fas per pes, fi fin, fr fra fre, ga gle, gu guj, ha hau, "
    "he heb iw, hi hin, hr hrv, hu hun, hy hye arm, id ind in, is isl ice, it ita, ja jpn jp, "
    "ka kat geo, kk kaz, km khm, ko kor, lt lit, lv lav, mk mkd mac, ml mal, mn mon khk, mr mar, "
    "ms msa may, my mya bur, nb nob, nl nld dut, nn nno, no nor, pa pan, pl pol, ps pus, pt por, "
    "ro ron rum, ru rus, sk slk slo, sl slv, so som, sq sqi alb, sr srp, sv swe, sw swa swh, "
    "ta tam, te tel, th tha, tr tur, uk ukr, ur urd, uz uzb uzn, vi vie, yo yor, zu zul, "
    "zh zho chi cmn cn, zh-Hant zt"
)


@pytest.mark.parametrize("spellings", (SPELLINGS + THREE_LETTERS).split(", "))
def test_every_spelling_gives_one_code(spellings: str) -> None:
    code, *others = spellings.split()
    assert {canonical_code(spelling) for spelling in (code, f" {code} ", *others)} == {code}


NAMES = {
    "zh": "chinese Chinese CHINESE 中文 汉语 漢語 简体中文 普通话 Mandarin Simplified_Chinese "
    "Chinese_(Simplified) 中文（简体） Mandarin_Chinese Chinese_Simplified",
    "zh-Hant": "繁体中文 繁體中文 Traditional_Chinese Chinese_(Traditional) 中文（繁體）",
    "en": "english English 英文 英语 英語", "de": "German Deutsch 德语 德文 德語",
    "fr": "French Français francais 法语 法文", "es": "Spanish español 西班牙语 西班牙文",
    "ja": "Japanese 日本語 日语 日文", "ko": "Korean 한국어 韩语 韓文", "ru": "Russian русский",
    "vi": "Vietnamese Tiếng_Việt 越南语", "ar": "Arabic العربية 阿拉伯语", "th": "Thai ไทย 泰语",
    "pt": "Portuguese português 葡萄牙语", "el": "Greek Ελληνικά", "hi": "Hindi हिन्दी 印地语",
    "uk": "Ukrainian українська", "cs": "Czech čeština 捷克语", "yue": "Cantonese 粤语",
    "fa": "Persian Farsi", "tr": "Turkish Türkçe", "sv": "Swedish svenska", "ceb": "Cebuano",
}  # fmt: skip


@pytest.mark.parametrize("code", NAMES)
def test_names_in_english_chinese_and_the_language_itself(code: str) -> None:
    for name in NAMES[code].split():
        assert canonical_code(name.replace("_", " ")) == code, name


@pytest.mark.parametrize("word", ["text", "note", "Sheet1", "source", "原文", "语言", "id3"])
def test_words_that_are_no_names(word: str) -> None:
    assert code_of_name(word) is None


@pytest.mark.parametrize("region", ["CN", "HK", "MO"])
def test_a_region_is_no_language_of_a_direction(region: str) -> None:
    assert split_direction(f"zh-{region}-en")[1] == "en"


@pytest.mark.parametrize(
    ("spelling", "near"),
    [("engl", "eng"), ("zhh", "zh"), ("Chinees", "Chinese"), ("grman", "German"), ("", ""),
     ("-", ""), ("qqq", ""), ("und", "urd"), ("mul", "ml"), ("好", ""), ("mo", "smo"),
     ("txt", "t"), ("src", "srp"), ("klingon", ""), ("x" * 99, "")],
)  # fmt: skip
def test_unknown_codes_are_refused_with_near_ones(spelling: str, near: str) -> None:
    with pytest.raises(ConfigError) as caught:
        canonical_code(spelling)
    message = str(caught.value)
    assert message.startswith(f"unknown language code {spelling[:60]!r}")
    assert "; use an ISO 639 code such as zh, zh-Hant, en, de, or a name such as Chi" in message
    assert ("did you mean" in message) == bool(near)
    assert near in message


@pytest.mark.parametrize(
    ("code", "unspaced", "chinese", "name"),
    [
        ("zh", True, True, "Chinese"),
        ("zh-Hant", True, True, "Traditional Chinese"),
        ("ja", True, False, "Japanese"),
        ("th", True, False, "th"),
        ("yue", True, False, "Cantonese"),
        ("ko", False, False, "Korean"),
        ("en", False, False, "English"),
        ("de", False, False, "German"),
    ],
)
def test_questions_about_a_code(code: str, unspaced: bool, chinese: bool, name: str) -> None:
    assert is_unspaced(code) is unspaced
    assert is_chinese(code) is chinese
    assert language_name(code) == name
