"""Scores: the right tokenizer for the language, perfect copies are perfect, chance is named."""

import json
import logging
import shutil
from functools import partial
from pathlib import Path

import pytest

from transformer_mt.errors import ConfigError, DataError
from transformer_mt.evaluation import metrics as metrics_file
from transformer_mt.evaluation.metrics import (
    Score,
    Scorer,
    format_comparison,
    format_table,
    share_score,
)

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
SCORER = Scorer("en")


def worse(n_wrong: int) -> list[str]:
    return ["x y z w v" if i < n_wrong else ref for i, ref in enumerate(_ENGLISH)]


@pytest.mark.parametrize(
    ("language", "tokenize", "refs"),
    [
        ("en", "13a", _ENGLISH),
        ("zh", "zh", _CHINESE),
        ("zh-Hant", "zh", _CHINESE),
        ("zh", "zh", ["河边有一座小房子", "我的老师每天读书"]),  # each is a single word to 13a
        ("th", "char", _CHINESE),
    ],
)
def test_a_perfect_copy_is_perfect(language: str, tokenize: str, refs: list[str]) -> None:
    metrics = ("chrf", "bleu") if language == "th" else ("ter", "chrf", "bleu")
    scores = Scorer(language).score(refs, refs, metrics)
    assert tuple(scores) == metrics
    perfect = {"bleu": 100, "chrf": 100, "ter": 0}
    assert {name: s.score for name, s in scores.items()} == {
        name: pytest.approx(perfect[name]) for name in metrics
    }
    assert scores["bleu"].signature.startswith("nrefs:1|")
    assert f"|tok:{tokenize}|" in scores["bleu"].signature
    assert scores["bleu"].low is None and scores["bleu"].high is None


def test_ter_counts_characters_in_chinese() -> None:
    # One of eight characters is wrong; by words all of the one word would be.
    score = Scorer("zh").score(["河边有一座大房子"], ["河边有一座小房子"], ["ter"])["ter"]
    assert score.score == pytest.approx(100 / 8)
    assert "asian:yes" in score.signature


def test_worse_translations_score_worse() -> None:
    metrics = ["bleu", "chrf", "chrf++", "ter"]
    good, bad = (SCORER.score(worse(n), _ENGLISH, metrics) for n in (2, 10))
    for metric in metrics[:3]:
        assert 0 < bad[metric].score < good[metric].score < 100
    assert bad["ter"].score > good["ter"].score > 0
    assert (good["chrf"].name, good["chrf++"].name) == ("chrF2", "chrF2++")
    words, characters = SCORER.score(["the cats"], ["the cat"], ["chrf++", "chrf"]).values()
    assert words.score < characters.score, "whole words are asked for"


def test_intervals_enclose_the_score_and_enter_the_signature() -> None:
    plain = SCORER.score(worse(6), _ENGLISH)
    found = SCORER.compare({"a": worse(6)}, _ENGLISH, n=200)
    for name, score in found["a"].items():
        assert score.low is not None and score.high is not None
        assert score.low < score.score < score.high and score.p_value is None
        assert score.score == pytest.approx(plain[name].score)
        assert "bs:200" in score.signature and "seed:12345" in score.signature
        assert "bs:" not in plain[name].signature
    # The interval is not remembered.
    assert SCORER.score(worse(6), _ENGLISH) == plain
    assert SCORER.compare({"a": worse(6)}, _ENGLISH, n=200) == found
    zero = SCORER.compare({"a": ["x"] * 4}, ["a b c d e"] * 4, ["bleu"], n=20)["a"]["bleu"]
    assert (zero.score, zero.low, zero.high) == (0, 0, 0)


@pytest.mark.parametrize("metric", ["bleu", "chrf", "chrf++", "ter"])
def test_a_clear_difference_is_significant(metric: str) -> None:
    outputs = {"bad": worse(15), "good": worse(2), "as bad": worse(15)}
    found = SCORER.compare(outputs, _ENGLISH, [metric], n=200)
    bad, good, same = (scores[metric] for scores in found.values())
    assert bad.difference is None and bad.p_value is None
    assert good.p_value is not None and good.p_value < 0.05
    assert good.difference == pytest.approx(good.score - bad.score)
    assert (good.difference > 0) == (metric != "ter")
    assert same.p_value == 1 and same.difference == 0
    json.dumps(good.to_json())  # plain numbers


def test_a_third_system_changes_nothing_between_two() -> None:
    two = {"a": worse(3), "b": worse(5)}
    found = SCORER.compare({**two, "c": worse(9)}, _ENGLISH, n=50)
    del found["c"]
    assert found == SCORER.compare(two, _ENGLISH, n=50)
    alone = SCORER.compare({"b": worse(5)}, _ENGLISH, n=50)["b"]["bleu"]
    assert (alone.low, alone.high) == pytest.approx((found["b"]["bleu"].low,
                                                     found["b"]["bleu"].high))  # fmt: skip


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (worse(5), "the same text"),
        ([f"{hyp} " for hyp in worse(5)], "the same words: sacreBLEU itself says p < 0.05"),
    ],
)
def test_a_system_does_not_differ_from_itself(second: list[str], why: str) -> None:
    found = SCORER.compare({"a": worse(5), "b": second}, _ENGLISH, n=50)
    assert [score.p_value for score in found["b"].values()] == [1, 1], why


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
    assert scorer.score(_CHINESE, _CHINESE)["bleu"].score == pytest.approx(100)
    assert scorer.tokenize == "char"
    assert scorer.note and tokenizer in scorer.note and extra in scorer.note
    present.add(module)
    assert (Scorer(language).tokenize, Scorer(language).note) == (tokenizer, None)


