"""Which way a text is translated: what the user says, what the model can, what the script tells."""

import pytest

from transformer_mt.config.data import Languages
from transformer_mt.errors import TmtError
from transformer_mt.translation.direction import both_directions, direction_of

ZH_EN = Languages(src="zh", tgt="en", bidirectional=True)
EN_DE = Languages(src="en", tgt="de", bidirectional=True)


@pytest.mark.parametrize(
    ("text", "tgt", "why"),
    [
        ("今天天气很好。", "en", "Chinese"),
        ("The weather is fine.", "zh", "no Chinese"),
        ("用 Python 写", "en", "a foreign name in Chinese"),
        ("He said 你好 to everybody.", "zh", "a Chinese word in English"),
        ("Kubernetes 节点", "en", "one word of each: long words count once"),
        ("42", "zh", "no letter at all: not Chinese"),
        ("", "zh", "nothing"),
        ("繁體中文", "en", "Traditional"),
    ],
)
def test_the_script_tells_where_one_language_is_chinese(text: str, tgt: str, why: str) -> None:
    assert direction_of(text, ZH_EN, None).tgt == tgt, why
    assert direction_of(text, ZH_EN.reversed(), None).tgt == tgt, why
    assert direction_of(text, ZH_EN, None).src != tgt


@pytest.mark.parametrize("to", ["en", "eng", "EN"])
def test_what_the_user_says_goes_before_the_script(to: str) -> None:
    assert direction_of("This is English.", ZH_EN, to).tgt == "en"
    assert direction_of("今天", ZH_EN, "zh-CN").tgt == "zh"


@pytest.mark.parametrize(
    "pair", [("en", "de"), ("zh", "zh-Hant"), ("zh", "ja"), ("ja", "en"), ("zh", "yue")]
)
def test_where_no_script_tells_the_user_must(pair: tuple[str, str]) -> None:
    languages = Languages(src=pair[0], tgt=pair[1], bidirectional=True)
    with pytest.raises(TmtError) as caught:
        direction_of("text", languages, None)
    assert f"--to {pair[0]} or --to {pair[1]}" in str(caught.value)
    assert direction_of("text", languages, pair[0]).tgt == pair[0]


def test_a_model_of_one_direction_has_one_answer() -> None:
    one_way = Languages(src="zh", tgt="en")
    assert direction_of("The weather.", one_way, None) == one_way
    assert direction_of("The weather.", one_way, "en") == one_way
    with pytest.raises(TmtError, match="--to zh: this model translates zh → en only"):
        direction_of("x", one_way, "zh")
    with pytest.raises(TmtError, match="--to fr: this model translates en ↔ de only"):
        direction_of("x", EN_DE, "fr")
    assert [d.pair for d in both_directions(one_way)] == ["zh-en"]
    assert [d.pair for d in both_directions(EN_DE)] == ["en-de", "de-en"]
