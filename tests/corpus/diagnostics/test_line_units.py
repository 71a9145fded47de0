"""Units of lines: what is one, whose it is, and that odd characters shift nothing."""

import random

import numpy as np
import pytest

from transformer_mt.corpus.diagnostics.line_units import (
    FIRST_CHARACTER,
    FIRST_WORD,
    N_UNITS,
    LineUnits,
    character_unit,
)


def units_of(text: str) -> list[int]:
    return LineUnits.of([text]).units.tolist()


@pytest.mark.parametrize(
    ("one", "other", "equal", "why"),
    [
        ("House", "house", True, "case"),
        ("houses", "house", True, "only three letters count"),
        ("house", "horse", False, "the third letter differs"),
        ("École", "ecole", True, "accents"),
        ("ab", "abc", False, "a short word is not the beginning of a long one"),
        ("Ｐｙ", "py", True, "width"),
        ("山？", "山?", True, "width of a mark"),
        ("山水", "水山", False, "order of characters stays"),
        ("a-b c", "a b.c", True, "what separates does not count"),
        ("2019", "201", True, "numbers are words"),
    ],
)
def test_units(one: str, other: str, equal: bool, why: str) -> None:
    assert (units_of(one) == units_of(other)) is equal, why


def test_kinds_of_units() -> None:
    word, character, mark = units_of("word"), units_of("字"), units_of("!")
    assert len(word) == len(character) == len(mark) == 1
    assert mark[0] < FIRST_WORD <= word[0] < FIRST_CHARACTER <= character[0] < N_UNITS
    assert character == [character_unit("字")]
    assert len({character_unit(chr(code)) for code in range(0x4E00, 0xA000)}) == 0xA000 - 0x4E00
    assert units_of("…—  \t") == []


def test_a_block_is_its_lines() -> None:
    """Whatever the texts hold, each unit is counted for the text that it is in."""
    draw = random.Random(4)
    alphabet = "ab字山 1?é\n\u2028\r\x85𠀀\ud800"
    texts = ["".join(draw.choices(alphabet, k=draw.randrange(0, 12))) for _ in range(400)]
    block = LineUnits.of(texts)
    assert len(block.lengths) == len(texts)
    for index, text in enumerate(texts):
        alone = LineUnits.of([text])
        assert block.units[block.owners == index].tolist() == alone.units.tolist()
        assert block.lengths[index] == alone.lengths[0]
    assert np.all(np.diff(block.owners) >= 0)
