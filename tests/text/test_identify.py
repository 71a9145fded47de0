"""The language of text: by script, and by words."""

import random

import pytest

from transformer_mt.text.identify import identify, is_identified, language_identifier, likeliest
from transformer_mt.text.languages import canonical_code

DECLARATION = {
    "en": "All human beings are born free and equal in dignity and rights.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "es": "Todos los seres humanos nacen libres e iguales en dignidad y derechos.",
    "it": "Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti.",
    "nl": "Alle mensen worden vrij en gelijk in waardigheid en rechten geboren.",
    "pl": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "tr": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar.",
    "vi": "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền.",
    "ru": "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    "uk": "Всі люди народжуються вільними і рівними у своїй гідності та правах.",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.",
    "ar": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
    "hi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है।",
    "th": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "zh": "人人生而自由，在尊严和权利上一律平等。",
    "zh-Hant": "人人生而自由，在尊嚴和權利上一律平等。",
    "ja": "すべての人間は、生まれながらにして自由である。",
    "ko": "모든 인간은 태어날 때부터 자유로우며 존엄과 권리에 있어 동등하다.",
}


@pytest.mark.parametrize("code", DECLARATION)
def test_a_sentence_is_enough(code: str) -> None:
    assert identify([DECLARATION[code]]) == code
    assert identify([DECLARATION[code].upper()] * 3) == code


@pytest.mark.parametrize(
    ("texts", "code", "why"),
    [
        (["使用 kubectl get pods 命令查看 Pod 的状态"] * 3, "zh", "Latin names"),
        (["他说「こんにちは」就离开了这个地方，再也没有回来过，大家都很惊讶"], "zh", "kana"),
        (["The word 你好 means hello in Chinese", "He left."], "en", "a quotation"),
        (["你好"], "zh", "few characters"),
        (["", "123", "— … !"], None, "no letters"),
        (["OK"], None, "too few"),
        ([], None, "nothing"),
    ],
)  # fmt: skip
def test_mixed_and_short_text(texts: list[str], code: str | None, why: str) -> None:
    assert identify(texts) == code, why


def test_of_a_short_text_the_likeliest_of_some_languages() -> None:
    """How probable it is among all: not every text is in one of them."""
    for text, codes, found in (
        ("Guten Tag", ["en", "de"], "de"), ("Hello", ["ja", "zh"], None), ("Hallo", ["zh"], None),
        ("Привет", ["en", "de"], None), ("Привет", ["en", "ru"], "ru"), ("123", ["en"], None),
    ):  # fmt: skip
        code, probability = likeliest([text], codes)
        assert code == found and (0 < probability < 1) == (found is not None), text


def test_every_language_of_the_model_has_a_code() -> None:
    labels = language_identifier().labels
    assert len(labels) > 90
    for label in labels:
        if label != "zxx":  # no language
            assert canonical_code(label) and is_identified(label)
    assert is_identified("zh-Hant") and not is_identified("tlh")


def test_text_of_no_language() -> None:
    draw = random.Random(4)
    words = ["".join(draw.choices("bdfgklmnprst", k=3)) for _ in range(200)]
    assert identify([" ".join(draw.choices(words, k=9)) for _ in range(30)]) is None


def test_identifiers_do_not_disturb_each_other() -> None:
    two = language_identifier(["en", "zh"])
    assert two.labels == ["en", "zh"]
    assert two.classify(DECLARATION["de"])[0] == "en"
    assert identify([DECLARATION["de"]]) == "de"
    with pytest.raises(ValueError, match="xx"):
        language_identifier(["xx"])
