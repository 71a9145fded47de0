"""Copies and loops: what a pair says more than once."""

import pytest

from transformer_mt.corpus.cleaning.repetition import identical, repeated

SENTENCE = "The picture of the old house is hanging on the wall."


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Brotherhood of the Wolf", "a title"),
        ("Container Runtime Interface (CRI)", "a term"),
        ("kubectl get pods --all-namespaces -o jsonpath='{..image}'", "a command"),
        ("for (i = 0; i < n; ++i) { total += values[i]; }", "code"),
        ("10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16", "numbers"),
        ("OK", "a word"),
    ],
)
def test_names_and_code_may_be_the_same(text: str, why: str) -> None:
    assert identical(text, text) <= 20, why


def test_sentences_may_not() -> None:
    assert identical(SENTENCE, SENTENCE) > 30
    assert identical(SENTENCE, SENTENCE.replace("old", "new")) > 30, "nearly the same is the same"
    assert identical(SENTENCE, "Das Bild des alten Hauses hängt an der Wand im Haus.") == 0
    assert identical(SENTENCE, SENTENCE + " And the garden lies behind it.") == 0, "not all of it"


@pytest.mark.parametrize(
    ("src", "tgt", "why"),
    [
        ("我爱你。" * 8, "I love you.", "a phrase on one side only"),
        ("很好", "very " * 8 + "good", "a word"),
        ("啊", "a" * 30, "a character"),
        ("第一句，" + "然后重复的，" * 5, "First sentence, then repeated,", "after good text"),
    ],
)
def test_loops_are_found(src: str, tgt: str, why: str) -> None:
    assert repeated(src, tgt) > 20, why
    assert repeated(tgt, src) == repeated(src, tgt)


@pytest.mark.parametrize(
    ("src", "tgt", "why"),
    [
        ("哈哈哈哈哈哈", "hahahahahahaha", "both sides laugh"),
        ("不，不，不，不，不", "No, no, no, no, no", "both sides repeat"),
        ("一天又一天，一年又一年", "day after day, year after year", "rhetoric"),
        ("测试 // ---- //", "test // ---- //", "a short line"),
        (SENTENCE, "画挂在墙上。", "no repetition"),
    ],
)
def test_what_people_say_twice_is_no_loop(src: str, tgt: str, why: str) -> None:
    assert repeated(src, tgt) <= 20, why
