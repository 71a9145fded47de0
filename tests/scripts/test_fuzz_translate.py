"""`scripts/faults/fuzz_translate.py`: hostile texts from a seed, and its own search for loops."""

import random
from collections import Counter

import fuzz_translate as fuzz
import hostile_texts as hostile
import pytest

from transformer_mt.translation.output_checks import faults
from transformer_mt.translation.request import Translation


def test_texts_follow_from_the_seed() -> None:
    first = list(hostile.hostile_texts(40, 1))
    assert first == list(hostile.hostile_texts(200, 1))[:40]
    assert first != list(hostile.hostile_texts(40, 2))


def test_texts_are_of_every_kind_and_can_be_encoded() -> None:
    texts = list(hostile.hostile_texts(2000, 3))
    counts = Counter(kind for kind, _ in texts)
    assert set(counts) == {*hostile.KINDS, "long"}
    assert min(counts[kind] for kind in hostile.KINDS) >= 100
    assert max(len(text) for _, text in texts) == hostile.LONGEST
    assert len({text for _, text in texts}) > 1900
    assert all(text.encode() is not None for _, text in texts), "no surrogates"
    everything = set("".join(text for _, text in texts))
    assert {"\0", "\u2028", "\x85", "\u202e", "\u200b", "\u0301", "👍", "\r"} <= everything
    assert max(everything) > "\U000e0000"


@pytest.mark.parametrize(
    ("text", "expected", "why"),
    [
        ("", 1, "nothing"),
        ("the cat", 1, "no repetition"),
        ("the cat the cat the cat", 3, "words"),
        ("the cat the cat the", 2, "the third is not complete"),
        ("The cat the CAT", 2, "in any case"),
        ("xababababy", 4, "characters"),
        ("......", 1, "letters only"),
        ("a . . . .", 1, "letters only"),
        ("哈哈哈", 3, "Chinese"),
    ],
)
def test_repeats(text: str, expected: int, why: str) -> None:
    assert fuzz.repeats(text) == expected, why


def test_a_source_that_repeats_a_sentence_excuses_a_translation_that_does() -> None:
    source = 72 * "这份报告还没有写完，请再等一下。"
    output = 72 * "Der Bericht ist nicht fertig. "
    assert fuzz.repeats(output) == 72
    translation = Translation(source, output, 0.0, True, 72, [])
    assert not list(fuzz.check(source, translation))
    (problem,) = fuzz.check("我要回家。", translation)
    assert "72 times in a row" in problem


def test_the_guard_flags_every_loop_that_the_simple_search_sees() -> None:
    rng, source, n_seen = random.Random(5), "我要回家。", 0
    for _ in range(400):
        unit = "".join(rng.choices("ab 好c.", k=rng.randint(1, 8)))
        text = rng.choice(("", "so ")) + unit * rng.randint(1, 12) + rng.choice(("", " end"))
        if fuzz.repeats(text) >= fuzz.LOOP_TIMES:
            n_seen += 1
            assert "loop" in faults(source, text, src="zh", tgt="en"), text
    assert n_seen > 100


@pytest.mark.parametrize("size", [1, 10, 999, 1000, 1001, 100_000])
def test_time_grows_with_the_text(size: int) -> None:
    assert fuzz.allowed_s("x" * size) == 5 * max(1, size / 1000)


def test_every_text_is_in_one_chunk_of_its_kind() -> None:
    texts = list(hostile.hostile_texts(300, 4))
    chunks = list(fuzz.chunks_of(iter(texts)))
    assert sorted(text for chunk in chunks for text in chunk) == sorted(texts)
    assert all(len({kind for kind, _ in chunk}) == 1 for chunk in chunks)
    assert all(len(chunk) <= fuzz.CHUNK for chunk in chunks)
