"""Guards on strings: what is flagged, what must not be, and that nothing takes long or crashes."""

import random
import time
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from transformer_mt.translation.output_checks import FAULT_MEANING, Fault, faults

DATA = ROOT.parent / "shared/data"

calibration: Any = import_module("calibrate_checks")

GOOD = [
    ("今天天气很好，我们去公园散步。", "The weather is fine today, let's walk in the park."),
    ("这只动物没有穿过街道，因为它太累了。", "It did not cross the street, it was too tired."),
    ("请在会议开始之前把这份报告打印出来。", "Please print this report before the meeting begins."),
    ("她昨天在图书馆里找到了那本旧书。", "She found that old book in the library yesterday."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "translation", "expected", "why"),
    [
        ("我爱你。", "I love you love you love you love you", "loop", "a phrase of two words"),
        ("我爱你。", "I love you. I love you! I love you, I love you", "loop", "punctuation"),
        ("第一章", "Chapter one: 1. the end 2. the end 3. the end 4. the end", "loop", "numbers"),
        ("啊", "aaaaaaaaaa", "loop", "a character"),
        ("他笑了。", "He laughhahahaha.", "loop", "within a word"),
        ("你好。", "Hello............", "loop", "punctuation"),
        ("他有一条狗。", "He has a dog and a dog with a dog near a dog by a dog for a dog",
         "loop", "never in a row, but nearly all of it"),
        ("哈哈哈", "ha " * 30, "loop", "far more than the source"),
        ("no, no, no", "Niesiesiesiesiesiesie, nein", "loop", "words excuse no syllables"),
        ("你好。", "", "empty", "nothing"),
        ("你好。", "...", "empty", "punctuation only"),
        ("会议将于下周三下午在三楼的会议室举行。", "The", "short", "the rest is missing"),
        ("会议将于下周三下午举行。", "会议将于下周三下午举行。", "copy", "all of it"),
        ("好。", "好。", "script", "too short for a copy that matters, but not English"),
        ("他昨天去了北京。", "他去了北京。", "script", "Chinese, though no copy"),
        ("他昨天去了北京。", "He went to 北京 yesterday.", "script", "a word is left"),
        ("他昨天去了北京。", "Он вчера ездил в Пекин.", "script", "neither of the two languages"),
        ("他昨天去了北京。", "Yesterday he went to Пекин.", "script", "a word in a third script"),
    ],
)  # fmt: skip
def test_faults_into_english(source: str, translation: str, expected: Fault, why: str) -> None:
    assert expected in faults(source, translation, src="zh", tgt="en"), why


@pytest.mark.parametrize(
    ("source", "translation", "expected", "why"),
    [
        ("I love you.", "我爱你爱你爱你爱你", "loop", "characters are words"),
        ("He has a dog.", "他有有有有一条狗。", "loop", "one character"),
        ("The meeting is on Wednesday.", "。", "empty", "punctuation only"),
        ("The meeting takes place next Wednesday on the third floor.", "会议", "short", "cut"),
        ("The meeting is on Wednesday.", "The meeting was on Wednesday.", "copy", "nearly"),
        ("The meeting is on Wednesday.", "Das Treffen ist am Mittwoch.", "script", "no Han"),
        ("The meeting is on Wednesday.", "会議は水曜日に開かれます。", "script", "Japanese"),
    ],
)
def test_faults_into_chinese(source: str, translation: str, expected: Fault, why: str) -> None:
    assert faults(source, translation, src="en", tgt="zh") == (expected,), why


@pytest.mark.parametrize(
    ("src", "tgt", "source", "translation", "why"),
    [
        ("zh", "en", "", "", "nothing to translate"),
        ("zh", "en", "123", "123", "no letters in the source"),
        ("zh", "en", "哈哈哈哈哈哈", "Hahahahahaha", "both laugh"),
        ("zh", "en", "不，不，不，不，不！", "No, no, no, no, no!", "both repeat"),
        ("zh", "en", "很好很好很好", "very good, very good, very good", "three times"),
        ("zh", "en", "一百万是 10 的六次方。", "1,000,000 is ten to the sixth power.", "zeros"),
        ("zh", "en", "等等……", "Wait......", "dots"),
        ("zh", "en", "“你好”是什么意思？", "What does “你好” mean?", "a word in quotes"),
        ("zh", "en", "他住在北京。", "He lives in Beijing (北京).", "a name in brackets"),
        ("zh", "en", "π 约等于三点一四。", "π is about 3.14.", "a Greek letter of the source"),
        ("zh", "en", "kubectl get pods", "kubectl get pods", "a command in Chinese text"),
        ("en", "zh", "Kubernetes", "Kubernetes", "a name"),
        ("en", "zh", "https://example.org/some/long/path", "https://example.org/some/long/path",
         "an address"),
        ("en", "zh", "Run kubectl get pods -n web.", "运行 kubectl get pods -n web。", "code"),
        ("en", "de", "Hotel Adlon, Berlin", "Hotel Adlon, Berlin", "a name"),
        ("en", "de", "OK", "OK", "a word of both"),
        ("en", "sr", "He went home.", "Он је отишао кући.", "a language of two scripts"),
        ("zh", "zh-Hant", "我住在北京。", "我住在北京。", "the same in both scripts"),
        ("ja", "zh", "日本", "日本", "the same in both languages"),
    ],
)  # fmt: skip
def test_no_faults(src: str, tgt: str, source: str, translation: str, why: str) -> None:
    assert faults(source, translation, src=src, tgt=tgt) == (), why


