"""Language codes: every spelling people use gives one code; mistakes name near codes."""

import pytest

from transformer_mt.config.data import split_direction
from transformer_mt.errors import ConfigError
from transformer_mt.text.languages import canonical_code, is_chinese, is_unspaced, language_name

# Beside those of ISO 639: with a region or a script, in any case, with spaces or underscores, as
# multilingual models and packages write them. kr is Kanuri and tw is Twi, though countries have
# these codes as well; arz is Arabic of Egypt, fil is not Tagalog.
SPELLINGS = (
    "zh ZH zh-CN zh_cn zh-Hans zh_Hans_CN cmn_Hans zho_Hans zh-SG, "
    "zh-Hant zh-hant zh-TW zh_HK zh-MO zho_Hant cmn-Hant-TW zt, en EN en-US eng_Latn, no, nb, kr, "
    "tw, pt pt_BR, yue yue_Hant, ceb ceb-PH, arz, tl tgl, fil, "
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


@pytest.mark.parametrize("region", ["CN", "HK", "MO"])
def test_a_region_is_no_language_of_a_direction(region: str) -> None:
    assert split_direction(f"zh-{region}-en")[1] == "en"


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
