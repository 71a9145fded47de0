"""Translations and references → BLEU, chrF and TER with their sacreBLEU signatures.

Comes in: detokenised text, one reference for each translation. Goes out: scores and confidence
intervals. This file does not know the origin of the translations; `significance.py` compares
systems.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from transformer_mt.errors import ConfigError, DataError
from transformer_mt.rendering.cells import align_columns
from transformer_mt.text.languages import is_chinese, is_unspaced, language_name

METRICS = ("bleu", "chrf", "chrf++", "ter", "spbleu")
SIGNIFICANT = 0.05  # a p-value below it is worth a mark
_SPBLEU_TOKENIZER = "flores200"  # one vocabulary for 200 languages
# Languages whose words sacreBLEU cuts with an extra package: code → (tokenizer, module, extra).
_WORD_CUTTERS = {"ja": ("ja-mecab", "MeCab", "ja"), "ko": ("ko-mecab", "mecab_ko", "ko")}


@dataclass(frozen=True)
class Score:
    """One metric of one corpus.

    Attributes:
        name: as sacreBLEU writes it: BLEU, chrF2, TER.
        score: BLEU and chrF in [0, 100], higher is better; TER from 0, lower is better.
        signature: everything that must agree before two scores may be compared.
        low, high: bounds of the 95 % confidence interval, if it was asked for: mean of the
            bootstrap samples ± half the width of their middle 95 %, as sacreBLEU reports it.
        difference: to the score of the baseline, where there is one.
        p_value: how often chance alone would make a difference this large, in (0, 1].
    """

    name: str
    score: float
    signature: str
    low: float | None = None
    high: float | None = None
    difference: float | None = None
    p_value: float | None = None

    @property
    def interval(self) -> str:
        """The bounds as people read them, or nothing."""
        known = self.low is not None and self.high is not None
        return f"{self.low:.2f} … {self.high:.2f}" if known else ""

    @property
    def is_significant(self) -> bool:
        return self.p_value is not None and self.p_value < SIGNIFICANT

    def to_json(self) -> dict[str, float | str]:
        plain: dict[str, float | str] = {"score": self.score, "signature": self.signature}
        if self.low is not None and self.high is not None:
            plain |= {"low": self.low, "high": self.high}
        if self.difference is not None and self.p_value is not None:
            plain |= {"difference": self.difference, "p_value": self.p_value}
        return plain


def scores_to_json(scores: Mapping[str, Score]) -> dict[str, dict[str, float | str]]:
    return {metric: score.to_json() for metric, score in scores.items()}


class Scorer:
    """Scores translations into one language; validation, `tmt eval` and reports share it.

    Attributes:
        tokenize: the sacreBLEU tokenizer by which BLEU cuts this language into words.
        note: a remark on this choice for the reader of the scores, or None.
    """

    def __init__(self, tgt_language: str) -> None:
        """The scorer of a target language, given by its canonical code."""
        self._language = tgt_language
        self.tokenize, self.note = _tokenizer_for(tgt_language)

    def score(
        self,
        hyps: Sequence[str],
        refs: Sequence[str],
        metrics: Iterable[str] = ("bleu", "chrf"),
        *,
        confidence: int = 0,
    ) -> dict[str, Score]:
        """Score a corpus.

        Args:
            hyps: translations, detokenised.
            refs: one reference for each of them.
            metrics: some of `METRICS`; the result has the same order.
            confidence: number of bootstrap samples for 95 % intervals; 0 or 1 gives none. All
                samples are in memory at once: 1000 of 2000 lines take about 150 MB.
        Raises:
            DataError: unequal counts, or nothing to score.
            ConfigError: unknown metric.
        """
        check_aligned(hyps, refs)
        return {name: self._score_one(name, hyps, refs, confidence) for name in metrics}

    def sentence_chrf(self, hyps: Sequence[str], refs: Sequence[str]) -> list[float]:
        """chrF of each sentence by itself: for looking at sentences, not for reports of systems.

        Raises:
            DataError: unequal counts, or nothing to score.
        """
        check_aligned(hyps, refs)
        metric = self.metric("chrf")
        return [
            metric.sentence_score(hyp, [ref]).score for hyp, ref in zip(hyps, refs, strict=True)
        ]

    def _score_one(
        self, name: str, hyps: Sequence[str], refs: Sequence[str], confidence: int
    ) -> Score:
        metric = self.metric(name)
        result = metric.corpus_score(list(hyps), [list(refs)], n_bootstrap=max(1, confidence))
        signature = str(metric.get_signature())
        shown = score_name(name, result.name)
        if confidence <= 1:
            return Score(shown, result.score, signature)
        # The public form of the interval; sacreBLEU leaves it out when every sample scored 0.
        plain = json.loads(result.format(width=6, signature=signature, is_json=True))
        mean, half = plain.get("confidence_mean", 0.0), plain.get("confidence_var", 0.0)
        return Score(shown, result.score, signature, mean - half, mean + half)

    def metric(self, name: str) -> Any:
        """A fresh sacreBLEU metric: a used one keeps the bootstrap in its signature.

        Raises:
            ConfigError: unknown, not for this language, or its vocabulary cannot be had.
        """
        from sacrebleu.metrics import BLEU, CHRF, TER

        if name == "bleu":
            return BLEU(tokenize=self.tokenize)
        if name in ("chrf", "chrf++"):
            return CHRF(word_order=2 if name == "chrf++" else 0)
        if name == "spbleu":
            return _spbleu()
        if name != "ter":
            raise ConfigError(f"unknown metric {name!r}: use {', '.join(METRICS)}")
        # TER counts words; for Chinese and Japanese it can count characters instead.
        cjk = is_chinese(self._language) or self._language == "ja"
        if is_unspaced(self._language) and not cjk:
            raise ConfigError(
                f"ter needs words, but {language_name(self._language)} is written without spaces; "
                "use bleu (counted in characters) or chrf"
            )
        return TER(normalized=cjk, asian_support=cjk)


def share_score(name: str, n_right: int, n: int) -> Score:
    """A share of `n` trials in per cent, with its 95 % interval.

    Source: Wilson 1927; it stays within [0, 100] and has a width at 0 and at 100, too.
    Args:
        n_right: in [0, n].
        n: at least 1.
    """
    z = 1.959964  # 97.5 % of the normal distribution lie below
    share, spread = n_right / n, z * z / n
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Score(name, 100 * share, f"n:{n}|interval:wilson", 100 * low, 100 * high)


def score_name(metric: str, name: str) -> str:
    """The name of a metric in tables: sacreBLEU's, except for spBLEU, which it calls BLEU."""
    return "spBLEU" if metric == "spbleu" else name