@pytest.mark.parametrize(
    ("hyps", "refs", "message"),
    [
        (["a", "b"], ["a"], "2 translations but 1 references: each line needs its reference"),
        ([], [], "nothing to score"),
    ],
)
def test_misaligned_text_is_refused(hyps: list[str], refs: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        SCORER.score(hyps, refs)
    with pytest.raises(DataError, match=message):
        SCORER.compare({"a": refs, "b": hyps}, refs, n=10)


def test_unknown_choices_name_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown metric 'blue': use bleu, chrf, chrf\+\+, ter"):
        SCORER.score(["a"], ["a"], ["blue"])
    with pytest.raises(ConfigError, match="ter needs words, but th is written without spaces"):
        Scorer("th").score(["a"], ["a"], ["ter"])


def test_sentences_are_scored_one_by_one() -> None:
    scores = SCORER.sentence_chrf(["a small house", "", "a small horse"], ["a small house"] * 3)
    alone = SCORER.score(["a small horse"], ["a small house"])["chrf"].score
    assert scores == [pytest.approx(100), 0, pytest.approx(alone)]


@pytest.fixture
def flores_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sacreBLEU looks for the vocabulary of spBLEU, and an address that answers nothing."""
    from sacrebleu.tokenizers import tokenizer_spm

    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    known = dict(tokenizer_spm.SPM_MODELS["flores200"], url="http://127.0.0.1:9/vocabulary")
    monkeypatch.setitem(tokenizer_spm.SPM_MODELS, "flores200", known)
    return tmp_path / "models" / "vocabulary"


def test_spbleu_counts_sub_words_or_says_what_to_do(
    flores_model: Path, tokenizer_dir: Path
) -> None:
    score = partial(Scorer("zh").score, _CHINESE, _CHINESE, ["spbleu"])
    with pytest.raises(ConfigError, match=r"could not be fetched or read .*refused.*copy .*models"):
        score()
    flores_model.write_bytes(b"<html>please log in</html>")
    with pytest.raises(ConfigError, match="could not be fetched or read"):
        score()
    shutil.copyfile(tokenizer_dir / "tokenizer.src.model", flores_model)
    found = score()["spbleu"]
    assert (found.name, found.score) == ("spBLEU", pytest.approx(100))
    assert "tok:flores200" in found.signature


@pytest.mark.parametrize(
    ("n_right", "n", "low", "high", "why"),
    [
        (50, 100, 40.38, 59.62, "the textbook's example"),
        (0, 10, 0.0, 27.75, "none right is no proof of none"),
        (10, 10, 72.25, 100.0, "nor all of all"),
        (1, 1, 20.65, 100.0, "one trial says next to nothing"),
    ],
)
def test_shares_have_an_interval(n_right: int, n: int, low: float, high: float, why: str) -> None:
    score = share_score("accuracy", n_right, n)
    assert (score.low, score.high) == (pytest.approx(low, abs=0.01), pytest.approx(high, abs=0.01))
    assert score.score == pytest.approx(100 * n_right / n), why
    assert f"n:{n}|" in score.signature


def test_sacrebleu_warnings_are_heard(caplog: pytest.LogCaptureFixture) -> None:
    tokenized = ["It is tokenized ."] * 200
    with caplog.at_level(logging.WARNING, logger="sacrebleu"):
        SCORER.score(tokenized, tokenized)
    assert "tokenized period" in caplog.text


def test_tables_are_aligned_and_say_each_signature_once() -> None:
    first = Score("BLEU", 9.5, "nrefs:1", 9.0, 10.0)
    better = Score("BLEU", 31.5, "nrefs:1", 30.0, 33.0, 22.0, 0.012)
    accuracy = Score("accuracy", 100.0, "n:4")
    assert format_table({"t": {"bleu": first}, "flores": {"x": accuracy}}).splitlines() == [
        "test set  metric     score  95 % interval  signature",
        "t         BLEU        9.50  9.00 … 10.00   nrefs:1",
        "flores    accuracy  100.00  –              n:4",
    ]
    assert "interval" not in format_table({"flores": {"x": accuracy}})
    results = {
        "news": {"old": {"bleu": first}, "new": {"bleu": better}},
        "pronouns": {"new": {"contrast": accuracy}},
    }
    assert format_comparison(results).splitlines() == [
        "test set  metric    system   score  95 % interval  difference      p",
        "news      BLEU      old       9.50  9.00 … 10.00",
        "news      BLEU      new      31.50  30.00 … 33.00      +22.00  0.012  *",
        "pronouns  accuracy  new     100.00  –",
        "",
        "BLEU: nrefs:1",
        "accuracy: n:4",
    ]
    assert better.to_json() == {
        "score": 31.5, "signature": "nrefs:1", "low": 30.0, "high": 33.0, "difference": 22.0,
        "p_value": 0.012,
    }  # fmt: skip
    assert accuracy.to_json() == {"score": 100.0, "signature": "n:4"}
