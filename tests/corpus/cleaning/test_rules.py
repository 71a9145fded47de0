"""One pair → one score per rule: good pairs stay below the default thresholds, bad ones do not."""

import unicodedata
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from transformer_mt.config.data import CleanConfig
from transformer_mt.config.experiment import Languages
from transformer_mt.corpus.cleaning.rules import (
    RULE_MEANING,
    SCORED_RULES,
    ForeignLanguage,
    PairScorer,
    comparison_key,
    identical,
    repeated,
)
from transformer_mt.errors import ConfigError
from transformer_mt.text.normalise import Normaliser

CORPORA = ROOT.parent / "shared/data"
ZH_EN = Languages(src="zh", tgt="en")
SENTENCE = "The picture of the old house is hanging on the wall."
CLEAN = CleanConfig(variant=0.5)
Pair = tuple[str, str]
scorer_of = lru_cache(PairScorer)


def broken(pair: Pair, languages: Languages = ZH_EN, **options: Any) -> str | None:
    """The first rule that drops a pair with the default thresholds, and `variant` switched on."""
    scores = scorer_of(languages, **options).scores(*pair)
    for rule, score in zip(SCORED_RULES, scores, strict=True):
        threshold = getattr(CLEAN, rule)
        if threshold is not False and score > threshold:
            return rule
    return None


def corpus(name: str, languages: Languages, part: str) -> list[Pair]:
    sides = []
    for code in (languages.src, languages.tgt):
        path = CORPORA / name / f"{part}.{code}"
        if not path.exists():
            pytest.skip(f"no corpus at {path}")
        normalise = Normaliser(code, None)
        sides.append([normalise(line) for line in path.read_text(encoding="utf-8").splitlines()])
    return list(zip(*sides, strict=True))


@pytest.mark.parametrize(
    ("zh", "en", "why"),
    [
        ("画蛇添足。", "To gild the lily.", "an idiom"),
        ("对牛弹琴", "casting pearls before swine", "an idiom"),
        ("嗨。", "Hi.", "short"),
        ("好！", "OK!", "short"),
        ("……", "...", "nothing but punctuation, on both sides"),
        ("我用Twitter。", "I use Twitter.", "a name"),
        ("Kubernetes API", "Kubernetes API", "a name"),
        ("kubectl get pods -A", "kubectl get pods -A", "a command"),
        ("NAME 看起来像： a/b@sha256:0d17b5", "NAME will look like: a/b@sha256:0d17b5", "code"),
        ("调用 m(arg-1, arg-2)", "Calling m(arg-1, arg-2)", "a few Chinese characters"),
        ("“吃了吗”是什么意思？", "What does 吃了吗 mean?", "Chinese quoted in English"),
        ("数学常数 π", "the constant π", "a Greek letter"),
        ("《龙猫》原名《となりのトトロ》，1988 年上映，由宫崎骏执导，深受各国观众喜爱。",
         "My Neighbor Totoro (となりのトトロ) of 1988 was directed by Hayao Miyazaki.", "a title"),
        ("哈哈哈哈", "hahahaha", "laughing"),
        ("我三十岁。", "I'm 30 years old.", "numbers in two forms"),
        ("10.0.0.0/8 和 192.168.0.0/16", "10.0.0.0/8 and 192.168.0.0/16", "mostly numbers"),
        ("一个 <名称>", "a <name>", "a placeholder"),
    ],
)  # fmt: skip
def test_good_pairs_stay(zh: str, en: str, why: str) -> None:
    assert broken((zh, en)) is None, why
    assert broken((en, zh), ZH_EN.reversed()) is None, why


