"""Translations and references → BLEU, chrF and TER with their sacreBLEU signatures.

Comes in: detokenised text, one reference for each translation. Goes out: scores, confidence
intervals, the comparison of two systems. This file does not know where the translations are from.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from transformer_mt.errors import ConfigError, DataError
from transformer_mt.languages import is_chinese, is_unspaced, language_name

METRICS = ("bleu", "chrf", "ter")
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
    """

    name: str
    score: float
    signature: str
    low: float | None = None
    high: float | None = None

    def to_json(self) -> dict[str, float | str]:
        plain: dict[str, float | str] = {"score": self.score, "signature": self.signature}
        if self.low is not None and self.high is not None:
            plain |= {"low": self.low, "high": self.high}
        return plain


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same references.

    Attributes:
        p_value: how often chance alone would make a difference this large, in (0, 1].
    """

    baseline: Score
    system: Score
    p_value: float
    n: int

    def to_json(self) -> dict[str, Any]:
        return {
            "baseline": self.baseline.to_json(),
            "system": self.system.to_json(),
            "p_value": self.p_value,
            "n": self.n,
        }


class Scorer:
    """Scores translations into one language; validation, `tmt eval` and reports share it.

    Attributes:
        tokenize: the sacreBLEU tokenizer that BLEU uses.
        note: what a reader of the scores should know about that choice, or None.
    """

    def __init__(self, tgt_language: str, *, tokenize: str | None = None) -> None:
        """Choose how BLEU cuts the target language into words.

        Args:
            tgt_language: a canonical code.
            tokenize: a sacreBLEU tokenizer instead of the one that fits the language.
        Raises:
            ConfigError: no such tokenizer, or its package is not installed.
        """
        self._language = tgt_language
        self.note: str | None = None
        if tokenize is None:
            self.tokenize, self.note = _tokenizer_for(tgt_language)
        else:
            self.tokenize = tokenize
            _check_tokenizer(tokenize)

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
        _check_aligned(hyps, refs)
        return {name: self._score_one(name, hyps, refs, confidence) for name in metrics}

    def compare(
        self,
        baseline_hyps: Sequence[str],
        system_hyps: Sequence[str],
        refs: Sequence[str],
        *,
        n: int = 1000,
        metric: str = "bleu",
    ) -> Comparison:
        """Test by paired bootstrap whether two systems differ.

        The seed is sacreBLEU's: 12345, or the environment variable SACREBLEU_SEED.

        Args:
            n: bootstrap samples; the smallest possible p-value is 1 / (n + 1).
        Raises:
            DataError: unequal counts, or nothing to score.
            ConfigError: unknown metric, or `n` below 1.
        """
        from sacrebleu.significance import PairedTest

        _check_aligned(baseline_hyps, refs)
        _check_aligned(system_hyps, refs)
        if n < 1:
            raise ConfigError(f"a paired bootstrap test needs at least 1 sample, found {n}")
        systems: list[tuple[str, Sequence[str]]] = [
            ("baseline", list(baseline_hyps)),
            ("system", list(system_hyps)),
        ]
        test = PairedTest(
            systems, {metric: self._metric(metric)}, [list(refs)], test_type="bs", n_samples=n
        )
        signatures, columns = test()
        ((name, signature),) = signatures.items()
        results: list[Any] = columns[name]
        baseline, system = [
            Score(name, result.score, str(signature), result.mean - result.ci,
                  result.mean + result.ci)
            for result in results
        ]  # fmt: skip
        # sacreBLEU gives equal outputs its smallest p-value: no sample differs more than 0.
        same = systems[0][1] == systems[1][1]
        return Comparison(baseline, system, 1.0 if same else results[1].p_value, n)

    def _score_one(
        self, name: str, hyps: Sequence[str], refs: Sequence[str], confidence: int
    ) -> Score:
        metric = self._metric(name)
        result = metric.corpus_score(list(hyps), [list(refs)], n_bootstrap=max(1, confidence))
        signature = str(metric.get_signature())
        if confidence <= 1:
            return Score(result.name, result.score, signature)
        # The public form of the interval; sacreBLEU leaves it out when every sample scored 0.
        plain = json.loads(result.format(width=6, signature=signature, is_json=True))
        mean, half = plain.get("confidence_mean", 0.0), plain.get("confidence_var", 0.0)
        return Score(result.name, result.score, signature, mean - half, mean + half)

    def _metric(self, name: str) -> Any:
        """A fresh sacreBLEU metric: a used one keeps the bootstrap in its signature."""
        from sacrebleu.metrics import BLEU, CHRF, TER

        if name == "bleu":
            return BLEU(tokenize=self.tokenize)
        if name == "chrf":
            return CHRF()
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


def format_table(results: Mapping[str, Mapping[str, Score]]) -> str:
    """Lay scores out in aligned columns for a terminal; {test set: {metric: Score}} in order."""
    scores = [(test, score) for row in results.values() for test, score in row.items()]
    interval = any(score.low is not None for _, score in scores)
    rows = [["test set", "metric", "score", *["95 % interval"] * interval, "signature"]]
    for test, by_metric in results.items():
        for score in by_metric.values():
            known = score.low is not None and score.high is not None
            bounds = f"{score.low:.2f} … {score.high:.2f}" if known else "–"
            rows.append(
                [test, score.name, f"{score.score:.2f}", *[bounds] * interval, score.signature]
            )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        cells[2] = row[2].rjust(widths[2])
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


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


def _check_tokenizer(tokenize: str) -> None:
    from sacrebleu.metrics import BLEU

    if tokenize not in BLEU.TOKENIZERS:
        raise ConfigError(
            f"unknown BLEU tokenizer {tokenize!r}: use {', '.join(sorted(BLEU.TOKENIZERS))}"
        )
    for name, module, extra in _WORD_CUTTERS.values():
        if tokenize == name and not find_spec(module):
            raise ConfigError(
                f"BLEU tokenizer {name} is not installed: pip install 'sacrebleu[{extra}]'"
            )


def _check_aligned(hyps: Sequence[str], refs: Sequence[str]) -> None:
    if len(hyps) != len(refs):
        raise DataError(
            f"{len(hyps)} translations but {len(refs)} references: each line needs its reference"
        )
    if not hyps:
        raise DataError("there is nothing to score: no translations and no references")