def format_table(results: Mapping[str, Mapping[str, Score]]) -> str:
    """Lay scores out in aligned columns for a terminal; {test set: {metric: Score}} in order."""
    scores = [(test, score) for test, row in results.items() for score in row.values()]
    columns = ["interval"] if any(score.interval for _, score in scores) else []
    rows = [["test set", "metric", "score", *["95 % interval" for _ in columns], "signature"]]
    for test, score in scores:
        bounds = [score.interval or "–" for _ in columns]
        rows.append([test, score.name, f"{score.score:.2f}", *bounds, score.signature])
    return align_columns(rows, numbers=(2,))


def _spbleu() -> Any:
    """BLEU over the pieces of sacreBLEU's multilingual vocabulary, which it fetches once."""
    from sacrebleu.metrics import BLEU
    from sacrebleu.utils import SACREBLEU_DIR

    try:
        return BLEU(tokenize=_SPBLEU_TOKENIZER)
    except (OSError, RuntimeError, SystemExit) as error:  # it exits where TLS fails
        raise ConfigError(
            f"spbleu needs sacreBLEU's tokenizer {_SPBLEU_TOKENIZER}, whose model could not be "
            f"fetched or read ({error}); run this command once with a network, or copy "
            f"{SACREBLEU_DIR}/models from a machine that has it"
        ) from error


def _tokenizer_for(language: str) -> tuple[str, str | None]:
    """The sacreBLEU tokenizer that fits a language, and a note if it is only second best."""
    if is_chinese(language):
        return "zh", None
    if language in _WORD_CUTTERS:
        name, module, extra = _WORD_CUTTERS[language]
        if find_spec(module):
            return name, None
        return "char", (
            f"BLEU is counted in characters, because {name} is not installed "
            f"(pip install 'sacrebleu[{extra}]'): not comparable with published scores"
        )
    if is_unspaced(language):
        return "char", (
            f"BLEU is counted in characters: {language_name(language)} is written without spaces"
        )
    return "13a", None


def check_aligned(hyps: Sequence[str], refs: Sequence[str]) -> None:
    """Raises: DataError: unequal counts, or nothing to score."""
    if len(hyps) != len(refs):
        raise DataError(
            f"{len(hyps)} translations but {len(refs)} references: each line needs its reference"
        )
    if not hyps:
        raise DataError("there is nothing to score: no translations and no references")
