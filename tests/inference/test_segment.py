"""Cutting long texts: nothing is lost, everything fits, sentences stay whole where they can."""

import itertools
import random
from collections.abc import Callable

import pytest

from transformer_mt.inference.segment import join_translations, split_text


def at_most(n: int) -> Callable[[str], bool]:
    return lambda text: len(text.strip()) <= n


@pytest.mark.parametrize(
    ("text", "limit", "pieces", "why"),
    [
        ("Short.", 10, ["Short."], "what fits is not touched"),
        ("One. Two.", 20, ["One. Two."], "nor cut at sentence ends without need"),
        ("", 5, [""], "nothing stays nothing"),
        ("It rains. We stay. Why?", 10, ["It rains. ", "We stay. ", "Why?"], "after the space"),
        ("It rains. We stay. Why?", 18, ["It rains. We stay. ", "Why?"], "neighbours together"),
        ("下雨了。我们留下。为什么？", 5, ["下雨了。", "我们留下。", "为什么？"], "no spaces"),
        ("真的！？好。", 4, ["真的！？", "好。"], "between two marks is no end"),
        ("他说：“好。”她走了。", 8, ["他说：“好。”", "她走了。"], "a closing quote goes along"),
        ("（他来了。）她走了。", 6, ["（他来了。）", "她走了。"], "and a bracket"),
        ('I said "no." He left us.', 15, ['I said "no." ', "He left us."], "an English quote"),
        ("(It rains.) We stay.", 14, ["(It rains.) ", "We stay."], "an English bracket"),
        ("Pi is 3.14159 today. Yes.", 22, ["Pi is 3.14159 today. ", "Yes."], "not in a number"),
        ("Wait… what? No.", 11, ["Wait… what?", " No."], "an ellipsis"),
        ("one two, three four", 10, ["one two, ", "three four"], "clauses when a sentence is long"),
        ("如果下雨，我们就留下", 6, ["如果下雨，", "我们就留下"], "full-width clauses"),
        ("aaa bbb ccc", 7, ["aaa bbb ", "ccc"], "words when a clause is long"),
        ("abcdefgh", 4, ["abcd", "efgh"], "anywhere when nothing else is left"),
        ("ab", 0, ["a", "b"], "one character is the least, even if it does not fit"),
    ],
)
def test_where_a_text_is_cut(text: str, limit: int, pieces: list[str], why: str) -> None:
    found = split_text(text, at_most(limit))
    assert [piece.strip() for piece in found] == [piece.strip() for piece in pieces], why
    assert "".join(found) == text


def fewer_than(n: int) -> Callable[[str], bool]:
    return lambda text: len(text) < n


@pytest.mark.parametrize("seed", range(30))
def test_pieces_fit_and_joined_are_the_text(seed: int) -> None:
    generator = random.Random(seed)
    text = "".join(generator.choices("ab好。！？，、. ,!?;:\"'”’)」… \n\t😀", k=300))
    for limit in (1, 2, 7, 40, 299):
        pieces = split_text(text, fewer_than(limit + 1))
        assert "".join(pieces) == text
        assert all(pieces)
        assert all(len(piece) <= limit for piece in pieces)
        for left, right in itertools.pairwise(pieces):
            assert len(left + right) > limit, "pieces are not smaller than they must be"


def test_a_sentence_that_fits_is_never_cut() -> None:
    generator = random.Random(1)
    sentences = ["词" * generator.randint(1, 9) + "。" for _ in range(50)]
    pieces = split_text("".join(sentences), at_most(10))
    ends = {sum(map(len, sentences[:i])) for i in range(51)}
    position = 0
    for piece in pieces:
        position += len(piece)
        assert position in ends
    assert len(pieces) < 50, "short neighbours share a piece"


def test_a_very_long_text_without_any_end_is_cut() -> None:
    text = "字" * 100_000
    pieces = split_text(text, at_most(100))
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 100


@pytest.mark.parametrize(
    ("pieces", "language", "joined"),
    [
        (["One.", "Two."], "en", "One. Two."),
        (["一。", "二。"], "zh", "一。二。"),
        (["一。", "二。"], "zh-Hant", "一。二。"),
        (["Eins.", "", "Drei."], "de", "Eins. Drei."),
        ([], "en", ""),
    ],
)
def test_joining(pieces: list[str], language: str, joined: str) -> None:
    assert join_translations(pieces, language) == joined