def test_several_faults_are_in_a_fixed_order() -> None:
    found = faults(
        "会议将于下周三举行。", "下周下周下周下周下周", src="zh", tgt="en", complete=False
    )
    assert found == tuple(name for name in FAULT_MEANING if name in found)
    assert {"cut", "loop", "script"} <= set(found)
    assert faults(*GOOD[0], src="zh", tgt="en", complete=False) == ("cut",)


NAMES = [
    "12,345.67", "2024-06-01", "https://example.org/a_b/c?d=e", "someone@example.org", "{name}",
    "%s", "$HOME", "Zürich", "Kubernetes", "v1.28.3", "(NASA)", "😀", "10000000",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_names_numbers_and_addresses_are_no_fault(seed: int) -> None:
    """Carried over on both sides, in any number and place."""
    rng = random.Random(seed)
    for zh, en in GOOD:
        added = rng.sample(NAMES, rng.randint(1, len(NAMES)))
        zh_words, en_words = [zh], en.split(" ")
        for word in added:
            zh_words.insert(rng.randint(0, len(zh_words)), word)
            en_words.insert(rng.randint(0, len(en_words)), word)
        mixed_zh, mixed_en = " ".join(zh_words), " ".join(en_words)
        assert faults(mixed_zh, mixed_en, src="zh", tgt="en") == ()
        assert faults(mixed_en, mixed_zh, src="en", tgt="zh") == ()


@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize("times", [4, 50])
def test_a_phrase_of_any_size_is_found_anywhere(size: int, times: int) -> None:
    rng = random.Random(size * times)
    for zh, en in GOOD:
        words, characters = en.split(" "), list(zh.strip("。").replace("，", ""))
        for units, joint, source, src, tgt in (
            (words, " ", zh, "zh", "en"),
            (characters, "", en, "en", "zh"),
        ):
            start = rng.randint(0, len(units) - size)
            looped = units[:start] + units[start : start + size] * times + units[start + size :]
            assert "loop" in faults(source, joint.join(looped), src=src, tgt=tgt)


HOSTILE = {
    "one character": "x" * 100_000,
    "one Chinese character": "的" * 100_000,
    "two characters": "".join(random.Random(1).choices("的了", k=100_000)),
    "random words": "".join(random.Random(1).choices("abcdefgh   ", k=100_000)),
    "controls": "\0\x01\x1b\x7f\u200b\u2028\u202e\x85" * 5000,
    "right to left": "שלום עולם مرحبا " * 5000,
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈👍🏿" * 5000,
    "marks": "a" + "\u0301" * 50_000,
    "all planes": "".join(map(chr, random.Random(2).choices(range(0x10000, 0x110000), k=100_000))),
    "open quotes": "“" * 100_000,
    "ends": ".)" * 50_000,
    "spaces": " " * 100_000 + "a",
    "three times": "".join(
        3 * "".join(random.Random(i).choices("abc", k=100)) + "|" for i in range(300)
    ),
    "a surrogate": "\ud800" * 10,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_neither_crashes_nor_hangs(name: str) -> None:
    text = HOSTILE[name]
    for source, translation in ((text, text), (GOOD[0][0], text), (text, GOOD[0][1])):
        started = time.process_time()
        assert set(faults(source, translation, src="zh", tgt="en")) <= set(FAULT_MEANING)
        assert time.process_time() - started < 10, "all of it is linear: well under a second"


@pytest.mark.skipif(not DATA.exists(), reason="the corpora of ../shared/data are not here")
@pytest.mark.parametrize(
    "corpus",
    ["tatoeba-zh-en/test:zh-en", "k8s-docs-zh-en/test:zh-en", "flores-sib-zh-en/test:zh-en",
     "multi30k/val:en-de"],
)  # fmt: skip
def test_references_pass_and_planted_faults_do_not(corpus: str) -> None:
    for row in calibration.measure(f"{DATA}/{corpus}", n=500, n_planted=100, seed=2):
        assert row.n_flagged <= 2, "0.2 % of 500 is one"
        assert set(row.found) >= {"char. loop", "emptied", "truncated", "copied", "elsewhere"}
        for kind, found in row.found.items():
            assert sum(found) >= 0.9 * len(found), kind  # 95 % of many, measured by the script


def test_the_table_has_a_cell_for_everything(tmp_path: Path) -> None:
    for index, name in enumerate(("good.zh", "good.en")):
        lines = [pair[index] for pair in islice(GOOD, 3)] + [("一" * 8, "a b c d e " * 4)[index]]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = calibration.measure(f"{tmp_path}/good:zh-en", n=10, n_planted=3, seed=1)
    assert [(row.n, row.n_flagged) for row in rows] == [(4, 1), (4, 0)]
    table = calibration.render(rows).splitlines()
    assert len(table) == 3
    assert len({len(line) for line in table}) == 1
