"""Scores: the right tokenizer for the language, perfect copies are perfect, chance is named."""

import dataclasses
import importlib.util
import logging
import random

import pytest

from transformer_mt.errors import ConfigError, DataError
from transformer_mt.inference import metrics as metrics_file
from transformer_mt.inference.metrics import Score, Scorer, format_table

_ENGLISH = [
    "The animal did not cross the street because it was too tired.",
    "There is a small house near the old river.",
    "My teacher reads a new book every day.",
    "We will meet again tomorrow in the same place.",
    "Nobody knew the answer to her last question.",
] * 4
_CHINESE = [
    "这只动物没有穿过街道，因为它太累了。",
    "河边有一座小房子。",
    "我的老师每天读一本新书。",
    "我们明天在同一个地方再见。",
    "没有人知道她最后一个问题的答案。",
] * 4


def _worse(refs: list[str], n_wrong: int) -> list[str]:
    return ["x y z w v" if i < n_wrong else ref for i, ref in enumerate(refs)]


@pytest.mark.parametrize(
    ("language", "tokenize", "refs"),
    [
        ("en", "13a", _ENGLISH),
        ("de", "13a", _ENGLISH),
        ("zh", "zh", _CHINESE),
        ("zh-Hant", "zh", _CHINESE),
        ("th", "char", _CHINESE),
    ],
)
def test_a_perfect_copy_is_perfect(language: str, tokenize: str, refs: list[str]) -> None:
    scorer = Scorer(language)
    metrics = ("chrf", "bleu") if language == "th" else ("ter", "chrf", "bleu")
    scores = scorer.score(refs, refs, metrics)
    assert tuple(scores) == metrics
    assert scores["bleu"].score == pytest.approx(100)
    assert scores["chrf"].score == pytest.approx(100)
    assert language == "th" or scores["ter"].score == 0
    assert f"|tok:{tokenize}|" in scores["bleu"].signature
    assert scores["bleu"].signature.startswith("nrefs:1|")
    assert scores["bleu"].low is None and scores["bleu"].high is None


def test_words_are_the_wrong_unit_for_chinese() -> None:
    # One Chinese sentence is a single word to 13a: no 4-grams, so even a copy scores 0.
    short = ["河边有一座小房子", "我的老师每天读书"]
    assert Scorer("zh", tokenize="13a").score(short, short)["bleu"].score == 0
    assert Scorer("zh").score(short, short)["bleu"].score == pytest.approx(100)


def test_ter_counts_characters_in_chinese() -> None:
    # One of eight characters is wrong; by words all of the one word would be.
    score = Scorer("zh").score(["河边有一座大房子"], ["河边有一座小房子"], ["ter"])["ter"]
    assert score.score == pytest.approx(100 / 8)
    assert "asian:yes" in score.signature


def test_worse_translations_score_worse() -> None:
    scorer = Scorer("en")
    good, bad = (
        scorer.score(_worse(_ENGLISH, n), _ENGLISH, ["bleu", "chrf", "ter"]) for n in (2, 10)
    )
    assert 0 < bad["bleu"].score < good["bleu"].score < 100
    assert 0 < bad["chrf"].score < good["chrf"].score < 100
    assert bad["ter"].score > good["ter"].score > 0


def test_confidence_bounds_enclose_the_score_and_enter_the_signature() -> None:
    hyps, scorer = _worse(_ENGLISH, 6), Scorer("en")
    plain = scorer.score(hyps, _ENGLISH)
    for name, score in scorer.score(hyps, _ENGLISH, confidence=200).items():
        assert score.low is not None and score.high is not None
        assert score.low < score.score < score.high
        assert score.score == plain[name].score
        assert "bs:200" in score.signature and "seed:12345" in score.signature
        assert "bs:" not in plain[name].signature
    # The interval is not remembered.
    assert scorer.score(hyps, _ENGLISH) == plain
    repeated = scorer.score(hyps, _ENGLISH, confidence=200)
    assert repeated == scorer.score(hyps, _ENGLISH, confidence=200)


def test_confidence_of_a_zero_score() -> None:
    score = Scorer("en").score(["x"] * 4, ["a b c d e"] * 4, ["bleu"], confidence=20)["bleu"]
    assert (score.score, score.low, score.high) == (0, 0, 0)


def test_more_text_narrows_the_interval() -> None:
    generator = random.Random(0)

    def width(n_lines: int) -> float:
        refs = [_ENGLISH[i % 5] for i in range(n_lines)]
        hyps = [ref if generator.random() < 0.5 else "x y z w v" for ref in refs]
        score = Scorer("en").score(hyps, refs, ["chrf"], confidence=100)["chrf"]
        assert score.low is not None and score.high is not None
        return score.high - score.low

    assert width(400) < width(20) / 2


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_a_clear_difference_is_significant(metric: str) -> None:
    scorer = Scorer("en")
    comparison = scorer.compare(
        _worse(_ENGLISH, 15), _worse(_ENGLISH, 2), _ENGLISH, n=200, metric=metric
    )
    assert comparison.p_value < 0.05
    assert (comparison.baseline.score > comparison.system.score) == (metric == "ter")
    single = scorer.score(_worse(_ENGLISH, 2), _ENGLISH, [metric])[metric]
    assert comparison.system.score == pytest.approx(single.score)
    assert "bs:200" in comparison.system.signature
    assert set(comparison.to_json()) == {"baseline", "system", "p_value", "n"}


