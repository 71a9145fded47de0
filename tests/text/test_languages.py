"""Language codes: every spelling people use gives one code; mistakes name near codes."""

import pytest

from transformer_mt.config.data import split_direction
from transformer_mt.errors import ConfigError
from transformer_mt.text.languages import canonical_code, is_chinese, is_unspaced, language_name


@pytest.mark.parametrize(
    ("spelling", "code", "why"),
    [
        ("zh", "zh", "ISO 639-1"),
        ("ZH", "zh", "case"),
        (" zh ", "zh", "spaces around it"),
        ("zh-CN", "zh", "region"),
        ("zh_cn", "zh", "underscore"),
        ("zh-Hans", "zh", "script"),
        ("zh_Hans_CN", "zh", "script and region"),
        ("zho", "zh", "ISO 639-3"),
        ("chi", "zh", "ISO 639-2/B"),
        ("cmn", "zh", "Mandarin alone"),
        ("cmn_Hans", "zh", "as multilingual models write it"),
        ("zho_Hans", "zh", "as multilingual models write it"),
        ("zh-SG", "zh", "Singapore writes simplified"),
        ("zh-Hant", "zh-Hant", "already canonical"),
        ("zh-hant", "zh-Hant", "case"),
        ("zh-TW", "zh-Hant", "Taiwan writes traditional"),
        ("zh_HK", "zh-Hant", "Hong Kong too"),
        ("zh-MO", "zh-Hant", "Macau too"),
        ("zho_Hant", "zh-Hant", "as multilingual models write it"),
        ("cmn-Hant-TW", "zh-Hant", "script and region"),
        ("zt", "zh-Hant", "as some packages write it"),
        ("EN", "en", "case"),
        ("eng", "en", "three letters"),
        ("en-US", "en", "region"),
        ("eng_Latn", "en", "script"),
        ("de", "de", "ISO 639-1"),
        ("deu", "de", "terminological"),
        ("ger", "de", "bibliographic"),
        ("fra", "fr", "terminological"),
        ("fre", "fr", "bibliographic"),
        ("no", "no", "Norwegian, not False"),
        ("nb", "nb", "its own code"),
        ("jpn", "ja", "three letters"),
        ("jp", "ja", "the country for the language"),
        ("kr", "kr", "Kanuri has this code, though Korean is often meant"),
        ("tw", "tw", "Twi has this code, though Taiwan is often meant"),
        ("pt_BR", "pt", "region"),
        ("iw", "he", "old code"),
        ("yue", "yue", "a language without two letters"),
        ("yue_Hant", "yue", "as multilingual models write it"),
        ("ceb-PH", "ceb", "region"),
        ("arz", "arz", "Arabic of Egypt, not the standard"),
        ("tgl", "tl", "not Filipino"),
        ("fil", "fil", "not Tagalog"),
    ],
)
def test_every_spelling_gives_one_code(spelling: str, code: str, why: str) -> None:
    assert canonical_code(spelling) == code, why
    assert canonical_code(code) == code, "canonical codes stay"


@pytest.mark.parametrize("region", ["CN", "HK", "MO"])
def test_a_region_is_no_language_of_a_direction(region: str) -> None:
    assert split_direction(f"zh-{region}-en")[1] == "en"


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


def test_spellings_of_stored_codes_keep_their_meaning() -> None:
    for line in THREE_LETTERS.split(", "):
        code, *spellings = line.split()
        assert {canonical_code(spelling) for spelling in spellings} == {code}


@pytest.mark.parametrize(
    ("spelling", "near"),
    [("engl", "eng"), ("zhh", "zh"), ("deutsch", "deu"), ("", ""), ("-", ""), ("qqq", ""),
     ("und", "urd"), ("mul", "ml"), ("好", ""), ("mo", "smo"),
     ("txt", "t"), ("src", "srp")],
)  # fmt: skip
def test_unknown_codes_are_refused_with_near_ones(spelling: str, near: str) -> None:
    with pytest.raises(ConfigError) as caught:
        canonical_code(spelling)
    message = str(caught.value)
    assert message.startswith(f"unknown language code {spelling!r}")
    assert message.endswith("; use an ISO 639 code such as zh, zh-Hant, en, de")
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