@pytest.mark.parametrize(
    ("zh", "en", "rule"),
    [
        ("", "Something.", "empty"),
        ("", "", "empty"),
        ("长" * 2001, "long", "too_long"),
        ("@@", "Young girls weave corn stalks.", "no_words"),
        ("========== 12.50 ========== 7.75 ========== 3.125 ====== 总", "Total", "non_letters"),
        ("The house that we saw is hardly old.", "The house that we saw is hardly old.",
         "identical"),
        ("很好，" * 10, "Very good.", "repeated"),
        ("我喜欢喝茶。", "茶茶 " * 20, "repeated"),
        ("I like tea.", "我喜欢喝茶。", "swapped"),
        ("Ein kleines Mädchen klettert in ein Spielhaus.", "A girl climbs.", "script"),
        ("これは本です。", "This is a book.", "script"),
        ("이것은 책입니다.", "This is a book.", "script"),
        ("Это интересная книга.", "This is a book.", "script"),
        ("这是一本书。", "Это интересная книга.", "script"),
        ("这是一本书。", "这是一本很旧的书。", "script"),
        ("這是一個問題。", "This is a problem.", "variant"),
        ("粗体", "<p><b>bold</b> type", "markup"),
        ("见官网。", "See https://a.org or www.b.org.", "urls"),
        ("1988年有37人。", "In 1987 there were 52.", "numbers"),
    ],
)  # fmt: skip
def test_bad_pairs_go(zh: str, en: str, rule: str) -> None:
    assert broken((zh, en)) == rule


def test_rules_have_a_threshold_and_a_meaning() -> None:
    assert set(SCORED_RULES) == set(RULE_MEANING) <= set(CleanConfig.model_fields)
    assert list(SCORED_RULES) == [f for f in CleanConfig.model_fields if f in RULE_MEANING]


@pytest.mark.parametrize(
    ("language", "script", "good", "bad"),
    [
        ("zh", None, "这个问题", "這個問題"),
        ("zh-Hant", None, "這個問題", "这个问题"),
        ("zh", "traditional", "這個問題", "这个问题"),
        ("zh-Hant", "simplified", "这个问题", "這個問題"),
        ("ja", None, "這個問題", None),
    ],
)
def test_the_expected_variant(
    language: str, script: str | None, good: str, bad: str | None
) -> None:
    languages = Languages(src=language, tgt="en")
    for text, reason in ((good, None), (bad, "variant")):
        if text is not None:
            found = broken((text, "this problem"), languages, chinese_script=script)
            assert found == reason


def test_languages_without_a_known_script_are_not_judged_by_it() -> None:
    pair = ("Ово је књига, a ovo je druga.", "これは本です。")
    scorer = PairScorer(Languages(src="sr", tgt="kk"))
    scores = dict(zip(SCORED_RULES, scorer.scores(*pair), strict=True))
    assert scores["script"] == scores["swapped"] == 0


ODD = st.text("ab <&:/@019零万字かéक\u0301", max_size=40) | st.text()


@given(ODD, ODD)
def test_any_text_gets_scores_within_their_range(src: str, tgt: str) -> None:
    scores = dict(zip(SCORED_RULES, scorer_of(ZH_EN).scores(src, tgt), strict=True))
    assert min(scores.values()) >= 0
    assert all(scores[share] <= 1 for share in ("non_letters", "swapped", "script", "variant"))


@pytest.mark.parametrize(
    ("name", "languages", "part"),
    [
        ("tatoeba-zh-en", ZH_EN, "test"),
        ("k8s-docs-zh-en", ZH_EN, "test"),
        ("python-docs-zh-en", ZH_EN, "dev"),
        ("flores-sib-zh-en", ZH_EN, "test"),
        ("multi30k", Languages(src="en", tgt="de"), "val"),
    ],
)
def test_keeps_what_people_have_checked(name: str, languages: Languages, part: str) -> None:
    """Test sets are good text: at most one in a thousand may look bad."""
    pairs = corpus(name, languages, part)
    dropped = [(rule, *pair) for pair in pairs if (rule := broken(pair, languages))]
    assert len(dropped) <= len(pairs) / 1000, dropped


