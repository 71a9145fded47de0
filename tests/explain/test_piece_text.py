"""Pieces spell a text; its words know their pieces, whatever the language and the bytes."""

import pytest

from transformer_mt.explain.piece_text import PieceText, Word

ZH = ["<2en>", "▁这", "只", "动", "物", "，", "因为", "<0xE5>", "<0xAE>", "<0x83>", "累", "</s>"]
EN = ["▁The", "▁ani", "mal", "▁it", "em", "s", ",", "▁It", "▁is", "</s>"]


def test_words_of_spaced_and_unspaced_languages() -> None:
    words = PieceText(ZH, "zh").words()
    assert [word.text for word in words] == ["这", "只", "动", "物", "因为", "它", "累"]
    assert words[-2] == Word("它", [7, 8, 9])
    words = PieceText(EN, "en").words()
    assert [word.text for word in words] == ["The", "animal", "items", "It", "is"]
    assert words[1] == Word("animal", [1, 2])


@pytest.mark.parametrize(
    ("pieces", "language", "word", "expected"),
    [
        (ZH, "zh", "动物", [[3, 4]]),
        (ZH, "zh", "它", [[7, 8, 9]]),
        (ZH, "zh", "因", [[6]]),
        (ZH, "zh", "街道", []),
        (EN, "en", "it", [[7]]),
        (EN, "en", "the  animal", [[0, 1, 2]]),
        (EN, "en", "tem", []),
        (["▁<", "b", ">", "</s>"], "en", "<b>", [[0, 1, 2]]),
    ],
)
def test_places_of_a_word(
    pieces: list[str], language: str, word: str, expected: list[list[int]]
) -> None:
    assert [found.pieces for found in PieceText(pieces, language).find(word)] == expected


def test_pronouns_and_the_text_around_a_word() -> None:
    text = PieceText(ZH, "zh")
    assert text.pronouns() == [Word("它", [7, 8, 9])]
    assert text.around(text.find("物")[0], 2) == "只动物，因为"
    assert [word.pieces for word in PieceText(EN, "en").pronouns()] == [[7]]


def test_bytes_that_are_no_character_stay_in_place() -> None:
    text = PieceText(["a", "<0xFF>", "<0xE5>", "b", "<0x41>"], "zh")
    assert text.text == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}bA"
    assert text.find("b")[0].pieces == [3]
    assert text.find("A")[-1].pieces == [4]


@pytest.mark.parametrize(
    ("text", "pronoun", "expected"),
    [
        ("这 动物 没 有 ， 因为 它 累", "它", "这 动物 没 有"),
        ("动物 说 它 累", "它", "动物"),
        ("▁Dogs ▁ran ▁because ▁it ▁rained", "it", "Dogs ran"),
        ("▁A , ▁b ▁c , ▁it", "it", "A b c"),
        ("它 累", "它", ""),
    ],
)
def test_words_that_a_pronoun_may_stand_for(text: str, pronoun: str, expected: str) -> None:
    language = "zh" if "它" in text else "en"
    found = PieceText(text.split(), language)
    (word,) = found.find(pronoun)
    assert " ".join(other.text for other in found.before(word)) == expected
