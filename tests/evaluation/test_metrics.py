"""Scores: the right tokenizer for the language, perfect copies are perfect, chance is named."""

import dataclasses
import importlib.util
import logging
import random
import shutil
from pathlib import Path

import pytest

from transformer_mt.errors import ConfigError, DataError
from transformer_mt.evaluation import metrics as metrics_file
from transformer_mt.evaluation.metrics import Score, Scorer, format_table, share_score

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
    assert Scorer("en").score(short, short)["bleu"].score == 0
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
        Scorer("en").sentence_chrf(hyps, refs)


def test_unknown_choices_name_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown metric 'blue': use bleu, chrf, chrf\+\+, ter"):
        Scorer("en").score(["a"], ["a"], ["blue"])
    with pytest.raises(ConfigError, match="ter needs words, but th is written without spaces"):
        Scorer("th").score(["a"], ["a"], ["ter"])


def test_chrf_with_words_asks_for_whole_words() -> None:
    plain = Scorer("en").score(["the cats sat"], ["the cat sat"], ["chrf", "chrf++"])
    assert (plain["chrf"].name, plain["chrf++"].name) == ("chrF2", "chrF2++")
    assert plain["chrf++"].score < plain["chrf"].score
    assert "nw:2" in plain["chrf++"].signature


def test_sentences_are_scored_one_by_one() -> None:
    scorer, hyps = Scorer("en"), ["a small house", "", "x"]
    scores = scorer.sentence_chrf(hyps, ["a small house", "a house", "a house"])
    assert scores == [pytest.approx(100), 0, 0]
    alone = scorer.score(["a small horse"], ["a small house"])["chrf"].score
    assert scorer.sentence_chrf(["a small horse"], ["a small house"]) == [pytest.approx(alone)]


@pytest.fixture
def flores_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sacreBLEU looks for the vocabulary of spBLEU, and an address that answers nothing."""
    from sacrebleu.tokenizers import tokenizer_spm

    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    known = dict(tokenizer_spm.SPM_MODELS["flores200"], url="http://127.0.0.1:9/vocabulary")
    monkeypatch.setitem(tokenizer_spm.SPM_MODELS, "flores200", known)
    return tmp_path / "models" / "vocabulary"


def test_spbleu_is_counted_in_sub_words(flores_model: Path, tokenizer_dir: Path) -> None:
    flores_model.parent.mkdir()
    shutil.copyfile(tokenizer_dir / "tokenizer.src.model", flores_model)
    score = Scorer("zh").score(_CHINESE, _CHINESE, ["spbleu"])["spbleu"]
    assert (score.name, score.score) == ("spBLEU", pytest.approx(100))
    assert "tok:flores200" in score.signature


def test_spbleu_without_its_vocabulary_says_what_to_do(flores_model: Path) -> None:
    with pytest.raises(ConfigError, match=r"could not be fetched or read .*refused.*copy .*models"):
        Scorer("zh").score(_CHINESE, _CHINESE, ["spbleu"])
    flores_model.write_bytes(b"<html>please log in</html>")
    with pytest.raises(ConfigError, match="could not be fetched or read"):
        Scorer("zh").score(_CHINESE, _CHINESE, ["spbleu"])


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


def test_the_interval_of_a_share_covers_it_as_often_as_it_says() -> None:
    generator = random.Random(3)
    n_inside = 0
    for _ in range(1000):
        score = share_score("accuracy", sum(generator.random() < 0.9 for _ in range(60)), 60)
        assert score.low is not None and score.high is not None
        n_inside += score.low <= 90 <= score.high
    assert 920 < n_inside < 980


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
    compared = dataclasses.replace(score, difference=0.0, p_value=1.0)
    assert compared.to_json()["difference"] == 0 and compared.to_json()["p_value"] == 1


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