def test_finds_planted_faults() -> None:
    good = corpus("tatoeba-zh-en", ZH_EN, "test")[:300]
    captions = corpus("multi30k", Languages(src="en", tgt="de"), "val")
    faults: dict[str, list[Pair]] = {
        "swapped": [(en, zh) for zh, en in good],
        "script": [(de, en) for (_, de), (_, en) in zip(captions, good, strict=False)],
        "repeated": [(zh, f"{en} " + "so it is and " * 6) for zh, en in good],
    }
    for rule, pairs in faults.items():
        found = sum(broken(pair) == rule for pair in pairs)
        assert found >= 0.95 * len(pairs), f"{rule}: {found} of {len(pairs)}"


def test_language_is_judged_on_request_only() -> None:
    pytest.importorskip("py3langid")
    where = SCORED_RULES.index("language")
    pair = ("他在学校教德语。", "Nein danke, ich habe heute schon gegessen.")
    assert PairScorer(ZH_EN).scores(*pair)[where] == 0
    scorer = PairScorer(ZH_EN, identify=True)
    assert scorer.scores(*pair)[where] > 0.95
    assert scorer.scores(pair[0], "He teaches German at the school.")[where] < 0.5
    assert scorer.scores("是", "Ja, gut.")[where] == 0, "too short to tell"
    with pytest.raises(ConfigError, match="does not know the language ff; set it to false"):
        ForeignLanguage("ff")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Don't go!", "don’t GO", True),
        ("ＡＢＣ，１２", "abc 12", True),
        ("你好，世界。", "你好 世界", True),
        ("Straße", "STRASSE", True),
        ("ﾊﾞｽ", "バス", True),
        ("“cafe\u0301”", "CAFÉ", True),
        ("C++", "C", False),
        ("1 < 2", "1 > 2", False),
        ("café", "cafe", False),
        ("…", "。", False),
    ],
)
def test_comparison_key(one: str, other: str, same: bool) -> None:
    assert (comparison_key(one) == comparison_key(other)) is same


def test_comparison_key_of_ascii_is_that_of_any_text() -> None:
    """The shortcut for ASCII agrees with what makes keys of everything else."""
    for code in range(128):
        text = f"a{chr(code)}B"
        kept = unicodedata.category(chr(code))[0] not in "PZC"
        assert comparison_key(text) == (f"a{chr(code).lower()}b" if kept else "ab"), ascii(text)
        assert comparison_key(text + "é") == comparison_key(text) + "é", ascii(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Brotherhood of the Wolf", "a title"),
        ("kubectl get pods --all-namespaces -o jsonpath='{..image}'", "a command"),
        ("for (i = 0; i < n; ++i) { total += values[i]; }", "code"),
        ("10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16", "numbers"),
    ],
)
def test_names_and_code_may_be_the_same_and_sentences_not(text: str, why: str) -> None:
    assert identical(text, text) <= 20, why
    assert identical(SENTENCE, SENTENCE.replace("old", "new")) > 30, "nearly the same is the same"
    assert identical(SENTENCE, "Das Bild des alten Hauses hängt an der Wand im Haus.") == 0
    assert identical(SENTENCE, SENTENCE + " And the garden lies behind it.") == 0, "not all of it"


@pytest.mark.parametrize(
    ("src", "tgt", "is_loop", "why"),
    [
        ("我爱你。" * 8, "I love you.", True, "a phrase on one side only"),
        ("很好", "very " * 8 + "good", True, "a word"),
        ("啊", "a" * 30, True, "a character"),
        (
            "第一句，" + "然后重复的，" * 5,
            "First sentence, then repeated,",
            True,
            "after good text",
        ),
        ("哈哈哈哈哈哈", "hahahahahahaha", False, "both sides laugh"),
        ("不，不，不，不，不", "No, no, no, no, no", False, "both sides repeat"),
        ("一天又一天，一年又一年", "day after day, year after year", False, "rhetoric"),
        ("测试 // ---- //", "test // ---- //", False, "a short line"),
    ],
)
def test_loops_are_found(src: str, tgt: str, is_loop: bool, why: str) -> None:
    assert (repeated(src, tgt) > 20) is is_loop, why
    assert repeated(tgt, src) == repeated(src, tgt)