def test_equal_systems_do_not_differ() -> None:
    hyps = _worse(_ENGLISH, 5)
    assert Scorer("en").compare(hyps, hyps, _ENGLISH, n=50).p_value == 1


def test_equally_good_systems_do_not_differ() -> None:
    first = ["x y z w v" if i % 2 else ref for i, ref in enumerate(_ENGLISH)]
    second = ["x y z w v" if i % 2 == 0 else ref for i, ref in enumerate(_ENGLISH)]
    comparison = Scorer("en").compare(first, second, _ENGLISH, n=200, metric="chrf")
    assert comparison.p_value > 0.2
    assert comparison == Scorer("en").compare(first, second, _ENGLISH, n=200, metric="chrf")


@pytest.mark.parametrize(
    ("language", "module", "tokenizer", "extra"),
    [("ja", "MeCab", "ja-mecab", "sacrebleu[ja]"), ("ko", "mecab_ko", "ko-mecab", "sacrebleu[ko]")],
)
def test_word_cutters_are_used_if_installed(
    language: str, module: str, tokenizer: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    present: set[str] = set()
    monkeypatch.setattr(metrics_file, "find_spec", lambda name: name in present or None)
    scorer = Scorer(language)
    assert scorer.tokenize == "char"
    assert scorer.note and tokenizer in scorer.note and extra in scorer.note
    with pytest.raises(ConfigError, match=f"tokenizer {tokenizer} is not installed: pip install"):
        Scorer(language, tokenize=tokenizer)
    present.add(module)
    assert (Scorer(language).tokenize, Scorer(language).note) == (tokenizer, None)


def test_japanese_can_be_scored_here() -> None:
    scorer = Scorer("ja")
    expected = "ja-mecab" if importlib.util.find_spec("MeCab") else "char"
    score = scorer.score(["これは小さな家です。"], ["これは小さな家です。"])["bleu"]
    assert scorer.tokenize == expected and f"tok:{expected}" in score.signature
    assert score.score == pytest.approx(100)


@pytest.mark.parametrize(
    ("hyps", "refs", "message"),
    [
        (["a", "b"], ["a"], "2 translations but 1 references: each line needs its reference"),
        (["a"], [], "1 translations but 0 references"),
        ([], [], "nothing to score"),
    ],
)
def test_misaligned_text_is_refused(hyps: list[str], refs: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Scorer("en").score(hyps, refs)
    with pytest.raises(DataError, match=message):
        Scorer("en").compare(hyps, hyps, refs)


def test_unknown_choices_name_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="unknown metric 'blue': use bleu, chrf, ter"):
        Scorer("en").score(["a"], ["a"], ["blue"])
    with pytest.raises(ConfigError, match=r"unknown BLEU tokenizer '14a': use 13a, char, .*zh"):
        Scorer("en", tokenize="14a")
    with pytest.raises(ConfigError, match="ter needs words, but th is written without spaces"):
        Scorer("th").score(["a"], ["a"], ["ter"])
    with pytest.raises(ConfigError, match="at least 1 sample, found 0"):
        Scorer("en").compare(["a"], ["a"], ["a"], n=0)


def test_sacrebleu_warnings_are_heard(caplog: pytest.LogCaptureFixture) -> None:
    tokenized = ["It is tokenized ."] * 200
    with caplog.at_level(logging.WARNING, logger="sacrebleu"):
        Scorer("en").score(tokenized, tokenized)
    assert "tokenized period" in caplog.text


def test_empty_translations_are_allowed() -> None:
    scores = Scorer("en").score(["", _ENGLISH[1]], _ENGLISH[:2], ["bleu", "chrf", "ter"])
    assert 0 < scores["chrf"].score < 100


def test_score_to_json() -> None:
    score = Score("BLEU", 34.25, "nrefs:1")
    assert score.to_json() == {"score": 34.25, "signature": "nrefs:1"}
    bounded = dataclasses.replace(score, low=33.0, high=35.5)
    assert bounded.to_json() == {
        "score": 34.25, "signature": "nrefs:1", "low": 33.0, "high": 35.5,
    }  # fmt: skip


def test_table_is_aligned() -> None:
    results = {
        "tatoeba": {"bleu": Score("BLEU", 9.5, "nrefs:1|tok:zh"), "chrf": Score("chrF2", 41, "c")},
        "flores": {"bleu": Score("BLEU", 100.0, "nrefs:1|tok:zh", 98.76, 100.0)},
    }
    assert format_table(results).splitlines() == [
        "test set  metric   score  95 % interval   signature",
        "tatoeba   BLEU      9.50  –               nrefs:1|tok:zh",
        "tatoeba   chrF2    41.00  –               c",
        "flores    BLEU    100.00  98.76 … 100.00  nrefs:1|tok:zh",
    ]
    del results["flores"]
    assert "interval" not in format_table(results)
    assert format_table({}) == "test set  metric  score  signature"
